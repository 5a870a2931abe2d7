//! Weights d_i / (sum of d over the cohort): Theorem 3 without its sum over all subsets.
//!
//! The theorem needs E\[d_i 1{i in S} / D\] and E\[d_i^2 1{i in S} / D^2\], D being the cohort's total size:
//! sums over all C(n, m) subsets. Writing 1/D and 1/D^2 as integrals of exp(-s D) and s exp(-s D) over s > 0
//! turns both into one-dimensional integrals of a_i(s) = E\[1{i in S} exp(-s D)\], and that expectation
//! factorises:
//!
//! - independent clients (rates r_j): a product over clients;
//! - a uniformly random subset of size m: tilt clients j to independent ones with
//!   probability `pi_j` = 1 / (1 + exp(s d_j - L)), with L chosen so that m of them are expected, and condition
//!   on the count being m. The probability of that count comes from its Fourier transform, which is again
//!   a product over clients, needs few points because it falls like a Gaussian, and never subtracts
//!   nearly equal numbers.
//!
//! The integral over s is a trapezoid rule in log s, which converges like exp(-pi^2 / step) here.

use super::Sigma;
use crate::sizes::Sizes;

/// Clients that have the same size and the same rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeClass {
    /// d.
    pub size: f64,
    /// The probability of taking part (used for independent clients only).
    pub rate: f64,
    /// How many there are.
    pub count: u32,
}

/// More different sizes than this are gathered into [`GATHERED_CLASSES`] classes.
const MOST_CLASSES: usize = 20_000;
/// Classes of equal ratio; the error of Sigma is of the order of the squared width, under 1e-4 relative.
const GATHERED_CLASSES: usize = 2_048;
/// The step of the trapezoid rule in log s: an error of about exp(-pi^2 / 0.3) = 5e-15.
const STEP: f64 = 0.3;

/// E\[sum of w^2\] and E\[w\] for each class, over non-empty cohorts.
pub(crate) struct SubsetMoments {
    pub(crate) square: f64,
    pub(crate) mean_weights: Vec<f64>,
    pub(crate) exact: bool,
}

/// Sigma of `random` with data-size weights (Theorem 3).
pub fn random_sigma(sizes: &Sizes, cohort: u32) -> Sigma {
    let clients = sizes.clients();
    // Shares and not sizes: weights are the same, and no unit of measurement can overflow.
    let all: Vec<SizeClass> = (sizes.classes().into_iter())
        .map(|(size, count)| SizeClass { size: size / sizes.total(), rate: 0.0, count })
        .collect();
    let (classes, exact) = gather(all);
    if cohort == clients {
        // Everyone is always there, with the same weight.
        return Sigma { value: 0.0, exact };
    }
    if let [class] = classes[..] {
        return Sigma { value: 1.0 / f64::from(cohort) - 1.0 / f64::from(class.count), exact };
    }
    let moments = FixedCohort::new(&classes, cohort).moments();
    let mean_square: f64 = classes
        .iter()
        .zip(&moments.mean_weights)
        .map(|(class, weight)| f64::from(class.count) * weight * weight)
        .sum();
    Sigma { value: moments.square - mean_square, exact }
}

/// The moments of the weights of independent clients.
pub(crate) fn independent_second_moments(classes: &[SizeClass]) -> SubsetMoments {
    let transform = |s: f64, out: &mut [f64]| {
        // log of E[exp(-s D)], and from it the share of each class by dividing its own factor out.
        let factor = |class: &SizeClass| {
            let exponent = -s * class.size;
            // A client that is surely there contributes its exponent and no rounding.
            let log = if class.rate == 1.0 {
                exponent
            } else {
                libm::log1p(class.rate * libm::expm1(exponent))
            };
            (class.rate * libm::exp(exponent), log)
        };
        let log: f64 = classes.iter().map(|c| f64::from(c.count) * factor(c).1).sum();
        for (value, class) in out.iter_mut().zip(classes) {
            let (selected, own) = factor(class);
            *value = if selected == 0.0 { 0.0 } else { selected * libm::exp(log - own) };
        }
    };
    let mut moments = integrate(classes, transform);
    // Cohorts of clients without data: they are weighed equally.
    let without_data = |class: &&SizeClass| class.size == 0.0;
    let log_nobody_else: f64 = classes
        .iter()
        .filter(|class| class.size > 0.0)
        .map(|class| f64::from(class.count) * libm::log1p(-class.rate))
        .sum();
    let nobody_else = libm::exp(log_nobody_else);
    if nobody_else > 0.0 && classes.iter().any(|class| class.size == 0.0) {
        let empty: Vec<SizeClass> = classes
            .iter()
            .filter(without_data)
            .map(|class| SizeClass { size: 1.0, ..*class })
            .collect();
        let equal = independent_second_moments(&empty);
        moments.square += nobody_else * equal.square;
        let slots = classes.iter().enumerate().filter(|(_, class)| class.size == 0.0);
        for ((index, _), weight) in slots.zip(equal.mean_weights) {
            moments.mean_weights[index] += nobody_else * weight;
        }
    }
    moments
}

