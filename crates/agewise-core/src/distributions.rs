//! Random numbers that are not uniform, with the same bits on every machine.
//!
//! Logarithms, powers and cosines come from the `libm` crate: those of the standard library are the platform's, which
//! differ in the last digits.

use crate::random::{Draw, Sequence};
use rand_core::Rng;

/// Above 0 and at most 1, in steps of 2^-53.
fn above_zero(random: &mut Sequence) -> f64 {
    unit(random) + 0.5 * f64::EPSILON
}

/// At least 0 and below 1, in steps of 2^-53.
fn unit(random: &mut Sequence) -> f64 {
    Draw::from_bits(random.next_u64()).unit()
}

/// A standard normal number (Box and Muller, 1958).
pub fn standard_normal(random: &mut Sequence) -> f64 {
    let radius = (-2.0 * libm::log(above_zero(random))).sqrt();
    radius * libm::cos(std::f64::consts::TAU * unit(random))
}

/// A number from the gamma distribution of this shape, which is at least 1, and of scale 1 (Marsaglia and Tsang, 2000).
pub fn gamma(shape: f64, random: &mut Sequence) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let normal = standard_normal(random);
        let root = 1.0 + c * normal;
        if root <= 0.0 {
            continue;
        }
        let cube = root * root * root;
        let bound = 0.5 * normal * normal + d * (1.0 - cube + libm::log(cube));
        if libm::log(above_zero(random)) <= bound {
            return d * cube;
        }
    }
}

/// A whole number k from 1 on with a probability in proportion to k^-exponent, the exponent being above 1 (Devroye, 1986).
/// Infinite if the number is too large for a double.
pub(crate) fn zeta(exponent: f64, random: &mut Sequence) -> f64 {
    let power = exponent - 1.0;
    let b = libm::pow(2.0, power);
    loop {
        let number = libm::pow(above_zero(random), -1.0 / power).floor();
        if number.is_infinite() {
            return number;
        }
        let t = libm::pow(1.0 + 1.0 / number, power);
        if unit(random) * number * (t - 1.0) * b <= t * (b - 1.0) {
            return number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Draws, Seed, Stream};

    /// Mean and variance of 200,000 numbers; with a fixed seed, and bounds of five standard errors.
    fn moments(mut draw: impl FnMut(&mut Sequence) -> f64) -> (f64, f64) {
        let draws = Draws::new(Seed(1), Stream::custom(900), 0);
        let mut random = draws.sequence(0);
        let numbers: Vec<f64> = (0..200_000).map(|_| draw(&mut random)).collect();
        let mean = numbers.iter().sum::<f64>() / 200_000.0;
        let squares = numbers.iter().map(|number| (number - mean) * (number - mean));
        (mean, squares.sum::<f64>() / 200_000.0)
    }

    #[test]
    fn normal_numbers_have_their_moments() {
        let (mean, variance) = moments(standard_normal);
        assert!(mean.abs() < 5.0 / 447.0, "{mean}");
        assert!((variance - 1.0).abs() < 5.0 * (2.0f64 / 200_000.0).sqrt(), "{variance}");
        // Of the third absolute moment, and of the share beyond two deviations.
        let (tail, _) = moments(|random| f64::from(standard_normal(random).abs() > 2.0));
        assert!((tail - 0.045_500).abs() < 5.0 * (0.0455f64 / 200_000.0).sqrt(), "{tail}");
    }

    #[test]
    fn gamma_numbers_have_their_moments() {
        for shape in [1.0, 1.1, 2.5, 30.0] {
            let (mean, variance) = moments(|random| gamma(shape, random));
            assert!((mean - shape).abs() < 5.0 * (shape / 200_000.0f64).sqrt(), "{shape}: {mean}");
            // The variance of the sample variance: (6 / shape + 2) shape^2 / n.
            let error = shape * ((6.0 / shape + 2.0) / 200_000.0f64).sqrt();
            assert!((variance - shape).abs() < 5.0 * error, "{shape}: {variance}");
        }
    }

    #[test]
    fn zeta_numbers_have_their_probabilities() {
        // 1 / zeta(2) and 1 / (9 zeta(4)), with zeta(2) = pi^2 / 6 and zeta(4) = pi^4 / 90.
        let square = std::f64::consts::PI * std::f64::consts::PI;
        for (exponent, number, expected) in [
            (2.0, 1.0, 6.0 / square),
            (2.0, 3.0, 6.0 / square / 9.0),
            (4.0, 2.0, 90.0 / square / square / 16.0),
        ] {
            let (share, _) = moments(|random| f64::from(zeta(exponent, random) == number));
            let error = (expected / 200_000.0f64).sqrt();
            assert!((share - expected).abs() < 5.0 * error, "{exponent}, {number}: {share}");
        }
    }
}
