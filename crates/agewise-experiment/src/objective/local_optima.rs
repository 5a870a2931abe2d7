//! The least objective of each client, by training it alone: for models that are not convex there is no better way.
//!
//! What training finds is an estimate from above. A run may later visit a model that is better for some client than
//! anything found here; then its gap is negative, and a larger budget is needed.

use super::penalty;
use agewise_core::{Error, Result};
use agewise_train::local::{LocalTrainingParams, LocalWork};
use agewise_train::task::{PartitionKey, TrainJob};
use agewise_train::{NativeTask, Task as _, Threads};
use serde::{Deserialize, Serialize};

/// The epochs are trained in so many stages; after each of them the objective is looked at.
const STAGES: u32 = 20;
/// The learning rate of the last stage, as a share of the first.
const LAST_RATE: f32 = 0.01;

/// How long a client is trained alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OptimumBudget {
    /// Passes over the client's data.
    pub epochs: u32,
    /// Samples of a batch.
    pub batch: u32,
    /// The first learning rate; it falls to a hundredth.
    pub learning_rate: f32,
    /// How much of the last step goes into the next.
    pub momentum: f32,
    /// The L2 penalty that belongs to the objective.
    pub weight_decay: f32,
}

impl Default for OptimumBudget {
    /// 200 epochs, batches of 50, learning rate 0.05, momentum 0.9, no penalty.
    fn default() -> Self {
        Self { epochs: 200, batch: 50, learning_rate: 0.05, momentum: 0.9, weight_decay: 0.0 }
    }
}

impl OptimumBudget {
    /// The training of one stage, at a share of its learning rate.
    fn stage(&self, stage: u32, share: f32) -> LocalTrainingParams {
        let stages = self.stages();
        let until = |stage: u32| u64::from(self.epochs) * u64::from(stage) / u64::from(stages);
        let fall = libm::powf(LAST_RATE, stage as f32 / (stages - 1).max(1) as f32);
        LocalTrainingParams {
            work: LocalWork::Epochs((until(stage + 1) - until(stage)) as u32),
            batch: self.batch,
            learning_rate: self.learning_rate * fall * share,
            decay: 1.0,
            momentum: self.momentum,
            weight_decay: self.weight_decay,
            ..LocalTrainingParams::default()
        }
    }

    fn stages(&self) -> u32 {
        self.epochs.clamp(1, STAGES)
    }
}

/// The least F_k that each client reaches when it is trained alone from `start`, which counts too.
pub fn local_optima(
    task: &NativeTask,
    key: PartitionKey,
    start: &[f32],
    budget: &OptimumBudget,
    threads: Threads,
) -> Result<Vec<f64>> {
    if budget.epochs == 0 {
        return Err(Error::new("epochs", 0, "at least 1"));
    }
    budget.stage(0, 1.0).check()?;
    threads.map_with(key.clients as usize, Buffers::default, |buffers, client| {
        Alone { task, key, start, budget, client: client as u32 }.least(buffers)
    })
}

/// A thread's parameters, from client to client.
#[derive(Default)]
struct Buffers {
    present: Vec<f32>,
    best: Vec<f32>,
}

/// A client that trains alone.
struct Alone<'a> {
    task: &'a NativeTask,
    key: PartitionKey,
    start: &'a [f32],
    budget: &'a OptimumBudget,
    client: u32,
}

impl Alone<'_> {
    fn loss(&self, parameters: &[f32]) -> Result<f64> {
        let entropy = self.task.client_loss(self.key, self.client, parameters)?;
        Ok(entropy + penalty(parameters, f64::from(self.budget.weight_decay)))
    }

    fn least(&self, buffers: &mut Buffers) -> Result<f64> {
        let Buffers { present, best } = buffers;
        best.clear();
        best.extend_from_slice(self.start);
        let mut least = self.loss(best)?;
        if !least.is_finite() {
            return Err(Error::new("start", least, "parameters with a finite objective"));
        }
        let mut share = 1.0;
        present.clone_from(best);
        for stage in 0..self.budget.stages() {
            let training = self.budget.stage(stage, share).check()?;
            let task = self.task.clone().with_training(training)?;
            task.train(&TrainJob::round(self.key, u64::from(stage), self.client), present)?;
            let reached = self.loss(present)?;
            if reached <= least {
                least = reached;
                best.clone_from(present);
            } else {
                // The rate was too high here: undo the stage.
                present.clone_from(best);
                share /= 2.0;
            }
        }
        Ok(least)
    }
}
