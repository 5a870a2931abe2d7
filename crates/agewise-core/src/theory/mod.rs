//! What can be known about a policy without running it.
//!
//! | paper | here |
//! |---|---|
//! | Theorem 1, the convergence bound | [`ConvergenceBound`] |
//! | Theorem 2, the optimal law | [`crate::AgeLaw::optimal`] |
//! | Theorem 3, Sigma of random selection | [`subset_weights`] |
//! | Theorem 4, Sigma of drawing with replacement | [`with_replacement`] |
//! | Theorem 5, Sigma of independent clients | [`independent`] |
//! | (none) cohort sizes round by round | [`cohort_size`] |
//! | (none) sqrt(Var Y)/T | [`windows`] |
//! | (none) how long clients stay in step | [`autocorrelation`] |

pub mod autocorrelation;
mod binomial;
mod bound;
pub mod cohort_size;
pub(crate) mod deterministic;
pub mod independent;
pub mod phased;
pub mod subset_weights;
pub mod windows;
pub mod with_replacement;

pub use autocorrelation::PhaseTheory;
pub use binomial::Binomial;
pub use bound::{BoundConstants, BoundParts, ConvergenceBound, ObjectiveConstants};

use crate::law::{AgeLaw, IntervalMoments};
use crate::math::square;
use crate::setting::Setting;
use crate::weighting::Weighting;
use serde::Serialize;
use std::collections::BTreeMap;

/// The window lengths T for which sqrt(Var Y)/T is given.
pub const WINDOW_LENGTHS: [u32; 11] = [1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000];

/// Everything that is known of a policy in closed form, in its steady state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyTheory {
    /// p_0, ..., `p_{max_age}`, for policies that are one age law.
    pub probabilities: Option<Vec<f64>>,
    /// pi_0, ..., `pi_{max_age}`, for policies that are one age law.
    pub steady_state: Option<Vec<f64>>,
    /// E\[X\]: mean rounds from one selection of a client to its next.
    pub mean_interval: f64,
    /// Var\[X\]. Where clients differ, X is the interval that ends at a selection picked at random.
    pub var_interval: f64,
    /// The longest possible X; `None` if there is no bound.
    pub longest_wait: Option<u64>,
    /// Sigma: the sum over clients of the variance of the aggregation weight, under the setting's rule
    /// for an empty cohort; `None` where no closed form is known for this weighting.
    pub sigma: Option<f64>,
    /// Sigma given that the cohort is not empty: the other reading of Theorem 5.
    pub sigma_given_nonempty: Option<f64>,
    /// Theorem 5 as it is printed, without a term for an empty cohort; for equal weights and one rate.
    pub sigma_as_printed: Option<f64>,
    /// Whether Sigma was computed from the sizes as they are (`true`), or from sizes gathered into
    /// classes because there are too many different ones.
    pub sigma_exact: bool,
    /// The mean number of clients in a round.
    pub cohort_mean: f64,
    /// The standard deviation of that number.
    pub cohort_sd: f64,
    /// The probability that no client takes part, before the rule for an empty cohort is applied.
    pub empty_probability: f64,
    /// sqrt(Var Y)/T for windows of T rounds, Y being a client's selections in the window.
    pub window_sd: BTreeMap<u32, f64>,
    /// How long clients stay in step, for policies that are one age law.
    pub phases: Option<PhaseTheory>,
    /// P(X = x) for the values that matter, for drawing.
    #[serde(skip)]
    pub interval_distribution: Vec<(u64, f64)>,
}

impl PolicyTheory {
    /// The theory of a policy with a cohort of fixed size in which a client's selections follow `law`.
    pub(crate) fn fixed_cohort(setting: &Setting, law: &AgeLaw) -> Self {
        Self {
            probabilities: None,
            steady_state: None,
            phases: None,
            sigma: None,
            sigma_given_nonempty: None,
            sigma_as_printed: None,
            sigma_exact: true,
            cohort_mean: f64::from(setting.cohort()),
            cohort_sd: 0.0,
            empty_probability: 0.0,
            longest_wait: law.longest_interval(),
            window_sd: windows::renewal_window_sd(law, &WINDOW_LENGTHS),
            interval_distribution: distribution_for_drawing(law),
            mean_interval: 0.0,
            var_interval: 0.0,
        }
        .with_interval(law.interval())
    }

    pub(crate) fn with_interval(self, moments: IntervalMoments) -> Self {
        Self { mean_interval: moments.mean, var_interval: moments.variance, ..self }
    }

    /// Sets Sigma where an empty cohort cannot happen, so that all readings agree.
    pub(crate) fn with_sigma(self, sigma: Option<Sigma>) -> Self {
        Self {
            sigma: sigma.map(|sigma| sigma.value),
            sigma_given_nonempty: sigma.map(|sigma| sigma.value),
            sigma_as_printed: sigma.map(|sigma| sigma.value),
            sigma_exact: sigma.is_none_or(|sigma| sigma.exact),
            ..self
        }
    }
}

/// A value of Sigma, and whether the sizes were used as they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sigma {
    /// The sum over clients of Var\[w_i\].
    pub value: f64,
    /// `false` if different sizes were gathered into classes.
    pub exact: bool,
}

impl Sigma {
    /// A value in closed form.
    pub fn exact(value: f64) -> Self {
        Self { value, exact: true }
    }
}

/// Sigma of a cohort that is a uniformly random subset of size m: `random`, and `oldest-first`, which
/// treats clients alike.
pub(crate) fn uniform_subset_sigma(setting: &Setting, weighting: Weighting) -> Sigma {
    let (n, m) = (f64::from(setting.clients()), f64::from(setting.cohort()));
    match weighting {
        Weighting::Uniform | Weighting::DrawCount => Sigma::exact(1.0 / m - 1.0 / n),
        Weighting::DataSize => subset_weights::random_sigma(setting.sizes(), setting.cohort()),
        Weighting::Unbiased => Sigma::exact(unbiased_sigma(setting, |_| m / n)),
    }
}

/// Sigma of weights q_i / inclusion: the sum of q_i^2 (1/inclusion - 1), for every policy.
pub(crate) fn unbiased_sigma(setting: &Setting, inclusion: impl Fn(u32) -> f64) -> f64 {
    sum_over_clients(setting, |client| {
        square(setting.sizes().share(client)) * (1.0 / inclusion(client) - 1.0)
    })
}

/// A sum over all clients; one term where all clients are alike, as they may be a billion.
pub(crate) fn sum_over_clients(setting: &Setting, term: impl Fn(u32) -> f64) -> f64 {
    if setting.sizes().are_equal() && setting.rates().is_none() {
        return f64::from(setting.clients()) * term(0);
    }
    (0..setting.clients()).map(term).sum()
}

/// P(X = x) until a millionth is left, or 20,000 values are there.
pub(crate) fn distribution_for_drawing(law: &AgeLaw) -> Vec<(u64, f64)> {
    let mut rest = 1.0;
    let enough = |&(_, p): &(u64, f64)| {
        let before = rest;
        rest -= p;
        before > 1e-6
    };
    law.interval_distribution().take_while(enough).take(20_000).collect()
}
