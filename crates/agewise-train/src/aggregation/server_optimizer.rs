//! How the server moves the global model towards the average of a cohort: all the way (FedAvg), with momentum (FedAvgM;
//! Hsu et al., 2019), or with a step of its own for every parameter (FedAdam; Reddi et al., 2021).

use super::AggregatorState;
use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// How the server moves the global model towards the average of the cohort.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule", deny_unknown_fields)]
pub enum ServerRule {
    /// All the way: FedAvg.
    #[default]
    Average,
    /// With a memory of its direction: FedAvgM.
    Momentum {
        /// Step.
        learning_rate: f32,
        /// How much of the last direction stays, from 0 to below 1.
        beta: f32,
    },
    /// With a step of its own for every parameter: FedAdam (without the correction of the first rounds, as in Reddi
    /// et al., 2021).
    Adam {
        /// Step.
        learning_rate: f32,
        /// Memory of the direction, from 0 to below 1.
        beta1: f32,
        /// Memory of its square, from 0 to below 1.
        beta2: f32,
        /// Added to the root of the square: keeps steps small where little happens.
        tau: f32,
    },
}

impl ServerRule {
    /// The names of what the rule remembers, each as long as the model.
    fn moments(self) -> &'static [&'static str] {
        match self {
            Self::Average => &[],
            Self::Momentum { .. } => &["momentum"],
            Self::Adam { .. } => &["first_moment", "second_moment"],
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let step = |value: f32| ("server learning rate", value, value.is_finite() && value > 0.0);
        let memory = |name, value: f32| (name, value, (0.0..1.0).contains(&value));
        let checks = match *self {
            Self::Average => vec![],
            Self::Momentum { learning_rate, beta } => {
                vec![step(learning_rate), memory("server beta", beta)]
            }
            Self::Adam { learning_rate, beta1, beta2, tau } => vec![
                step(learning_rate),
                memory("server beta1", beta1),
                memory("server beta2", beta2),
                ("server tau", tau, tau.is_finite() && tau > 0.0),
            ],
        };
        for (field, value, good) in checks {
            if !good {
                let expected = if field.contains("beta") { "from 0 to below 1" } else { "above 0" };
                return Err(Error::new(field, value, format!("a number {expected}")));
            }
        }
        Ok(())
    }
}

/// A rule with what it remembers from round to round.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServerOptimizer {
    rule: ServerRule,
    /// The running means of the direction and of its square, where the rule has them.
    moments: Vec<Vec<f32>>,
}

impl ServerOptimizer {
    /// An optimiser of models of so many parameters.
    pub(super) fn new(rule: ServerRule, parameters: usize) -> Result<Self> {
        rule.check()?;
        let moments = rule.moments().iter().map(|_| vec![0.0; parameters]).collect();
        Ok(Self { rule, moments })
    }

    pub(super) fn state(&self) -> Vec<(&'static str, &[f32])> {
        let names = self.rule.moments().iter().copied();
        names.zip(self.moments.iter().map(Vec::as_slice)).collect()
    }

    pub(super) fn load_state(&mut self, state: AggregatorState) -> Result<()> {
        let lengths = |names: &mut dyn Iterator<Item = (&str, usize)>| {
            let each = names.map(|(name, len)| format!("{name} of {len} numbers"));
            each.collect::<Vec<_>>().join(", ")
        };
        let found = lengths(&mut state.iter().map(|(name, values)| (name.as_str(), values.len())));
        let own = self.state();
        let expected = lengths(&mut own.iter().map(|(name, values)| (*name, values.len())));
        if found != expected {
            return Err(Error::new(
                "aggregation state",
                format!("[{found}]"),
                format!("[{expected}]"),
            ));
        }
        self.moments = state.into_iter().map(|(_, values)| values).collect();
        Ok(())
    }

    /// Checks that it was made for models of so many parameters.
    pub(super) fn check(&self, parameters: usize) -> Result<()> {
        match self.moments.iter().find(|moment| moment.len() != parameters) {
            None => Ok(()),
            Some(moment) => {
                let value = format!("moments of {} numbers", moment.len());
                Err(Error::new("server", value, format!("{parameters} for this model")))
            }
        }
    }

    /// Moves a model towards the average of its cohort. If a step would not be finite, nothing is changed.
    pub(super) fn apply(&mut self, average: &[f32], global: &mut [f32]) -> Result<()> {
        match (self.rule, &mut self.moments[..]) {
            (ServerRule::Momentum { learning_rate, beta }, [momentum]) => {
                let step = |average: f32, global: f32, direction: f32| {
                    let direction = beta * direction + (average - global);
                    (global + learning_rate * direction, direction)
                };
                let old = average.iter().zip(&*global).zip(&*momentum);
                check_steps(old.map(|((&average, &global), &direction)| {
                    let (global, direction) = step(average, global, direction);
                    global + direction
                }))?;
                let pairs = average.iter().zip(global);
                for ((&average, global), direction) in pairs.zip(momentum) {
                    (*global, *direction) = step(average, *global, *direction);
                }
            }
            (ServerRule::Adam { learning_rate, beta1, beta2, tau }, [first, second]) => {
                let step = |average: f32, global: f32, direction: f32, square: f32| {
                    let delta = average - global;
                    let direction = beta1 * direction + (1.0 - beta1) * delta;
                    let square = beta2 * square + (1.0 - beta2) * delta * delta;
                    (global + learning_rate * direction / (square.sqrt() + tau), direction, square)
                };
                let moments = first.iter().zip(&*second);
                let old = average.iter().zip(&*global).zip(moments);
                check_steps(old.map(|((&average, &global), (&direction, &square))| {
                    let (global, direction, square) = step(average, global, direction, square);
                    global + direction + square
                }))?;
                let moments = first.iter_mut().zip(second);
                for ((&average, global), (direction, square)) in
                    average.iter().zip(global).zip(moments)
                {
                    (*global, *direction, *square) = step(average, *global, *direction, *square);
                }
            }
            _ => global.copy_from_slice(average),
        }
        Ok(())
    }
}

/// Whether all of these are finite, each the sum of what a step would leave behind.
fn check_steps(mut sums: impl Iterator<Item = f32>) -> Result<()> {
    if sums.all(f32::is_finite) {
        return Ok(());
    }
    Err(Error::new("server", "a step that is not finite", "updates near the global model"))
}
