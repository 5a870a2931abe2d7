//! Autocorrelation of participation under an age law: mixing time, correlation of cohort sizes, repeated co-participation.
//!
//! Selections of a client are a renewal process. With u_k the probability of a selection k rounds after one and r the rate,
//! u_k - r says what the present tells about the round k rounds from now; everything here follows from it. It decays like
//! |w|^-k, where w is the root of E\[w^X\] = 1 that is nearest to the unit circle, w = 1 apart. For a small variance and
//! with mu = E\[X\] that is, in rounds to 1/e, mu^3 / (2 pi^2 Var\[X\]).
//!
//! Where X is a constant (the optimal law and n/m whole) there is such a root on the circle, and nothing is ever forgotten.

use crate::law::AgeLaw;
use crate::math::square;
use serde::Serialize;
use std::f64::consts::TAU;

/// What is known about clients that stay in step, or do not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PhaseTheory {
    /// The rounds in which u_k - r falls to 1/e of itself in the long run; `None` if it never does.
    pub forgetting_rounds: Option<f64>,
    /// The probability that two clients that were in one cohort come together again the next time that they come: the sum
    /// of P(X = x)^2.
    pub meet_again: f64,
    /// The correlation of two cohort sizes that are n/m rounds (rounded) apart in the steady state: (u_k - r)/(1 - r).
    /// `None` where that takes too long to work out.
    pub cohort_correlation: Option<f64>,
    /// The greatest p_a: the chance of a client in a round that it has waited for.
    pub greatest_probability: f64,
}

/// The steps that one figure may cost.
const MOST_STEPS: usize = 50_000_000;
/// A root that is no farther than this from the unit circle counts as one on it: a billion rounds.
const ON_THE_CIRCLE: f64 = 1e-9;

impl PhaseTheory {
    /// The phases of clients that follow this law, each on its own.
    pub fn new(law: &AgeLaw) -> Self {
        let mean = law.interval().mean;
        Self {
            forgetting_rounds: forgetting_rounds(law),
            meet_again: meet_again(law),
            cohort_correlation: cohort_correlation(law, mean.round() as usize),
            greatest_probability: law.greatest_probability(),
        }
    }
}

fn meet_again(law: &AgeLaw) -> f64 {
    let parts = law.parts();
    let within: f64 = parts.early.iter().map(|&(_, p)| p * p).sum();
    // A geometric end: its squares are a geometric series, too.
    let p = parts.last_chance;
    within + square(parts.waiting * p) / (1.0 - square(1.0 - p))
}

/// The correlation of cohort sizes `lag` rounds apart: n (r u - r^2) over n r (1 - r).
fn cohort_correlation(law: &AgeLaw, lag: usize) -> Option<f64> {
    let rate = law.rate();
    if rate == 1.0 {
        // A cohort of everyone does not vary.
        return None;
    }
    let u = *renewal_probabilities(law, lag)?.last()?;
    Some((u - rate) / (1.0 - rate))
}

/// `u_0`, ..., `u_longest`; `None` where that takes too long.
fn renewal_probabilities(law: &AgeLaw, longest: usize) -> Option<Vec<f64>> {
    let parts = law.parts();
    if longest.saturating_mul(parts.early.len() + 1) > MOST_STEPS {
        return None;
    }
    let mut u = Vec::with_capacity(longest + 1);
    u.push(1.0);
    // The ways over an interval from the geometric end of the law.
    let mut late = 0.0;
    for k in 1..=longest {
        let before = |x: u64| k.checked_sub(x as usize).map_or(0.0, |earlier| u[earlier]);
        let p = parts.last_chance;
        late = (1.0 - p) * late + parts.waiting * p * before(parts.last + 1);
        let early: f64 = parts.early.iter().map(|&(x, p)| p * before(x)).sum();
        u.push(early + late);
    }
    Some(u)
}

/// The rounds to 1/e: one over the logarithm of the modulus of the nearest root.
fn forgetting_rounds(law: &AgeLaw) -> Option<f64> {
    // Without a further root every round is as good as new at once.
    let rounds = 1.0 / nearest_root(law)?;
    (rounds < 1.0 / ON_THE_CIRCLE).then_some(rounds)
}

