//! The number of clients in a round when each decides on its own: at the steady state, and round by
//! round from a cold start, where all clients wait in step and then act in bursts.

use super::Binomial;
use crate::law::AgeLaw;

/// The cohort size in the steady state.
pub fn steady(law: &AgeLaw, clients: u32) -> Binomial {
    Binomial::new(clients, law.rate())
}

/// The cohort size in rounds 0, 1, ... when all ages are 0 at the beginning.
///
/// Exact: clients with the same first age and the same law take part with the same probability, each
/// on its own, so the number of them is binomial in every round. It describes the law alone; a client
/// forced into an empty cohort (rounds in which nobody can be due) moves the later rounds by one client.
pub fn from_cold_start(law: &AgeLaw, clients: u32) -> impl Iterator<Item = Binomial> + use<> {
    participation_from_cold_start(law).map(move |p| Binomial::new(clients, p.min(1.0)))
}

/// The probability that a client of first age 0 takes part, in rounds 0, 1, ...
pub fn participation_from_cold_start(law: &AgeLaw) -> impl Iterator<Item = f64> + use<> {
    let p = law.probabilities();
    let last = p.len() - 1;
    // at[a] is the probability of age a at the beginning of the round.
    let mut at = vec![0.0; p.len()];
    at[0] = 1.0;
    std::iter::repeat_with(move || {
        let taking_part: f64 = at.iter().zip(&p).map(|(share, p)| share * p).sum();
        let stays_last = at[last] * (1.0 - p[last]);
        for age in (1..=last).rev() {
            at[age] = at[age - 1] * (1.0 - p[age - 1]);
        }
        at[last] += stays_last;
        at[0] = taking_part;
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
            assert!((late.mean() - steady(&law, 100).mean()).abs() < 1e-6, "{}", late.mean());
        }
    }
}
