//! Optima, constants and skews: against their definitions, and against a run that Theorem 1 speaks of.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use agewise_core::theory::ConvergenceBound;
use agewise_core::{
    Availability, Lots, PolicySpec, Report, Seed, Selector, SettingParams, Start, Stream,
};
use agewise_learn::aggregate::{Server, ServerRule};
use agewise_learn::data::{
    ImageShape, Images, Partition, PartitionLaw, PartitionParams, PixelScale, PixelTable,
    embedded_digits,
};
use agewise_learn::federate::{Federation, Member, RoundPlan};
use agewise_learn::model::{Model, ModelSpec};
use agewise_learn::train::{Crew, Learner, LocalTrainingParams, LocalWork, Samples, Trainer};
use agewise_sim::objective::{
    ConvexProblem, OptimumBudget, SkewTrack, is_strongly_convex, local_losses, local_optima, skew,
};

const SEED: Seed = Seed(4);

/// Images with the clients that share them.
struct World {
    images: Images,
    pixels: PixelTable,
    clients: Vec<Vec<u32>>,
}

impl World {
    /// Images of 5 x 5 pixels in 3 classes: a bright pixel where the class says, and noise. Client k has mostly images
    /// of class k mod 3, so that the optima of clients differ.
    fn synthetic(clients: usize, each: usize) -> Self {
        let count = clients * each;
        let lots = Lots::new(SEED, Stream::custom(1 << 20), 0);
        let mut pixels = Vec::with_capacity(25 * count);
        let mut labels = Vec::with_capacity(count);
        for image in 0..count as u64 {
            let mut numbers = (0..30).map(|place| lots.of(30 * image + place).unit());
            let usual = (image as usize / each % 3) as u8;
            let class = numbers.next().map_or(0, |number| (5.0 * number) as u8);
            let class = if class < 3 { class } else { usual };
            let bright = 25 / 3 * usize::from(class);
            let pixel = |(place, noise): (usize, f64)| {
                (150.0 * noise + if place == bright { 100.0 } else { 0.0 }) as u8
            };
            pixels.extend(numbers.take(25).enumerate().map(pixel));
            labels.push(class);
        }
        let images = Images::new(ImageShape::new(1, 5, 5), 3, pixels, labels).unwrap();
        let first = |client: usize| (client * each) as u32;
        let clients = (0..clients).map(|k| (first(k)..first(k + 1)).collect()).collect();
        Self { pixels: PixelTable::new(PixelScale::Unit, &images), images, clients }
    }

    /// The 1,000 embedded digits for tests among some clients, few labels for each.
    fn digits(clients: u64) -> Self {
        let images = embedded_digits().unwrap().test;
        let params = PartitionParams {
            law: PartitionLaw::Dirichlet(0.3),
            clients,
            seed: SEED,
            ..PartitionParams::default()
        };
        let partition: Partition = params.check(&images).unwrap().split();
        let clients = (0..partition.clients()).map(|client| partition.of(client).to_vec());
        let clients = clients.collect();
        Self { pixels: PixelTable::new(PixelScale::Unit, &images), images, clients }
    }

    fn samples(&self) -> Vec<Samples<'_>> {
        let (images, pixels) = (&self.images, &self.pixels);
        let indices = self.clients.iter().map(|indices| Some(indices.as_slice()));
        indices.map(|indices| Samples { images, indices, pixels }).collect()
    }

    fn trainer(&self, model: &str) -> Trainer {
        let classes = self.images.classes() as usize;
        let spec = ModelSpec::named(model, self.images.shape(), classes).unwrap();
        Trainer::new(Model::new(spec).unwrap())
    }

    fn shares(&self) -> Vec<f64> {
        let total: usize = self.clients.iter().map(Vec::len).sum();
        self.clients.iter().map(|indices| indices.len() as f64 / total as f64).collect()
    }
}

/// A vector of this length, in a direction that the number decides.
fn direction(number: u64, length: f64, parameters: usize) -> Vec<f64> {
    let lots = Lots::new(SEED, Stream::custom((1 << 20) + 1), number);
    let way: Vec<f64> = (0..parameters as u64).map(|i| lots.of(i).unit() - 0.5).collect();
    let norm = way.iter().map(|value| value * value).sum::<f64>().sqrt();
    way.iter().map(|value| value * length / norm).collect()
}

fn moved(parameters: &[f32], way: &[f64]) -> Vec<f32> {
    parameters.iter().zip(way).map(|(&from, way)| (f64::from(from) + way) as f32).collect()
}

