//! Rounds of federated learning: the definition of the average, threads, bad clients, rules of one's own, and a run that
//! learns.

use agewise_core::{Draws, Error, Result, Seed, Stream};
use agewise_train::aggregation::{Aggregation, Aggregator, Contribution, UpdateSource, Verdict};
use agewise_train::data::{
    Dataset, ImageShape, Images, PartitionParams, PixelNormalization, PixelScale, embedded_digits,
    load,
};
use agewise_train::local::{
    LocalReport, LocalTask, LocalTraining, LocalTrainingParams, LocalWork, Samples,
};
use agewise_train::sketch::Sketcher;
use agewise_train::task::{Amount, PartitionKey, Task, TrainJob};
use agewise_train::{
    EarlierStart, Evaluation, NativeTask, RoundEngine, RoundPlan, StaleRule, Threads,
};
use rand_core::Rng;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

const KEY: PartitionKey = PartitionKey { seed: Seed(6), clients: 100 };
const ROUND: RoundPlan<'_> = RoundPlan { key: KEY, round: 0, sketcher: None, starts: None };

fn training(epochs: u32, batch: u32) -> LocalTraining {
    let work = LocalWork::Epochs(epochs);
    LocalTrainingParams { work, batch, decay: 1.0, ..LocalTrainingParams::default() }
        .check()
        .unwrap()
}

fn native(data: Dataset, model: &str, training: LocalTraining) -> NativeTask {
    NativeTask::named(data, model, training).unwrap().with_pixel_scale(PixelScale::Unit)
}

fn digits(model: &str, training: LocalTraining) -> NativeTask {
    native(embedded_digits().unwrap(), model, training)
}

fn engine(task: &dyn Task) -> RoundEngine {
    RoundEngine::new(task.initial(KEY.seed).unwrap(), &Aggregation::default()).unwrap()
}

