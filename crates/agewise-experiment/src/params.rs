//! What an experiment is asked to do: parameters from outside, complete, so that it can be run again.
//!
//! In a TOML file the clients, the policies and the rounds stand at the top; `[world]` says what happens to clients,
//! `[training]` what they train (without it only their selection is simulated), `[[model.layer]]` the layers of a model
//! that has no name, `[aggregation]` how updates become a model, `[clock]` under which real conditions.

mod check;
mod clock;
mod data;
mod file;

pub use clock::ClockParams;
pub use data::{load_data, prepare_data, split_partition};
pub use file::{Difference, read_params};

use agewise_core::{EmptyCohort, MaxAge, Start, Weighting};
use agewise_train::aggregation::AggregationParams;
use agewise_train::data::{FeatureScale, Loss, PixelScale};
use agewise_train::local::LocalTrainingParams;
use agewise_train::model::LayerParams;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An experiment as it is written in a command line or a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExperimentParams {
    /// n: clients at the beginning.
    pub clients: u64,
    /// m: clients per round.
    pub cohort: u64,
    /// m': the age at which laws saturate; `auto` is as large as n/m asks.
    pub max_age: MaxAge,
    /// Rounds to play, at most.
    pub rounds: u64,
    /// Rounds at the beginning that are played and not counted in the figures of load.
    pub warmup: u64,
    /// What is compared: `POLICY[@START][+AGGREGATION][/SCHEDULE]`.
    pub policies: Vec<String>,
    /// The variant with which the others are compared; `random` if it is one of them, else the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// One weighting for all; each policy's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighting: Option<Weighting>,
    /// First ages, where a variant does not say its own.
    pub start: Start,
    /// The rule for a round in which no client takes part.
    pub empty_cohort: EmptyCohort,
    /// Whether age laws learn the target interval from the number of reports. If absent they do where clients may be
    /// away, fail, join or leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibrate: Option<bool>,
    /// Whether clients that fail again and again are asked less often; they are unless this says `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<bool>,
    /// How data sizes are spread over clients; also over those that join, and where `size_list` is given.
    pub sizes: String,
    /// Sizes that were read from a file, for experiments without training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_list: Option<Vec<f64>>,
    /// The first seed.
    pub seed: u64,
    /// How many seeds, from the first on.
    pub seeds: u32,
    /// What happens to clients.
    pub world: WorldParams,
    /// What they train; nothing where only selection is simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training: Option<TrainingParams>,
    /// Simulated time: links, schedules and units; nothing where rounds are counted alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockParams>,
    /// The layers of the model, instead of the name that `training` has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelParams>,
    /// How updates become a model, where a variant does not say its own rule.
    pub aggregation: AggregationParams,
}

/// A model layer by layer: the tables `[[model.layer]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelParams {
    /// The layers; the outputs of the last are the scores of the classes, or the number that is predicted.
    pub layer: Vec<LayerParams>,
}

/// What happens to clients: the table `[world]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorldParams {
    /// When clients can be reached.
    pub availability: String,
    /// The probability that a selected client never reports.
    pub dropout: f64,
    /// The share of clients that never report, however often they are selected; none if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<f64>,
    /// Clients that join per round, as a share of the first population.
    pub join: f64,
    /// The probability that a client leaves for good in a round.
    pub leave: f64,
}

