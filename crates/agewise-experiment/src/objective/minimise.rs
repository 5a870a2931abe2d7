//! The minimum of a smooth convex function, by L-BFGS.
//!
//! Gradients come in 32 bits. Near the optimum the differences of values drown in rounding long before the slopes do,
//! so a step is judged by the slope at its end: for a convex function that is enough, and values only have to stay
//! within rounding of where they were.

use agewise_core::{Error, Result};
use std::collections::VecDeque;

/// Steps of which the curvature is remembered: cheap beside a gradient over all samples, and narrow valleys need many.
const MEMORY: usize = 30;
/// Nothing here needs so many; a problem that does ends with the gradient it has reached.
const MOST_STEPS: usize = 2_000;
/// Lengths that are tried along one direction.
const MOST_TRIALS: usize = 30;
/// How much of a value may be rounding.
const ROUNDING: f64 = 1e-6;
/// A step is long enough when the slope has fallen to this much of the first, ...
const FLAT_ENOUGH: f64 = 0.9;
/// ... and too long when it rises by more than this much of it.
const TOO_STEEP: f64 = 0.5;

/// A point with the value and the gradient of the function there.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) parameters: Vec<f32>,
    pub(super) value: f64,
    pub(super) gradient: Vec<f64>,
}

impl Place {
    fn new(
        parameters: Vec<f32>,
        function: &mut impl FnMut(&[f32]) -> Result<(f64, Vec<f64>)>,
    ) -> Result<Self> {
        let (value, gradient) = function(&parameters)?;
        Ok(Self { parameters, value, gradient })
    }
}

/// Goes down from `start` until the norm of the gradient is at most `tolerance`, or no step leads further down.
pub(super) fn minimise(
    start: &[f32],
    tolerance: f64,
    mut function: impl FnMut(&[f32]) -> Result<(f64, Vec<f64>)>,
) -> Result<Place> {
    let mut here = Place::new(start.to_vec(), &mut function)?;
    if !here.value.is_finite() {
        return Err(Error::new("start", here.value, "parameters with a finite objective"));
    }
    let mut history = History::default();
    for _ in 0..MOST_STEPS {
        if norm(&here.gradient) <= tolerance {
            break;
        }
        let way = history.direction(&here.gradient);
        if let Some(next) = search(&here, &way, &mut function)? {
            history.record(&here, &next);
            here = next;
        } else if history.0.is_empty() {
            break;
        } else {
            // What was remembered does not fit any more: begin again with the steepest descent.
            history.0.clear();
        }
    }
    Ok(here)
}

/// A step along `way` at whose end the function is flatter and no higher.
fn search(
    from: &Place,
    way: &[f64],
    function: &mut impl FnMut(&[f32]) -> Result<(f64, Vec<f64>)>,
) -> Result<Option<Place>> {
    let first = dot(&from.gradient, way);
    if first.is_nan() || first >= 0.0 {
        return Ok(None);
    }
    let highest = from.value + ROUNDING * from.value.abs();
    let (mut short, mut short_slope) = (0.0, first);
    let mut long: Option<(f64, f64)> = None;
    let mut length = 1.0;
    for _ in 0..MOST_TRIALS {
        let moved = |(&value, way): (&f32, &f64)| (f64::from(value) + length * way) as f32;
        let place =
            Place::new(from.parameters.iter().zip(way).map(moved).collect(), &mut *function)?;
        let slope = dot(&place.gradient, way);
        // Whatever is not a number is too far.
        let near = place.value <= highest && slope <= -TOO_STEEP * first;
        if !near {
            long = Some((length, slope));
        } else if slope < FLAT_ENOUGH * first {
            (short, short_slope) = (length, slope);
        } else {
            return Ok(Some(place));
        }
        length = match long {
            None => 4.0 * length,
            Some((long, slope)) => {
                let share = short_slope / (short_slope - slope);
                let share = if share.is_finite() { share.clamp(0.1, 0.9) } else { 0.5 };
                short + (long - short) * share
            }
        };
    }
    Ok(None)
}

