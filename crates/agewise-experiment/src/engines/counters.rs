//! What is kept for each client: 16 bytes for its load, its weights and its counts in ten windows at once.

use agewise_core::metrics::WindowTally;
use agewise_core::theory::WINDOW_LENGTHS;

/// Where the count of a window stands in the word of all counts.
///
/// The word is made for adding up the words of several clients. Small and large counts take turns: without the
/// large ones, sums of small counts have room for [`BATCH`] clients, and the other way round for [`STEP`].
#[derive(Debug, Clone, Copy)]
struct Field {
    length: u32,
    from: u32,
    bits: u32,
}

const fn field(length: u32, from: u32, bits: u32) -> Field {
    Field { length, from, bits }
}

/// In the order of [`WINDOW_LENGTHS`], behind the first: the window of one round needs no count, a client is in it or not.
const FIELDS: [Field; 10] = [
    field(2, 0, 2),
    field(3, 12, 2),
    field(5, 22, 3),
    field(10, 33, 4),
    field(20, 46, 5),
    field(50, 16, 6),
    field(100, 26, 7),
    field(200, 51, 8),
    field(500, 37, 9),
    field(1000, 2, 10),
];

/// How many of the fields are small ones.
const SMALL: usize = 5;

impl Field {
    const fn mask(self) -> u64 {
        ((1 << self.bits) - 1) << self.from
    }

    /// The sum of so many clients' counts in this field, from a sum of words without its neighbours.
    const fn sum(self, words: u64, clients: u64) -> u64 {
        // As many bits as the largest sum can have: no client has more earlier selections than rounds before.
        let largest = clients * (self.length as u64 - 1);
        words >> self.from & (u64::MAX >> largest.leading_zeros())
    }
}

/// One in each field.
const ONES: u64 = {
    let (mut ones, mut index) = (0, 0);
    while index < FIELDS.len() {
        ones |= 1 << FIELDS[index].from;
        index += 1;
    }
    ones
};

/// All bits of the small fields.
const SMALL_FIELDS: u64 = {
    let (mut bits, mut index) = (0, 0);
    while index < SMALL {
        bits |= FIELDS[index].mask();
        index += 1;
    }
    bits
};

/// How many words can be added up before sums of small counts run into each other.
const BATCH: usize = 256;
/// The same for large counts.
const STEP: usize = 16;

/// One client's counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Counters {
    pub(crate) selections: u32,
    /// The sum of its aggregation weights.
    weight: f32,
    /// Selections in the present window of each length, as of the last selection.
    counts: u64,
}

/// Which counts of the present windows still hold for clients that were last credited in some round.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Fresh(u64);

impl Fresh {
    /// For clients of this age at `now`, counted from the first recorded round.
    pub(crate) fn new(age: u64, now: u64) -> Self {
        // A window that has lasted for some rounds knows the selections of clients that are younger.
        let holds = |field: &&Field| age < now % u64::from(field.length);
        Self(FIELDS.iter().filter(holds).fold(0, |mask, field| mask | field.mask()))
    }
}

/// [`Fresh`] for clients of every age, in one round.
#[derive(Debug, Clone)]
pub(crate) struct FreshByAge(Vec<Fresh>);

impl FreshByAge {
    /// At `now`, counted from the first recorded round.
    pub(crate) fn new(now: u64) -> Self {
        let mut changes: Vec<u64> =
            FIELDS.iter().map(|field| now % u64::from(field.length)).collect();
        changes.sort_unstable();
        let mut by_age = Vec::new();
        for older in changes {
            by_age.resize(older as usize, Fresh::new(by_age.len() as u64, now));
        }
        Self(by_age)
    }

    /// For clients of this age.
    #[inline]
    pub(crate) fn of(&self, age: u64) -> Fresh {
        self.0.get(age as usize).copied().unwrap_or_default()
    }
}

/// Sums over the clients that were credited in one round.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct CreditSums {
    pub(crate) clients: u64,
    /// Sum of w^2, and of w (2 before + w); the latter is 0 where no sums of weights are kept.
    pub(crate) squares: f64,
    pub(crate) growth: f64,
    /// Sum of w.
    pub(crate) weight: f64,
    /// For each window that has counts: the earlier selections in it.
    earlier: [u64; 10],
}

impl CreditSums {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.clients += other.clients;
        self.squares += other.squares;
        self.growth += other.growth;
        self.weight += other.weight;
        for (mine, theirs) in self.earlier.iter_mut().zip(other.earlier) {
            *mine += theirs;
        }
    }

    /// Adds a round's sums to the windows made by [`windows`].
    pub(crate) fn record(&self, windows: &mut [WindowTally]) {
        let earlier = std::iter::once(0).chain(self.earlier);
        for (window, earlier) in windows.iter_mut().zip(earlier) {
            window.record_many(self.clients, earlier);
        }
    }
}

/// Windows of all lengths.
pub(crate) fn windows(clients: u64) -> Vec<WindowTally> {
    WINDOW_LENGTHS.iter().map(|&length| WindowTally::new(length, clients)).collect()
}

/// Brings counters into the cache: reading them in order is faster than missing them one by one.
pub(crate) fn fetch(counters: &[Counters]) {
    /// Counters in a cache line.
    const LINE: usize = 64 / size_of::<Counters>();
    let read = counters.iter().step_by(LINE).map(|counter| counter.selections);
    std::hint::black_box(read.fold(0, |all, one| all ^ one));
}

