//! How fast phones are beside each other: a table of our own, made to agree with three published figures.
//!
//! Scores of 307 phones in a public benchmark have a ratio of 39 between the 90th and the 10th percentile, and their
//! logarithms a deviation of 1.36; weighted by how many users of a public trace have each phone, the deviation is about
//! 0.99. The table has the logarithm of the speed over the median at seven quantiles, straight lines in between, and is
//! symmetric, because nothing more is known. It is scaled for phones weighted by their users.

use agewise_core::Stream;

/// The phones of the clients of a seed.
pub(super) const PHONE: Stream = Stream::custom(22);

/// The share of phones that are slower, and the logarithm of the speed over the median.
const QUANTILES: [(f64, f64); 7] =
    [(0.0, -2.75), (0.1, -1.832), (0.25, -1.0), (0.5, 0.0), (0.75, 1.0), (0.9, 1.832), (1.0, 2.75)];

/// Every model counts once.
pub(super) const BY_MODEL: f64 = 1.0;
/// Every phone in use counts once.
pub(super) const BY_USER: f64 = 0.99 / 1.36;

/// The speed over the median of the phone that is faster than this share of all.
pub(super) fn relative_speed(share: f64, scale: f64) -> f64 {
    let above = QUANTILES.iter().position(|&(quantile, _)| quantile > share);
    let above = above.unwrap_or(QUANTILES.len() - 1).max(1);
    let ((low, slow), (high, fast)) = (QUANTILES[above - 1], QUANTILES[above]);
    let log = slow + (fast - slow) * ((share - low) / (high - low));
    libm::exp(scale * log)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exact moments of a straight line: over a piece of width w from a to b the mean square is w(a² + ab + b²)/3.
    #[test]
    fn the_table_has_the_published_figures() {
        let square = |pair: &[(f64, f64)]| {
            let ((low, a), (high, b)) = (pair[0], pair[1]);
            (high - low) * (a * a + a * b + b * b) / 3.0
        };
        let deviation = QUANTILES.windows(2).map(square).sum::<f64>().sqrt();
        assert!((deviation - 1.36).abs() < 0.001, "{deviation}");
        assert!((deviation * BY_USER - 0.99).abs() < 0.001);
        let ratio = relative_speed(0.9, BY_MODEL) / relative_speed(0.1, BY_MODEL);
        assert!((ratio - 39.0).abs() < 0.1, "{ratio}");
        assert_eq!(relative_speed(0.5, BY_USER), 1.0);
        assert!(relative_speed(0.0, BY_MODEL) > 0.06 && relative_speed(1.0, BY_MODEL) < 16.0);
    }
}