/// A step, what it did to the gradient, and 1 over their product.
struct Step {
    way: Vec<f64>,
    change: Vec<f64>,
    inverse: f64,
}

/// The last steps, the oldest first.
#[derive(Default)]
struct History(VecDeque<Step>);

impl History {
    fn record(&mut self, from: &Place, to: &Place) {
        let moved = from.parameters.iter().zip(&to.parameters);
        let way: Vec<f64> = moved.map(|(&from, &to)| f64::from(to) - f64::from(from)).collect();
        let change: Vec<f64> =
            from.gradient.iter().zip(&to.gradient).map(|(from, to)| to - from).collect();
        let product = dot(&way, &change);
        // Rounding can make a convex function look otherwise; such a step teaches nothing.
        if product > 1e-10 * norm(&way) * norm(&change) {
            if self.0.len() == MEMORY {
                self.0.pop_front();
            }
            self.0.push_back(Step { way, change, inverse: 1.0 / product });
        }
    }

    /// Minus the gradient, bent by the remembered curvature.
    fn direction(&self, gradient: &[f64]) -> Vec<f64> {
        let mut way: Vec<f64> = gradient.iter().map(|slope| -slope).collect();
        let Some(last) = self.0.back() else {
            let scale = 1.0 / norm(gradient).max(1.0);
            scale_by(&mut way, scale);
            return way;
        };
        let mut shares = Vec::with_capacity(self.0.len());
        for step in self.0.iter().rev() {
            let share = step.inverse * dot(&step.way, &way);
            add(&mut way, -share, &step.change);
            shares.push(share);
        }
        let scale = 1.0 / (last.inverse * dot(&last.change, &last.change));
        scale_by(&mut way, scale);
        for (step, share) in self.0.iter().zip(shares.iter().rev()) {
            let back = step.inverse * dot(&step.change, &way);
            add(&mut way, share - back, &step.way);
        }
        way
    }
}

pub(super) fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

pub(super) fn norm(values: &[f64]) -> f64 {
    dot(values, values).sqrt()
}

pub(super) fn scale_by(values: &mut [f64], factor: f64) {
    for value in values {
        *value *= factor;
    }
}

pub(super) fn add(target: &mut [f64], scale: f64, values: &[f64]) {
    for (target, value) in target.iter_mut().zip(values) {
        *target += scale * value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sum of c_i (x_i - i)^2 / 2 with curvatures c from 1e-3 to 10.
    fn bowl(at: &[f32]) -> (f64, Vec<f64>) {
        let curvature = |i: usize| 10f64.powf(1.0 - 4.0 * i as f64 / 19.0);
        let gap = |i: usize| f64::from(at[i]) - i as f64 / 10.0;
        let value = (0..20).map(|i| curvature(i) * gap(i).powi(2) / 2.0).sum();
        (value, (0..20).map(|i| curvature(i) * gap(i)).collect())
    }

    #[test]
    fn finds_the_bottom_of_a_narrow_bowl() {
        let mut calls = 0;
        let found = minimise(&[5.0; 20], 1e-6, |at| {
            calls += 1;
            Ok(bowl(at))
        })
        .unwrap();
        assert!(norm(&found.gradient) <= 1e-6 && found.value < 1e-9, "{}", found.value);
        assert!(calls < 200, "{calls}");
    }

    #[test]
    fn ends_where_no_step_leads_down() {
        // A gradient that is wrong: nothing gets flatter. It must end, and stay where it was.
        let found = minimise(&[1.0], 1e-9, |at| Ok((f64::from(at[0]), vec![-1.0]))).unwrap();
        assert_eq!(found.parameters, [1.0]);
        let wrong = minimise(&[1.0], 1e-9, |_| Ok((f64::NAN, vec![0.0]))).unwrap_err();
        assert_eq!(wrong.field(), "start");
        assert!(minimise(&[1.0], 1e-9, |_| Ok((0.0, vec![f64::NAN]))).is_ok());
    }
}
