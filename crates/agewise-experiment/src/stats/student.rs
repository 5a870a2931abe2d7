//! Student's t: its distribution and its quantiles, at any level and for any number of degrees of freedom.
//!
//! The two-sided tail is a regularised incomplete beta function, computed by its continued fraction; small p-values
//! therefore keep all their digits. Quantiles are found by bisection, which cannot fail.

use std::f64::consts::PI;
use std::num::NonZeroUsize;

/// Student's t with some degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Student {
    degrees: f64,
    /// One over the beta function of half the degrees and one half.
    inverse_beta: f64,
}

impl Student {
    /// Beyond so many degrees of freedom the distribution no longer changes in its first seven digits.
    const MOST_DEGREES: usize = 100_000_000;

    /// The distribution with so many degrees of freedom.
    pub fn new(degrees: NonZeroUsize) -> Self {
        let degrees = degrees.get().min(Self::MOST_DEGREES) as f64;
        Self { degrees, inverse_beta: gamma_ratio(0.5 * degrees) / PI.sqrt() }
    }

    /// The probability of a value of at most `t`.
    pub fn cdf(self, t: f64) -> f64 {
        let beyond = 0.5 * self.two_sided(t);
        if t > 0.0 { 1.0 - beyond } else { beyond }
    }

    /// The probability of a value at least as far from zero as `t`: the p-value of a two-sided test.
    pub fn two_sided(self, t: f64) -> f64 {
        let (a, b) = (0.5 * self.degrees, 0.5);
        let scaled = t.abs() / self.degrees.sqrt();
        let square = scaled * scaled;
        // x = degrees / (degrees + t^2) and y = 1 - x, each without a subtraction.
        let (x, y) = (1.0 / (1.0 + square), 1.0 / (1.0 + 1.0 / square));
        // The square may overflow where its logarithm does not.
        let log_x = if scaled > 1.0 {
            -2.0 * libm::log(libm::hypot(scaled, 1.0))
        } else {
            -libm::log1p(square)
        };
        let front = libm::exp(a * log_x) * y.sqrt() * self.inverse_beta;
        // Each side of the symmetry I_x(a, b) = 1 - I_y(b, a) where its fraction converges fast.
        if x * (a + b + 2.0) < a + 1.0 {
            front * beta_fraction(a, b, x) / a
        } else {
            1.0 - front * beta_fraction(b, a, y) / b
        }
    }

    /// The value that is exceeded with probability 1 - `level`: infinite at the levels 0 and 1, not a number outside.
    pub fn quantile(self, level: f64) -> f64 {
        if !(0.0..=1.0).contains(&level) {
            return f64::NAN;
        }
        if level < 0.5 {
            return -self.upper(level);
        }
        // Exact, as the level is at least one half.
        self.upper(1.0 - level)
    }