/// What clients train, and how that is measured: the table `[training]`.
///
/// With a task of one's own ([`crate::ExperimentBuilder::task`]) the data, the model and local training are its own,
/// and the fields about them are not read.
// Each switch is one line of a configuration, whatever their number.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingParams {
    /// The name of a data set, a file, or a folder of pictures.
    pub data: String,
    /// Of a file: the column, the array or the file of the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Of a file: the column, the array or the file that says whose each sample is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// A file with the test samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// The share of each client's samples that is held out, where there are no test samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holdout: Option<f64>,
    /// Of a table: columns that are no features.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Of a file: how features become numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<FeatureScale>,
    /// Of a file: whether labels are classes or numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// How pixels become numbers.
    pub pixels: PixelScale,
    /// How labels are spread over clients, or `clients`: each has its own samples, as the data say.
    pub partition: String,
    /// How fast clients train: the simulated durations that policies are told follow from it.
    pub speeds: String,
    /// The model.
    pub model: String,
    /// How much a client trains in a round: `5 epochs` or `5 steps`.
    pub local_work: String,
    /// Samples of a batch.
    pub batch: u32,
    /// Learning rate in the first round.
    pub learning_rate: f64,
    /// The learning rate is multiplied by this from round to round.
    pub decay: f64,
    /// If not 0, the learning rate also falls as offset/(offset + t), as Theorem 1 asks.
    pub offset: f64,
    /// Momentum of local training.
    pub momentum: f64,
    /// L2 penalty.
    pub weight_decay: f64,
    /// FedProx: pull towards the global model.
    pub proximal: f64,
    /// Random crops and mirrored images while training.
    pub augment: bool,
    /// Rounds from one evaluation to the next.
    pub eval_every: u64,
    /// The first round after which there is an evaluation.
    pub eval_from: u64,
    /// Test accuracies in increasing order, or test losses in decreasing order where the task is measured by its loss;
    /// the rounds that a run needs to reach each are counted.
    pub targets: Vec<f64>,
    /// Whether a run ends when it has reached all targets.
    pub stop_at_target: bool,
    /// Whether the selection skew is estimated.
    pub skew: bool,
    /// Whether the convergence bound of Theorem 1 is drawn (for `softmax` with weight decay).
    pub bound: bool,
    /// The SHA-256 of each file of one's own, by what it is: `data`, `test`, `label` or `client`. A run writes them, and
    /// goes on only with the same contents.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub checksums: BTreeMap<String, String>,
}

impl Default for ExperimentParams {
    /// The paper's load-balancing experiment, with our policies beside its own; nothing is trained.
    fn default() -> Self {
        Self {
            clients: 100,
            cohort: 15,
            max_age: MaxAge::Auto,
            rounds: 1_000,
            warmup: 0,
            policies: usual_policies("phased"),
            baseline: None,
            weighting: None,
            start: Start::default(),
            empty_cohort: EmptyCohort::default(),
            calibrate: None,
            backoff: None,
            sizes: "equal".to_string(),
            size_list: None,
            seed: 0,
            seeds: 1,
            world: WorldParams::default(),
            training: None,
            clock: None,
            model: None,
            aggregation: AggregationParams::default(),
        }
    }
}

/// What both kinds of experiments compare, and one more.
fn usual_policies(last: &str) -> Vec<String> {
    let first = ["random", "probabilistic", "markov-optimal", "markov-linear", "oldest-first"];
    first.into_iter().chain([last]).map(str::to_string).collect()
}

impl ExperimentParams {
    /// The default comparison by training: two minutes on the embedded digits.
    pub fn comparison() -> Self {
        Self {
            rounds: 100,
            policies: usual_policies("age-herding"),
            seeds: 12,
            training: Some(TrainingParams::default()),
            ..Self::default()
        }
    }

    /// Whether clients that fail again and again are asked less often.
    pub fn backs_off(&self) -> bool {
        self.backoff.unwrap_or(true)
    }

    /// The same with further policies behind those that there are.
    #[must_use]
    pub fn with_more_policies(mut self, more: impl IntoIterator<Item = String>) -> Self {
        for policy in more {
            if !self.policies.contains(&policy) {
                self.policies.push(policy);
            }
        }
        self
    }
}

impl Default for WorldParams {
    /// Every client is always there and always reports.
    fn default() -> Self {
        let availability = "always".to_string();
        Self { availability, dropout: 0.0, failing: None, join: 0.0, leave: 0.0 }
    }
}

impl Default for TrainingParams {
    /// The embedded digits.
    fn default() -> Self {
        let local = LocalTrainingParams::default();
        Self {
            data: "digits".to_string(),
            label: None,
            client: None,
            test: None,
            holdout: None,
            ignore: Vec::new(),
            features: None,
            loss: None,
            pixels: PixelScale::Standardised,
            partition: "dirichlet:0.3".to_string(),
            speeds: "equal".to_string(),
            model: "2nn".to_string(),
            local_work: "5 steps".to_string(),
            batch: 20,
            learning_rate: 0.1,
            decay: local.decay,
            offset: local.offset,
            momentum: f64::from(local.momentum),
            weight_decay: f64::from(local.weight_decay),
            proximal: f64::from(local.proximal),
            augment: local.augment,
            eval_every: 1,
            eval_from: 1,
            targets: vec![0.85, 0.9],
            stop_at_target: false,
            skew: false,
            bound: false,
            checksums: BTreeMap::new(),
        }
    }
}
