//! What the policies of the field share: draws without replacement by weight, and small choices.

use crate::error::Result;
use crate::law::AgeLaw;
use crate::policy::PolicySpec;
use crate::random::{Draw, Draws, Seed, Stream};
use crate::round::{Pick, Round};
use crate::setting::Setting;
use std::cmp::Ordering;

/// Streams of the field; 1 to 8 belong to the core, 16 and above to the simulator.
pub(super) mod streams {
    use crate::random::Stream;

    /// Draws by size, valuation or utility.
    pub(in crate::policies) const BY_WEIGHT: Stream = Stream::custom(9);
    /// Draws in which all are alike: exploration, and random orders.
    pub(in crate::policies) const UNIFORM: Stream = Stream::custom(10);
    /// One draw for each distribution of clustered sampling.
    pub(in crate::policies) const CLUSTER: Stream = Stream::custom(11);
    /// Numbers that are rounded at random, once in a round.
    pub(in crate::policies) const ROUNDING: Stream = Stream::custom(12);
    /// The candidates of a step of the stochastic greedy choice.
    pub(in crate::policies) const STEP: Stream = Stream::custom(13);
}

/// The first `count` of the items by this order, in no particular order.
pub(super) fn first_by<T>(
    mut items: Vec<T>,
    count: usize,
    order: impl Fn(&T, &T) -> Ordering,
) -> Vec<T> {
    if count < items.len() {
        items.select_nth_unstable_by(count, order);
        items.truncate(count);
    }
    items
}

/// Draws `count` clients without replacement, each draw in proportion to the weights of those that are left
/// (successive sampling). Weights come as logarithms; those without weight (minus infinity) are drawn last, all alike.
///
/// The clients with the highest log weight + Gumbel number are such a sample, and each needs its own draw only.
pub(super) fn successive(weighted: &[(u32, f64)], count: usize, draws: &Draws) -> Vec<u32> {
    let keyed = |&(client, log_weight): &(u32, f64)| {
        let draw = draws.of(u64::from(client));
        (log_weight + gumbel(draw), draw, client)
    };
    let keyed: Vec<(f64, Draw, u32)> = weighted.iter().map(keyed).collect();
    let order = |a: &(f64, Draw, u32), b: &(f64, Draw, u32)| {
        b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2))
    };
    first_by(keyed, count, order).into_iter().map(|(_, _, client)| client).collect()
}

