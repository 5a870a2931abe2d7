//! Local training and evaluation by our own engine.
//!
//! A [`Trainer`] has a model; its [`NativeWorker`]s have the buffers of one thread each, which serve one client after the
//! other.

mod batch;
mod native;
mod params;

pub use batch::{SampleSource, Samples};
pub use native::{NativeWorker, Trainer};
pub use params::{LocalTraining, LocalTrainingParams, LocalWork};

use agewise_core::Seed;

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