fn square_distance(one: &[f32], two: &[f32]) -> f64 {
    one.iter().zip(two).map(|(&one, &two)| (f64::from(one) - f64::from(two)).powi(2)).sum()
}

/// A strongly convex function lies above its least value by at least mu / 2 times the squared distance.
#[test]
fn no_other_model_is_better_than_the_optimum() {
    for (world, weight_decay) in [(World::synthetic(6, 40), 0.02), (World::digits(8), 0.005)] {
        let (trainer, shares) = (world.trainer("softmax"), world.shares());
        let start = trainer.initial(SEED);
        let samples = world.samples();
        let mut problem = ConvexProblem::new(&trainer, &samples, weight_decay, 2).unwrap();
        let optimum = problem.optimum(&start, &shares).unwrap();
        assert!(optimum.gradient_norm <= 1e-5, "{}", optimum.gradient_norm);
        let (value, gradient) = problem.objective(&optimum.parameters, &shares).unwrap();
        assert_eq!(value, optimum.value);
        assert!(gradient.iter().all(|slope| slope.abs() <= 1e-5));
        let mu = f64::from(weight_decay);
        let mut others = vec![start];
        for number in 0..12 {
            let length = 0.01 * 2f64.powi(number as i32);
            let way = direction(number, length, optimum.parameters.len());
            others.push(moved(&optimum.parameters, &way));
        }
        for other in others {
            let (higher, _) = problem.objective(&other, &shares).unwrap();
            let least = value + mu / 2.0 * square_distance(&other, &optimum.parameters);
            assert!(higher >= least - 1e-6, "{higher} < {least}");
        }
    }
}

#[test]
fn local_optima_are_the_optima_of_one_client() {
    let world = World::digits(8);
    let (trainer, shares, samples) = (world.trainer("softmax"), world.shares(), world.samples());
    let start = trainer.initial(SEED);
    let mut problem = ConvexProblem::new(&trainer, &samples, 0.005, 2).unwrap();
    let optima = problem.local_optima(&start).unwrap();
    let global = problem.optimum(&start, &shares).unwrap();
    let mut crew = Crew::new(&trainer, 2).unwrap();
    let at_global = local_losses(&mut crew, &global.parameters, &samples, 0.005).unwrap();
    let whole: f64 = at_global.iter().zip(&shares).map(|(loss, share)| loss * share).sum();
    // The losses of the crew and the solver's value are the same objective, summed in other ways.
    assert!((whole - global.value).abs() < 1e-6, "{whole}, {}", global.value);
    for (client, optimum) in optima.iter().enumerate() {
        assert!(optimum.gradient_norm <= 1e-5);
        assert!(optimum.value < at_global[client]);
        let own = local_losses(&mut crew, &optimum.parameters, &samples, 0.005).unwrap();
        assert!((own[client] - optimum.value).abs() < 1e-6);
        let only: Vec<f64> = (0..8).map(|other| f64::from(u8::from(other == client))).collect();
        let again = problem.optimum(&global.parameters, &only).unwrap();
        assert!((again.value - optimum.value).abs() < 1e-7);
    }
}

#[test]
fn smoothness_and_convexity_bound_the_curvature_everywhere() {
    for (world, weight_decay) in [(World::synthetic(6, 40), 0.02), (World::digits(3), 0.001)] {
        let (trainer, shares, samples) =
            (world.trainer("softmax"), world.shares(), world.samples());
        let clients = samples.len();
        let start = trainer.initial(SEED);
        let mut problem = ConvexProblem::new(&trainer, &samples, weight_decay, 2).unwrap();
        let constants = problem.constants(&shares, &start, &[], 10).unwrap();
        assert!(constants.convexity < constants.smoothness);
        let mut steepest: f64 = 0.0;
        for number in 0..20u64 {
            let parameters = start.len();
            // The flattest point has equal scores; the steepest direction is near the mean image.
            let at = moved(&vec![0.0; parameters], &direction(number, 0.1, parameters));
            let only: Vec<f64> = (0..clients as u64)
                .map(|client| f64::from(u8::from(client == number % clients as u64)))
                .collect();
            let (_, slopes) = problem.objective(&at, &only).unwrap();
            let way = if number % 2 == 0 {
                let norm = slopes.iter().map(|slope| slope * slope).sum::<f64>().sqrt();
                slopes.iter().map(|slope| 0.1 * slope / norm).collect()
            } else {
                direction(100 + number, 0.1, parameters)
            };
            let there = moved(&at, &way);
            let (_, slopes_there) = problem.objective(&there, &only).unwrap();
            let step: Vec<f64> =
                at.iter().zip(&there).map(|(&at, &to)| f64::from(to) - f64::from(at)).collect();
            let change = slopes.iter().zip(&slopes_there).map(|(from, to)| to - from);
            let product: f64 = change.zip(&step).map(|(change, step)| change * step).sum();
            let curvature = product / square_distance(&at, &there);
            assert!(curvature >= constants.convexity - 1e-4, "{curvature}");
            assert!(curvature <= constants.smoothness, "{curvature}");
            steepest = steepest.max(curvature);
        }
        // Not a bound that says nothing: some directions come within a factor of 20.
        assert!(20.0 * steepest > constants.smoothness, "{steepest}, {constants:?}");
    }
}

