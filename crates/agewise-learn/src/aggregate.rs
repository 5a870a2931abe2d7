//! Aggregation: the updates of a cohort, weighed by the core, become the next global model.

use crate::kernel::{add_scaled, all_finite};
use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why an update was not taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejected {
    /// Whose it was.
    pub client: u32,
    /// What was wrong with it.
    pub why: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "update of client {}: {}", self.client, self.why)
    }
}

impl std::error::Error for Rejected {}

/// What is wrong with an update that has such a value.
pub(crate) const NOT_FINITE: &str = "a parameter is infinite or not a number";

/// Whether a weight is one that an update can have.
pub(crate) fn check_weight(client: u32, weight: f64) -> std::result::Result<(), Rejected> {
    if weight.is_finite() && weight >= 0.0 {
        return Ok(());
    }
    let why = format!("weight {weight}, expected a number of at least 0");
    Err(Rejected { client, why })
}

/// The weighted sum of a round's updates. An update is looked through before any of it is added, so a bad one leaves
/// no trace.
#[derive(Debug, Clone)]
pub struct Aggregator {
    sum: Vec<f32>,
    /// Weight of the updates that were offered, and of those that were taken.
    offered: f64,
    accepted: f64,
}

impl Aggregator {
    /// For models of so many parameters.
    pub fn new(parameters: usize) -> Self {
        Self { sum: vec![0.0; parameters], offered: 0.0, accepted: 0.0 }
    }

    /// Begins a round.
    pub fn begin(&mut self) {
        self.sum.fill(0.0);
        (self.offered, self.accepted) = (0.0, 0.0);
    }

    /// Adds the model that a client came back with.
    pub fn add(
        &mut self,
        client: u32,
        weight: f64,
        model: &[f32],
    ) -> std::result::Result<(), Rejected> {
        let reject = |why: String| Err(Rejected { client, why });
        self.enlist(client, weight)?;
        if model.len() != self.sum.len() {
            return reject(format!("{} parameters, expected {}", model.len(), self.sum.len()));
        }
        if !all_finite(model) {
            return reject(NOT_FINITE.to_string());
        }
        self.add_piece(0, weight, model);
        self.accept(weight);
        Ok(())
    }

    /// Notes that an update of this weight belongs to the round, whether it comes or not.
    pub(crate) fn enlist(&mut self, client: u32, weight: f64) -> std::result::Result<(), Rejected> {
        check_weight(client, weight)?;
        self.offered += weight;
        Ok(())
    }

    /// Adds the parameters from `first` on of an update that was looked through.
    pub(crate) fn add_piece(&mut self, first: usize, weight: f64, piece: &[f32]) {
        add_scaled(&mut self.sum[first..first + piece.len()], weight as f32, piece);
    }

    /// Notes that all of an update was added.
    pub(crate) fn accept(&mut self, weight: f64) {
        self.accepted += weight;
    }

    /// Notes that the update of a client did not come, and why.
    pub fn miss(&mut self, client: u32, weight: f64, why: String) -> Rejected {
        let missing = Rejected { client, why };
        self.enlist(client, weight).map_or_else(|wrong| wrong, |()| missing)
    }