fn threads(count: usize) -> Threads {
    Threads::new(count).unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Clients that all count the same.
fn cohort(clients: &[u32]) -> Vec<Contribution> {
    let weight = 1.0 / clients.len() as f64;
    clients.iter().map(|&client| Contribution::new(client, weight)).collect()
}

/// So many different clients of a round.
fn draw(count: usize, round: u64) -> Vec<Contribution> {
    let mut numbers = Draws::new(KEY.seed, Stream::custom(901), round).sequence(0);
    let mut all: Vec<u32> = (0..KEY.clients).collect();
    for last in (1..all.len()).rev() {
        all.swap(last, (numbers.next_u64() % (last as u64 + 1)) as usize);
    }
    cohort(&all[..count])
}

/// The weighted sum of what clients come back with.
fn average(task: &dyn Task, global: &[f32], cohort: &[Contribution]) -> Vec<f64> {
    let mut sum = vec![0.0; global.len()];
    for member in cohort {
        let mut update = global.to_vec();
        task.train(&TrainJob::round(KEY, 0, member.client), &mut update).unwrap();
        for (sum, &value) in sum.iter_mut().zip(&update) {
            *sum += member.weight * f64::from(value);
        }
    }
    sum
}

/// Sums of up to ten 32-bit products lose a few units in the last place, of numbers below 1.
fn assert_near(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (at, (&found, expected)) in found.iter().zip(expected).enumerate() {
        // Also false for what is not a number.
        let near = (f64::from(found) - expected).abs() < 1e-6;
        assert!(near, "parameter {at}: {found}, expected {expected}");
    }
}

#[test]
fn threads_change_nothing() {
    let task = digits("2nn", training(1, 20));
    let sketcher = Sketcher::for_task(&task, KEY.seed);
    let run = |count: usize| {
        let mut engine = engine(&task);
        let mut reports = Vec::new();
        for round in 0..2 {
            let plan = RoundPlan { round, sketcher: Some(&sketcher), ..ROUND };
            let report = engine.round(&task, plan, &draw(13, round), threads(count)).unwrap();
            assert!(report.accepted().iter().all(|report| report.sketch.is_some()));
            reports.push(report);
        }
        let evaluation = task.evaluate_all(engine.global(), threads(count)).unwrap();
        (bits(engine.global()), reports, evaluation)
    };
    let one = run(1);
    for count in [2, 3, 5] {
        assert!(run(count) == one, "{count} threads");
    }
}

/// An update that began with an earlier model, in an earlier round.
#[test]
fn an_earlier_start_counts_by_its_rule() {
    let task = digits("softmax", training(1, 20));
    let mut engine = engine(&task);
    let first = engine.global().to_vec();
    engine.round(&task, ROUND, &draw(5, 0), threads(1)).unwrap();
    let now = engine.global().to_vec();
    let mut update = first.clone();
    task.train(&TrainJob::round(KEY, 0, 7), &mut update).unwrap();
    for rule in [StaleRule::Step(0.25), StaleRule::Mix(0.25)] {
        let mut engine = RoundEngine::new(now.clone(), &Aggregation::default()).unwrap();
        let starts = [EarlierStart { round: 0, model: &first, rule }];
        let sketcher = Sketcher::for_task(&task, KEY.seed);
        let plan =
            RoundPlan { round: 3, starts: Some(&starts), sketcher: Some(&sketcher), ..ROUND };
        let report = engine.round(&task, plan, &cohort(&[7]), threads(2)).unwrap();
        // What a client changed is compared with what it was sent.
        assert_eq!(report.sketches[0], sketcher.sketch(&first, &update));
        let moved = |place: usize| {
            let from = if rule == StaleRule::Step(0.25) { first[place] } else { now[place] };
            f64::from(now[place]) + 0.25 * (f64::from(update[place]) - f64::from(from))
        };
        assert_near(engine.global(), &(0..now.len()).map(moved).collect::<Vec<_>>());
    }
}

/// What a native task does is what its trainer does with the samples of a client.
#[test]
fn a_native_task_is_its_trainer() {
    let task = digits("2nn", training(1, 20));
    let data = embedded_digits().unwrap();
    let params = PartitionParams { clients: 100, seed: KEY.seed, ..PartitionParams::default() };
    let partition = params.check(&data.train).unwrap().split();
    let pixels = PixelNormalization::new(PixelScale::Unit, &data.train);
    let indices = Some(partition.of(9));
    let samples = Samples::of_images(&data.train, indices, &pixels);
    let mut worker = task.trainer().worker();

    let first = task.trainer().model().initial(KEY.seed);
    assert_eq!(task.initial(KEY.seed).unwrap(), first);
    assert_eq!(task.sizes(KEY).unwrap(), vec![60; 100]);
    assert_eq!(task.samples_per_round(KEY).unwrap(), vec![60; 100]);
    assert_eq!(task.client_labels(KEY).unwrap().unwrap(), partition.histograms());
    assert_eq!(task.tensors(), task.trainer().model().tensors());
    let loss = worker.evaluate(&first, &samples).unwrap().loss();
    assert_eq!(task.client_loss(KEY, 9, &first).unwrap(), loss);
    assert_eq!(task.client_loss(KEY, 100, &first).unwrap_err().field(), "client");

    let params = *training(1, 20).params();
    let one_step = LocalTrainingParams { work: LocalWork::Steps(1), ..params }.check().unwrap();
    // A client at home has its images whatever it is called; its number still decides the order of batches.
    let at_home = task.clone().with_own_images(partition.of(9).to_vec());
    for (amount, training) in [(Amount::Round, *task.training()), (Amount::OneStep, one_step)] {
        let seed = KEY.seed;
        let local = LocalTask { training: &training, samples, seed, round: 3, client: 9 };
        let mut expected = first.clone();
        let expected_report = worker.train(&local, &mut expected).unwrap();
        for task in [&task, &at_home] {
            let mut found = first.clone();
            let job = TrainJob { key: KEY, round: 3, client: 9, amount };
            assert_eq!(task.train(&job, &mut found).unwrap(), expected_report);
            assert_eq!(bits(&found), bits(&expected));
        }
    }
    assert_eq!(at_home.sizes(KEY).unwrap()[7], 60);
}

#[test]
fn the_global_model_becomes_the_weighted_sum() {
    let task = digits("softmax", training(2, 25));
    let first = task.initial(KEY.seed).unwrap();
    // Weights that add up to 1, and some that do not: the rest stays with the old model.
    for weights in [[0.5, 0.3, 0.2], [0.5, 0.1, 0.1], [0.5, 0.5, 0.5]] {
        let members = [7, 90, 3].into_iter().zip(weights);
        let cohort: Vec<_> = members.map(|(client, w)| Contribution::new(client, w)).collect();
        let mut expected = average(&task, &first, &cohort);
        let rest = 1.0 - weights.iter().sum::<f64>();
        for (sum, &old) in expected.iter_mut().zip(&first) {
            *sum += rest * f64::from(old);
        }
        let mut engine = engine(&task);
        let report = engine.round(&task, ROUND, &cohort, threads(2)).unwrap();
        assert!(report.members.iter().all(std::result::Result::is_ok));
        assert_near(engine.global(), &expected);
    }
    let mut engine = engine(&task);
    assert!(engine.round(&task, ROUND, &[], threads(2)).unwrap().members.is_empty());
    assert!(engine.global() == first, "nobody came, nothing changes");
}

/// A task in which client 5 sees bright pixels as numbers near a million, and client 6 has no data.
struct Poisoned(NativeTask, [NativeTask; 2]);

impl Poisoned {
    fn new(task: NativeTask) -> Self {
        // From an image that has hardly any contrast.
        let mut bytes = vec![0; 1 << 20];
        bytes[0] = 1;
        let shape = ImageShape::new(1, 1 << 10, 1 << 10);
        let image = Images::new(shape, 1, bytes, vec![0]).unwrap();
        let pixels = PixelNormalization::new(PixelScale::Standardised, &image);
        let others = [task.clone().with_pixels(pixels), task.clone().with_own_images(Vec::new())];
        Self(task, others)
    }
}

impl Task for Poisoned {
    fn parameters(&self) -> usize {
        self.0.parameters()
    }

    fn initial(&self, seed: Seed) -> Result<Vec<f32>> {
        self.0.initial(seed)
    }

    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>> {
        self.0.sizes(key)
    }

    fn train(&self, job: &TrainJob, parameters: &mut [f32]) -> Result<LocalReport> {
        let task = match job.client {
            5 => &self.1[0],
            6 => &self.1[1],
            _ => &self.0,
        };
        task.train(job, parameters)
    }

    fn evaluate(&self, parameters: &[f32], piece: usize) -> Result<Evaluation> {
        self.0.evaluate(parameters, piece)
    }
}

#[test]
fn a_client_that_diverges_is_left_out_by_name() {
    let task = Poisoned::new(digits("2nn", training(1, 5)));
    let first = task.initial(KEY.seed).unwrap();
    let cohort = cohort(&[4, 5, 6, 8]);
    let good = [Contribution::new(4, 0.5), Contribution::new(8, 0.5)];
    let expected = average(&task, &first, &good);
    for count in [1, 3] {
        let mut engine = engine(&task);
        let report = engine.round(&task, ROUND, &cohort, threads(count)).unwrap();
        let [Ok(_), Err(diverged), Err(empty), Ok(_)] = &report.members[..] else {
            panic!("{report:?}");
        };
        assert_eq!((diverged.client, empty.client), (5, 6));
        let said = diverged.to_string();
        assert!(said.contains("client 5") && said.contains("not a number"), "{said}");
        assert!(empty.to_string().contains("samples"), "{empty}");
        assert_eq!(report.accepted().len(), 2);
        assert_near(engine.global(), &expected);
        engine = RoundEngine::new(first.clone(), &Aggregation::default()).unwrap();
        engine.round(&task, ROUND, &cohort[1..3], threads(count)).unwrap();
        assert!(engine.global() == first, "nobody is left, nothing changes");
    }
}

#[test]
fn a_bad_weight_is_left_out_too() {
    let task = Poisoned::new(digits("softmax", training(1, 30)));
    let first = task.initial(KEY.seed).unwrap();
    let good = Contribution::new(1, 1.0);
    let expected = average(&task, &first, std::slice::from_ref(&good));
    for weight in [f64::NAN, f64::INFINITY, -1.0] {
        for client in [2, 6] {
            let cohort = [good.clone(), Contribution::new(client, weight)];
            let mut engine = engine(&task);
            let report = engine.round(&task, ROUND, &cohort, Threads::ONE).unwrap();
            assert_eq!(report.members[1].as_ref().unwrap_err().client, client);
            assert_near(engine.global(), &expected);
        }
    }
}

/// Whether something ends; it may leave its thread behind if not.
fn ends(work: impl FnOnce() + Send + 'static) -> bool {
    let (sender, receiver) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        // Dropped at the end of the work, and by a panic as well.
        let _sender = sender;
        work();
    });
    receiver.recv_timeout(Duration::from_secs(20)) == Err(mpsc::RecvTimeoutError::Disconnected)
}

