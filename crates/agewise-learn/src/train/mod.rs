//! Local training and evaluation.
//!
//! A [`Learner`] is an engine that can train clients; a [`Worker`] is one thread's part of it, with buffers that serve
//! one client after the other. [`Trainer`] is ours, over the models of this crate; another engine implements the same
//! two traits.

mod batch;
mod crew;
mod native;
mod plan;

pub use batch::Samples;
pub use crew::Crew;
pub use native::{NativeWorker, Trainer};
pub use plan::{LocalTraining, LocalTrainingParams, LocalWork};

use crate::loss::Evaluation;
use agewise_core::{Result, Seed};
use std::ops::Range;

/// An engine that trains clients. Parameters are one slice of floats, whatever they mean.
pub trait Learner: Send + Sync {
    /// The number of parameters.
    fn parameters(&self) -> usize;

    /// The first model of a run.
    fn initial(&self, seed: Seed) -> Vec<f32>;

    /// What one thread needs to train and evaluate.
    fn worker(&self) -> Box<dyn Worker>;

    /// The parameters that make scores from the last features; all of them, for an engine that does not say.
    fn output_layer(&self) -> Range<usize> {
        0..self.parameters()
    }
}

/// One thread's part of a learner. The same task gives the same bytes, whatever was done before.
pub trait Worker: Send {
    /// Trains a client, beginning with these parameters and leaving them changed.
    fn train(&mut self, task: &LocalTask<'_>, parameters: &mut [f32]) -> Result<LocalReport>;

    /// How well the parameters do on samples.
    fn evaluate(&mut self, parameters: &[f32], samples: &Samples<'_>) -> Result<Evaluation>;
}

/// What a client is asked to do in a round.
#[derive(Debug, Clone, Copy)]
pub struct LocalTask<'a> {
    /// How to train.
    pub training: &'a LocalTraining,
    /// Its data.
    pub samples: Samples<'a>,
    /// The seed of the run: with round and client it decides the order of the samples.
    pub seed: Seed,
    /// The round, from 0.
    pub round: u64,
    /// The client.
    pub client: u32,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LocalReport {
    /// Batches that were trained.
    pub steps: u64,
    /// Samples in them.
    pub samples: u64,
    /// The mean loss of the batches, each before its step.
    pub loss: f64,
    /// The mean square of the losses of all samples, each before its step.
    pub mean_square: f64,
}