/// Over all batches of one sample, and over all batches that leave one sample out.
#[test]
fn gradient_bounds_are_the_means_over_all_batches() {
    let world = World::synthetic(1, 40);
    let (trainer, samples) = (world.trainer("softmax"), world.samples());
    let start: Vec<f32> = trainer.initial(SEED).iter().map(|value| 10.0 * value).collect();
    let mut problem = ConvexProblem::new(&trainer, &samples, 0.5, 1).unwrap();
    let (_, whole) = problem.objective(&start, &[1.0]).unwrap();
    let mut worker = trainer.native_worker();
    for batch in [1, 39] {
        let (mut norm, mut distance) = (0.0, 0.0);
        for left in 0..40 {
            let keep = |index: &u32| (*index == left) == (batch == 1);
            let indices: Vec<u32> = (0..40).filter(keep).collect();
            let part = Samples { indices: Some(&indices), ..samples[0] };
            let (_, slopes) = worker.gradient(&start, &part).unwrap();
            for ((slope, at), whole) in slopes.iter().zip(&start).zip(&whole) {
                let slope = f64::from(*slope) + 0.5 * f64::from(*at);
                norm += slope.powi(2) / 40.0;
                distance += (slope - whole).powi(2) / 40.0;
            }
        }
        // This start is far from the optimum, where gradients are smaller.
        let constants = problem.constants(&[1.0], &start, &[], batch).unwrap();
        let (sd, bound) = (constants.gradient_sd.powi(2), constants.gradient_bound.powi(2));
        assert!((bound / norm - 1.0).abs() < 1e-4, "{bound}, {norm}");
        assert!((sd / distance - 1.0).abs() < 1e-3, "{sd}, {distance}");
    }
    let all = problem.constants(&[1.0], &start, &[], 1_000).unwrap();
    assert_eq!(all.gradient_sd, 0.0);
    let far: Vec<f32> = start.iter().map(|value| 5.0 * value).collect();
    let further = problem.constants(&[1.0], &start, &[&far], 1_000).unwrap();
    assert!(further.gradient_bound > all.gradient_bound);
}

#[test]
fn the_gap_is_zero_for_clients_with_the_same_data() {
    let mut world = World::synthetic(6, 40);
    let trainer = world.trainer("softmax");
    let start = trainer.initial(SEED);
    let shares = [0.1, 0.3, 0.05, 0.05, 0.2, 0.3];
    let gap = |world: &World| {
        let samples = world.samples();
        let mut problem = ConvexProblem::new(&trainer, &samples, 0.02, 2).unwrap();
        let constants = problem.constants(&shares, &start, &[], 10).unwrap();
        assert!(constants.optimum_error < 1e-8 && constants.local_optimum_error < 1e-8);
        let distance = square_distance(&start, &constants.optimum).sqrt();
        assert_eq!(constants.initial_distance, distance);
        constants.objective_gap
    };
    assert!(gap(&world) > 0.01);
    world.clients = vec![(0..240).collect(); 6];
    assert!(gap(&world) < 1e-7);
}

#[test]
fn training_alone_finds_nearly_the_optimum() {
    let world = World::synthetic(6, 40);
    let (trainer, samples) = (world.trainer("softmax"), world.samples());
    let start = trainer.initial(SEED);
    let budget = OptimumBudget { batch: 10, weight_decay: 0.02, ..OptimumBudget::default() };
    let mut crew = Crew::new(&trainer, 2).unwrap();
    let found = local_optima(&mut crew, &start, &samples, &budget, SEED).unwrap();
    let mut problem = ConvexProblem::new(&trainer, &samples, 0.02, 2).unwrap();
    for (found, optimum) in found.iter().zip(problem.local_optima(&start).unwrap()) {
        let excess = found - optimum.value;
        assert!((-1e-6..2e-3).contains(&excess), "{excess}");
    }
    // Where every step overshoots, training still ends no higher than it began.
    let wild = OptimumBudget { learning_rate: 1e4, epochs: 40, ..budget };
    let ends = local_optima(&mut crew, &start, &samples, &wild, SEED).unwrap();
    let begins = local_losses(&mut crew, &start, &samples, 0.02).unwrap();
    assert!(ends.iter().zip(&begins).all(|(end, begin)| end <= begin));
}