/// Credits members of a shard: counts, weights and windows.
pub(crate) fn credit(
    counters: &mut [Counters],
    members: &[u16],
    mut fresh: impl FnMut(u16) -> Fresh,
    mut weight: impl FnMut(u16) -> f64,
) -> CreditSums {
    let (mut squares, mut growth, mut weights) = (0.0, 0.0, 0.0);
    let earlier = count(counters, members, |member, counter| {
        let weight = weight(member);
        let before = f64::from(counter.weight);
        counter.weight = (before + weight) as f32;
        squares += weight * weight;
        growth += weight * (2.0 * before + weight);
        weights += weight;
        fresh(member)
    });
    CreditSums { clients: members.len() as u64, squares, growth, weight: weights, earlier }
}

/// [`credit`] for members that all have the same weight.
pub(crate) fn credit_alike(
    counters: &mut [Counters],
    members: &[u16],
    mut fresh: impl FnMut(u16) -> Fresh,
    weight: f64,
) -> CreditSums {
    let mut before_all = 0.0;
    let earlier = count(counters, members, |member, counter| {
        let before = f64::from(counter.weight);
        counter.weight = (before + weight) as f32;
        before_all += before;
        fresh(member)
    });
    let clients = members.len() as f64;
    CreditSums {
        clients: members.len() as u64,
        squares: clients * (weight * weight),
        growth: weight * (2.0 * before_all + clients * weight),
        weight: clients * weight,
        earlier,
    }
}

/// [`credit_alike`] where no sums of weights are kept.
pub(crate) fn credit_without_sums(
    counters: &mut [Counters],
    members: &[u16],
    mut fresh: impl FnMut(u16) -> Fresh,
    weight: f64,
) -> CreditSums {
    let earlier = count(counters, members, |member, _| fresh(member));
    let clients = members.len() as f64;
    CreditSums {
        clients: members.len() as u64,
        squares: clients * (weight * weight),
        growth: 0.0,
        weight: clients * weight,
        earlier,
    }
}

/// Counts one more selection of each member, and returns for each window the sum of those before it.
#[inline]
fn count(
    counters: &mut [Counters],
    members: &[u16],
    mut visit: impl FnMut(u16, &mut Counters) -> Fresh,
) -> [u64; 10] {
    let mut earlier = [0; 10];
    for batch in members.chunks(BATCH) {
        let mut small = 0;
        for step in batch.chunks(STEP) {
            let (mut all, mut step_small) = (0u64, 0u64);
            for &member in step {
                let counter = &mut counters[usize::from(member)];
                let Fresh(mask) = visit(member, counter);
                counter.selections += 1;
                let counts = counter.counts & mask;
                // Sums may run over the end here; it cancels out in the difference.
                all = all.wrapping_add(counts);
                step_small += counts & SMALL_FIELDS;
                counter.counts = counts + ONES;
            }
            small += step_small;
            let large = all.wrapping_sub(step_small);
            for index in SMALL..FIELDS.len() {
                earlier[index] += FIELDS[index].sum(large, STEP as u64);
            }
        }
        for index in 0..SMALL {
            earlier[index] += FIELDS[index].sum(small, BATCH as u64);
        }
    }
    earlier
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_core::metrics::ParticipationWindows;
    use agewise_core::{Chance, Draws, Seed, Stream};

    #[test]
    fn a_client_takes_16_bytes() {
        assert_eq!(size_of::<Counters>(), 16);
    }

    /// The packed counters against the core's plain ones, for clients that are selected often enough to
    /// fill every window.
    #[test]
    fn packed_windows_agree_with_the_plain_ones() {
        let (clients, rounds) = (50u32, 2_100u64);
        for p in [0.15, 0.97] {
            let chance = Chance::new(p);
            let mut counters = vec![Counters::default(); clients as usize];
            let mut packed = windows(u64::from(clients));
            let mut plain = ParticipationWindows::new(clients, &WINDOW_LENGTHS);
            let mut last = vec![-1i64; clients as usize];
            for round in 0..rounds {
                let draws = Draws::new(Seed(1), Stream::DRAW, round);
                for client in (0..clients).filter(|&c| chance.wins(draws.of(u64::from(c)))) {
                    let index = client as usize;
                    let fresh = Fresh::new((round as i64 - 1 - last[index]) as u64, round);
                    let one = [client as u16];
                    credit(&mut counters, &one, |_| fresh, |_| 0.5).record(&mut packed);
                    plain.record(client, round);
                    last[index] = round as i64;
                }
                for window in &mut packed {
                    window.end_round(round);
                }
                plain.end_round(round);
            }
            let plain = plain.normalised_sd();
            for window in packed {
                assert_eq!(window.normalised_sd(), plain[&window.length()]);
            }
        }
    }

    /// Everyone in every round, many at once: the largest sums that the word of counts has to hold.
    #[test]
    fn full_windows_do_not_run_into_each_other() {
        let (clients, rounds) = (600u16, 1_000u64);
        let members: Vec<u16> = (0..clients).collect();
        let mut counters = vec![Counters::default(); members.len()];
        for round in 0..rounds {
            let fresh = FreshByAge::new(round).of(0);
            assert_eq!(fresh, Fresh::new(0, round));
            let sums = credit_alike(&mut counters, &members, |_| fresh, 0.5);
            for (length, earlier) in WINDOW_LENGTHS[1..].iter().zip(sums.earlier) {
                assert_eq!(earlier, u64::from(clients) * (round % u64::from(*length)));
            }
        }
    }
}