/// A task that does nothing, or panics for one client.
struct Quick {
    panics_for: Option<u32>,
}

impl Task for Quick {
    fn parameters(&self) -> usize {
        1
    }

    fn initial(&self, _seed: Seed) -> Result<Vec<f32>> {
        Ok(vec![0.0])
    }

    fn sizes(&self, key: PartitionKey) -> Result<Vec<u64>> {
        Ok(vec![1; key.clients as usize])
    }

    fn train(&self, job: &TrainJob, parameters: &mut [f32]) -> Result<LocalReport> {
        assert_ne!(Some(job.client), self.panics_for, "this client makes a thread panic");
        parameters[0] = job.client as f32;
        Ok(LocalReport { steps: 1, samples: 1, loss: 0.0, mean_square: 0.0 })
    }

    fn evaluate(&self, _parameters: &[f32], _piece: usize) -> Result<Evaluation> {
        Ok(Evaluation::regression(1, 0.5))
    }
}

fn hundred() -> Vec<Contribution> {
    (0..100).map(|client| Contribution::new(client, 0.01)).collect()
}

/// Rounds whose threads have nothing to do but wait for each other.
fn quick_rounds(rule: &str, count: usize) {
    let task = Quick { panics_for: None };
    let mut engine = RoundEngine::new(vec![0.0], &rule.parse().unwrap()).unwrap();
    for round in 0..100 {
        let plan = RoundPlan { round, ..ROUND };
        let report = engine.round(&task, plan, &hundred(), threads(count)).unwrap();
        assert!(report.members.iter().all(std::result::Result::is_ok));
        assert!((engine.global()[0] - 49.5).abs() < 1e-3);
    }
}

