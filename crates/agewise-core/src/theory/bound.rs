//! Theorem 1: the convergence bound, as a function of its constants, in parts.
//!
//! The bound after T rounds, with gamma = 4K(K+1)L/mu, is
//!
//! ```text
//! L / (2 (T + gamma)) [ gamma |theta0 - theta*|^2                                      initial
//!   + (16 G^2 K m^2 (K+1) (Sigma + 1) + m K sigma^2) / (rho_min (K-1) mu^2)            variance
//!   + 6 L Gamma / ((K-1) mu^2) ]                                                        gap
//!   + K L Gamma (rho_max / rho_min - 1) / ((K-1) mu)                                    bias
//! ```
//!
//! A policy enters through Sigma (variance), through the smallest selection skew (variance, bias) and
//! through the ratio of the skews (bias). Initial and gap are the problem's own. The paper does not say
//! so, but it divides by K - 1: K must be at least 2.

use crate::error::{Error, Result};
use crate::math::square;
use serde::{Deserialize, Serialize};

/// What Theorem 1 asks of the local objectives, whatever the policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveConstants {
    /// L: smoothness of the local objectives.
    pub smoothness: f64,
    /// mu: strong convexity of the local objectives.
    pub convexity: f64,
    /// G: bound on the norm of stochastic gradients.
    pub gradient_bound: f64,
    /// sigma: bound on the standard deviation of stochastic gradients.
    pub gradient_sd: f64,
    /// Gamma: the local-global objective gap.
    pub objective_gap: f64,
    /// |theta0 - theta*|: distance from the first model to the optimum.
    pub initial_distance: f64,
}

/// The constants of Theorem 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BoundConstants {
    /// Those of the objectives.
    #[serde(flatten)]
    pub objectives: ObjectiveConstants,
    /// K: local steps per round, at least 2.
    pub local_steps: u32,
    /// m: clients per round.
    pub cohort: u32,
    /// Sigma: the sum of the variances of the weights.
    pub sigma: f64,
    /// The smallest selection skew over all rounds.
    pub skew_min: f64,
    /// The largest selection skew at the optimum.
    pub skew_max: f64,
}

/// The bound of Theorem 1, with checked constants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConvergenceBound(BoundConstants);

/// The bound at one T, in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BoundParts {
    /// From the first model; falls as 1/T; the same for every policy.
    pub initial: f64,
    /// From the variance of gradients and weights; falls as 1/T; the policy changes it through Sigma
    /// and the smallest skew.
    pub variance: f64,
    /// From the difference of the clients' optima; falls as 1/T; the same for every policy.
    pub gap: f64,
    /// From selecting some clients more than their share; never falls; the policy changes it through
    /// the ratio of the skews.
    pub bias: f64,
}

impl BoundParts {
    /// The bound: the sum of its parts.
    pub fn total(&self) -> f64 {
        self.initial + self.variance + self.gap + self.bias
    }

    /// The parts that depend on the policy.
    pub fn of_the_policy(&self) -> f64 {
        self.variance + self.bias
    }
}

