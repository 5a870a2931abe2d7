//! A mean over seeds with its interval.

use super::student::Student;
use agewise_core::math::square;
use serde::Serialize;
use std::num::NonZeroUsize;

/// A mean over seeds, with half the width of its 95% interval if there is more than one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95% interval; `None` for a single seed.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// The estimate from one value per seed; `None` if there is no value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let (mean, uncertainty) = mean_of(&values)?;
        Some(Self { mean, half_width: uncertainty.map(Uncertainty::half_width) })
    }
}

/// How far a mean may be from the truth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uncertainty {
    /// The standard error.
    pub(super) error: f64,
    /// The distribution of (mean - truth) / error.
    pub(super) student: Student,
}

impl Uncertainty {
    /// Half the width of the 95% interval.
    pub(super) fn half_width(self) -> f64 {
        self.student.quantile(0.975) * self.error
    }
}

/// The mean of some values, with its uncertainty if there are two or more; `None` of no values.
pub(super) fn mean_of(values: &[f64]) -> Option<(f64, Option<Uncertainty>)> {
    let others = values.len().checked_sub(1)?;
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let uncertainty = NonZeroUsize::new(others).map(|degrees| {
        let spread = values.iter().map(|value| square(value - mean)).sum::<f64>();
        let error = (spread / (count - 1.0) / count).sqrt();
        Uncertainty { error, student: Student::new(degrees) }
    });
    Some((mean, uncertainty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_student() {
        assert_eq!(Estimate::of([]), None);
        assert_eq!(Estimate::of([3.0]).unwrap().half_width, None);
        let estimate = Estimate::of([1.0, 2.0, 3.0]).unwrap();
        assert_eq!(estimate.mean, 2.0);
        assert!((estimate.half_width.unwrap() - 4.302_653 / 3f64.sqrt()).abs() < 1e-6);
    }
}
