//! Sigma, the sum over clients of the variance of the aggregation weight, and the covariance beside it.
//!
//! Sigma is what the bound of Theorem 1 sees of a policy. Fraboni et al. (2021) show that convergence also
//! depends on how the weights of different clients move together, so the sum of their covariances is kept
//! too: Var\[sum of w\] - Sigma, which is -Sigma whenever the weights of each round add up to one.

use super::FixedSum;
use serde::{Deserialize, Serialize};

/// Moments of the weights over rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WeightMoments {
    clients: u64,
    /// Sum over rounds and clients of w^2.
    squares: FixedSum,
    /// Sum over clients of (sum over rounds of w)^2, times [`SQUARED_SUMS`].
    squared_sums: FixedSum,
}

/// 2^-24: squares of sums grow like the square of the rounds, and have to fit for 10^7 rounds and more.
const SQUARED_SUMS: f64 = 1.0 / 16_777_216.0;

/// What is known about the clients' mean weights, for an estimate of Sigma from a finite run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeanWeights {
    /// All clients are alike: 1/n each.
    Alike,
    /// Unknown, but no round depends on another: the usual correction T/(T - 1) is exact.
    IndependentRounds,
    /// Unknown: Sigma is taken about the means that were measured. That is too small, though far less than by
    /// Sigma/T where clients take turns, because their means then settle faster than those of chance.
    Unknown,
}

impl WeightMoments {
    /// An accumulator for so many clients; those that never take part count with weight 0.
    pub fn new(clients: u64) -> Self {
        Self { clients, ..Self::default() }
    }

    /// So many more clients, whose weights were 0 so far.
    pub(super) fn admit(&mut self, clients: u32) {
        self.clients += u64::from(clients);
    }

    /// The number of clients.
    pub(super) fn clients(&self) -> u64 {
        self.clients
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

    /// Sigma after so many rounds; NaN for none.
    pub fn sigma(&self, rounds: u64) -> f64 {
        let rounds = rounds as f64;
        let squared_sums = self.squared_sums.value() / SQUARED_SUMS;
        let sigma = self.squares.value() / rounds - squared_sums / (rounds * rounds);
        // Sums of weights may be kept with few digits; what that leaves below zero is no variance.
        if sigma < 0.0 { 0.0 } else { sigma }
    }

    /// Sigma as an estimate of the true one, from so many rounds whose weights add up to `total`. [`Self::sigma`]
    /// takes the means from the same rounds, and is too small by the variance of those means.
    pub fn estimated_sigma(&self, rounds: u64, means: MeanWeights, total: f64) -> f64 {
        let (count, clients) = (rounds as f64, self.clients as f64);
        match means {
            MeanWeights::Alike => {
                let squares = self.squares.value() / count;
                (squares - 2.0 * total / count / clients + 1.0 / clients).max(0.0)
            }
            MeanWeights::IndependentRounds => self.sigma(rounds) * (count / (count - 1.0)),
            MeanWeights::Unknown => self.sigma(rounds),
        }
    }

    /// The mean covariance of two different clients' weights, given Sigma and the variance over rounds of the
    /// sum of all weights (0 for normalised weights).
    pub fn mean_covariance(&self, sigma: f64, total_variance: f64) -> f64 {
        let clients = self.clients as f64;
        (total_variance - sigma) / (clients * (clients - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every outcome of two rounds in which one of three clients is taken with chances q: the estimates are the
    /// true Sigma, the sum of q (1 - q), on average.
    #[test]
    fn estimates_are_unbiased() {
        for (chances, means) in [
            ([1.0 / 3.0; 3], MeanWeights::Alike),
            ([1.0 / 3.0; 3], MeanWeights::IndependentRounds),
            ([0.5, 0.3, 0.2], MeanWeights::IndependentRounds),
        ] {
            let mut expected = 0.0;
            for (first, second) in (0..9).map(|pair| (pair / 3, pair % 3)) {
                let mut moments = WeightMoments::new(3);
                moments.record(1.0, 0.0);
                moments.record(1.0, f64::from(u8::from(first == second)));
                let estimate = moments.estimated_sigma(2, means, 2.0);
                expected += chances[first] * chances[second] * estimate;
            }
            let sigma: f64 = chances.iter().map(|q| q * (1.0 - q)).sum();
            assert!((expected - sigma).abs() < 1e-12, "{means:?}: {expected}, {sigma}");
        }
    }

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
        assert!((moments.mean_covariance(sigma, variance) - expected).abs() < 1e-15);
    }
}
