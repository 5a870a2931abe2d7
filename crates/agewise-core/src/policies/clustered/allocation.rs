//! The distributions of clustered sampling, in whole numbers.
//!
//! As in the paper there are m distributions of M units each, and client i has m n_i units to place in them, so that
//! it is drawn m p_i times on average. Units are samples where sizes are whole numbers; otherwise they are so small
//! that rounding is about 1e-14 for cohorts of up to 100, and all of them together are still exactly m M.

use crate::random::Draws;

/// All whole numbers up to this one are doubles.
const EXACT: u64 = 1 << 53;

/// A client with some units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) client: u32,
    pub(super) units: u64,
}

/// What has to be placed.
#[derive(Debug)]
pub(super) struct Units {
    /// m.
    pub(super) draws: usize,
    /// M: the units of one distribution.
    pub(super) capacity: u64,
    /// m n_i units of each client that has any; m M together.
    pub(super) parts: Vec<Part>,
}

impl Units {
    /// The units of clients with these sizes; nothing where no client has data.
    pub(super) fn new(sizes: &[(u32, f64)], draws: u32) -> Option<Self> {
        let total: f64 = sizes.iter().map(|(_, size)| size).sum();
        if total <= 0.0 {
            return None;
        }
        let whole = sizes.iter().all(|(_, size)| size.fract() == 0.0);
        let exact = whole && total * f64::from(draws) <= EXACT as f64;
        let (capacity, parts) = if exact {
            let units = |size: f64| size as u64 * u64::from(draws);
            (total as u64, parts(sizes.iter().map(|&(client, size)| (client, units(size)))))
        } else {
            scaled(sizes, total, draws)
        };
        Some(Self { draws: draws as usize, capacity, parts })
    }

    /// Takes out, for each client, the distributions that it fills alone.
    pub(super) fn split_whole(self) -> (Vec<Part>, Vec<Part>) {
        let capacity = self.capacity;
        let alone = |part: &Part| {
            let whole = Part { client: part.client, units: capacity };
            std::iter::repeat_n(whole, (part.units / capacity) as usize)
        };
        let whole = self.parts.iter().flat_map(alone).collect();
        let rest = self.parts.iter().map(|part| (part.client, part.units % capacity));
        (whole, parts(rest))
    }
}

fn parts(units: impl Iterator<Item = (u32, u64)>) -> Vec<Part> {
    let parts = units.map(|(client, units)| Part { client, units });
    parts.filter(|part| part.units > 0).collect()
}

/// Running sums are rounded instead of sizes, so that nothing is lost or added.
fn scaled(sizes: &[(u32, f64)], total: f64, draws: u32) -> (u64, Vec<Part>) {
    let capacity = EXACT / u64::from(draws);
    let all = capacity * u64::from(draws);
    let (mut sum, mut placed) = (0.0, 0);
    let units = sizes.iter().map(|&(client, size)| {
        sum += size;
        let until = ((sum / total * all as f64).round() as u64).min(all);
        let units = until - placed;
        placed = until;
        (client, units)
    });
    (capacity, parts(units))
}

/// The m distributions.
#[derive(Debug)]
pub(super) struct Distributions {
    capacity: u64,
    each: Vec<Vec<Part>>,
}

impl Distributions {
    /// Algorithm 1: clients by decreasing size, poured into one distribution after the other.
    pub(super) fn by_size(mut units: Units) -> Self {
        units.parts.sort_unstable_by_key(|part| (u64::MAX - part.units, part.client));
        let empty = Self { capacity: units.capacity, each: vec![Vec::new(); units.draws] };
        let order: Vec<usize> = (0..units.draws).collect();
        empty.pour(&order, units.parts)
    }

    /// Algorithm 2 from its groups on, none of which has more than M units: the largest m become distributions, and
    /// the clients of all others are poured into what room is left, the roomiest distribution first.
    pub(super) fn by_groups(
        capacity: u64,
        alone: Vec<Part>,
        draws: usize,
        mut groups: Vec<Vec<Part>>,
    ) -> Self {
        let total = |group: &Vec<Part>| group.iter().map(|part| part.units).sum::<u64>();
        let first = |group: &Vec<Part>| group.iter().map(|part| part.client).min();
        groups.sort_by_cached_key(|group| (u64::MAX - total(group), first(group)));
        let mut each: Vec<Vec<Part>> = alone.into_iter().map(|part| vec![part]).collect();
        let others = groups.split_off(draws.saturating_sub(each.len()).min(groups.len()));
        each.extend(groups);
        each.resize(draws, Vec::new());
        let mut order: Vec<usize> = (0..draws).collect();
        order.sort_by_cached_key(|&index| total(&each[index]));
        Self { capacity, each }.pour(&order, others.into_iter().flatten())
    }

    /// Fills what is left of each distribution, in this order of distributions.
    fn pour(mut self, order: &[usize], parts: impl IntoIterator<Item = Part>) -> Self {
        let mut order = order.iter();
        let (mut index, mut room) = (0, 0);
        for mut part in parts {
            while part.units > 0 {
                if room == 0 {
                    let Some(&next) = order.next() else {
                        return self;
                    };
                    let taken: u64 = self.each[next].iter().map(|part| part.units).sum();
                    (index, room) = (next, self.capacity - taken);
                    continue;
                }
                let units = part.units.min(room);
                self.each[index].push(Part { units, ..part });
                part.units -= units;
                room -= units;
            }
        }
        self
    }

    /// One client from each distribution; the k-th draw decides for the k-th.
    pub(super) fn draw(&self, draws: &Draws) -> Vec<u32> {
        let draw = |(index, parts): (usize, &Vec<Part>)| {
            let draw = draws.of(index as u64).bits();
            let mut target = ((u128::from(draw) * u128::from(self.capacity)) >> 64) as u64;
            let hit = parts.iter().find(|part| {
                let hit = target < part.units;
                target = target.saturating_sub(part.units);
                hit
            });
            hit.map(|part| part.client)
        };
        self.each.iter().enumerate().filter_map(draw).collect()
    }

    /// r_ki for each distribution and each client in it.
    pub(super) fn probabilities(&self) -> impl Iterator<Item = Vec<(u32, f64)>> {
        let probability = |part: &Part| (part.client, part.units as f64 / self.capacity as f64);
        self.each.iter().map(move |parts| parts.iter().map(probability).collect())
    }
}
