//! Comparisons that have a name: the six experiments of the paper, each in both readings of its K, its Theorem 1, what a
//! client costs that never reports, the studies of `age-herding` and the field (`diversity`), and those of policies and
//! schedules under a clock (`real_conditions`).
//!
//! The paper's text says 5 local epochs, its notation 5 local SGD steps, and its numbers of rounds fit the second
//! reading better; so each experiment is here twice. Everything else is as it says: 100 clients, 15 per round, maximum
//! age 10, McMahan's CNN, batches of 50, learning rate 0.1 with decay 0.998, ages that begin at 0.

mod diversity;
mod real_conditions;

use crate::params::{ExperimentParams, TrainingParams, WorldParams};
use agewise_core::{Error, MaxAge, Result, Seed, Start};
use agewise_train::aggregation::{Aggregation, AggregationParams, Contribution};
use agewise_train::data::{Dataset, ImageShape, Images, PixelScale};
use agewise_train::local::{LocalTrainingParams, LocalWork};
use agewise_train::task::PartitionKey;
use agewise_train::{NativeTask, RoundEngine, RoundPlan, Task, Threads};
use std::time::Instant;

/// m' of the paper.
const PAPER_MAX_AGE: MaxAge = MaxAge::Fixed(10);

/// A comparison with a name.
#[derive(Debug, Clone)]
pub struct Preset {
    /// How it is called.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Rounds to the target in the paper, if it is from there: random, optimal Markov.
    pub paper_rounds: Option<(u64, u64)>,
    /// Rounds that random selection needs to the last target, or the length of a run that has none.
    pub usual_rounds: u64,
    /// The comparison.
    pub params: ExperimentParams,
}

/// How fast this machine trains and evaluates, with all its cores.
#[derive(Debug)]
pub struct Cost {
    cores: usize,
    /// Samples per second, trained and evaluated, of each model on pictures with so many channels.
    rates: Vec<(&'static str, u32, f64, f64)>,
}

impl Cost {
    /// Measures for a second or two.
    pub fn measure() -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let models = [
            ("cnn", (1, 28)),
            ("cnn-cifar", (3, 32)),
            ("softmax", (1, 28)),
            ("2nn", (1, 28)),
            ("2nn", (3, 32)),
        ];
        let rate = |(model, (channels, side))| {
            let shape = ImageShape { channels, height: side, width: side };
            let (training, evaluation) = rates(model, shape, cores)?;
            Ok((model, channels, training, evaluation))
        };
        let rates = models.into_iter().map(rate).collect::<Result<_>>()?;
        Ok(Self { cores, rates })
    }

    /// The cores that were used.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Seconds for a round of a preset with its evaluation.
    pub fn of_round(&self, preset: &Preset) -> f64 {
        let params = &preset.params;
        let Some(training) = &params.training else {
            return 0.0;
        };
        let channels = if training.data.starts_with("cifar") { 3 } else { 1 };
        let mut rates = self.rates.iter();
        let rate =
            rates.find(|(model, of, ..)| (*model, *of) == (training.model.as_str(), channels));
        let (Some(&(.., trained, evaluated)), Ok(local)) = (rate, training.local()) else {
            return f64::NAN;
        };
        let (train, test) = match training.data.as_str() {
            "digits" => (6_000, 1_000),
            "mnist" => (60_000, 10_000),
            _ => (50_000, 10_000),
        };
        let of_client = local.steps((train / params.clients) as usize) * u64::from(training.batch);
        // Skew and bound look at all images.
        let looked_at = test + if training.skew || training.bound { train } else { 0 };
        let looked_at = looked_at as f64 / training.eval_every as f64;
        (params.cohort * of_client) as f64 / trained + looked_at / evaluated
    }

    /// Seconds for all runs of a preset, if they need as many rounds as random selection.
    pub fn of_preset(&self, preset: &Preset) -> f64 {
        let runs = preset.params.policies.len() as f64 * f64::from(preset.params.seeds);
        self.of_round(preset) * preset.usual_rounds as f64 * runs
    }
}

