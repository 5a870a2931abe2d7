//! The number of clients in a round when each decides on its own: at the steady state, and round by
//! round from a cold start, where all clients wait in step and then act in bursts.

use super::Binomial;
use crate::law::AgeLaw;

/// The cohort size in rounds 0, 1, ... when all ages are 0 at the beginning.
///
/// Exact: clients with the same first age and the same law take part with the same probability, each
/// on its own, so the number of them is binomial in every round. It describes the law alone; a client
/// forced into an empty cohort (rounds in which no client can be due) moves the later rounds by one client.
pub fn from_cold_start(law: &AgeLaw, clients: u32) -> impl Iterator<Item = Binomial> {
    participation_from_cold_start(law).map(move |p| Binomial::new(clients, p.min(1.0)))
}

/// The probability that a client of first age 0 takes part, in rounds 0, 1, ...
///
/// Age 0 is as if it had just been selected, so these are the renewal probabilities u_1, u_2, ... of its
/// intervals: u_t = sum over x of P(X = x) u_{t-x}. That costs the values that X can take by then, whatever
/// `max_age` is.
pub fn participation_from_cold_start(law: &AgeLaw) -> impl Iterator<Item = f64> {
    let mut possible = law.interval_distribution().peekable();
    let mut intervals: Vec<(u64, f64)> = Vec::new();
    let mut selected = vec![1.0];
    std::iter::repeat_with(move || {
        let now = selected.len() as u64;
        intervals.extend(std::iter::from_fn(|| possible.next_if(|&(x, _)| x <= now)));
        let ways = intervals.iter().map(|&(x, p)| p * selected[(now - x) as usize]);
        let taking_part = ways.sum();
        selected.push(taking_part);
        taking_part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_optimal_law_bursts_from_a_cold_start() {
        let law = AgeLaw::optimal(100.0 / 15.0, 10).unwrap();
        let means: Vec<f64> = from_cold_start(&law, 100).take(14).map(|b| b.mean()).collect();
        assert!(means[..5].iter().all(|&mean| mean == 0.0), "{means:?}");
        assert!((means[5] - 100.0 / 3.0).abs() < 1e-9);
        assert!((means[6] - 200.0 / 3.0).abs() < 1e-9);
        assert!(means[7..11].iter().all(|&mean| mean == 0.0), "{means:?}");
        assert!((means[11] - 100.0 / 9.0).abs() < 1e-9);
    }

    #[test]
    fn a_whole_interval_never_falls_out_of_step() {
        let law = AgeLaw::optimal(20.0, 30).unwrap();
        for (round, cohort) in from_cold_start(&law, 100).take(1_000).enumerate() {
            let expected = if round % 20 == 19 { 100.0 } else { 0.0 };
            assert_eq!(cohort.mean(), expected, "round {round}");
        }
    }

    #[test]
    fn other_laws_settle_at_their_steady_state() {
        for law in [AgeLaw::linear(6.5, 10).unwrap(), AgeLaw::optimal(6.5, 10).unwrap()] {
            let late = from_cold_start(&law, 100).nth(2_000).unwrap();
            assert!((late.mean() - 100.0 * law.rate()).abs() < 1e-6, "{}", late.mean());
        }
    }
}
