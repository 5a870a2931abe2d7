//! What is trained: the only interface between federated learning and a learning problem.
//!
//! A [`Task`] says who the clients are (how many samples each has), what the first model is, how a client trains, and how
//! good a model is. Parameters are one slice of floats, whatever they mean. The simulator, the deployment's coordinator
//! and its clients all train a task; [`NativeTask`] is ours, over images and tables, and a problem of your own implements this trait.
//!
//! In the simulator one task has the data of all clients, and `job.client` says whose are meant. In a deployment each
//! client's process holds a task whose data are its own; `job.client`, its number in the run, then only seeds randomness.
//!
//! Everything is a function of its arguments: the same job gives the same bytes, on any thread and after any other job.

use crate::evaluation::{Evaluation, Metric};
use crate::local::LocalReport;
use crate::model::Tensor;
use crate::native_task::NativeTask;
use crate::threads::Threads;
use agewise_core::{Error, Result, Seed};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// From what the partition of the data among clients follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    /// What all draws depend on.
    pub seed: Seed,
    /// The number of clients that share the data.
    pub clients: u32,
}

/// How much a client trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Amount {
    /// As much as in a round.
    Round,
    /// One step, which is enough to tell clients apart.
    OneStep,
}

/// What a client is to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrainJob {
    /// Of which partition; its seed, the round and the client decide all randomness of training.
    pub key: PartitionKey,
    /// The round, from 0.
    pub round: u64,
    /// The client.
    pub client: u32,
    /// How much it trains.
    pub amount: Amount,
}

impl TrainJob {
    /// A whole round.
    pub fn round(key: PartitionKey, round: u64, client: u32) -> Self {
        Self { key, round, client, amount: Amount::Round }
    }
}

/// What a task is called and tested on, for summaries, pages and files.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskDescription {
    /// The name of the data.
    pub data: String,
    /// The name of the model.
    pub model: String,
    /// How many test samples there are.
    pub test_samples: u64,
    /// Test samples of each class; empty where there are no classes.
    pub test_classes: Vec<u64>,
    /// What is subtracted from the pixels of each channel, which are from 0 to 1, or from each feature; empty where
    /// nothing is.
    pub pixel_mean: Vec<f64>,
    /// By what they are divided then.
    pub pixel_deviation: Vec<f64>,
    /// What is subtracted from numbers that are predicted, and by what they are divided then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_scale: Option<(f64, f64)>,
}

/// A learning problem whose data belong to clients.
pub trait Task: Send + Sync {
    /// The number of parameters of a model.
    fn parameters(&self) -> usize;

    /// The first model of a run.
    fn initial(&self, seed: Seed) -> Result<Vec<f32>>;

    /// How many samples each client has; also says whether the data can be divided so.
    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>>;

    /// Trains a client, beginning with these parameters and leaving them changed. Called from many threads at once.
    fn train(&self, job: &TrainJob, parameters: &mut [f32]) -> Result<LocalReport>;

    /// How well the parameters do on a piece of the test samples. Called from many threads at once.
    fn evaluate(&self, parameters: &[f32], piece: usize) -> Result<Evaluation>;

    /// In how many pieces the test samples are evaluated. Pieces are merged in order, so that sums do not depend on threads.
    fn evaluation_pieces(&self) -> usize {
        1
    }

    /// How well the parameters do on all test samples.
    fn evaluate_all(&self, parameters: &[f32], threads: Threads) -> Result<Evaluation> {
        let pieces =
            threads.map(self.evaluation_pieces(), |piece| self.evaluate(parameters, piece))?;
        let mut all = Evaluation::default();
        for piece in &pieces {
            all.merge(piece);
        }
        Ok(all)
    }

    /// The mean loss of all samples of a client, for policies and measures that look at it.
    fn client_loss(&self, _key: PartitionKey, client: u32, _parameters: &[f32]) -> Result<f64> {
        let expected = "a task that can tell the loss of a client (Task::client_loss)";
        Err(Error::new("loss", format!("unknown for client {client}"), expected))
    }

    /// How many samples of each class each client has, for the accuracy of single clients; nothing without classes.
    fn client_labels(&self, _key: PartitionKey) -> Result<Option<Vec<Vec<u32>>>> {
        Ok(None)
    }

    /// How many samples each client trains in a round, counted as often as they are trained: how long it takes.
    fn samples_per_round(&self, key: PartitionKey) -> Result<Vec<u64>> {
        self.sizes(key)
    }

    /// The parameters whose changes are sketched, for policies that compare updates: best those of the output layer.
    fn sketch_range(&self) -> Range<usize> {
        0..self.parameters()
    }

    /// The number by which models are compared.
    fn metric(&self) -> Metric {
        Metric::Accuracy
    }

    /// The parameters by name, in the order of the slice, for model files.
    fn tensors(&self) -> Vec<Tensor> {
        vec![Tensor::new("parameters", vec![self.parameters()], 0)]
    }

    /// What it is called and tested on.
    fn describe(&self) -> TaskDescription {
        TaskDescription::default()
    }

    /// Whether the same job has given the same bytes so far, as far as the task has looked; a report says if it has not.
    fn is_deterministic(&self) -> bool {
        true
    }

    /// Whether the task still works. The simulator asks after the training of every round: an error ends the run and
    /// leaves no trace of the round, while an error of [`Task::train`] only costs the client its place in it.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Our own engine, if it is that: the constants of Theorem 1 need the convex model itself.
    fn as_native(&self) -> Option<&NativeTask> {
        None
    }
}
