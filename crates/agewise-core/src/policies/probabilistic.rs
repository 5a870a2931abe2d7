//! `probabilistic`: m draws with replacement, a client's chance being its share of the data (policy 2 of
//! the paper). Among the available clients only, their shares scaled up.

use crate::error::Result;
use crate::law::{AgeLaw, IntervalMoments};
use crate::math::square;
use crate::policy::{Policy, PolicyEntry};
use crate::random::{Draw, Draws, Seed, Stream};
use crate::round::{Pick, Round};
use crate::setting::Setting;
use crate::theory::subset_weights::{SizeClass, gather};
use crate::theory::windows::mixed_window_sd;
use crate::theory::with_replacement::{distinct_clients, inclusion, sigma};
use crate::theory::{PolicyTheory, Sigma, WINDOW_LENGTHS, unbiased_sigma};
use crate::weighting::Weighting;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "probabilistic",
    summary: "m draws with replacement by data size: small clients hardly ever train.",
    options: &[],
    needs_options: false,
    weighting: Weighting::DrawCount,
    build: |_, _| Ok(Box::new(Probabilistic { everyone: None, drawn: Drawn::default() })),
};

#[derive(Debug)]
struct Probabilistic {
    /// For draws from all clients; made when everyone is available for the first time.
    everyone: Option<Urn>,
    drawn: Drawn,
}

impl Policy for Probabilistic {
    /// The k-th pick is the first client whose running sum of sizes exceeds the k-th draw times the total.
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let draws = round.draws(Stream::BY_SIZE);
        let count = u64::from(round.setting().cohort());
        let sizes = round.sizes();
        if round.everyone_is_available() {
            let urn = self.everyone.get_or_insert_with(|| {
                let clients = 0..sizes.clients();
                Urn::new(clients.len(), sizes.are_equal(), clients.map(|client| sizes.of(client)))
            });
            return self.drawn.count(urn, count, &draws);
        }
        let available: Vec<u32> = round.available().collect();
        let each = available.iter().map(|&client| sizes.of(client));
        let urn = Urn::new(available.len(), sizes.are_equal(), each);
        let mut picks = self.drawn.count(&urn, count, &draws);
        for pick in &mut picks {
            pick.client = available[pick.client as usize];
        }
        picks
    }

    fn rounds_are_independent(&self) -> bool {
        true
    }

    fn population_changed(&mut self, _setting: &Setting) -> Result<()> {
        self.everyone = None;
        Ok(())
    }

    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        let sizes = round.sizes();
        let total: f64 = round.available().map(|client| sizes.of(client)).sum();
        if total == 0.0 {
            // No available client has data, so none is drawn: a forced one was as likely as the others.
            return vec![1.0 / round.available().count() as f64; clients.len()];
        }
        let drawn = |&client: &u32| inclusion(sizes.of(client) / total, round.setting().cohort());
        clients.iter().map(drawn).collect()
    }

    /// Each client's age is geometric with its own chance of being drawn at all.
    fn initial_ages(&self, setting: &Setting, seed: Seed) -> Vec<u64> {
        // A client without data is never drawn; it has waited as long as a very small one.
        const SMALLEST: f64 = 1e-9;
        let draws = Draws::new(seed, Stream::FIRST_AGE, 0);
        let age = |client: u32| {
            let p = inclusion(setting.sizes().share(client), setting.cohort()).max(SMALLEST);
            let law = AgeLaw::new(&[p, p]).ok()?;
            Some(law.stationary_age().draw(draws.of(u64::from(client))))
        };
        (0..setting.clients()).map(|client| age(client).unwrap_or(0)).collect()
    }

    fn theory(&self, setting: &Setting, weighting: Weighting) -> Result<Option<PolicyTheory>> {
        let (m, sizes) = (setting.cohort(), setting.sizes());
        let sigma = match weighting {
            Weighting::DrawCount => Some(Sigma::exact(sigma(sizes, m))),
            Weighting::Unbiased => Some(Sigma::exact(unbiased_sigma(setting, |client| {
                // A client without data has weight 0 whatever its chance is.
                inclusion(sizes.share(client), m).max(f64::MIN_POSITIVE)
            }))),
            Weighting::Uniform | Weighting::DataSize => None,
        };
        let all = sizes.classes().into_iter();
        let shares = all.map(|(size, count)| SizeClass { size, rate: 0.0, count }).collect();
        let (classes, _) = gather(shares);
        let share = |class: &SizeClass| class.size / sizes.total();
        let by_share: Vec<(f64, u32)> = classes.iter().map(|c| (share(c), c.count)).collect();
        let by_rate: Vec<(f64, u32)> =
            by_share.iter().map(|&(q, count)| (inclusion(q, m), count)).collect();
        let (cohort_mean, cohort_variance) = distinct_clients(&by_share, m);
        let theory = PolicyTheory {
            probabilities: None,
            steady_state: None,
            phases: None,
            mean_interval: 0.0,
            var_interval: 0.0,
            longest_wait: None,
            sigma: None,
            sigma_given_nonempty: None,
            sigma_as_printed: None,
            sigma_exact: true,
            cohort_mean,
            cohort_sd: cohort_variance.sqrt(),
            empty_probability: 0.0,
            window_sd: mixed_window_sd(&by_rate, &WINDOW_LENGTHS),
            interval_distribution: mixed_distribution(&by_rate),
        };
        Ok(Some(theory.with_interval(mixed_interval(&by_rate)).with_sigma(sigma)))
    }
}