/// Integrates a_i(s) and s a_i(s) over s > 0 for all classes i with data, by the trapezoid rule in log s.
///
/// `transform(s, out)` fills in a_i(s).
fn integrate(classes: &[SizeClass], mut transform: impl FnMut(f64, &mut [f64])) -> SubsetMoments {
    let total: f64 = classes.iter().map(|class| class.size * f64::from(class.count)).sum();
    let smallest =
        classes.iter().map(|class| class.size).filter(|&d| d > 0.0).fold(f64::INFINITY, f64::min);
    // Below exp(-34)/total the integrand is s itself and its rest is 1e-15 of the whole; above
    // 745/smallest it is zero in floating point.
    let first = (-34.0 - libm::log(total)) / STEP;
    let last = (libm::log(745.0) - libm::log(smallest)) / STEP;
    let mut integral = vec![0.0; classes.len()];
    let mut square = 0.0;
    let mut values = vec![0.0; classes.len()];
    for node in first.floor() as i64..=last.ceil() as i64 {
        let s = libm::exp(node as f64 * STEP);
        transform(s, &mut values);
        for ((class, value), sum) in classes.iter().zip(&values).zip(&mut integral) {
            let term = STEP * s * class.size * value;
            *sum += term;
            square += term * s * class.size * f64::from(class.count);
        }
    }
    SubsetMoments { square, mean_weights: integral, exact: true }
}

/// A uniformly random subset of fixed size.
struct FixedCohort<'a> {
    classes: &'a [SizeClass],
    clients: u32,
    cohort: u32,
    /// log C(n, m), computed by the same route as everything else so that errors cancel.
    log_subsets: f64,
}

impl<'a> FixedCohort<'a> {
    fn new(classes: &'a [SizeClass], cohort: u32) -> Self {
        let clients = classes.iter().map(|class| class.count).sum();
        let mut fixed = Self { classes, clients, cohort, log_subsets: 0.0 };
        let tilted = fixed.tilt(0.0);
        let mut given = vec![0.0; classes.len()];
        let probability = fixed.count_probability(&tilted, &mut given);
        fixed.log_subsets = fixed.log_weight(&tilted) + libm::log(probability);
        fixed
    }

    fn moments(&self) -> SubsetMoments {
        let mut moments = integrate(self.classes, |s, out| {
            let tilted = self.tilt(s);
            self.count_probability(&tilted, out);
            let scale = libm::exp(self.log_weight(&tilted) - self.log_subsets);
            for (value, own) in out.iter_mut().zip(&tilted.probabilities) {
                *value *= own * scale;
            }
        });
        self.add_cohorts_without_data(&mut moments);
        moments
    }

    /// If m clients without data can meet, their weights are equal: 1/m each.
    fn add_cohorts_without_data(&self, moments: &mut SubsetMoments) {
        let Some((index, class)) =
            self.classes.iter().enumerate().find(|(_, class)| class.size == 0.0)
        else {
            return;
        };
        if class.count >= self.cohort {
            let ratios =
                (0..self.cohort).map(|k| f64::from(class.count - k) / f64::from(self.clients - k));
            let probability: f64 = ratios.product();
            moments.square += probability / f64::from(self.cohort);
            moments.mean_weights[index] += probability / f64::from(class.count);
        }
    }

    /// Finds L with sum of `pi_j` = m, by Newton steps kept inside a bracket.
    fn tilt(&self, s: f64) -> Tilted {
        let share = f64::from(self.cohort) / f64::from(self.clients);
        let logit = libm::log(share / (1.0 - share));
        let sizes = self.classes.iter().map(|class| class.size);
        let mut low = s * sizes.clone().fold(f64::INFINITY, f64::min) + logit;
        let mut high = s * sizes.fold(0.0, f64::max) + logit;
        let mut level = f64::midpoint(low, high);
        for _ in 0..200 {
            let mut expected = -f64::from(self.cohort);
            let mut slope = 0.0;
            for class in self.classes {
                let p = sigmoid(level - s * class.size);
                expected += f64::from(class.count) * p;
                slope += f64::from(class.count) * p * (1.0 - p);
            }
            if expected > 0.0 {
                high = level;
            } else {
                low = level;
            }
            let newton = level - expected / slope;
            let next =
                if newton > low && newton < high { newton } else { f64::midpoint(low, high) };
            if (next - level).abs() <= 1e-13 * (1.0 + level.abs()) {
                break;
            }
            level = next;
        }
        let exponents: Vec<f64> = self.classes.iter().map(|c| level - s * c.size).collect();
        let probabilities = exponents.iter().map(|&y| sigmoid(y)).collect();
        Tilted { level, exponents, probabilities }
    }

