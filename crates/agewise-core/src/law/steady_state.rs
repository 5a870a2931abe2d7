//! The steady state of the age chain, and first ages drawn from it.
//!
//! Section III: pi_a is proportional to the chance of getting to age a without being called, and the
//! last state gathers all ages from `max_age` on.

use super::AgeLaw;
use crate::random::Draw;

impl AgeLaw {
    /// The steady state pi_0, ..., `pi_{max_age}`; the last entry is "`max_age` or older".
    pub fn steady_state(&self) -> Vec<f64> {
        let mut waiting = 1.0;
        let mut pi = Vec::with_capacity(self.max_age as usize + 1);
        for age in 0..u64::from(self.max_age) {
            pi.push(waiting);
            waiting *= 1.0 - self.probability(age);
        }
        pi.push(waiting / self.probability(u64::from(self.max_age)));
        let total: f64 = pi.iter().sum();
        for share in &mut pi {
            *share /= total;
        }
        pi
    }

    /// The long-run probability pi_0 that a client takes part in a round.
    pub fn rate(&self) -> f64 {
        1.0 / self.interval().mean
    }

    /// Prepares the drawing of first ages from the steady state.
    pub fn stationary_age(&self) -> StationaryAge {
        let mut waiting = 1.0;
        let mut reached = 0.0;
        let mut cumulative = Vec::with_capacity(self.tail.len());
        for age in u64::from(self.zeros)..self.last_change() {
            cumulative.push(reached + waiting);
            reached += waiting;
            waiting *= 1.0 - self.probability(age);
        }
        let p = self.final_probability();
        let zeros = f64::from(self.zeros);
        StationaryAge {
            zeros: self.zeros,
            cumulative,
            total: zeros + reached + waiting / p,
            leaving: waiting,
            reached,
            final_probability: p,
        }
    }
}

/// Draws the age of a client in the steady state, with its true value beyond `max_age`.
#[derive(Debug, Clone)]
pub struct StationaryAge {
    zeros: u32,
    /// Unnormalised P(age <= zeros + k), less the mass of the ages under `zeros`.
    cumulative: Vec<f64>,
    total: f64,
    /// Unnormalised probability of the first age with the final probability, and the mass before it.
    leaving: f64,
    reached: f64,
    final_probability: f64,
}

impl StationaryAge {
    /// The age that belongs to this draw: the inverse of the steady state's distribution function.
    pub fn draw(&self, draw: Draw) -> u64 {
        let x = draw.unit() * self.total;
        let zeros = f64::from(self.zeros);
        if x < zeros {
            return x as u64;
        }
        let x = x - zeros;
        let index = self.cumulative.partition_point(|&c| c <= x);
        let age = u64::from(self.zeros) + index as u64;
        if index < self.cumulative.len() || self.final_probability == 1.0 {
            return age;
        }
        // From here on each further round is waited with probability 1 - p: a geometric age.
        let within = ((x - self.reached) * self.final_probability / self.leaving).min(1.0 - 1e-16);
        age.saturating_add((libm::log1p(-within) / libm::log1p(-self.final_probability)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Draws, Seed, Stream};

    #[test]
    fn a_step_of_the_chain_leaves_the_steady_state_as_it_is() {
        for law in laws() {
            let p = law.probabilities();
            let pi = law.steady_state();
            let last = p.len() - 1;
            let mut next = vec![0.0; p.len()];
            for age in 0..p.len() {
                next[0] += pi[age] * p[age];
                next[(age + 1).min(last)] += pi[age] * (1.0 - p[age]);
            }
            assert!((pi.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for (a, b) in pi.iter().zip(&next) {
                assert!((a - b).abs() < 1e-13, "{law:?}");
            }
            assert!((law.rate() - pi[0]).abs() < 1e-14);
        }
    }

    /// Shares of 10^5 drawn ages against pi, each within 5 standard errors; beyond `max_age` the
    /// geometric continuation is compared too.
    #[test]
    fn drawn_ages_follow_the_steady_state() {
        let clients = 100_000u64;
        for law in laws() {
            let sampler = law.stationary_age();
            let draws = Draws::new(Seed(11), Stream::FIRST_AGE, 0);
            let mut seen = vec![0u64; 400];
            for client in 0..clients {
                seen[(sampler.draw(draws.of(client)) as usize).min(399)] += 1;
            }
            let mut waiting = law.rate();
            for (age, &count) in seen.iter().enumerate().take(399) {
                let se = (waiting * (1.0 - waiting) / clients as f64).sqrt();
                let share = count as f64 / clients as f64;
                assert!((share - waiting).abs() <= 5.0 * se + 1e-9, "{law:?}, age {age}: {share}");
                waiting *= 1.0 - law.probability(age as u64);
            }
        }
    }

    fn laws() -> Vec<AgeLaw> {
        vec![
            AgeLaw::optimal(100.0 / 15.0, 10).unwrap(),
            AgeLaw::optimal(5.0, 10).unwrap(),
            AgeLaw::optimal(9.3, 4).unwrap(),
            AgeLaw::linear(100.0 / 15.0, 10).unwrap(),
            AgeLaw::new(&[0.15, 0.15]).unwrap(),
            AgeLaw::new(&[0.0, 0.3, 0.0, 0.7, 0.1]).unwrap(),
            AgeLaw::new(&[1.0, 1.0]).unwrap(),
        ]
    }
}
