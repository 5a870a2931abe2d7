//! Rounds of federated learning: the definition of the average, threads, bad clients, and a run that learns.

// A failed `unwrap` is a failed test.
#![allow(clippy::unwrap_used)]

mod reference;

use agewise_core::{Lots, Result, Seed, Stream};
use agewise_learn::Evaluation;
use agewise_learn::aggregate::{Server, ServerRule};
use agewise_learn::data::{
    Dataset, ImageShape, Images, Partition, PartitionParams, PixelScale, PixelTable,
    embedded_digits, load,
};
use agewise_learn::federate::{Federation, Member, RoundPlan};
use agewise_learn::model::{Model, ModelSpec};
use agewise_learn::train::{
    Crew, Learner, LocalReport, LocalTask, LocalTraining, LocalTrainingParams, LocalWork, Samples,
    Trainer, Worker,
};
use rand_core::Rng;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

const SEED: Seed = Seed(6);

/// Images with the clients that share them.
struct World {
    data: Dataset,
    pixels: PixelTable,
    partition: Partition,
}

impl World {
    fn new(data: Dataset, scale: PixelScale, clients: u64) -> Self {
        let params = PartitionParams { clients, seed: SEED, ..PartitionParams::default() };
        let partition = params.check(&data.train).unwrap().split();
        Self { pixels: PixelTable::new(scale, &data.train), partition, data }
    }

    fn digits() -> Self {
        Self::new(embedded_digits().unwrap(), PixelScale::Unit, 100)
    }

    fn samples(&self, client: u32) -> Samples<'_> {
        let indices = Some(self.partition.of(client as usize));
        Samples { images: &self.data.train, indices, pixels: &self.pixels }
    }

    /// Clients that all count the same.
    fn cohort(&self, clients: &[u32]) -> Vec<Member<'_>> {
        let weight = 1.0 / clients.len() as f64;
        let member = |&client| Member { client, weight, samples: self.samples(client) };
        clients.iter().map(member).collect()
    }

    fn trainer(&self, model: &str) -> Trainer {
        let spec = ModelSpec::named(model, self.data.train.shape(), 10).unwrap();
        Trainer::new(Model::new(spec).unwrap())
    }

    fn test(&self, crew: &mut Crew, global: &[f32]) -> f64 {
        crew.evaluate(global, &Samples::all(&self.data.test, &self.pixels)).unwrap().accuracy()
    }
}

fn training(epochs: u32, batch: u32) -> LocalTraining {
    let work = LocalWork::Epochs(epochs);
    LocalTrainingParams { work, batch, decay: 1.0, ..LocalTrainingParams::default() }
        .check()
        .unwrap()
}

fn federation(learner: &dyn Learner) -> Federation {
    let global = learner.initial(SEED);
    let server = Server::new(ServerRule::Average, global.len()).unwrap();
    Federation::new(global, server).unwrap()
}

/// So many different clients of a round.
fn draw(clients: u32, count: usize, round: u64) -> Vec<u32> {
    let mut numbers = Lots::new(SEED, Stream::custom(901), round).sequence(0);
    let mut all: Vec<u32> = (0..clients).collect();
    for last in (1..all.len()).rev() {
        all.swap(last, (numbers.next_u64() % (last as u64 + 1)) as usize);
    }
    all.truncate(count);
    all
}

