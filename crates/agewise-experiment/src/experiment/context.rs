//! What all variants share under one seed of a training experiment.

use super::Experiment;
use crate::clock::ClientTimes;
use crate::log::RoundLog;
use crate::objective::Optima;
use crate::world::RankedBy;
use agewise_core::{Result, Seed, Setting, Sizes};
use agewise_train::task::PartitionKey;
use parking_lot::Mutex;
use std::sync::Arc;

/// What all variants share under one seed of a training experiment.
pub struct SeedContext {
    /// The seed.
    pub seed: Seed,
    /// The division of the data.
    pub key: PartitionKey,
    /// The selection problem at the beginning, with the sizes of the task's clients.
    pub setting: Setting,
    /// The samples of everyone who will ever join.
    pub samples: Vec<u64>,
    /// How many samples of each class each of them has, for tasks that know.
    pub labels: Option<Vec<Vec<u32>>>,
    /// The first model.
    pub first_model: Vec<f32>,
    /// How long each client trains in a round, in simulated seconds.
    pub durations: Vec<f32>,
    /// How long each client takes for each part of a round, where there is a clock.
    pub times: Option<ClientTimes>,
    /// The probability of each client to be online, where that follows its data or its speed.
    pub(crate) chances: Option<Vec<f64>>,
    /// What is known about the objectives, once it was looked for.
    pub(crate) optima: Mutex<Option<Arc<Optima>>>,
}

impl SeedContext {
    pub(super) fn new(experiment: &Experiment, seed: u32) -> Result<Self> {
        let task = experiment.required_task()?;
        let key = experiment.partition_key(seed);
        let samples = task.sizes(key)?;
        let params = experiment.params();
        let first = samples.iter().take(params.clients as usize).map(|&samples| samples as f64);
        let sizes = Sizes::new(first.collect())?;
        let trained = task.samples_per_round(key)?;
        let rates = (experiment.speeds(), None);
        let columns = params.clock.as_ref().map(|clock| clock.columns.clone()).unwrap_or_default();
        let training = ClientTimes::draw(rates, &columns, key.seed, &trained, 0)?;
        let chances = experiment.world().availability.ranked().map(|ranked| {
            let value = |client: u32| match ranked.by {
                RankedBy::Data => samples[client as usize] as f64,
                RankedBy::Speed => training.speed(client),
            };
            ranked.chances(&(0..key.clients).map(value).collect::<Vec<_>>())
        });
        let durations = (0..key.clients).map(|client| training.training(client) as f32);
        Ok(Self {
            seed: key.seed,
            key,
            setting: Experiment::setting_of(params, params.clients, sizes)?,
            labels: task.client_labels(key)?,
            first_model: task.initial(key.seed)?,
            durations: durations.collect(),
            times: experiment.client_times(key.seed, &trained)?,
            samples,
            chances,
            optima: Mutex::default(),
        })
    }

    /// How long a round took in simulated time: as long as the slowest client that reported.
    pub fn seconds(&self, log: &RoundLog) -> f64 {
        let durations =
            log.clients.iter().filter_map(|&client| self.durations.get(client as usize));
        durations.fold(0.0, |slowest, &duration| f64::from(duration).max(slowest))
    }
}
