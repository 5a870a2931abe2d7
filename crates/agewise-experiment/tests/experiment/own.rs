//! A policy, a task and a rule of aggregation of one's own, beside the built-in ones.

use crate::training::worlds::{Dir, experiment, logs, made_up, play_in_memory, run, small};
use agewise_core::{
    Availability, Draws, Error, Pick, Policy, PolicyVariant, Result, Round, Seed, Selector,
    Setting, SettingParams, Start, Stream, Weighting,
};
use agewise_experiment::{Experiment, ExperimentParams, Measure, Summary, Variant};
use agewise_train::aggregation::{Aggregation, Aggregator, Contribution, UpdateSource, Verdict};
use agewise_train::local::LocalReport;
use agewise_train::task::{PartitionKey, TrainJob};
use agewise_train::{Evaluation, Metric, Task};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Always the clients with these numbers.
#[derive(Debug)]
struct Always(Vec<u32>);

impl Policy for Always {
    fn select(&mut self, _: &Round<'_>) -> Vec<Pick> {
        self.0.iter().copied().map(Pick::once).collect()
    }

    fn inclusion(&self, _: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        vec![1.0; clients.len()]
    }

    fn initial_ages(&self, setting: &Setting, _: Seed) -> Vec<u64> {
        vec![0; setting.clients() as usize]
    }
}

fn always(clients: &'static [u32]) -> PolicyVariant {
    PolicyVariant::new("always", move |_| Ok(Box::new(Always(clients.to_vec()))))
}

fn random() -> PolicyVariant {
    PolicyVariant::parse("random", Start::Stationary, None).unwrap()
}

#[test]
fn a_policy_of_ones_own_is_compared_like_any_other() {
    let trains = Experiment::builder().params(small(&["random"])).data(made_up());
    let selects = ExperimentParams { training: None, ..small(&["random"]) };
    let selects = Experiment::builder().params(selects);
    for builder in [trains, selects] {
        let experiment = builder.policy(random()).policy(always(&[1, 4, 7, 11])).build().unwrap();
        let records = play_in_memory(&experiment, 2);
        let load = records[1].load.as_ref().unwrap();
        assert_eq!((load.never_reached, load.mean_interval), (8, Some(1.0)));
        let summary = Summary::new(&experiment, &records).unwrap();
        assert_eq!(summary.policies[1].policy, "always");
    }
}

/// Rules of one policy stand side by side, and what the builder was told is what the configuration says.
#[test]
fn rules_of_one_policy_are_told_apart() {
    let builder = || Experiment::builder().params(small(&["random"])).data(made_up());
    let median = || "median".parse::<Aggregation>().unwrap();
    let variant = |rule: &str| Variant::new(random(), rule.parse().unwrap());
    let names = |experiment: &Experiment| experiment.params().policies.clone();
    let compared = builder().variant(variant("mean")).variant(variant("median")).build().unwrap();
    assert_eq!(names(&compared), ["random", "random+median"]);
    let usual = builder().aggregation(median());
    let usual = usual.variant(variant("mean")).variant(variant("median")).build().unwrap();
    assert_eq!(names(&usual), ["random+mean", "random"]);
    assert_eq!(usual.params().aggregation, *median().params().unwrap());
}

/// What was played by another rule, from other first ages or with other weights is not gone on with.
#[test]
fn logs_of_another_variant_are_refused() {
    let of = |variant: Variant| {
        let builder = Experiment::builder().params(small(&["random"])).data(made_up());
        builder.variant(variant.named("random")).build().unwrap()
    };
    let mean = Aggregation::default;
    let first = of(Variant::new(random(), mean()));
    let dir = Dir::new(&first);
    dir.play(&first, 2);
    let others = [
        Variant::new(random(), "median".parse().unwrap()),
        Variant::new(random().with_start(Start::Cold), mean()),
        Variant::new(random().with_weighting(Weighting::Unbiased), mean()),
    ];
    for other in others {
        let error = agewise_experiment::read(&of(other), &dir.dir).err().unwrap().to_string();
        assert!(error.contains("another configuration"), "{error}");
    }
}

