//! Participation metrics: small accumulators.
//!
//! Every sum is kept in whole numbers (weights in fixed point, see [`FixedSum`]), so the clients of a round may be
//! recorded in any order. [`Participation`] puts the accumulators together for one run.
//!
//! | metric | accumulator |
//! |---|---|
//! | X: rounds between two selections, peak age | [`Intervals`] |
//! | Y: selections in a window, for many T at once | [`ParticipationWindows`] |
//! | Sigma and the covariance of the weights | [`WeightMoments`] |
//! | cohort size | [`CohortSizes`] |
//! | Jain's index, never selected | [`Load`] |
//! | how often two clients share a round | [`CoParticipation`] |

mod co_participation;
mod cohort_sizes;
mod fixed_sum;
mod intervals;
mod load;
mod participation;
mod weight_moments;
mod windows;

pub use co_participation::CoParticipation;
pub use cohort_sizes::CohortSizes;
pub use fixed_sum::FixedSum;
pub use intervals::Intervals;
pub use load::Load;
pub use participation::{Participation, ParticipationSummary};
pub use weight_moments::{MeanWeights, WeightMoments};
pub use windows::{ParticipationWindows, WindowTally};

/// n E\[x^2\] - (sum x)^2 in whole numbers, so that a small variance of large numbers keeps its digits.
fn variance_of(count: u128, sum: u128, sum_of_squares: u128) -> f64 {
    if count == 0 {
        return f64::NAN;
    }
    let exact = count
        .checked_mul(sum_of_squares)
        .zip(sum.checked_mul(sum))
        .and_then(|(squares, square)| squares.checked_sub(square));
    if let Some(scaled) = exact {
        return scaled as f64 / (count as f64 * count as f64);
    }
    // Sums beyond 2^64: divide first and live with the digits of a double.
    let mean = sum as f64 / count as f64;
    (sum_of_squares as f64 / count as f64 - mean * mean).max(0.0)
}
