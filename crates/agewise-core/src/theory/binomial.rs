//! The binomial distribution where it matters: the values around its mode, to the last digits.

/// The distribution of the number of successes in `n` trials, restricted to the values that carry
/// all but about 1e-18 of the probability.
#[derive(Debug, Clone, PartialEq)]
pub struct Binomial {
    trials: u32,
    success: f64,
    first: u32,
    probabilities: Vec<f64>,
}

impl Binomial {
    /// `trials` independent trials, each with probability `success` in [0, 1].
    ///
    /// Probabilities follow from their ratios, starting at the mode, and are then scaled to add up to
    /// one: factorials of a billion would cost six digits.
    pub fn new(trials: u32, success: f64) -> Self {
        const NEGLIGIBLE: f64 = 1e-19;
        let n = f64::from(trials);
        let mode = (((n + 1.0) * success).floor().min(n)) as u32;
        let odds = success / (1.0 - success);
        let mut below = Vec::new();
        let mut weight = 1.0;
        let mut k = mode;
        while k > 0 && weight > NEGLIGIBLE {
            weight *= f64::from(k) / (n - f64::from(k) + 1.0) / odds;
            k -= 1;
            below.push(weight);
        }
        let first = k;
        below.reverse();
        let mut probabilities = below;
        probabilities.push(1.0);
        let mut weight = 1.0;
        let mut k = mode;
        while k < trials && weight > NEGLIGIBLE {
            weight *= (n - f64::from(k)) / (f64::from(k) + 1.0) * odds;
            k += 1;
            probabilities.push(weight);
        }
        let total: f64 = probabilities.iter().sum();
        for p in &mut probabilities {
            *p /= total;
        }
        Self { trials, success, first, probabilities }
    }

    /// The values that matter with their probabilities.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f64)> {
        (self.first..).zip(self.probabilities.iter().copied())
    }

    /// The probability of no success at all.
    pub fn zero(&self) -> f64 {
        libm::exp(f64::from(self.trials) * libm::log1p(-self.success))
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        f64::from(self.trials) * self.success
    }

    /// The standard deviation.
    pub fn sd(&self) -> f64 {
        (self.mean() * (1.0 - self.success)).sqrt()
    }

    /// The smallest value whose distribution function reaches `level`.
    pub fn quantile(&self, level: f64) -> u32 {
        let mut reached = 0.0;
        for (k, p) in self.iter() {
            reached += p;
            if reached >= level {
                return k;
            }
        }
        self.first + self.probabilities.len() as u32 - 1
    }

    /// E\[1/K; K > 0\]: the paper's sum in Theorem 5.
    pub fn mean_reciprocal(&self) -> f64 {
        self.iter().filter(|(k, _)| *k > 0).map(|(k, p)| p / f64::from(k)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(n: u32, k: u32) -> f64 {
        (0..k).map(|i| f64::from(n - i) / f64::from(k - i)).product()
    }

    #[test]
    fn agrees_with_the_formula() {
        for n in [1, 2, 5, 30, 100] {
            for p in [0.0, 1e-9, 0.15, 0.5, 0.97, 1.0] {
                let binomial = Binomial::new(n, p);
                let mut total = 0.0;
                for (k, probability) in binomial.iter() {
                    let exact = choose(n, k) * p.powi(k as i32) * (1.0 - p).powi((n - k) as i32);
                    assert!((probability - exact).abs() < 1e-13, "n = {n}, p = {p}, k = {k}");
                    total += probability;
                }
                assert!((total - 1.0).abs() < 1e-13);
                assert!((binomial.zero() - (1.0 - p).powi(n as i32)).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn moments_hold_at_a_billion_trials() {
        let binomial = Binomial::new(1_000_000_000, 1e-3);
        let mean: f64 = binomial.iter().map(|(k, p)| p * f64::from(k)).sum();
        let square: f64 = binomial.iter().map(|(k, p)| p * (f64::from(k) - mean).powi(2)).sum();
        assert!((mean - 1e6).abs() < 1e-3, "{mean}");
        assert!((square / 999_000.0 - 1.0).abs() < 1e-9, "{square}");
        // E[1/K] = 1/mu + var/mu^3 + O(1/mu^3): the next term is 2e-18.
        let expected = 1e-6 + 999_000.0 / 1e18;
        assert!((binomial.mean_reciprocal() - expected).abs() < 1e-17);
    }

    #[test]
    fn quantiles_bracket_the_mean() {
        let binomial = Binomial::new(100, 0.15);
        assert_eq!((binomial.quantile(0.025), binomial.quantile(0.975)), (8, 22));
        assert_eq!(Binomial::new(10, 0.0).quantile(0.5), 0);
        assert_eq!(Binomial::new(10, 1.0).quantile(0.5), 10);
    }
}
