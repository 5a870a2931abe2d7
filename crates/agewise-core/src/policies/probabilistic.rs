//! `probabilistic`: m draws with replacement, a client's chance being its share of the data (policy 2 of
//! the paper). Among the available clients only, their shares scaled up.

use crate::error::Result;
use crate::law::{AgeLaw, IntervalMoments};
use crate::policy::{Pick, Policy, PolicyEntry, Round};
use crate::random::{Lots, Seed, Stream};
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
    weighting: Weighting::DrawCount,
    build: |_, _| Ok(Box::new(Probabilistic { cumulative: Vec::new() })),
};

#[derive(Debug)]
struct Probabilistic {
    /// Running sums of the sizes of all clients; made when everyone is available for the first time.
    cumulative: Vec<f64>,
}

impl Policy for Probabilistic {
    /// Draw k is the first client whose running sum of sizes exceeds the k-th lot times the total.
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let lots = round.lots(Stream::DRAW);
        let draws = u64::from(round.setting().cohort());
        let mut drawn: Vec<u32> = if round.everyone_is_available() {
            if self.cumulative.is_empty() {
                self.cumulative = running_sums(round.available(), round);
            }
            draw(&self.cumulative, draws, &lots).map(|index| index as u32).collect()
        } else {
            let available: Vec<u32> = round.available().collect();
            let cumulative = running_sums(available.iter().copied(), round);
            draw(&cumulative, draws, &lots).map(|index| available[index]).collect()
        };
        drawn.sort_unstable();
        let same = drawn.chunk_by(|a, b| a == b);
        same.map(|times| Pick { client: times[0], draws: times.len() as u32 }).collect()
    }

    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        let sizes = round.sizes();
        let total: f64 = round.available().map(|client| sizes.of(client)).sum();
        if total == 0.0 {
            // Nobody here has data, so nobody is drawn: whoever is forced was as likely as the others.
            return vec![1.0 / round.available().count() as f64; clients.len()];
        }
        let drawn = |&client: &u32| inclusion(sizes.of(client) / total, round.setting().cohort());
        clients.iter().map(drawn).collect()
    }

    /// Each client's age is geometric with its own chance of being drawn at all.
    fn first_ages(&self, setting: &Setting, seed: Seed) -> Vec<u64> {
        // A client without data is never drawn; it has waited as long as a very small one.
        const SMALLEST: f64 = 1e-9;
        let lots = Lots::new(seed, Stream::FIRST_AGE, 0);
        let age = |client: u32| {
            let p = inclusion(setting.sizes().share(client), setting.cohort()).max(SMALLEST);
            let law = AgeLaw::new(&[p, p]).ok()?;
            Some(law.stationary_age().draw(lots.of(u64::from(client))))
        };
        (0..setting.clients()).map(|client| age(client).unwrap_or(0)).collect()
    }

    fn theory(&self, setting: &Setting, weighting: Weighting) -> Result<PolicyTheory> {
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
            mean_interval: 0.0,
            var_interval: 0.0,
            longest_wait: None,
            sigma: None,
            sigma_given_nonempty: None,
            sigma_exact: true,
            cohort_mean,
            cohort_sd: cohort_variance.sqrt(),
            empty_probability: 0.0,
            window_sd: mixed_window_sd(&by_rate, &WINDOW_LENGTHS),
            interval_distribution: mixed_distribution(&by_rate),
        };
        Ok(theory.with_interval(mixed_interval(&by_rate)).with_sigma(sigma))
    }
}

fn running_sums(clients: impl Iterator<Item = u32>, round: &Round<'_>) -> Vec<f64> {
    let sums = clients.scan(0.0, |sum, client| {
        *sum += round.sizes().of(client);
        Some(*sum)
    });
    sums.collect()
}

/// The indices drawn; none if there is nobody with data.
fn draw(cumulative: &[f64], draws: u64, lots: &Lots) -> impl Iterator<Item = usize> {
    let total = cumulative.last().copied().unwrap_or(0.0);
    let draws = if total > 0.0 { draws } else { 0 };
    // The last client with data, for a product that rounds up to the total itself.
    let last = cumulative.partition_point(|&sum| sum < total);
    (0..draws).map(move |k| {
        let target = lots.of(k).unit() * total;
        cumulative.partition_point(|&sum| sum <= target).min(last)
    })
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
        weighted(&|rate| (1.0 - rate) / (rate * rate) + (1.0 / rate - mean).powi(2)) / total;
    IntervalMoments { mean, variance }
}

/// P(X = x) of a selection picked at random, as far as it is worth drawing.
fn mixed_distribution(classes: &[(f64, u32)]) -> Vec<(u64, f64)> {
    const LONGEST: u64 = 1_000;
    let total: f64 = classes.iter().map(|&(rate, count)| rate * f64::from(count)).sum();
    let probability = |x: u64| -> f64 {
        let of = |&(rate, count): &(f64, u32)| {
            f64::from(count) * rate * rate * (x as f64 - 1.0).mul_add((-rate).ln_1p(), 0.0).exp()
        };
        classes.iter().filter(|(rate, _)| *rate < 1.0 || x == 1).map(of).sum::<f64>() / total
    };
    let values = (1..=LONGEST).map(|x| (x, probability(x)));
    values.take_while(|(_, p)| *p > 1e-9).collect()
}