#[test]
fn threads_do_not_change_a_byte() {
    let world = World::digits(5);
    let (trainer, shares, samples) = (world.trainer("softmax"), world.shares(), world.samples());
    let start = trainer.initial(SEED);
    let constants = |threads| {
        let mut problem = ConvexProblem::new(&trainer, &samples, 0.01, threads).unwrap();
        problem.constants(&shares, &start, &[], 50).unwrap()
    };
    let one = constants(1);
    assert!([2, 7].into_iter().all(|threads| constants(threads) == one));

    let trainer = world.trainer("2nn");
    let start = trainer.initial(SEED);
    let few: Vec<Vec<u32>> = world.clients[..2].iter().map(|all| all[..60].to_vec()).collect();
    let few = World { clients: few, images: world.images.clone(), pixels: world.pixels.clone() };
    let samples = few.samples();
    let budget =
        OptimumBudget { epochs: 60, batch: 10, weight_decay: 1e-4, ..OptimumBudget::default() };
    let trained = |threads| {
        let mut crew = Crew::new(&trainer, threads).unwrap();
        let losses = local_losses(&mut crew, &start, &samples, 1e-4).unwrap();
        (losses, local_optima(&mut crew, &start, &samples, &budget, SEED).unwrap())
    };
    let (losses, optima) = trained(1);
    assert!(trained(2) == (losses.clone(), optima.clone()));
    // Two hidden layers learn 60 digits nearly by heart; what remains is mostly the penalty.
    assert!(optima.iter().zip(&losses).all(|(optimum, loss)| *optimum < 0.1 * loss), "{optima:?}");
}

/// The bound holds for a run with the schedule that it asks for. It is no forecast: here it is a thousand times the
/// error, nearly all of it from 16 m^2 G^2 / mu^2, and the schedule hardly moves the model in 60 rounds.
#[test]
fn theorem_1_lies_above_a_run() {
    const STEPS: u32 = 5;
    const DECAY: f32 = 0.05;
    let world = World::synthetic(12, 40);
    let (trainer, shares, samples) = (world.trainer("softmax"), world.shares(), world.samples());
    let start = trainer.initial(SEED);
    let mut problem = ConvexProblem::new(&trainer, &samples, DECAY, 2).unwrap();
    let constants = problem.constants(&shares, &start, &[], 10).unwrap();
    let (learning_rate, offset) = constants.theorem_schedule(STEPS);
    let training = LocalTrainingParams {
        work: LocalWork::Steps(STEPS),
        batch: 10,
        learning_rate: learning_rate as f32,
        decay: 1.0,
        offset,
        weight_decay: DECAY,
        ..LocalTrainingParams::default()
    };
    let training = training.check().unwrap();
    let mut crew = Crew::new(&trainer, 2).unwrap();
    for policy in ["random", "markov-optimal", "oldest-first", "phased"] {
        let setting = SettingParams::new(12, 5, 10).check().unwrap();
        let policy = PolicySpec::named(policy);
        let mut selector = Selector::new(&policy, setting, SEED, Start::Stationary).unwrap();
        let server = Server::new(ServerRule::Average, start.len()).unwrap();
        let mut federation = Federation::new(start.clone(), server).unwrap();
        let mut track = SkewTrack::new(shares.clone());
        let mut errors = Vec::new();
        for round in 0..60 {
            let losses = local_losses(&mut crew, federation.global(), &samples, DECAY).unwrap();
            let whole: f64 = losses.iter().zip(&shares).map(|(loss, share)| loss * share).sum();
            errors.push(whole - constants.optimum_value);
            let optima = &constants.local_optimum_values;
            let gaps: Vec<f64> =
                losses.iter().zip(optima).map(|(loss, least)| loss - least).collect();
            let weights = selector.expected_weights(Availability::Everyone, 100).unwrap();
            let rho = track.record(&gaps, &weights).unwrap().unwrap();
            assert_eq!(skew(&gaps, &weights, &shares), Some(rho));
            assert!((0.2..5.0).contains(&rho), "{rho}");
            assert!((skew(&gaps, &shares, &shares).unwrap() - 1.0).abs() < 1e-12);
            let cohort = selector.select(Availability::Everyone).unwrap();
            let members = cohort.clients.iter().zip(&cohort.weights);
            let members: Vec<Member<'_>> = members
                .map(|(&client, &weight)| Member {
                    client,
                    weight,
                    samples: samples[client as usize],
                })
                .collect();
            let plan = RoundPlan::new(&training, SEED, round);
            federation.round(&mut crew, &members, plan).unwrap();
            let reports: Vec<Report> = cohort.clients.iter().map(|&c| Report::plain(c)).collect();
            selector.finish(&reports).unwrap();
        }
        let at_optimum = local_losses(&mut crew, &constants.optimum, &samples, DECAY).unwrap();
        let gaps = at_optimum.iter().zip(&constants.local_optimum_values);
        let gaps: Vec<f64> = gaps.map(|(loss, least)| loss - least).collect();
        let skews = track.finish(&gaps).unwrap().of_the_theorem().unwrap();
        // 1/m - 1/n is the least Sigma with equal weights, so this bound is the lowest of all.
        let sigma = 1.0 / 5.0 - 1.0 / 12.0;
        let bound = ConvergenceBound::new(constants.with_policy(STEPS, 5, sigma, skews)).unwrap();
        assert!((bound.offset() / offset - 1.0).abs() < 1e-12);
        assert!(errors[59] < 0.98 * errors[0], "{errors:?}");
        for (round, error) in (0..).zip(&errors) {
            let total = bound.after(round).total();
            assert!(*error > 0.0 && *error < total, "round {round}: {error}, {total}");
        }
    }
}

