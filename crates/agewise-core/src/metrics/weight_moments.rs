//! Sigma, the sum over clients of the variance of the aggregation weight, and the covariance beside it.
//!
//! Sigma is what the bound of Theorem 1 sees of a policy. Fraboni et al. (2021) show that convergence also
//! depends on how the weights of different clients move together, so the sum of their covariances is kept
//! too: Var\[sum of w\] - Sigma, which is -Sigma whenever the weights of each round add up to one.

use super::FixedSum;

/// Moments of the weights over rounds.
///
/// Merging is for parts that saw different clients in the same rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WeightMoments {
    clients: u64,
    /// Sum over rounds and clients of w^2.
    squares: FixedSum,
    /// Sum over clients of (sum over rounds of w)^2, times [`SQUARED_SUMS`].
    squared_sums: FixedSum,
}

/// 2^-24: squares of sums grow like the square of the rounds, and have to fit for 10^7 rounds and more.
const SQUARED_SUMS: f64 = 1.0 / 16_777_216.0;

impl WeightMoments {
    /// An accumulator for so many clients; those that never take part count with weight 0.
    pub fn new(clients: u64) -> Self {
        Self { clients, ..Self::default() }
    }

    /// Records the weight of one client in one round, `before` being the sum of its earlier weights.
    pub fn record(&mut self, weight: f64, before: f64) {
        self.record_many(weight * weight, weight * (2.0 * before + weight));
    }

    /// Records several clients of one round at once: the sums over them of w^2 and of w (2 before + w).
    pub fn record_many(&mut self, squares: f64, growth: f64) {
        self.squares += squares;
        self.squared_sums += growth * SQUARED_SUMS;
    }

    /// Adds what was recorded for other clients in the same rounds.
    pub fn merge(&mut self, other: &Self) {
        self.clients += other.clients;
        self.squares = self.squares + other.squares;
        self.squared_sums = self.squared_sums + other.squared_sums;
    }

    /// Sigma after so many rounds; NaN for none.
    pub fn sigma(&self, rounds: u64) -> f64 {
        let rounds = rounds as f64;
        let squared_sums = self.squared_sums.value() / SQUARED_SUMS;
        let sigma = self.squares.value() / rounds - squared_sums / (rounds * rounds);
        // Sums of weights may be kept with few digits; what that leaves below zero is no variance.
        if sigma < 0.0 { 0.0 } else { sigma }
    }

    /// The mean covariance of two different clients' weights after so many rounds, `total_variance` being
    /// the variance over rounds of the sum of all weights (0 for normalised weights).
    pub fn mean_covariance(&self, rounds: u64, total_variance: f64) -> f64 {
        let clients = self.clients as f64;
        (total_variance - self.sigma(rounds)) / (clients * (clients - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three clients, four rounds: variances and covariances written out.
    #[test]
    fn agrees_with_the_definition() {
        let rounds = [[0.5, 0.5, 0.0], [0.0, 0.25, 0.75], [1.0, 0.0, 0.0], [0.0, 0.4, 0.4]];
        let mut moments = WeightMoments::new(3);
        let mut before = [0.0; 3];
        for round in rounds {
            for (client, &weight) in round.iter().enumerate() {
                moments.record(weight, before[client]);
                before[client] += weight;
            }
        }
        let covariance = |i: usize, j: usize| {
            let mean = |i: usize| rounds.iter().map(|w| w[i]).sum::<f64>() / 4.0;
            rounds.iter().map(|w| w[i] * w[j]).sum::<f64>() / 4.0 - mean(i) * mean(j)
        };
        let sigma: f64 = (0..3).map(|i| covariance(i, i)).sum();
        assert!((moments.sigma(4) - sigma).abs() < 1e-15);
        let totals: Vec<f64> = rounds.iter().map(|w| w.iter().sum()).collect();
        let mean = totals.iter().sum::<f64>() / 4.0;
        let variance = totals.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / 4.0;
        let pairs = [(0, 1), (0, 2), (1, 2)].map(|(i, j)| covariance(i, j));
        let expected = pairs.iter().sum::<f64>() / 3.0;
        assert!((moments.mean_covariance(4, variance) - expected).abs() < 1e-15);
    }
}