    /// Moves the global model: the offered weight is shared by those that were accepted, and what is missing to 1 (the
    /// weights of an unbiased policy add up to 1 on average only) stays with the old model. An average that is not finite
    /// is an error, and the model stays as it is.
    pub fn finish(&mut self, server: &mut Server, global: &mut [f32]) -> Result<()> {
        if self.accepted <= 0.0 {
            return Ok(());
        }
        server.check(global.len())?;
        let scale = (self.offered / self.accepted) as f32;
        let rest = (1.0 - self.offered) as f32;
        for (sum, &old) in self.sum.iter_mut().zip(&*global) {
            *sum = scale * *sum + rest * old;
        }
        if !all_finite(&self.sum) {
            let value = format!("weights that add up to {} and {}", self.offered, self.accepted);
            return Err(Error::new("average", value, "weights that keep every parameter finite"));
        }
        server.apply(&self.sum, global)
    }
}

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
    /// How many numbers the rule remembers for models of so many parameters: of the direction and of its squares.
    fn memory(self, parameters: usize) -> [usize; 2] {
        match self {
            Self::Average => [0, 0],
            Self::Momentum { .. } => [parameters, 0],
            Self::Adam { .. } => [parameters, parameters],
        }
    }

    fn check(&self) -> Result<()> {
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

/// A rule with its memory, which is all that is needed to continue a run exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Server {
    rule: ServerRule,
    direction: Vec<f32>,
    squares: Vec<f32>,
}

impl Server {
    /// A server for models of so many parameters.
    pub fn new(rule: ServerRule, parameters: usize) -> Result<Self> {
        rule.check()?;
        let [direction, squares] = rule.memory(parameters).map(|len| vec![0.0; len]);
        Ok(Self { rule, direction, squares })
    }

    /// A server that goes on with the memory of an earlier one: its direction and its squares, where the rule has them.
    pub fn with_memory(rule: ServerRule, direction: Vec<f32>, squares: Vec<f32>) -> Self {
        Self { rule, direction, squares }
    }

    /// The rule.
    pub fn rule(&self) -> ServerRule {
        self.rule
    }

    /// The memory: direction and squares, empty where the rule has none.
    pub fn memory(&self) -> [&[f32]; 2] {
        [&self.direction, &self.squares]
    }

    /// Checks that the rule can be used and that the memory is that of a model of so many parameters: it may come from a
    /// file.
    pub fn check(&self, parameters: usize) -> Result<()> {
        self.rule.check()?;
        let found = self.memory().map(<[f32]>::len);
        let needed = self.rule.memory(parameters);
        if found == needed {
            return Ok(());
        }
        let value = format!("memories of {found:?} numbers");
        Err(Error::new("server", value, format!("{needed:?} for this model")))
    }

    /// Moves a model towards the average of its cohort. If a step would not be finite, nothing is changed.
    pub(crate) fn apply(&mut self, average: &[f32], global: &mut [f32]) -> Result<()> {
        match self.rule {
            ServerRule::Average => global.copy_from_slice(average),
            ServerRule::Momentum { learning_rate, beta } => {
                let step = |average: f32, global: f32, direction: f32| {
                    let direction = beta * direction + (average - global);
                    (global + learning_rate * direction, direction)
                };
                let old = average.iter().zip(&*global).zip(&self.direction);
                check_steps(old.map(|((&average, &global), &direction)| {
                    let (global, direction) = step(average, global, direction);
                    global + direction
                }))?;
                let pairs = average.iter().zip(global);
                for ((&average, global), direction) in pairs.zip(&mut self.direction) {
                    (*global, *direction) = step(average, *global, *direction);
                }
            }
            ServerRule::Adam { learning_rate, beta1, beta2, tau } => {
                let step = |average: f32, global: f32, direction: f32, square: f32| {
                    let delta = average - global;
                    let direction = beta1 * direction + (1.0 - beta1) * delta;
                    let square = beta2 * square + (1.0 - beta2) * delta * delta;
                    (global + learning_rate * direction / (square.sqrt() + tau), direction, square)
                };
                let memories = self.direction.iter().zip(&self.squares);
                let old = average.iter().zip(&*global).zip(memories);
                check_steps(old.map(|((&average, &global), (&direction, &square))| {
                    let (global, direction, square) = step(average, global, direction, square);
                    global + direction + square
                }))?;
                let memories = self.direction.iter_mut().zip(&mut self.squares);
                for ((&average, global), (direction, square)) in
                    average.iter().zip(global).zip(memories)
                {
                    (*global, *direction, *square) = step(average, *global, *direction, *square);
                }
            }
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