/// log|w| of the root of E\[w^X\] = 1 nearest to the unit circle, w = 1 apart, by Newton's method from where roots can be;
/// infinite if there is no other root, `None` where the law is too long to try.
fn nearest_root(law: &AgeLaw) -> Option<f64> {
    let parts = law.parts();
    let length = parts.early.len();
    if length > 20_000 {
        return None;
    }
    let moments = law.interval();
    let turn = TAU / moments.mean;
    let mut nearest = f64::INFINITY;
    // In s = log w roots are near i j turn + Var (j turn)^2 / (2 mean).
    for harmonic in 1..=8 {
        let angle = turn * f64::from(harmonic);
        if angle > 0.5 * TAU + 1e-9 {
            break;
        }
        let away = moments.variance * angle * angle / (2.0 * moments.mean);
        for share in [1.0, 0.5, 0.2, 0.0] {
            let found = newton(&parts, Complex { re: share * away, im: angle });
            nearest = nearest.min(found.unwrap_or(nearest));
        }
    }
    // Short laws are not always near their approximation, and cost little.
    let steps = if length > 64 { 0 } else { 16 };
    for step in 1..=steps {
        for away in [0.01, 0.1, 0.5, 1.0] {
            let angle = 0.5 * TAU * f64::from(step) / 16.0;
            let start = Complex { re: away, im: angle };
            nearest = nearest.min(newton(&parts, start).unwrap_or(nearest));
        }
    }
    Some(nearest)
}

/// The real part of the root s of E\[e^(s X)\] = 1 to which Newton's method goes from here, if it is one with a positive
/// (or no) real part and not s = 0.
fn newton(parts: &LawParts, start: Complex) -> Option<f64> {
    let mut s = start;
    for _ in 0..60 {
        let (value, slope) = parts.moments(s);
        let step = (value - Complex::ONE) / slope;
        if !(step.re.is_finite() && step.im.is_finite()) {
            return None;
        }
        s = s - step;
        if step.size() < 1e-15 + 1e-14 * s.size() {
            break;
        }
    }
    let (value, _) = parts.moments(s);
    let turns = s.im / TAU;
    let is_one = s.re.abs() < 1e-12 && (turns - turns.round()).abs() < 1e-9;
    let is_root = (value - Complex::ONE).size() < 1e-8;
    (is_root && !is_one && s.re > -1e-12).then_some(s.re.max(0.0))
}

/// The distribution of X as finitely many values and a geometric end.
pub(crate) struct LawParts {
    /// The values before the end, each with its probability.
    pub(crate) early: Vec<(u64, f64)>,
    /// The probability of getting to the age from which on p does not change, that age, and p there.
    pub(crate) waiting: f64,
    pub(crate) last: u64,
    pub(crate) last_chance: f64,
}

impl LawParts {
    /// E\[e^(s X)\] and its derivative in s.
    fn moments(&self, s: Complex) -> (Complex, Complex) {
        let (mut value, mut slope) = (Complex::ZERO, Complex::ZERO);
        let w = s.exp();
        // The values of X before the end are neighbours: each power is the one before times w.
        let mut power = s.times(self.early.first().map_or(0.0, |&(x, _)| x as f64)).exp();
        for &(x, p) in &self.early {
            let term = power.times(p);
            value = value + term;
            slope = slope + term.times(x as f64);
            power = power * w;
        }
        let p = self.last_chance;
        let rest = Complex::ONE - w.times(1.0 - p);
        let first = (self.last + 1) as f64;
        let end = s.times(first).exp().times(self.waiting * p) / rest;
        let end_slope = end.times(first) + end * (w.times(1.0 - p) / rest);
        (value + end, slope + end_slope)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    const ZERO: Self = Self { re: 0.0, im: 0.0 };
    const ONE: Self = Self { re: 1.0, im: 0.0 };

    fn times(self, factor: f64) -> Self {
        Self { re: factor * self.re, im: factor * self.im }
    }

    fn exp(self) -> Self {
        let size = libm::exp(self.re);
        Self { re: size * libm::cos(self.im), im: size * libm::sin(self.im) }
    }

    fn size(self) -> f64 {
        libm::hypot(self.re, self.im)
    }
}

impl std::ops::Add for Complex {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl std::ops::Sub for Complex {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl std::ops::Mul for Complex {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let re = self.re * other.re - self.im * other.im;
        Self { re, im: self.re * other.im + self.im * other.re }
    }
}

impl std::ops::Div for Complex {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let square = other.re * other.re + other.im * other.im;
        let conjugate = Self { re: other.re, im: -other.im };
        (self * conjugate).times(1.0 / square)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::cohort_size::participation_from_cold_start;

