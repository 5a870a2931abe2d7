//! Clients that decide independently (policy 3 of the paper): Sigma by Theorem 5, and beyond it.
//!
//! The theorem is for equal weights and one rate. It depends on the law only through the rate, so every
//! law with the same rate has the same Sigma: what the optimal law improves is Var\[X\] and Var\[Y\].

use super::Sigma;
use super::subset_weights::{SizeClass, independent_second_moments};
use crate::math;
use crate::setting::EmptyCohort;

/// Sigma under the readings of Theorem 5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndependentSigma {
    /// Under the given rule for an empty cohort.
    pub with_rule: Sigma,
    /// Given that the cohort is not empty.
    pub given_nonempty: Sigma,
    /// The printed formula, which has no term for an empty cohort: E\[1/|S|; not empty\] - 1/n. It is for equal weights
    /// and one rate only.
    pub as_printed: Option<Sigma>,
    /// The probability of an empty cohort.
    pub empty_probability: f64,
}

/// Theorem 5: n clients, one rate, equal weights.
///
/// If no client takes part, a forced client gets weight 1 ([`EmptyCohort::ForceOne`]), or all weights
/// are 0 ([`EmptyCohort::Skip`], for which a client's mean weight is below 1/n).
pub fn sigma(clients: u32, rate: f64, rule: EmptyCohort) -> IndependentSigma {
    let cohort = super::Binomial::new(clients, rate);
    let empty = cohort.zero();
    let square = cohort.mean_reciprocal();
    combine(square, f64::from(clients).recip() * math::square(1.0 - empty), empty, clients, rule)
}

/// Sigma for any sizes and rates: the weight of a chosen client is its size over the cohort's.
pub fn weighted_sigma(classes: &[SizeClass], rule: EmptyCohort) -> IndependentSigma {
    let clients: u32 = classes.iter().map(|class| class.count).sum();
    let log_empty: f64 =
        classes.iter().map(|class| f64::from(class.count) * libm::log1p(-class.rate)).sum();
    let empty = libm::exp(log_empty);
    let moments = independent_second_moments(classes);
    let mean_square = |forced: f64| -> f64 {
        let weights = classes.iter().zip(&moments.mean_weights);
        weights.map(|(class, w)| f64::from(class.count) * math::square(w + forced)).sum()
    };
    let given = |value: f64| Sigma { value, exact: moments.exact };
    let filled = 1.0 - empty;
    let given_nonempty = moments.square / filled - mean_square(0.0) / (filled * filled);
    let with_rule = match rule {
        EmptyCohort::ForceOne => moments.square + empty - mean_square(empty / f64::from(clients)),
        EmptyCohort::Skip => moments.square - mean_square(0.0),
    };
    IndependentSigma {
        with_rule: given(with_rule),
        given_nonempty: given(given_nonempty),
        as_printed: None,
        empty_probability: empty,
    }
}

/// Puts E\[sum w^2; not empty\] and the squared means together under all readings, for equal clients.
fn combine(
    square: f64,
    mean_square: f64,
    empty: f64,
    clients: u32,
    rule: EmptyCohort,
) -> IndependentSigma {
    let n = f64::from(clients);
    let with_rule = match rule {
        EmptyCohort::ForceOne => square + empty - 1.0 / n,
        EmptyCohort::Skip => square - mean_square,
    };
    IndependentSigma {
        with_rule: Sigma::exact(with_rule),
        given_nonempty: Sigma::exact(square / (1.0 - empty) - 1.0 / n),
        as_printed: Some(Sigma::exact(square - 1.0 / n)),
        empty_probability: empty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_value_at_100_clients() {
        let sigma = sigma(100, 0.15, EmptyCohort::ForceOne);
        assert!((sigma.with_rule.value - 0.0610).abs() < 5e-5, "{sigma:?}");
        assert!(sigma.with_rule.value > 1.0 / 15.0 - 0.01, "Jensen");
        assert!(sigma.empty_probability < 1e-6);
    }

    /// Where most rounds are nearly empty the three readings are far apart.
    #[test]
    fn the_readings_differ_where_cohorts_are_small() {
        let sigma = sigma(50, 0.02, EmptyCohort::ForceOne);
        let readings = [sigma.as_printed.unwrap(), sigma.given_nonempty, sigma.with_rule];
        for (reading, expected) in readings.iter().zip([0.469, 0.749, 0.833]) {
            assert!((reading.value - expected).abs() < 5e-4, "{reading:?}");
        }
    }

    /// Every subset of 6 clients with its probability and weights, for different sizes and rates.
    #[test]
    fn all_readings_agree_with_enumeration() {
        let sizes = [1.0, 1.0, 2.0, 5.0, 0.5, 0.5];
        let rates = [0.3, 0.3, 0.1, 0.6, 0.2, 0.4];
        let equal = [1.0; 6];
        for (sizes, rates) in [(sizes, rates), (equal, rates), (sizes, [0.25; 6])] {
            let classes: Vec<SizeClass> =
                (0..6).map(|i| SizeClass { size: sizes[i], rate: rates[i], count: 1 }).collect();
            for rule in [EmptyCohort::ForceOne, EmptyCohort::Skip] {
                let (with_rule, nonempty) = enumerate(&sizes, &rates, rule);
                let sigma = weighted_sigma(&classes, rule);
                assert!((sigma.with_rule.value - with_rule).abs() < 1e-10);
                assert!((sigma.given_nonempty.value - nonempty).abs() < 1e-10);
            }
        }
        for rule in [EmptyCohort::ForceOne, EmptyCohort::Skip] {
            let (with_rule, nonempty) = enumerate(&equal, &[0.25; 6], rule);
            let sigma = sigma(6, 0.25, rule);
            assert!((sigma.with_rule.value - with_rule).abs() < 1e-13);
            assert!((sigma.given_nonempty.value - nonempty).abs() < 1e-13);
        }
    }

    fn enumerate(sizes: &[f64; 6], rates: &[f64; 6], rule: EmptyCohort) -> (f64, f64) {
        let mut square = 0.0;
        let mut mean = [0.0; 6];
        let mut empty = 0.0;
        for subset in 0u32..64 {
            let chosen = |i: usize| subset >> i & 1 == 1;
            let p: f64 =
                (0..6).map(|i| if chosen(i) { rates[i] } else { 1.0 - rates[i] }).product();
            let total: f64 = (0..6).filter(|&i| chosen(i)).map(|i| sizes[i]).sum();
            if subset == 0 {
                empty = p;
                continue;
            }
            for i in (0..6).filter(|&i| chosen(i)) {
                let weight = sizes[i] / total;
                square += p * weight * weight;
                mean[i] += p * weight;
            }
        }
        let sum_of_squares = |mean: &[f64; 6]| mean.iter().map(|w| w * w).sum::<f64>();
        let filled = 1.0 - empty;
        let nonempty = square / filled - sum_of_squares(&mean) / (filled * filled);
        let with_rule = match rule {
            EmptyCohort::ForceOne => {
                square + empty - sum_of_squares(&mean.map(|w| w + empty / 6.0))
            }
            EmptyCohort::Skip => square - sum_of_squares(&mean),
        };
        (with_rule, nonempty)
    }
}