impl ConvergenceBound {
    /// Checks the constants.
    pub fn new(constants: BoundConstants) -> Result<Self> {
        let (c, objectives) = (&constants, &constants.objectives);
        let positive = [
            ("smoothness", objectives.smoothness),
            ("convexity", objectives.convexity),
            ("skew_min", c.skew_min),
            ("skew_max", c.skew_max),
        ];
        for (field, value) in positive {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::new(field, value, "a finite number above 0"));
            }
        }
        let not_negative = [
            ("gradient_bound", objectives.gradient_bound),
            ("gradient_sd", objectives.gradient_sd),
            ("objective_gap", objectives.objective_gap),
            ("initial_distance", objectives.initial_distance),
            ("sigma", c.sigma),
        ];
        for (field, value) in not_negative {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Error::new(field, value, "a finite number, 0 or more"));
            }
        }
        if c.local_steps < 2 {
            return Err(Error::new("local_steps", c.local_steps, "2 or more: K - 1 is a divisor"));
        }
        if c.cohort == 0 {
            return Err(Error::new("cohort", c.cohort, "1 or more"));
        }
        if objectives.convexity > objectives.smoothness {
            let expected = format!("at most the smoothness, {}", objectives.smoothness);
            return Err(Error::new("convexity", objectives.convexity, expected));
        }
        if c.skew_max < c.skew_min {
            let expected = format!("at least skew_min, {}", c.skew_min);
            return Err(Error::new("skew_max", c.skew_max, expected));
        }
        Ok(Self(constants))
    }

    /// The offset gamma of the learning rate 1/(mu (t + gamma)).
    pub fn offset(&self) -> f64 {
        let k = f64::from(self.0.local_steps);
        4.0 * k * (k + 1.0) * self.0.objectives.smoothness / self.0.objectives.convexity
    }

    /// The bound on E\[F(theta)\] - F* after `rounds` rounds.
    pub fn after(&self, rounds: u64) -> BoundParts {
        let (c, objectives) = (&self.0, &self.0.objectives);
        let (k, m) = (f64::from(c.local_steps), f64::from(c.cohort));
        let offset = self.offset();
        let falling = objectives.smoothness / (2.0 * (rounds as f64 + offset));
        let curvature = (k - 1.0) * objectives.convexity * objectives.convexity;
        let weights =
            16.0 * square(objectives.gradient_bound) * k * m * m * (k + 1.0) * (c.sigma + 1.0);
        let gradients = m * k * square(objectives.gradient_sd);
        BoundParts {
            initial: falling * offset * square(objectives.initial_distance),
            variance: falling * (weights + gradients) / (c.skew_min * curvature),
            gap: falling * 6.0 * objectives.smoothness * objectives.objective_gap / curvature,
            bias: k
                * objectives.smoothness
                * objectives.objective_gap
                * (c.skew_max / c.skew_min - 1.0)
                / ((k - 1.0) * objectives.convexity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constants() -> BoundConstants {
        BoundConstants {
            objectives: ObjectiveConstants {
                smoothness: 2.0,
                convexity: 0.5,
                gradient_bound: 1.5,
                gradient_sd: 0.7,
                objective_gap: 0.3,
                initial_distance: 4.0,
            },
            local_steps: 5,
            cohort: 15,
            sigma: 0.061,
            skew_min: 0.9,
            skew_max: 1.2,
        }
    }

    /// The formula written out once more, with the numbers in place of the names.
    #[test]
    fn agrees_with_the_formula_by_hand() {
        let bound = ConvergenceBound::new(constants()).unwrap();
        assert_eq!(bound.offset(), 480.0);
        let parts = bound.after(520);
        let scale = 1.0 / 1000.0;
        assert!((parts.initial - scale * 480.0 * 16.0).abs() < 1e-9);
        let weights = 16.0 * 2.25 * 5.0 * 225.0 * 6.0 * 1.061 + 15.0 * 5.0 * 0.49;
        assert!((parts.variance - scale * weights / (0.9 * 4.0 * 0.25)).abs() < 1e-9);
        assert!((parts.gap - scale * 6.0 * 2.0 * 0.3 / (4.0 * 0.25)).abs() < 1e-12);
        assert!((parts.bias - 5.0 * 2.0 * 0.3 * (1.2 / 0.9 - 1.0) / (4.0 * 0.5)).abs() < 1e-12);
        let sum = parts.initial + parts.variance + parts.gap + parts.bias;
        assert_eq!(parts.total(), sum);
    }

    #[test]
    fn only_variance_and_bias_depend_on_the_policy() {
        let better = BoundConstants { sigma: 0.0567, skew_min: 1.0, skew_max: 1.0, ..constants() };
        let one = ConvergenceBound::new(constants()).unwrap().after(100);
        let two = ConvergenceBound::new(better).unwrap().after(100);
        assert_eq!((one.initial, one.gap), (two.initial, two.gap));
        assert!(two.variance < one.variance);
        assert_eq!(two.bias, 0.0);
        assert!(two.of_the_policy() < one.of_the_policy());
    }

    #[test]
    fn names_the_constant_that_is_wrong() {
        let field = |constants| ConvergenceBound::new(constants).unwrap_err().field().to_string();
        assert_eq!(field(BoundConstants { local_steps: 1, ..constants() }), "local_steps");
        assert_eq!(field(BoundConstants { skew_min: 0.0, ..constants() }), "skew_min");
        assert_eq!(field(BoundConstants { skew_max: 0.5, ..constants() }), "skew_max");
        assert_eq!(field(BoundConstants { sigma: f64::NAN, ..constants() }), "sigma");
        let objectives = ObjectiveConstants { convexity: 3.0, ..constants().objectives };
        assert_eq!(field(BoundConstants { objectives, ..constants() }), "convexity");
        assert_eq!(field(BoundConstants { cohort: 0, ..constants() }), "cohort");
    }
}