/// The weighted sum of what clients come back with, each trained by a worker of its own.
fn average(
    trainer: &Trainer,
    global: &[f32],
    cohort: &[Member<'_>],
    training: &LocalTraining,
) -> Vec<f64> {
    let mut sum = vec![0.0; global.len()];
    for &Member { client, weight, samples } in cohort {
        let task = LocalTask { training, samples, seed: SEED, round: 0, client };
        let mut update = global.to_vec();
        trainer.native_worker().train(&task, &mut update).unwrap();
        sum.iter_mut().zip(&update).for_each(|(sum, &value)| *sum += weight * f64::from(value));
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
    let world = World::digits();
    let training = training(1, 20);
    let run = |threads: usize| {
        let trainer = world.trainer("2nn");
        let mut crew = Crew::new(&trainer, threads).unwrap();
        let mut federation = federation(&trainer);
        let mut reports = Vec::new();
        for round in 0..2 {
            let clients = draw(100, 13, round);
            let plan = RoundPlan::new(&training, SEED, round);
            reports.push(federation.round(&mut crew, &world.cohort(&clients), plan).unwrap());
        }
        let bits: Vec<u32> = federation.global().iter().map(|value| value.to_bits()).collect();
        let evaluation = crew
            .evaluate(federation.global(), &Samples::all(&world.data.test, &world.pixels))
            .unwrap();
        (bits, reports, evaluation)
    };
    let one = run(1);
    for threads in [2, 3, 5] {
        assert!(run(threads) == one, "{threads} threads");
    }
}

#[test]
fn the_global_model_becomes_the_weighted_sum() {
    let world = World::digits();
    let trainer = world.trainer("softmax");
    let training = training(2, 25);
    let plan = RoundPlan::new(&training, SEED, 0);
    let mut crew = Crew::new(&trainer, 2).unwrap();
    let first = trainer.initial(SEED);
    // Weights that add up to 1, and some that do not: the rest stays with the old model.
    for weights in [[0.5, 0.3, 0.2], [0.5, 0.1, 0.1], [0.5, 0.5, 0.5]] {
        let mut cohort = world.cohort(&[7, 90, 3]);
        cohort.iter_mut().zip(weights).for_each(|(member, weight)| member.weight = weight);
        let mut expected = average(&trainer, &first, &cohort, &training);
        let rest = 1.0 - weights.iter().sum::<f64>();
        expected.iter_mut().zip(&first).for_each(|(sum, &old)| *sum += rest * f64::from(old));
        let mut federation = federation(&trainer);
        let report = federation.round(&mut crew, &cohort, plan).unwrap();
        assert!(report.members.iter().all(std::result::Result::is_ok));
        assert_near(federation.global(), &expected);
    }
    let mut federation = federation(&trainer);
    assert!(federation.round(&mut crew, &[], plan).unwrap().members.is_empty());
    assert!(federation.global() == first, "nobody came, nothing changes");
}

/// A table that turns bright pixels into numbers near a million: from images that have hardly any contrast.
fn poisoned() -> PixelTable {
    let mut bytes = vec![0; 1 << 20];
    bytes[0] = 1;
    let images = Images::new(ImageShape::new(1, 1 << 10, 1 << 10), 1, bytes, vec![0]).unwrap();
    PixelTable::new(PixelScale::Standardised, &images)
}

#[test]
fn a_client_that_diverges_is_left_out_by_name() {
    let world = World::digits();
    let trainer = world.trainer("2nn");
    let training = training(1, 5);
    let plan = RoundPlan::new(&training, SEED, 0);
    let first = trainer.initial(SEED);
    let poisoned = poisoned();
    let mut cohort = world.cohort(&[4, 5, 6, 8]);
    cohort[1].samples.pixels = &poisoned;
    // Nothing to learn from: an error, and not an update.
    cohort[2].samples.indices = Some(&[]);
    let good = [Member { weight: 0.5, ..cohort[0] }, Member { weight: 0.5, ..cohort[3] }];
    let expected = average(&trainer, &first, &good, &training);
    for threads in [1, 3] {
        let mut federation = federation(&trainer);
        let mut crew = Crew::new(&trainer, threads).unwrap();
        let report = federation.round(&mut crew, &cohort, plan).unwrap();
        let [Ok(_), Err(diverged), Err(empty), Ok(_)] = &report.members[..] else {
            panic!("{report:?}");
        };
        assert_eq!((diverged.client, empty.client), (5, 6));
        assert!(
            diverged.to_string().contains("client 5")
                && diverged.to_string().contains("not a number")
        );
        assert!(empty.to_string().contains("samples"), "{empty}");
        assert_near(federation.global(), &expected);
    }
    let mut federation = federation(&trainer);
    let mut crew = Crew::new(&trainer, 2).unwrap();
    federation.round(&mut crew, &cohort[1..3], plan).unwrap();
    assert!(federation.global() == first, "nobody is left, nothing changes");
}

#[test]
fn a_bad_weight_is_left_out_too() {
    let world = World::digits();
    let trainer = world.trainer("softmax");
    let training = training(1, 30);
    let plan = RoundPlan::new(&training, SEED, 0);
    let mut cohort = world.cohort(&[1, 2]);
    for weight in [f64::NAN, f64::INFINITY, -1.0] {
        for indices in [cohort[1].samples.indices, Some(&[][..])] {
            cohort[0].weight = 1.0;
            cohort[1].weight = weight;
            cohort[1].samples.indices = indices;
            let expected = average(&trainer, &trainer.initial(SEED), &cohort[..1], &training);
            let mut federation = federation(&trainer);
            let mut crew = Crew::new(&trainer, 1).unwrap();
            let report = federation.round(&mut crew, &cohort, plan).unwrap();
            assert_eq!(report.members[1].as_ref().unwrap_err().client, 2);
            assert_near(federation.global(), &expected);
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
    receiver.recv_timeout(Duration::from_secs(8)) == Err(mpsc::RecvTimeoutError::Disconnected)
}

/// A learner that does nothing, or fails for one client.
struct Quick {
    panics_for: Option<u32>,
}

impl Learner for Quick {
    fn parameters(&self) -> usize {
        1
    }

    fn initial(&self, _seed: Seed) -> Vec<f32> {
        vec![0.0]
    }

    fn worker(&self) -> Box<dyn Worker> {
        Box::new(Self { panics_for: self.panics_for })
    }
}

impl Worker for Quick {
    fn train(&mut self, task: &LocalTask<'_>, parameters: &mut [f32]) -> Result<LocalReport> {
        assert_ne!(Some(task.client), self.panics_for, "this client makes a worker panic");
        parameters[0] = task.client as f32;
        Ok(LocalReport { steps: 1, samples: 1, loss: 0.0, mean_square: 0.0 })
    }

    fn evaluate(&mut self, _parameters: &[f32], _samples: &Samples<'_>) -> Result<Evaluation> {
        Ok(Evaluation::new(1))
    }
}

/// Rounds of 100 clients by 4 workers that have nothing to do but wait for each other.
fn quick_rounds(learner: &Quick, rounds: u64) {
    let images = Images::new(ImageShape::new(1, 1, 1), 1, vec![0], vec![0]).unwrap();
    let pixels = PixelTable::new(PixelScale::Unit, &images);
    let samples = Samples::all(&images, &pixels);
    let cohort: Vec<_> = (0..100).map(|client| Member { client, weight: 0.01, samples }).collect();
    let training = training(1, 1);
    let mut crew = Crew::new(learner, 4).unwrap();
    for round in 0..rounds {
        let mut federation = federation(learner);
        let plan = RoundPlan::new(&training, SEED, round);
        federation.round(&mut crew, &cohort, plan).unwrap();
        let everyone_counts = learner.panics_for.is_none();
        assert!(!everyone_counts || (federation.global()[0] - 49.5).abs() < 1e-3);
    }
}

#[test]
fn nobody_waits_forever() {
    assert!(
        ends(|| quick_rounds(&Quick { panics_for: None }, 300)),
        "workers wait for each other's buffers"
    );
}

#[test]
fn a_worker_that_panics_does_not_stop_the_others_forever() {
    // Whether the round panics or returns an error is not asked here.
    assert!(
        ends(|| quick_rounds(&Quick { panics_for: Some(3) }, 1)),
        "workers wait for a buffer that is lost"
    );
}

#[test]
fn twenty_rounds_learn_the_digits() {
    let world = World::digits();
    let trainer = world.trainer("2nn");
    let training = training(2, 10);
    let mut crew = Crew::new(&trainer, 2).unwrap();
    let mut federation = federation(&trainer);
    for round in 0..20 {
        let plan = RoundPlan::new(&training, SEED, round);
        federation.round(&mut crew, &world.cohort(&draw(100, 20, round)), plan).unwrap();
    }
    let accuracy = world.test(&mut crew, federation.global());
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
    let world = World::new(data, PixelScale::Unit, 100);
    let trainer = world.trainer("cnn");
    let training = training(5, 50);
    let mut crew = Crew::new(&trainer, 2).unwrap();
    let mut federation = federation(&trainer);
    let mut accuracies = Vec::new();
    for round in 0..2 {
        let plan = RoundPlan::new(&training, SEED, round);
        federation.round(&mut crew, &world.cohort(&draw(100, 15, round)), plan).unwrap();
        accuracies.push(world.test(&mut crew, federation.global()));
    }
    println!("cnn on MNIST after 1 and 2 rounds: {accuracies:?}");
    assert!((accuracies[0] - 0.84).abs() < 0.02, "{accuracies:?}");
    assert!((accuracies[1] - 0.93).abs() < 0.01, "{accuracies:?}");
}