/// Clients to draw from, each with a chance in proportion to its size.
#[derive(Debug)]
enum Urn {
    /// So many, all of the same size.
    Equal(usize),
    Sized {
        /// The running sums of the sizes.
        sums: Vec<f64>,
        /// The last client with data, for a product that rounds up to the total itself.
        last: usize,
        /// For draws by their leading bits: the first client that can be meant.
        guide: Vec<u32>,
    },
}

impl Urn {
    fn new(clients: usize, equal: bool, sizes: impl Iterator<Item = f64>) -> Self {
        if equal {
            return Self::Equal(clients);
        }
        let sums: Vec<f64> = sizes
            .scan(0.0, |sum, size| {
                *sum += size;
                Some(*sum)
            })
            .collect();
        let total = sums.last().copied().unwrap_or(0.0);
        // About one client for each entry, so that a draw looks at one or two.
        let entries = clients.next_power_of_two();
        let mut first = 0;
        let guide = (0..entries).map(|entry| {
            // The smallest target of a draw with these leading bits; products keep the order of draws.
            let target = entry as f64 / entries as f64 * total;
            while first < clients && sums[first] <= target {
                first += 1;
            }
            first as u32
        });
        Self::Sized { guide: guide.collect(), last: sums.partition_point(|&sum| sum < total), sums }
    }

    fn clients(&self) -> usize {
        match self {
            Self::Equal(clients) => *clients,
            Self::Sized { sums, .. } => sums.len(),
        }
    }

    /// Whether no client can be drawn.
    fn is_empty(&self) -> bool {
        match self {
            Self::Equal(clients) => *clients == 0,
            Self::Sized { sums, .. } => sums.last().is_none_or(|&total| total <= 0.0),
        }
    }

    /// The first client whose running sum exceeds the draw's share of the total.
    fn draw(&self, draw: Draw) -> usize {
        match self {
            // The running sums are 1, 2, 3, ...
            Self::Equal(clients) => ((draw.unit() * *clients as f64) as usize).min(clients - 1),
            Self::Sized { sums, last, guide } => {
                let target = draw.unit() * sums[sums.len() - 1];
                // Two shifts, because one by all 64 bits is none.
                let leading = draw.bits() >> 1 >> (63 - guide.len().ilog2());
                let from = guide[leading as usize] as usize;
                let further = sums[from..].iter().take_while(|&&sum| sum <= target).count();
                (from + further).min(*last)
            }
        }
    }
}

/// Counts of draws; all zero and empty between two rounds. Small, because they are hit at random.
#[derive(Debug, Default)]
struct Drawn {
    times: Vec<u8>,
    /// One bit for each client that was drawn at all, to find them in order without a sort.
    who: Vec<u64>,
    /// The clients that were drawn once more when their count was full.
    more: Vec<u32>,
}