/// With the mean, which gives buffers back, and with the median, which keeps all of them.
#[test]
fn no_thread_waits_forever() {
    for rule in ["mean", "median"] {
        for count in [1, 2, 4, 200] {
            assert!(ends(move || quick_rounds(rule, count)), "{rule}, {count} threads");
        }
    }
}

#[test]
fn a_client_that_panics_is_left_out() {
    for count in [1, 4] {
        let task = Quick { panics_for: Some(3) };
        let report = engine(&task).round(&task, ROUND, &hundred(), threads(count)).unwrap();
        let wrong: Vec<_> = report.members.iter().filter_map(|who| who.as_ref().err()).collect();
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].client == 3 && wrong[0].why.contains("panic"), "{}", wrong[0]);
    }
}

/// Looks at one member only, and says what it was told to say.
#[derive(Debug)]
struct Whim {
    looks_at: usize,
    says: fn(usize) -> Result<Vec<Verdict>>,
}

impl Aggregator for Whim {
    fn aggregate(
        &mut self,
        cohort: &[Contribution],
        updates: &mut dyn UpdateSource,
        _memory: usize,
        global: &mut [f32],
    ) -> Result<Vec<Verdict>> {
        updates.read(self.looks_at, 0, global)?;
        updates.release(self.looks_at);
        assert!(updates.read(self.looks_at, 0, global).is_err(), "it was released");
        (self.says)(cohort.len())
    }
}