    fn laws() -> Vec<AgeLaw> {
        let mut laws = Vec::new();
        for interval in [1.8, 2.0, 3.0, 4.0, 5.0, 100.0 / 15.0, 10.0] {
            for variance in [0.1, 0.3, 0.75] {
                laws.push(AgeLaw::mixing(interval, 20, variance).unwrap());
            }
            for factor in [1.3, 2.0, 3.0] {
                laws.push(AgeLaw::capped(interval, 20, factor).unwrap());
            }
            laws.push(AgeLaw::linear(interval, 20).unwrap());
        }
        laws.push(AgeLaw::optimal(100.0 / 15.0, 10).unwrap());
        // Where the cap is 1 and n/m whole, a capped law is the optimal one, and frozen.
        laws.retain(|law| law.interval().variance > 1e-9);
        laws
    }

    /// The renewal sequence by another recursion: what is left of u_k - r falls by e in so many rounds. The largest
    /// deviation within a window of two intervals, early and late, gives the rate up to the phase of the oscillation in
    /// the window: less than half a factor of e of six.
    #[test]
    fn what_is_left_falls_by_e_in_the_stated_rounds() {
        for law in laws() {
            let rounds = PhaseTheory::new(&law).forgetting_rounds.unwrap();
            let window = 2 * law.interval().mean.ceil() as usize + 2;
            let begin = (2.0 * rounds) as usize + window;
            let end = begin + (6.0 * rounds).ceil() as usize;
            let u: Vec<f64> = participation_from_cold_start(&law).take(end + window).collect();
            let left = |from: usize| {
                let deviations = u[from..from + window].iter().map(|u| (u - law.rate()).abs());
                deviations.fold(0.0, f64::max)
            };
            let (early, late) = (left(begin), left(end));
            if early < 1e-9 {
                // Forgotten within a few rounds: rounding is all that is left.
                assert!(rounds < 4.0, "{law:?}: {rounds}");
                continue;
            }
            let measured = (end - begin) as f64 / (early / late.max(1e-14)).ln();
            // A short memory is over before many oscillations are: its rate is seen less well.
            let tolerance = if rounds < 4.0 { 0.3 } else { 0.1 };
            assert!((measured / rounds - 1.0).abs() < tolerance, "{law:?}: {rounds}, {measured}");
        }
    }

    #[test]
    fn long_intervals_follow_the_approximation() {
        for (interval, variance) in [(20.0, 0.1), (50.0, 0.25), (100.0, 0.1)] {
            let law = AgeLaw::mixing(interval, 200, variance).unwrap();
            let rounds = PhaseTheory::new(&law).forgetting_rounds.unwrap();
            let about = interval.powi(3) / (0.5 * TAU * TAU * variance);
            assert!((rounds / about - 1.0).abs() < 0.02, "{interval}: {rounds}, {about}");
        }
    }

    #[test]
    fn a_constant_interval_is_never_forgotten_and_a_geometric_one_at_once() {
        let frozen = PhaseTheory::new(&AgeLaw::optimal(4.0, 10).unwrap());
        assert_eq!(frozen.forgetting_rounds, None);
        assert!((frozen.meet_again - 1.0).abs() < 1e-12);
        assert!((frozen.cohort_correlation.unwrap() - 1.0).abs() < 1e-12);
        let geometric = PhaseTheory::new(&AgeLaw::new(&[0.2, 0.2]).unwrap());
        assert_eq!(geometric.forgetting_rounds, Some(0.0));
        assert!(geometric.cohort_correlation.unwrap().abs() < 1e-12);
        assert!((geometric.meet_again - 0.2 / 1.8).abs() < 1e-12);
        let everyone = PhaseTheory::new(&AgeLaw::optimal(1.0, 10).unwrap());
        assert_eq!((everyone.forgetting_rounds, everyone.cohort_correlation), (Some(0.0), None));
    }

    #[test]
    fn sums_over_x_agree_with_the_distribution() {
        for law in laws() {
            let squares = law.interval_distribution().take(5_000).map(|(_, p)| p * p);
            let expected: f64 = squares.sum();
            assert!((meet_again(&law) - expected).abs() < 1e-12, "{law:?}");
            let u: Vec<f64> = participation_from_cold_start(&law).take(60).collect();
            let own = renewal_probabilities(&law, 60).unwrap();
            assert!(own[1..].iter().zip(&u).all(|(a, b)| (a - b).abs() < 1e-12), "{law:?}");
        }
    }
}