impl Drawn {
    /// Draws so many times; everyone who was drawn, in order, by place in the urn.
    fn count(&mut self, urn: &Urn, count: u64, draws: &Draws) -> Vec<Pick> {
        self.times.resize(urn.clients(), 0);
        self.who.resize(urn.clients().div_ceil(64), 0);
        let count = if urn.is_empty() { 0 } else { count };
        for index in 0..count {
            let client = urn.draw(draws.of(index));
            if self.times[client] == u8::MAX {
                self.more.push(client as u32);
            } else {
                self.times[client] += 1;
                self.who[client / 64] |= 1 << (client % 64);
            }
        }
        let mut picks = Vec::with_capacity(count.min(urn.clients() as u64) as usize);
        for (first, word) in (0..).step_by(64).zip(&mut self.who) {
            let mut rest = std::mem::take(word);
            while rest != 0 {
                let client = first + rest.trailing_zeros();
                rest &= rest - 1;
                let draws = u32::from(std::mem::take(&mut self.times[client as usize]));
                picks.push(Pick { client, draws });
            }
        }
        for client in self.more.drain(..) {
            if let Ok(place) = picks.binary_search_by_key(&client, |pick| pick.client) {
                picks[place].draws += 1;
            }
        }
        picks
    }
}

/// X of a selection picked at random: geometric, a class counting in proportion to its rate.
fn mixed_interval(classes: &[(f64, u32)]) -> IntervalMoments {
    let drawn = classes.iter().filter(|(rate, _)| *rate > 0.0);
    let weighted = |value: &dyn Fn(f64) -> f64| -> f64 {
        drawn.clone().map(|&(rate, count)| f64::from(count) * rate * value(rate)).sum()
    };
    let total = weighted(&|_| 1.0);
    let mean = weighted(&|rate| 1.0 / rate) / total;
    let variance =
        weighted(&|rate| (1.0 - rate) / (rate * rate) + square(1.0 / rate - mean)) / total;
    IntervalMoments { mean, variance }
}

/// P(X = x) of a selection picked at random, as far as it is worth drawing.
fn mixed_distribution(classes: &[(f64, u32)]) -> Vec<(u64, f64)> {
    const LONGEST: u64 = 1_000;
    let total: f64 = classes.iter().map(|&(rate, count)| rate * f64::from(count)).sum();
    let probability = |x: u64| -> f64 {
        let of = |&(rate, count): &(f64, u32)| {
            f64::from(count) * rate * rate * libm::exp((x as f64 - 1.0) * libm::log1p(-rate))
        };
        classes.iter().filter(|(rate, _)| *rate < 1.0 || x == 1).map(of).sum::<f64>() / total
    };
    let values = (1..=LONGEST).map(|x| (x, probability(x)));
    values.take_while(|(_, p)| *p > 1e-9).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many clients, whether their sizes are known to be equal, and their sizes.
    type Case<'a> = (usize, bool, &'a dyn Fn(usize) -> f64);

    /// Against looking for each draw in the running sums, and sorting: equal sizes, sizes of all orders with
    /// some without data, and one client that is drawn nearly always.
    #[test]
    fn draws_are_those_of_the_running_sums() {
        let wild = |client: usize| {
            if client.is_multiple_of(5) { 0.0 } else { 1.7f64.powi(client as i32 % 60) }
        };
        let cases: [Case; 7] = [
            (1, true, &|_| 1.0),
            (1, false, &|_| 1.0),
            (1_000, true, &|_| 1.0),
            (1_000, false, &|_| 1.0),
            (777, false, &wild),
            (100, false, &|client| if client == 42 { 1e6 } else { 1.0 }),
            (64, false, &|_| 0.0),
        ];
        let mut drawn = Drawn::default();
        for (clients, equal, size) in cases {
            let sums: Vec<f64> = (0..clients)
                .scan(0.0, |sum, client| {
                    *sum += size(client);
                    Some(*sum)
                })
                .collect();
            let total = sums[clients - 1];
            let last = sums.partition_point(|&sum| sum < total);
            let draws = Draws::new(Seed(8), Stream::BY_SIZE, clients as u64);
            let mut plain = vec![0; clients];
            for index in (0..3_000).filter(|_| total > 0.0) {
                let target = draws.of(index).unit() * total;
                plain[sums.partition_point(|&sum| sum <= target).min(last)] += 1;
            }
            let plain: Vec<Pick> = (0..)
                .zip(plain)
                .map(|(client, draws)| Pick { client, draws })
                .filter(|pick| pick.draws > 0)
                .collect();
            let urn = Urn::new(clients, equal, (0..clients).map(size));
            assert_eq!(drawn.count(&urn, 3_000, &draws), plain, "{clients}, {equal}");
        }
    }
}