#[test]
fn a_policy_that_answers_nonsense_is_an_error_that_names_it() {
    for clients in [&[1, 4, 4, 11][..], &[4, 1], &[12], &[0, 1, u32::MAX]] {
        let clients: &'static [u32] = clients;
        let params = ExperimentParams { baseline: None, ..small(&["random"]) };
        let builder = Experiment::builder().params(params).data(made_up());
        let experiment = builder.policy(always(clients)).build().unwrap();
        let stop = AtomicBool::new(false);
        let played =
            agewise_experiment::play(&experiment, None, 1, &agewise_experiment::NoCallbacks, &stop);
        let error = played.err().unwrap().to_string();
        assert!(error.contains("always"), "{error}");
    }
}

/// Linear regression on made-up numbers: y = 2 x_0 - x_1 + noise, the noise being each client's own.
struct Regression;

const FEATURES: usize = 2;

impl Regression {
    fn samples(key: PartitionKey, client: u32) -> impl Iterator<Item = ([f64; FEATURES], f64)> {
        let draws = Draws::new(key.seed, Stream::custom(4_000), u64::from(client));
        (0..20u64).map(move |sample| {
            let number = |place| 2.0 * draws.of(3 * sample + place).unit() - 1.0;
            let features = [number(0), number(1)];
            (features, 2.0 * features[0] - features[1] + 0.1 * number(2))
        })
    }

    fn error(parameters: &[f32], features: [f64; FEATURES], value: f64) -> f64 {
        let weights = parameters.iter().map(|&weight| f64::from(weight));
        weights.zip(features).map(|(weight, feature)| weight * feature).sum::<f64>() - value
    }
}

impl Task for Regression {
    fn parameters(&self) -> usize {
        FEATURES
    }

    fn initial(&self, _: Seed) -> Result<Vec<f32>> {
        Ok(vec![0.0; FEATURES])
    }

    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>> {
        Ok(vec![20; key.clients as usize])
    }

    fn train(&self, job: &TrainJob, parameters: &mut [f32]) -> Result<LocalReport> {
        let mut squares = 0.0;
        for (features, value) in Self::samples(job.key, job.client) {
            let error = Self::error(parameters, features, value);
            squares += error * error;
            for (weight, feature) in parameters.iter_mut().zip(features) {
                *weight -= (0.02 * error * feature) as f32;
            }
        }
        let loss = squares / 20.0;
        Ok(LocalReport { steps: 20, samples: 20, loss, mean_square: loss * loss })
    }

    fn evaluate(&self, parameters: &[f32], _: usize) -> Result<Evaluation> {
        let everyone = PartitionKey { seed: Seed(999), clients: 1 };
        let errors = Self::samples(everyone, 0).map(|(x, y)| Self::error(parameters, x, y));
        Ok(Evaluation::regression(20, errors.map(|error| error * error).sum()))
    }

    fn metric(&self) -> Metric {
        Metric::Loss
    }
}

fn regression() -> agewise_experiment::ExperimentBuilder {
    let builder = Experiment::builder().task(Regression).clients(30).cohort(5).rounds(25).seeds(3);
    builder.policy(random()).policy(always(&[0, 1, 2, 3, 4])).targets([0.5, 0.1])
}

#[test]
fn a_task_of_ones_own_is_measured_by_its_loss() {
    let experiment = regression().build().unwrap();
    let records = play_in_memory(&experiment, 2);
    for record in &records {
        let training = record.training.as_ref().unwrap();
        let first = training.curve[0];
        assert_eq!((Some(first.score), first.accuracy), (first.loss, None));
        assert!(training.final_score().unwrap() < 0.05, "{:?}", training.curve);
        let reached = training.curve.iter().find(|point| point.score <= 0.1);
        assert_eq!(training.rounds_to(0.1), reached.map(|point| point.round));
        assert!(training.rounds_to(0.5) < training.rounds_to(0.1));
        assert_eq!(training.worst_tenth(), None);
    }
    let summary = Summary::new(&experiment, &records).unwrap();
    assert_eq!(summary.main_measure(), Some(Measure::MeanLoss));
    let means = &summary.policies[0].means;
    assert!(means.contains_key("final_loss") && means.contains_key("mean_loss"));
    assert!(!means.contains_key("final_accuracy") && !means.contains_key("area"));
    // Runs end where the loss has fallen below the last target.
    let stops = regression().change(|p| p.training.as_mut().unwrap().stop_at_target = true);
    for record in play_in_memory(&stops.build().unwrap(), 2) {
        let training = record.training.as_ref().unwrap();
        assert_eq!(training.rounds_to(0.1), Some(record.rounds.len() as u64));
    }
}