    /// The value that is exceeded with probability `tail`, which is at most one half.
    fn upper(self, tail: f64) -> f64 {
        if tail >= 0.5 {
            return 0.0;
        }
        if tail <= 0.0 {
            return f64::INFINITY;
        }
        let exceeded_too_often = |t: f64| 0.5 * self.two_sided(t) > tail;
        let (mut low, mut high) = (0.0, 1.0);
        while exceeded_too_often(high) {
            (low, high) = (high, 2.0 * high);
        }
        loop {
            let middle = 0.5 * (low + high);
            if middle <= low || middle >= high {
                return high;
            }
            if exceeded_too_often(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
    }
}

/// Gamma(x + 1/2) / Gamma(x), for x of at least 1/2.
fn gamma_ratio(x: f64) -> f64 {
    // The recurrence ratio(x) = ratio(x + 1) x / (x + 1/2) leads to where the asymptotic series is exact: the first
    // term left out is under 1e-15 there.
    let (mut x, mut factor) = (x, 1.0);
    while x < 100.0 {
        factor *= x / (x + 0.5);
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let series = [-0.125, 1.0 / 128.0, 5.0 / 1024.0, -21.0 / 32768.0, -399.0 / 262_144.0]
        .iter()
        .rev()
        .fold(0.0, |sum, coefficient| (sum + coefficient) * inverse);
    factor * x.sqrt() * (1.0 + series)
}

/// The continued fraction 1 / (1 + c_1 / (1 + c_2 / (1 + ...))) of the incomplete beta function, evaluated from the
/// front by Lentz's method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    // Fewer than 100 were needed wherever it was measured; this ends the loop if `x` is not a number.
    const MOST_TERMS: u32 = 1_000;
    // Stands for a denominator of zero, so that the next step can undo the division by it.
    let nonzero = |value: f64| if value == 0.0 { f64::MIN_POSITIVE } else { value };
    let (mut value, mut numerators, mut denominators) = (1.0, 1.0, 0.0);
    for term in 1..=MOST_TERMS {
        let k = f64::from(term / 2);
        let even = a + 2.0 * k;
        let coefficient = if term % 2 == 1 {
            -(a + k) * (a + b + k) * x / (even * (even + 1.0))
        } else {
            k * (b - k) * x / ((even - 1.0) * even)
        };
        numerators = nonzero(1.0 + coefficient / numerators);
        denominators = 1.0 / nonzero(1.0 + coefficient * denominators);
        let change = numerators * denominators;
        value *= change;
        if (change - 1.0).abs() <= f64::EPSILON {
            break;
        }
    }
    1.0 / value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn student(degrees: usize) -> Student {
        Student::new(NonZeroUsize::new(degrees).unwrap())
    }

    /// Quantiles at the levels 0.9, 0.975, 0.995 and 0.9995, as printed in tables.
    const PRINTED: [(usize, [f64; 4]); 8] = [
        (1, [3.078, 12.706, 63.657, 636.619]),
        (2, [1.886, 4.303, 9.925, 31.599]),
        (3, [1.638, 3.182, 5.841, 12.924]),
        (5, [1.476, 2.571, 4.032, 6.869]),
        (9, [1.383, 2.262, 3.250, 4.781]),
        (19, [1.328, 2.093, 2.861, 3.883]),
        (29, [1.311, 2.045, 2.756, 3.659]),
        (120, [1.289, 1.980, 2.617, 3.373]),
    ];

    #[test]
    fn quantiles_are_the_printed_ones() {
        for (degrees, printed) in PRINTED {
            for (level, printed) in [0.9, 0.975, 0.995, 0.9995].into_iter().zip(printed) {
                let quantile = student(degrees).quantile(level);
                // The tables have three decimals.
                assert!((quantile - printed).abs() < 0.000_51, "{degrees}, {level}: {quantile}");
                let mirrored = student(degrees).quantile(1.0 - level);
                assert!((quantile + mirrored).abs() < 1e-10 * quantile, "{degrees}, {level}");
            }
        }
        // The normal distribution is the limit.
        for degrees in [100_000_000, usize::MAX] {
            let quantile = student(degrees).quantile(0.975);
            assert!((quantile - 1.959_963_984_540_054).abs() < 1e-7, "{quantile}");
        }
    }

    /// One and two degrees of freedom have closed forms, from the middle to far in the tail.
    #[test]
    fn one_and_two_degrees_of_freedom_have_closed_forms() {
        for t in [1e-9f64, 1e-3, 0.1, 0.5, 1.0, 1.7, 3.0, 40.0, 1e6, 1e40, 1e200] {
            let cauchy = 2.0 * (1.0 / t).atan() / PI;
            assert!((student(1).two_sided(t) / cauchy - 1.0).abs() < 1e-13, "{t}");
            let root = (2.0 + t * t).sqrt();
            let two = 2.0 / (root * (root + t));
            // The square of the largest overflows in this form.
            let two = if t > 1e100 { 1.0 / t / t } else { two };
            assert!((student(2).two_sided(t) - two).abs() <= 1e-13 * two, "{t}");
        }
    }

    #[test]
    fn quantile_and_cdf_undo_each_other() {
        for degrees in [1, 2, 3, 4, 7, 10, 59, 60, 61, 1_000, 123_456] {
            let student = student(degrees);
            let mut last = f64::NEG_INFINITY;
            for level in [1e-12, 1e-6, 0.01, 0.3, 0.499, 0.5, 0.500_001, 0.7, 0.99, 0.999_999] {
                let quantile = student.quantile(level);
                let back = student.cdf(quantile);
                assert!((back / level - 1.0).abs() < 1e-11, "{degrees}, {level}: {back}");
                assert!(quantile > last, "{degrees}, {level}: {quantile}");
                last = quantile;
            }
        }
    }

    #[test]
    fn the_ends_are_where_they_belong() {
        let student = student(4);
        assert_eq!(student.quantile(0.5), 0.0);
        assert_eq!(student.quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(student.quantile(1.0), f64::INFINITY);
        assert!([-0.1, 1.1, f64::NAN].iter().all(|&level| student.quantile(level).is_nan()));
        assert_eq!(student.cdf(0.0), 0.5);
        assert_eq!(student.cdf(f64::NEG_INFINITY), 0.0);
        assert_eq!(student.cdf(f64::INFINITY), 1.0);
        assert!(student.cdf(f64::NAN).is_nan());
    }
}
