//! The pacer: how long a round may take before slow clients are punished, and what makes that grow.

use crate::error::{Error, Result};

/// W: the rounds whose utilities are added up.
pub(super) const WINDOW: usize = 20;

/// T, and what makes it grow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pacer {
    /// T; 0 while no duration is known.
    preferred: f64,
    delta: f64,
    /// Of the last whole window and of the one that has begun, in order.
    utilities: Vec<f64>,
}

impl Pacer {
    pub(super) fn new(delta: f64) -> Self {
        Self { preferred: delta, delta, utilities: Vec::new() }
    }

    /// What a duration leaves of a utility.
    pub(super) fn penalty(&self, duration: f64, alpha: f64) -> f64 {
        if self.preferred > 0.0 && duration > self.preferred {
            libm::pow(self.preferred / duration, alpha)
        } else {
            1.0
        }
    }

    /// Takes the first durations there are as the measure.
    pub(super) fn learn(&mut self, mut durations: Vec<f64>) {
        durations.retain(|&duration| duration > 0.0);
        if self.delta == 0.0 && !durations.is_empty() {
            let middle = (durations.len() - 1) / 2;
            self.delta = *durations.select_nth_unstable_by(middle, f64::total_cmp).1;
            self.preferred = self.delta;
        }
    }

    /// Ends a round with this sum of utilities.
    pub(super) fn step(&mut self, utility: f64) {
        self.utilities.push(utility);
        if let Some((before, last)) = self.utilities.split_at_checked(WINDOW)
            && last.len() == WINDOW
        {
            if before.iter().sum::<f64>() > last.iter().sum() {
                self.preferred += self.delta;
            }
            self.utilities.drain(..WINDOW);
        }
    }

    pub(super) fn state(&self) -> Vec<f64> {
        [self.preferred, self.delta].into_iter().chain(self.utilities.iter().copied()).collect()
    }

    /// Takes a state back; an empty one is that of a run that has not begun.
    pub(super) fn from_state(state: &[f64], given_delta: f64) -> Result<Self> {
        let Some((&[preferred, delta], utilities)) = state.split_first_chunk::<2>() else {
            if state.is_empty() {
                return Ok(Self::new(given_delta));
            }
            return Err(Error::new("state", "1 number", "2 or more of oort's pacer"));
        };
        if utilities.len() >= 2 * WINDOW {
            let expected = format!("at most {} of oort's pacer", 1 + 2 * WINDOW);
            return Err(Error::new("state", format!("{} numbers", state.len()), expected));
        }
        for (index, &number) in state.iter().enumerate() {
            if !(number.is_finite() && number >= 0.0) {
                let field = format!("state[{index}]");
                return Err(Error::new(field, number, "a finite number, 0 or more"));
            }
        }
        if preferred < delta {
            let expected = format!("at least the pacer's step, {delta}");
            return Err(Error::new("state[0]", preferred, expected));
        }
        Ok(Self { preferred, delta, utilities: utilities.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pacer_steps_when_utility_falls() {
        let mut pacer = Pacer::new(0.0);
        pacer.learn(vec![]);
        pacer.learn(vec![-1.0, 0.0]);
        assert_eq!(pacer.preferred, 0.0);
        pacer.learn(vec![7.0, 3.0, 5.0, 1.0]);
        pacer.learn(vec![100.0]);
        assert_eq!((pacer.preferred, pacer.delta), (3.0, 3.0));
        for _ in 0..2 * WINDOW {
            pacer.step(2.0);
        }
        assert_eq!(pacer.preferred, 3.0, "equal is not below");
        for round in 0..WINDOW {
            assert_eq!(pacer.preferred, 3.0, "after {round} rounds of a window");
            pacer.step(1.0);
        }
        assert_eq!(pacer.preferred, 6.0, "once for a window and not once for a round");
        assert_eq!(pacer.utilities.len(), WINDOW);
        for _ in 0..2 * WINDOW {
            pacer.step(5.0);
        }
        assert_eq!(pacer.preferred, 6.0, "utility went up");
    }

    #[test]
    fn state_comes_back() {
        let mut pacer = Pacer::new(0.0);
        pacer.learn(vec![2.5]);
        (0..50).for_each(|round| pacer.step(1.0 / f64::from(round + 1)));
        assert_eq!(Pacer::from_state(&pacer.state(), 0.0).unwrap(), pacer);
        assert_eq!(Pacer::from_state(&[], 4.0).unwrap(), Pacer::new(4.0));
    }
}
