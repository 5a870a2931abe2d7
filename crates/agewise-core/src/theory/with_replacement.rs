//! Drawing m times with replacement, by data size (policy 2 of the paper).

use crate::sizes::Sizes;

/// Sigma by Theorem 4: the sum of q_i (1 - q_i) / m, for weights (times drawn)/m.
pub fn sigma(sizes: &Sizes, draws: u32) -> f64 {
    let term = |(size, count): (f64, u32)| {
        let q = size / sizes.total();
        f64::from(count) * q * (1.0 - q)
    };
    sizes.classes().into_iter().map(term).sum::<f64>() / f64::from(draws)
}

/// The probability that a client with share `q` is drawn at least once.
pub fn inclusion(q: f64, draws: u32) -> f64 {
    -libm::expm1(f64::from(draws) * libm::log1p(-q))
}

/// Mean and variance of the number of different clients in m draws, for classes of (share, count).
///
/// Exact up to the merging of sizes into the given classes. The covariance of two clients being left out
/// is a difference of nearly equal powers, so it is taken from their ratio.
pub fn distinct_clients(classes: &[(f64, u32)], draws: u32) -> (f64, f64) {
    let m = f64::from(draws);
    let left_out = |q: f64| libm::exp(m * libm::log1p(-q));
    let mean = classes.iter().map(|&(q, count)| f64::from(count) * inclusion(q, draws)).sum();
    let mut variance = 0.0;
    for (index, &(q, count)) in classes.iter().enumerate() {
        let count = f64::from(count);
        variance += count * left_out(q) * (1.0 - left_out(q));
        let mut covariance_with = |other: f64, pairs: f64| {
            if pairs > 0.0 && q < 1.0 && other < 1.0 {
                let both = left_out(q) * left_out(other);
                let ratio = libm::expm1(m * libm::log1p(-q * other / ((1.0 - q) * (1.0 - other))));
                variance += pairs * both * ratio;
            }
        };
        covariance_with(q, count * (count - 1.0));
        for &(other, others) in &classes[..index] {
            covariance_with(other, 2.0 * count * f64::from(others));
        }
    }
    (mean, variance.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theorem_4_has_its_ceiling_at_equal_sizes() {
        let equal = sigma(&Sizes::equal(100), 15);
        assert!((equal - (1.0 - 0.01) / 15.0).abs() < 1e-15);
        let unequal = Sizes::new((1..=100).map(|d| f64::from(d).powi(3)).collect()).unwrap();
        assert!(sigma(&unequal, 15) < equal);
    }

    /// All 4^3 sequences of 3 draws from 4 clients.
    #[test]
    fn distinct_clients_agree_with_enumeration() {
        let q = [0.1, 0.2, 0.2, 0.5];
        let (mut mean, mut square) = (0.0, 0.0);
        for a in 0..4usize {
            for b in 0..4usize {
                for c in 0..4usize {
                    let distinct =
                        [a, b, c].iter().collect::<std::collections::BTreeSet<_>>().len();
                    let p = q[a] * q[b] * q[c];
                    mean += p * distinct as f64;
                    square += p * (distinct * distinct) as f64;
                }
            }
        }
        let classes = [(0.1, 1), (0.2, 2), (0.5, 1)];
        let (exact_mean, exact_variance) = distinct_clients(&classes, 3);
        assert!((exact_mean - mean).abs() < 1e-14);
        assert!((exact_variance - (square - mean * mean)).abs() < 1e-14);
        assert_eq!(distinct_clients(&[(1.0, 1)], 3), (1.0, 0.0));
    }

    #[test]
    fn a_billion_equal_clients_keep_their_digits() {
        let (mean, variance) = distinct_clients(&[(1e-9, 1_000_000_000)], 1_000_000);
        // m draws hit m - m(m-1)/(2n) + ... different clients, about Poisson(m^2/2n) collisions.
        assert!((1e6 - mean - 499.83).abs() < 0.1, "{mean}");
        assert!((variance - 499.3).abs() < 1.0, "{variance}");
    }
}