fn whim(looks_at: usize, says: fn(usize) -> Result<Vec<Verdict>>) -> Aggregation {
    Aggregation::new("whim", move |_| Ok(Box::new(Whim { looks_at, says })))
}

#[test]
fn a_rule_of_ones_own_may_do_as_it_likes() {
    for count in [1, 3] {
        let round = |aggregation: &Aggregation, cohort: &[Contribution]| {
            let mut engine = RoundEngine::new(vec![-1.0], aggregation).unwrap();
            let report = engine.round(&Quick { panics_for: None }, ROUND, cohort, threads(count));
            (report, engine.global()[0])
        };
        // Members that it has not looked at have trained all the same.
        let (report, global) = round(&whim(98, |members| Ok(vec![Ok(()); members])), &hundred());
        assert!(report.unwrap().members.iter().all(std::result::Result::is_ok));
        assert_eq!(global, 98.0);
        let (report, global) = round(&whim(0, |_| Err(Error::new("whim", 0, "1"))), &hundred());
        assert_eq!((report.unwrap_err().field(), global), ("whim", -1.0));
        let (report, global) = round(&whim(0, |_| Ok(Vec::new())), &hundred());
        assert_eq!((report.unwrap_err().expected().contains("100"), global), (true, -1.0));
        let mut cohort = hundred();
        cohort[5].missing = Some("too late".into());
        let (report, _) = round(&whim(5, |members| Ok(vec![Ok(()); members])), &cohort);
        assert_eq!(report.unwrap_err().value(), "too late");
    }
}

#[test]
fn twenty_rounds_learn_the_digits() {
    let task = digits("2nn", training(2, 10));
    let mut engine = engine(&task);
    for round in 0..20 {
        let plan = RoundPlan { round, ..ROUND };
        engine.round(&task, plan, &draw(20, round), threads(2)).unwrap();
    }
    let accuracy = task.evaluate_all(engine.global(), threads(2)).unwrap().accuracy();
    println!("2nn on the embedded digits after 20 rounds: {accuracy}");
    // 0.875 was seen; of 1,000 test images the share has a deviation of 1 point, and three of them are allowed.
    assert!(accuracy > 0.845, "{accuracy}");
}

/// The first rounds of McMahan's CNN on all of MNIST: about 84% and 93% are expected. The draw of clients and first
/// parameters moves the first by more than the second, so it may be off by 2 points and the second by 1.
#[test]
fn two_rounds_of_mnist() {
    let folders: Vec<PathBuf> =
        std::env::var_os("AGEWISE_DATA").map(PathBuf::from).into_iter().collect();
    let Ok(data) = load("mnist", &folders) else {
        println!("skipped: AGEWISE_DATA names no folder with MNIST");
        return;
    };
    let task = native(data, "cnn", training(5, 50));
    let mut engine = engine(&task);
    let mut accuracies = Vec::new();
    for round in 0..2 {
        let plan = RoundPlan { round, ..ROUND };
        engine.round(&task, plan, &draw(15, round), threads(2)).unwrap();
        accuracies.push(task.evaluate_all(engine.global(), threads(2)).unwrap().accuracy());
    }
    println!("cnn on MNIST after 1 and 2 rounds: {accuracies:?}");
    assert!((accuracies[0] - 0.84).abs() < 0.02, "{accuracies:?}");
    assert!((accuracies[1] - 0.93).abs() < 0.01, "{accuracies:?}");
}
