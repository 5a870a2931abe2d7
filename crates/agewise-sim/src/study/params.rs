//! What a comparison is asked to do: parameters from outside, complete, so that it can be run again.

use super::contender::Contender;
use agewise_core::{EmptyCohort, Error, Result, Start, Weighting};
use agewise_learn::aggregate::ServerRule;
use agewise_learn::data::PixelScale;
use agewise_learn::train::{LocalTraining, LocalTrainingParams};
use serde::{Deserialize, Serialize};

/// A comparison of policies by training, as it is written in a file or a command line.
// Each switch is one line of a configuration, whatever their number.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StudyParams {
    /// The data set.
    pub data: String,
    /// How pixels become numbers.
    pub pixels: PixelScale,
    /// How labels are spread over clients.
    pub partition: String,
    /// How data sizes are spread over clients.
    pub sizes: String,
    /// How fast clients train: the simulated durations that policies are told follow from it.
    pub speeds: String,
    /// n: the number of clients.
    pub clients: u64,
    /// m: clients per round.
    pub cohort: u64,
    /// m': the age at which laws saturate.
    pub max_age: u64,
    /// The policies; a name may end in `@cold` or `@stationary`.
    pub policies: Vec<String>,
    /// The policy with which the others are compared.
    pub baseline: String,
    /// One weighting for all; each policy's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighting: Option<Weighting>,
    /// First ages, where a policy does not say its own.
    pub start: Start,
    /// The rule for a round in which nobody takes part.
    pub empty_cohort: EmptyCohort,
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
    /// Rounds to train, at most.
    pub rounds: u64,
    /// Rounds from one evaluation to the next.
    pub eval_every: u64,
    /// The first round after which there is an evaluation.
    pub eval_from: u64,
    /// Test accuracies; the rounds that a run needs to reach each are counted.
    pub targets: Vec<f64>,
    /// Whether a run ends when it has reached all targets.
    pub stop_at_target: bool,
    /// The first seed.
    pub seed: u64,
    /// How many seeds, from the first on.
    pub seeds: u32,
    /// Whether the selection skew is estimated.
    pub skew: bool,
    /// Whether the convergence bound of Theorem 1 is drawn (for `softmax` with weight decay).
    pub bound: bool,
    /// How the server moves the global model.
    pub server: ServerRule,
}

impl Default for StudyParams {
    /// Two minutes on the embedded digits.
    fn default() -> Self {
        let policies = [
            "random",
            "probabilistic",
            "markov-optimal",
            "markov-linear",
            "oldest-first",
            "age-herding",
        ];
        Self {
            data: "digits".to_string(),
            pixels: PixelScale::Standardised,
            partition: "dirichlet:0.3".to_string(),
            sizes: "equal".to_string(),
            speeds: "equal".to_string(),
            clients: 100,
            cohort: 15,
            max_age: 10,
            policies: policies.map(str::to_string).to_vec(),
            baseline: "random".to_string(),
            weighting: None,
            start: Start::default(),
            empty_cohort: EmptyCohort::default(),
            model: "2nn".to_string(),
            local_work: "5 steps".to_string(),
            batch: 20,
            learning_rate: 0.1,
            decay: 0.998,
            offset: 0.0,
            momentum: 0.0,
            weight_decay: 0.0,
            proximal: 0.0,
            augment: false,
            rounds: 100,
            eval_every: 1,
            eval_from: 1,
            targets: vec![0.85, 0.9],
            stop_at_target: false,
            seed: 0,
            seeds: 12,
            skew: false,
            bound: false,
            server: ServerRule::default(),
        }
    }
}

/// The most rounds of a run.
const MOST_ROUNDS: u64 = 1_000_000;
/// The most seeds of a comparison.
const MOST_SEEDS: u32 = 10_000;

impl StudyParams {
    /// Checks what can be checked without the data, and gives the policies.
    pub(super) fn contenders(&self) -> Result<Vec<Contender>> {
        check_range("rounds", self.rounds, 1, MOST_ROUNDS)?;
        check_range("eval_every", self.eval_every, 1, self.rounds)?;
        check_range("eval_from", self.eval_from, 1, self.rounds)?;
        check_range("seeds", u64::from(self.seeds), 1, u64::from(MOST_SEEDS))?;
        // A TOML file holds whole numbers up to this.
        check_range("seed", self.seed, 0, i64::MAX as u64 - u64::from(MOST_SEEDS))?;
        for &target in &self.targets {
            if !(target > 0.0 && target <= 1.0) {
                return Err(Error::new("targets", target, "accuracies above 0, at most 1"));
            }
        }
        if self.targets.windows(2).any(|pair| pair[0] >= pair[1]) {
            let expected = "accuracies in increasing order, each once";
            return Err(Error::new("targets", format!("{:?}", self.targets), expected));
        }
        if self.stop_at_target && self.targets.is_empty() {
            return Err(Error::new("targets", "[]", "a target, as runs are to stop there"));
        }
        let contenders: Vec<Contender> = self
            .policies
            .iter()
            .map(|text| Contender::parse(text, self.start, self.weighting))
            .collect::<Result<_>>()?;
        for (index, contender) in contenders.iter().enumerate() {
            if contenders[..index].iter().any(|other| other.label == contender.label) {
                return Err(Error::new("policies", &contender.label, "each policy once"));
            }
        }
        if contenders.is_empty() {
            return Err(Error::new("policies", "[]", "at least one policy"));
        }
        Ok(contenders)
    }

    /// How clients train.
    pub fn training(&self) -> Result<LocalTraining> {
        LocalTrainingParams {
            work: self.local_work.parse()?,
            batch: self.batch,
            learning_rate: self.learning_rate as f32,
            decay: self.decay,
            offset: self.offset,
            momentum: self.momentum as f32,
            weight_decay: self.weight_decay as f32,
            proximal: self.proximal as f32,
            augment: self.augment,
        }
        .check()
    }
}

fn check_range(field: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Error::new(field, value, format!("a whole number from {low} to {high}")))
    }
}