#[test]
fn a_task_of_ones_own_goes_on_from_its_files() {
    let experiment = regression().build().unwrap();
    let (dir, at_once) = (Dir::new(&experiment), Dir::new(&experiment));
    at_once.play(&experiment, 2);
    dir.play_until(&experiment, 2, 31);
    dir.play(&experiment, 1);
    assert_eq!(dir.files(), at_once.files());
}

#[test]
fn what_a_task_cannot_say_is_named() {
    let field = |builder: agewise_experiment::ExperimentBuilder| {
        builder.build().err().map(|error| error.field().to_string())
    };
    assert_eq!(field(regression().targets([0.1, 0.5])).as_deref(), Some("targets"));
    assert_eq!(field(regression().targets([0.1, -0.5])).as_deref(), Some("targets"));
    let skew = |p: &mut ExperimentParams| p.training.as_mut().unwrap().skew = true;
    assert_eq!(field(regression().change(skew)).as_deref(), Some("task"));
    // A policy that wants losses of a task that does not know them.
    let probes = PolicyVariant::parse("power-of-choice", Start::Stationary, None);
    let experiment = regression().policy(probes.unwrap()).build().unwrap();
    let stop = AtomicBool::new(false);
    let played =
        agewise_experiment::play(&experiment, None, 1, &agewise_experiment::NoCallbacks, &stop);
    assert!(played.err().unwrap().to_string().contains("client_loss"));
}

/// A regression that breaks in a round, as long as it is to, and is known from another round on not to be deterministic.
struct Breaks {
    broken: Arc<AtomicBool>,
    rounds: AtomicU64,
}

impl Task for Breaks {
    fn parameters(&self) -> usize {
        FEATURES
    }

    fn initial(&self, seed: Seed) -> Result<Vec<f32>> {
        Regression.initial(seed)
    }

    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>> {
        Regression.sizes(key)
    }

    fn train(&self, job: &TrainJob, parameters: &mut [f32]) -> Result<LocalReport> {
        self.rounds.store(job.round, Ordering::Relaxed);
        Regression.train(job, parameters)
    }

    fn evaluate(&self, parameters: &[f32], piece: usize) -> Result<Evaluation> {
        Regression.evaluate(parameters, piece)
    }

    fn metric(&self) -> Metric {
        Metric::Loss
    }

    fn is_deterministic(&self) -> bool {
        self.rounds.load(Ordering::Relaxed) < 7
    }

    fn check(&self) -> Result<()> {
        let breaks =
            self.rounds.load(Ordering::Relaxed) == 5 && self.broken.load(Ordering::Relaxed);
        if breaks { Err(Error::new("task", "broken", "a task that works")) } else { Ok(()) }
    }
}

/// A task that breaks ends the run and leaves no trace of the round; that it is not deterministic is written down.
#[test]
fn a_task_that_breaks_loses_the_round_only() {
    let broken = Arc::new(AtomicBool::new(true));
    let task = || Breaks { broken: Arc::clone(&broken), rounds: AtomicU64::new(0) };
    let experiment = |task: Breaks| {
        let builder = Experiment::builder().task(task).clients(30).cohort(5).rounds(10).seeds(1);
        builder.policy(random()).targets([0.1]).build().unwrap()
    };
    let dir = Dir::new(&experiment(task()));
    let stop = AtomicBool::new(false);
    let callbacks = agewise_experiment::NoCallbacks;
    let played =
        agewise_experiment::play(&experiment(task()), Some(&dir.dir), 1, &callbacks, &stop);
    assert_eq!(played.err().unwrap().to_string(), "task = broken: expected a task that works");
    let read = agewise_experiment::read(&experiment(task()), &dir.dir).unwrap();
    assert_eq!(read.records[0].rounds.len(), 5);
    broken.store(false, Ordering::Relaxed);
    let records = dir.play(&experiment(task()), 1);
    let known: Vec<bool> = logs(&records[0]).iter().map(|log| log.not_deterministic).collect();
    assert_eq!(known, (0..10).map(|round| round >= 7).collect::<Vec<_>>());
    // Without the interruption.
    let whole = Dir::new(&experiment(task()));
    whole.play(&experiment(task()), 1);
    assert_eq!(dir.files(), whole.files());
}