    /// log of (product of 1 + exp(y_j)) exp(-m L): the weight of the tilt.
    fn log_weight(&self, tilted: &Tilted) -> f64 {
        let factors = self.classes.iter().zip(&tilted.exponents);
        let log: f64 = factors.map(|(class, &y)| f64::from(class.count) * softplus(y)).sum();
        log - f64::from(self.cohort) * tilted.level
    }

    /// The probability that exactly m tilted clients take part; and in `given`, for one client of each
    /// class, that exactly m - 1 of the others do.
    fn count_probability(&self, tilted: &Tilted, given: &mut [f64]) -> f64 {
        let variance: f64 = (self.classes.iter().zip(&tilted.probabilities))
            .map(|(class, p)| f64::from(class.count) * p * (1.0 - p))
            .sum();
        // So many points that what wraps around is 9 standard deviations away; odd, so that no point
        // is at half a turn, where a factor can vanish.
        let points = (9.0 * variance.sqrt()).ceil() as u64 + 45;
        let points = points.min(u64::from(self.clients) + 1) | 1;
        let angle =
            |multiple: u64| std::f64::consts::TAU * (multiple % points) as f64 / points as f64;
        let mut probability = 0.0;
        given.fill(0.0);
        for k in 0..=points / 2 {
            let (sin, cos) = libm::sincos(angle(k));
            // 1 - p + p e^(i angle), written so that nothing cancels at small angles.
            let half = libm::sin(angle(k) / 2.0);
            let factor = |p: f64| Complex { re: 1.0 - 2.0 * p * half * half, im: p * sin };
            let mut transform = Complex { re: 1.0, im: 0.0 };
            for (class, &p) in self.classes.iter().zip(&tilted.probabilities) {
                transform = transform * factor(p).power(class.count);
            }
            // Its modulus falls all the way to half a turn: nothing comes after this.
            if libm::hypot(transform.re, transform.im) < 1e-22 {
                break;
            }
            let (sin_m, cos_m) = libm::sincos(angle(k * u64::from(self.cohort)));
            let at_m = transform * Complex { re: cos_m, im: -sin_m };
            // Points k and -k are conjugate, so each counts twice except the first.
            let times = if k == 0 { 1.0 } else { 2.0 };
            probability += times * at_m.re;
            let at_one_less = at_m * Complex { re: cos, im: sin };
            for (value, &p) in given.iter_mut().zip(&tilted.probabilities) {
                *value += times * at_one_less.divided_by(factor(p)).re;
            }
        }
        for value in given {
            *value /= points as f64;
        }
        probability / points as f64
    }
}

struct Tilted {
    level: f64,
    exponents: Vec<f64>,
    probabilities: Vec<f64>,
}

fn sigmoid(y: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-y))
}

/// log(1 + exp(y)) without overflow.
fn softplus(y: f64) -> f64 {
    y.max(0.0) + libm::log1p(libm::exp(-y.abs()))
}

#[derive(Clone, Copy)]
struct Complex {
    re: f64,
    im: f64,
}

impl std::ops::Mul for Complex {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}

impl Complex {
    fn power(self, mut exponent: u32) -> Self {
        let mut base = self;
        let mut result = Self { re: 1.0, im: 0.0 };
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result * base;
            }
            base = base * base;
            exponent >>= 1;
        }
        result
    }

    fn divided_by(self, other: Self) -> Self {
        let norm = other.re * other.re + other.im * other.im;
        self * Self { re: other.re / norm, im: -other.im / norm }
    }
}

/// Gathers sizes into classes of equal ratio where there are too many different ones; each class
/// keeps its number of clients and its total size.
pub(crate) fn gather(classes: Vec<SizeClass>) -> (Vec<SizeClass>, bool) {
    if classes.len() <= MOST_CLASSES {
        return (classes, true);
    }
    let positive = classes.iter().map(|class| class.size).filter(|&size| size > 0.0);
    let smallest = positive.clone().fold(f64::INFINITY, f64::min);
    let largest = positive.fold(0.0, f64::max);
    let width = libm::log(largest / smallest) / GATHERED_CLASSES as f64;
    let bin = |size: f64| {
        // Clients without data stay apart; the largest size belongs to the last bin, not behind it.
        let bin = (libm::log(size / smallest) / width) as i64;
        if size == 0.0 { -1 } else { bin.min(GATHERED_CLASSES as i64 - 1) }
    };
    let gathered = classes.chunk_by(|a, b| a.rate == b.rate && bin(a.size) == bin(b.size));
    let merge = |chunk: &[SizeClass]| {
        let count: u32 = chunk.iter().map(|class| class.count).sum();
        let total: f64 = chunk.iter().map(|class| class.size * f64::from(class.count)).sum();
        SizeClass { size: total / f64::from(count), rate: chunk[0].rate, count }
    };
    (gathered.map(merge).collect(), false)
}

#[cfg(test)]
mod tests;