/// A finite number with the standard Gumbel law.
fn gumbel(draw: Draw) -> f64 {
    // 52 bits and a half: never 0, and never rounded up to 1.
    let unit = ((draw.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
    -libm::log(-libm::log(unit))
}

/// Draws `count` of the clients without replacement, all alike.
pub(super) fn uniform_sample(clients: Vec<u32>, count: usize, draws: &Draws) -> Vec<u32> {
    let draw = |client: u32| (draws.of(u64::from(client)), client);
    first_by(clients, count, |&a, &b| draw(a).cmp(&draw(b)))
}

/// All of the clients in a random order.
pub(super) fn shuffled(mut clients: Vec<u32>, draws: &Draws) -> Vec<u32> {
    clients.sort_unstable_by_key(|&client| (draws.of(u64::from(client)), client));
    clients
}

/// The whole number below or above, so that the mean over draws is the number itself. Rounding down would make one
/// tenth of five clients none, in every round.
pub(super) fn round_at_random(number: f64, draw: Draw) -> usize {
    number.floor() as usize + usize::from(draw.unit() < number.fract())
}

/// A cohort of clients that are chosen once.
pub(super) fn into_picks(clients: impl IntoIterator<Item = u32>) -> Vec<Pick> {
    let mut picks: Vec<Pick> = clients.into_iter().map(Pick::once).collect();
    picks.sort_unstable();
    picks
}

/// Before the first round, the clients without a sketch; none later.
pub(super) fn unknown_at_the_start(round: &Round<'_>) -> Vec<u32> {
    if round.number() > 0 {
        return Vec::new();
    }
    round.available().filter(|&client| round.reports().sketch(client).is_none()).collect()
}

/// The first ages of a policy that draws everyone with the same chance in every round: geometric with rate m/n.
pub(super) fn memoryless_ages(setting: &Setting, seed: Seed) -> Vec<u64> {
    let rate = f64::from(setting.cohort()) / f64::from(setting.clients());
    let Ok(law) = AgeLaw::new(&[rate, rate]) else {
        return vec![0; setting.clients() as usize];
    };
    let ages = law.stationary_age();
    let draws = Draws::new(seed, Stream::FIRST_AGE, 0);
    (0..setting.clients()).map(|client| ages.draw(draws.of(u64::from(client)))).collect()
}

/// The first ages of a policy whose steady state depends on training: no client has waited before the first round.
pub(super) fn unknown_ages(setting: &Setting) -> Vec<u64> {
    vec![0; setting.clients() as usize]
}

/// A number given as an option, from `least` to `most`, or its default.
pub(super) fn number_option(
    spec: &PolicySpec,
    option: &str,
    default: f64,
    least: f64,
    most: f64,
) -> Result<f64> {
    let number = spec.number(option)?.unwrap_or(default);
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    Err(spec.wrong(option, number, &format!("a number from {least} to {most}")))
}

/// A whole number given as an option, from `least` to `most`.
pub(super) fn whole_option(
    spec: &PolicySpec,
    option: &str,
    least: u32,
    most: u32,
) -> Result<Option<u32>> {
    let Some(number) = spec.number(option)? else {
        return Ok(None);
    };
    if number.fract() == 0.0 && (f64::from(least)..=f64::from(most)).contains(&number) {
        return Ok(Some(number as u32));
    }
    Err(spec.wrong(option, number, &format!("a whole number from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probability of each client to be among the first `count`, by going through all orders of drawing.
    fn inclusion(weights: &[f64], count: usize) -> Vec<f64> {
        fn follow(weights: &[f64], left: usize, taken: u32, p: f64, into: &mut [f64]) {
            if left == 0 {
                for (client, sum) in into.iter_mut().enumerate() {
                    *sum += if taken >> client & 1 == 1 { p } else { 0.0 };
                }
                return;
            }
            let free = || (0..weights.len()).filter(|client| taken >> client & 1 == 0);
            let total: f64 = free().map(|client| weights[client]).sum();
            for client in free() {
                let p = p * weights[client] / total;
                follow(weights, left - 1, taken | 1 << client, p, into);
            }
        }
        let mut into = vec![0.0; weights.len()];
        follow(weights, count, 0, 1.0, &mut into);
        into
    }

    /// 40,000 draws: a share has a deviation of at most 0.0025, and 5 of them are allowed.
    #[test]
    fn draws_are_successive_sampling() {
        const DRAWS: u64 = 40_000;
        for weights in
            [vec![1.0, 1.0, 1.0], vec![1.0, 2.0, 7.0, 0.5], vec![5.0, 1.0, 1.0, 3.0, 9.0]]
        {
            let logs: Vec<(u32, f64)> = (0..).zip(weights.iter().map(|w: &f64| w.ln())).collect();
            for count in 1..weights.len() {
                let mut seen = vec![0.0; weights.len()];
                for round in 0..DRAWS {
                    let draws = Draws::new(Seed(5), streams::BY_WEIGHT, round);
                    for client in successive(&logs, count, &draws) {
                        seen[client as usize] += 1.0 / DRAWS as f64;
                    }
                }
                for (seen, expected) in seen.iter().zip(inclusion(&weights, count)) {
                    assert!((seen - expected).abs() < 0.0125, "{weights:?}, {count}: {seen}");
                }
            }
        }
    }

    #[test]
    fn who_has_no_weight_comes_last_and_by_draw() {
        let clients = [(0, f64::NEG_INFINITY), (1, -1e300), (2, f64::NEG_INFINITY), (3, 1e300)];
        let mut second = [0; 4];
        for round in 0..200 {
            let draws = Draws::new(Seed(1), streams::BY_WEIGHT, round);
            let mut two = successive(&clients, 2, &draws);
            two.sort_unstable();
            assert_eq!(two, [1, 3]);
            for client in successive(&clients, 3, &draws) {
                second[client as usize] += 1;
            }
        }
        assert!(second[0] > 60 && second[2] > 60, "{second:?}");
        let draws = Draws::new(Seed(1), streams::BY_WEIGHT, 0);
        assert_eq!(successive(&clients, 9, &draws).len(), 4);
        assert!(successive(&[], 3, &draws).is_empty());
    }

    #[test]
    fn the_extreme_draws_are_finite() {
        assert!(gumbel(Draw::from_bits(0)).is_finite());
        assert!(gumbel(Draw::from_bits(u64::MAX)).is_finite());
    }

    #[test]
    fn rounding_at_random_keeps_the_mean() {
        let draws = Draws::new(Seed(2), streams::ROUNDING, 0);
        let sum: usize = (0..10_000).map(|index| round_at_random(2.3, draws.of(index))).sum();
        // A deviation of 0.0046 for the mean of 10,000; 5 of them.
        assert!((sum as f64 / 10_000.0 - 2.3).abs() < 0.023, "{sum}");
        assert_eq!(round_at_random(4.0, Draw::from_bits(0)), 4);
    }
}