#[test]
fn what_cannot_be_is_named() {
    let world = World::synthetic(2, 10);
    let (trainer, samples) = (world.trainer("softmax"), world.samples());
    let start = trainer.initial(SEED);
    let field = |trainer: &Trainer, samples: &[Samples<'_>], weight_decay, threads| {
        let made = ConvexProblem::new(trainer, samples, weight_decay, threads);
        made.unwrap_err().field().to_string()
    };
    assert_eq!(field(&trainer, &samples, 0.0, 1), "weight-decay");
    assert_eq!(field(&trainer, &samples, f32::NAN, 1), "weight-decay");
    assert_eq!(field(&world.trainer("2nn"), &samples, 0.1, 1), "model");
    assert_eq!(field(&trainer, &samples, 0.1, 0), "threads");
    assert_eq!(field(&trainer, &[], 0.1, 1), "clients");
    let nothing = [samples[0], Samples { indices: Some(&[]), ..samples[0] }];
    assert_eq!(field(&trainer, &nothing, 0.1, 1), "samples of client 1");
    let outside = [Samples { indices: Some(&[20]), ..samples[0] }];
    assert_eq!(field(&trainer, &outside, 0.1, 1), "index");
    assert!(!is_strongly_convex(trainer.model(), 0.0));

    let mut problem = ConvexProblem::new(&trainer, &samples, 0.1, 1).unwrap();
    for shares in [vec![1.0], vec![0.5, 0.4], vec![1.5, -0.5], vec![f64::NAN, 1.0]] {
        assert_eq!(problem.objective(&start, &shares).unwrap_err().field(), "shares");
    }
    assert!(problem.optimum(&start[1..], &[0.5, 0.5]).is_err());
    let endless = vec![f32::INFINITY; start.len()];
    assert_eq!(problem.optimum(&endless, &[0.5, 0.5]).unwrap_err().field(), "start");
    assert_eq!(problem.constants(&[0.5, 0.5], &start, &[], 0).unwrap_err().field(), "batch");

    let mut crew = Crew::new(&trainer, 1).unwrap();
    let error = local_losses(&mut crew, &start, &nothing, 0.0).unwrap_err();
    assert_eq!(error.field(), "samples of client 1");
    let budget = OptimumBudget { epochs: 0, ..OptimumBudget::default() };
    let error = local_optima(&mut crew, &start, &samples, &budget, SEED).unwrap_err();
    assert_eq!(error.field(), "epochs");
    let budget = OptimumBudget::default();
    assert!(local_optima(&mut crew, &start, &nothing, &budget, SEED).is_err());
    assert!(local_optima(&mut crew, &endless, &samples, &budget, SEED).is_err());
}