/// Samples per second that a model trains and evaluates, on made-up images.
fn rates(model: &str, shape: ImageShape, cores: usize) -> Result<(f64, f64)> {
    const BATCHES: usize = 4;
    let count = cores * BATCHES * 50;
    let pixels: Vec<u8> = (0..count * shape.len()).map(|index| (index * 31 % 251) as u8).collect();
    let labels: Vec<u8> = (0..count).map(|index| (index % 10) as u8).collect();
    let images = Images::new(shape, 10, pixels, labels)?;
    let data = Dataset::new("made-up", images.clone(), images);
    let training = LocalTrainingParams { work: LocalWork::Epochs(1), ..Default::default() };
    let task = NativeTask::named(data, model, training.check()?)?;
    let average = Aggregation::from_params(AggregationParams::default())?;
    let mut engine = RoundEngine::new(task.initial(Seed(0))?, &average)?;
    let (threads, clients) = (Threads::new(cores)?, cores as u32);
    let key = PartitionKey { seed: Seed(0), clients };
    let members: Vec<Contribution> =
        (0..clients).map(|client| Contribution::new(client, 1.0 / f64::from(clients))).collect();
    let mut best = (0.0f64, 0.0f64);
    // The first one warms up; the best of the others, as others may be using this machine.
    for round in 0..4 {
        let begin = Instant::now();
        engine.round(&task, RoundPlan::new(key, round), &members, threads)?;
        best.0 = best.0.max(count as f64 / begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        task.evaluate_all(engine.global(), threads)?;
        best.1 = best.1.max(count as f64 / begin.elapsed().as_secs_f64());
    }
    Ok(best)
}

struct PaperExperiment {
    data: &'static str,
    iid: bool,
    target: f64,
    /// random, optimal Markov
    paper_rounds: (u64, u64),
    /// Rounds after which a run gives up: about four times the paper's slowest.
    rounds: u64,
}

const fn experiment(
    data: &'static str,
    iid: bool,
    target: f64,
    paper_rounds: (u64, u64),
    rounds: u64,
) -> PaperExperiment {
    PaperExperiment { data, iid, target, paper_rounds, rounds }
}

const EXPERIMENTS: [PaperExperiment; 6] = [
    experiment("mnist", true, 0.97, (45, 39), 200),
    experiment("mnist", false, 0.97, (99, 91), 400),
    experiment("cifar-10", true, 0.75, (108, 95), 500),
    experiment("cifar-10", false, 0.75, (261, 239), 1_000),
    experiment("cifar-100", true, 0.30, (154, 139), 800),
    experiment("cifar-100", false, 0.30, (93, 87), 500),
];

/// All presets.
pub fn presets() -> Vec<Preset> {
    let papers = EXPERIMENTS
        .iter()
        .flat_map(|experiment| [false, true].map(|steps| preset(experiment, steps)));
    papers
        .chain([theorem(), failing()])
        .chain(diversity::presets())
        .chain(real_conditions::presets())
        .collect()
}

/// One client that is there and never reports: what that costs policies that follow ages, which give a place back to
/// those who did not deliver. `--backoff off` is the same without the rule that limits it.
fn failing() -> Preset {
    let policies = ["random", "oldest-first", "age-herding", "markov-optimal", "markov-capped"];
    let params = ExperimentParams {
        cohort: 5,
        policies: policies.map(str::to_string).to_vec(),
        rounds: 400,
        seeds: 3,
        world: WorldParams { failing: Some(0.01), ..WorldParams::default() },
        training: Some(TrainingParams {
            model: "softmax".to_string(),
            eval_every: 20,
            targets: Vec::new(),
            ..TrainingParams::default()
        }),
        ..ExperimentParams::comparison()
    };
    Preset {
        name: "failing-clients".to_string(),
        about: "embedded digits, softmax, 5 of 100: a client in a hundred never reports"
            .to_string(),
        paper_rounds: None,
        usual_rounds: params.rounds,
        params,
    }
}

/// Theorem 1 in practice: a strongly convex problem, small enough to solve.
fn theorem() -> Preset {
    // The theorem's Sigma is known for those whose choice does not depend on training.
    let policies = ["random", "probabilistic", "markov-optimal", "markov-linear", "oldest-first"];
    let params = ExperimentParams {
        policies: policies.map(str::to_string).to_vec(),
        max_age: PAPER_MAX_AGE,
        rounds: 2_000,
        seeds: 3,
        training: Some(TrainingParams {
            // A learning rate of 1/(4K(K+1)L) moves nothing unless K and L are small.
            model: "softmax".to_string(),
            pixels: PixelScale::Unit,
            local_work: "2 steps".to_string(),
            weight_decay: 0.5,
            eval_every: 20,
            targets: Vec::new(),
            skew: true,
            bound: true,
            ..TrainingParams::default()
        }),
        ..ExperimentParams::comparison()
    };
    Preset {
        name: "theorem-1".to_string(),
        about: "embedded digits, softmax: the bound over the measured error, and the skew"
            .to_string(),
        paper_rounds: None,
        usual_rounds: params.rounds,
        params,
    }
}

/// The preset of a name.
pub fn named(name: &str) -> Result<Preset> {
    let all = presets();
    let found = all.iter().find(|preset| preset.name == name).cloned();
    found.ok_or_else(|| {
        Error::unknown("preset", name, all.iter().map(|preset| preset.name.as_str()))
    })
}

fn preset(experiment: &PaperExperiment, steps: bool) -> Preset {
    let PaperExperiment { data, iid, target, paper_rounds, rounds } = *experiment;
    let split = if iid { "iid" } else { "noniid" };
    let reading = if steps { "5 local steps" } else { "5 local epochs" };
    let policies = ["random", "probabilistic", "markov-optimal", "markov-linear"];
    let params = ExperimentParams {
        policies: policies.map(str::to_string).to_vec(),
        max_age: PAPER_MAX_AGE,
        start: Start::Cold,
        rounds,
        seeds: 5,
        training: Some(TrainingParams {
            data: data.to_string(),
            partition: if iid { "iid" } else { "dirichlet:0.3" }.to_string(),
            model: if data == "mnist" { "cnn" } else { "cnn-cifar" }.to_string(),
            local_work: if steps { "5 steps" } else { "5 epochs" }.to_string(),
            batch: 50,
            targets: vec![target],
            stop_at_target: true,
            ..TrainingParams::default()
        }),
        ..ExperimentParams::comparison()
    };
    Preset {
        name: format!(
            "paper-{}-{split}{}",
            data.replace('-', ""),
            if steps { "-steps" } else { "" }
        ),
        about: format!(
            "{data}, {}, {reading}, to {}%",
            if iid { "IID" } else { "Dirichlet(0.3)" },
            (100.0 * target).round()
        ),
        paper_rounds: Some(paper_rounds),
        usual_rounds: paper_rounds.0,
        params,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_six_experiments_are_there_in_both_readings() {
        let names: Vec<String> = presets().into_iter().map(|preset| preset.name).collect();
        for data in ["mnist", "cifar10", "cifar100"] {
            for split in ["iid", "noniid"] {
                for reading in ["", "-steps"] {
                    assert!(names.contains(&format!("paper-{data}-{split}{reading}")));
                }
            }
        }
        assert_eq!(names.len(), 14 + 4 + 2);
        let error = named("paper-mnist").unwrap_err().to_string();
        assert!(error.contains("did you mean paper-mnist-iid?"), "{error}");
    }

    #[test]
    fn the_settings_are_the_papers() {
        let params = named("paper-cifar10-noniid").unwrap().params;
        assert_eq!((params.clients, params.cohort, params.max_age), (100, 15, PAPER_MAX_AGE));
        assert_eq!(params.start, Start::Cold);
        let training = params.training.unwrap();
        assert_eq!((training.local_work.as_str(), training.batch), ("5 epochs", 50));
        assert_eq!((training.learning_rate, training.decay), (0.1, 0.998));
        let training = named("paper-mnist-iid-steps").unwrap().params.training.unwrap();
        assert_eq!(training.local_work, "5 steps");
    }
}