/// Selects clients that it says it never selects, for which there is no unbiased weight.
#[derive(Debug)]
struct Impossible;

impl Policy for Impossible {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        round.available().take(2).map(Pick::once).collect()
    }

    fn inclusion(&self, _: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        vec![0.0; clients.len()]
    }

    fn initial_ages(&self, setting: &Setting, _: Seed) -> Vec<u64> {
        vec![0; setting.clients() as usize]
    }
}

#[test]
fn weights_that_are_no_numbers_are_refused() {
    let policy = PolicyVariant::new("impossible", |_| Ok(Box::new(Impossible)));
    let policy = policy.with_weighting(Weighting::Unbiased);
    let setting = SettingParams::new(6, 2, 4).check().unwrap();
    let mut selector = Selector::from_variant(&policy, setting, Seed(1)).unwrap();
    let error = selector.select(Availability::Everyone).unwrap_err();
    assert_eq!((error.field(), error.value()), ("weights of impossible", "inf"));
}

/// The update of the client with the lowest number alone.
#[derive(Debug)]
struct First;

impl Aggregator for First {
    fn aggregate(
        &mut self,
        cohort: &[Contribution],
        updates: &mut dyn UpdateSource,
        _: usize,
        global: &mut [f32],
    ) -> Result<Vec<Verdict>> {
        updates.read(0, 0, global)?;
        Ok(vec![Ok(()); cohort.len()])
    }
}

#[test]
fn a_rule_of_aggregation_of_ones_own_is_compared_like_any_other() {
    let first = || Aggregation::new("first", |_| Ok(Box::new(First)));
    let mean: Aggregation = "mean".parse().unwrap();
    let builder = Experiment::builder().params(small(&["random"])).data(made_up());
    let builder = builder.variant(Variant::new(random(), mean));
    let builder = builder.variant(Variant::new(random(), first()).named("random+first"));
    let experiment = builder.build().unwrap();
    let records = play_in_memory(&experiment, 2);
    let (mean, first) = (&logs(&records[0]), &logs(&records[1]));
    assert_eq!(mean[3].clients, first[3].clients, "the same cohorts");
    assert_ne!(mean[3].losses, first[3].losses, "other models");
    let summary = Summary::new(&experiment, &records).unwrap();
    assert_eq!(summary.policies[1].aggregation.as_deref(), Some("first"));
}

#[test]
fn variants_vary_policy_start_and_aggregation() {
    let texts = [
        "random",
        "random+median",
        "markov-optimal@cold+trimmed-mean(trim=0.25)",
        "markov-optimal@cold+median(clip_norm=0.5)+momentum(beta=0.5)",
    ];
    let experiment = experiment(small(&texts));
    let names: Vec<&str> = experiment.variants().iter().map(Variant::name).collect();
    assert_eq!(names[..3], texts[..3]);
    assert!(names[3].starts_with("markov-optimal@cold+median(clip_norm=0.5)+momentum("));
    let records = play_in_memory(&experiment, 2);
    for seed in 0..2 {
        let of = |variant: usize| logs(&records[4 * seed + variant]);
        assert_eq!(of(0)[0], of(1)[0].clone_with_test(&of(0)[0]), "one first cohort");
        assert_ne!(of(0)[6].losses, of(1)[6].losses);
        assert_eq!(of(2)[5].clients, of(3)[5].clients);
        assert_ne!(of(2)[5].losses, of(3)[5].losses);
    }
    let at = run(0, 3);
    assert_eq!(experiment.variant(at).unwrap().aggregation().name(), &names[3][20..]);
}

trait CloneWithTest {
    fn clone_with_test(&self, other: &Self) -> Self;
}

impl CloneWithTest for agewise_experiment::RoundLog {
    /// The same with the evaluation of another.
    fn clone_with_test(&self, other: &Self) -> Self {
        Self { test: other.test.clone(), ..self.clone() }
    }
}

#[test]
fn errors_have_the_names_of_the_fields() {
    let missing = Experiment::builder().params(small(&["random"])).build();
    assert_eq!(
        missing.err().map(|error: Error| error.field().to_string()).as_deref(),
        Some("data")
    );
}
