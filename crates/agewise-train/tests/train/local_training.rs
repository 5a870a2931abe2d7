//! Whole local training runs against the scalar reference, with the same order of samples.

use crate::reference::cases::{RELU, convolution, dense, noise, pool, spec, standardised};
use crate::reference::training::train;
use crate::reference::{Named, distance, first_difference, norm, tensors};
use agewise_core::Seed;
use agewise_train::Backend;
use agewise_train::data::{ImageShape, Images, PixelNormalization, PixelScale, embedded_digits};
use agewise_train::local::{
    LocalTask, LocalTrainingParams, LocalWork, NativeWorker, Samples, Trainer,
};
use agewise_train::model::{Layer, Model, ModelSpec};

/// Of the way that each tensor goes in a run. Steps of 32 bits are right to 1e-6 or so, and a run feeds each error
/// into all later steps; a wrong order, rate or term is off by more than a hundredth.
const TOLERANCE: f64 = 1e-3;

const PLAIN: LocalTrainingParams = LocalTrainingParams {
    work: LocalWork::Epochs(2),
    batch: 5,
    learning_rate: 0.05,
    decay: 1.0,
    offset: 0.0,
    momentum: 0.0,
    weight_decay: 0.0,
    proximal: 0.0,
    augment: false,
};

fn small() -> ModelSpec {
    let layers = [
        convolution(6, 3, 1),
        RELU,
        pool(3, 2, 1),
        convolution(5, 3, 1),
        RELU,
        dense(12),
        RELU,
        dense(3),
    ];
    spec("small", (2, 8, 8), &layers)
}

/// How far each tensor has come.
fn way(from: &[Named], to: &[Named]) -> Vec<Named> {
    let pairs = from.iter().zip(to);
    pairs
        .map(|(from, to)| Named {
            name: from.name.clone(),
            values: to.values.iter().zip(&from.values).map(|(to, from)| to - from).collect(),
        })
        .collect()
}

/// Trains by every backend and compares with the reference.
fn check(params: LocalTrainingParams, images: &Images, indices: Option<&[u32]>, round: u64) {
    let training = params.check().unwrap();
    let pixels = standardised(images);
    let samples = Samples::of_images(images, indices, &pixels);
    let task = LocalTask { training: &training, samples, seed: Seed(11), round, client: 17 };
    for backend in Backend::available() {
        let trainer = Trainer::new(Model::with_backend(small(), backend).unwrap());
        let model = trainer.model();
        let first = model.initial(Seed(2));
        let expected = train(model, &task, &first);
        let mut parameters = first.clone();
        let report = trainer.worker().train(&task, &mut parameters).unwrap();
        assert_eq!(
            (report.steps, report.samples),
            (expected.steps, expected.samples),
            "{params:?}"
        );
        assert!(
            (report.loss - expected.loss).abs() < 1e-4,
            "{params:?}: {report:?}, {}",
            expected.loss
        );
        // That of all samples, in the small batch at the end of an epoch too, and not the square of a mean.
        let squares = (report.mean_square, expected.mean_square);
        assert!(
            (squares.0 - squares.1).abs() < 1e-4 * squares.1.max(1.0),
            "{params:?}: {squares:?}"
        );
        assert_eq!(report.samples, training.samples(task.samples.len()), "{params:?}");
        let begin = tensors(model, &first);
        let found = way(&begin, &tensors(model, &parameters));
        let expected = way(&begin, &expected.network.tensors);
        let difference = first_difference(&found, &expected, TOLERANCE);
        assert_eq!(difference, None, "{params:?} by {backend}");
    }
}

/// Images of which some are much harder than others, so that no square of a mean passes for the mean of squares. The last
/// batch of an epoch has 3 samples, which count as much as all others.
#[test]
fn squares_are_those_of_single_samples() {
    let digits = embedded_digits().unwrap().train;
    let indices: Vec<u32> = (0..53).collect();
    let pixels = standardised(&digits);
    let samples = Samples::of_images(&digits, Some(&indices), &pixels);
    let params = LocalTrainingParams { batch: 10, learning_rate: 0.2, ..PLAIN };
    let training = params.check().unwrap();
    let task = LocalTask { training: &training, samples, seed: Seed(3), round: 0, client: 4 };
    let spec = ModelSpec::named("softmax", digits.shape(), 10).unwrap();
    let trainer = Trainer::new(Model::new(spec).unwrap());
    let first = trainer.model().initial(Seed(2));
    let expected = train(trainer.model(), &task, &first);
    let report = trainer.worker().train(&task, &mut first.clone()).unwrap();
    assert!(expected.mean_square > 1.5 * expected.loss.powi(2), "{}", expected.mean_square);
    assert!(
        (report.mean_square / expected.mean_square - 1.0).abs() < TOLERANCE,
        "{report:?}, {}",
        expected.mean_square
    );
}

#[test]
fn runs_are_those_of_the_definition() {
    let images = noise(small().input, 3, 23, 1);
    let all = LocalTrainingParams { momentum: 0.9, weight_decay: 0.03, proximal: 0.5, ..PLAIN };
    for params in [
        // 23 samples in batches of 5: the last one has 3.
        PLAIN,
        LocalTrainingParams { momentum: 0.9, ..PLAIN },
        LocalTrainingParams { weight_decay: 0.3, ..PLAIN },
        LocalTrainingParams { proximal: 2.0, ..PLAIN },
        LocalTrainingParams { weight_decay: 0.3, proximal: 2.0, ..PLAIN },
        // Nothing of the old parameters is kept: 1 - rate * decay = 0.
        LocalTrainingParams { weight_decay: 20.0, ..PLAIN },
        all,
        // 5 batches are an epoch.
        LocalTrainingParams { work: LocalWork::Steps(4), ..PLAIN },
        LocalTrainingParams { work: LocalWork::Steps(12), ..all },
        LocalTrainingParams { batch: 1, learning_rate: 0.01, ..PLAIN },
        LocalTrainingParams { batch: 23, work: LocalWork::Epochs(4), ..PLAIN },
        LocalTrainingParams { batch: 1000, work: LocalWork::Steps(3), ..all },
    ] {
        check(params, &images, None, 0);
    }
}

#[test]
fn the_rate_decays_from_round_to_round_and_orders_change() {
    let images = noise(small().input, 3, 23, 1);
    for round in [0, 1, 4] {
        let momentum = [0.0, 0.5][round as usize % 2];
        check(LocalTrainingParams { decay: 0.7, momentum, ..PLAIN }, &images, None, round);
    }
}

#[test]
fn a_client_sees_only_its_own_images() {
    let images = noise(small().input, 3, 40, 1);
    check(PLAIN, &images, Some(&[39, 3, 4, 17, 3, 0, 21]), 0);
    check(PLAIN, &images, Some(&[5]), 2);
}

#[test]
fn crops_and_mirror_images() {
    let images = noise(ImageShape::new(2, 11, 9), 3, 23, 1);
    check(PLAIN, &images, None, 0);
    check(LocalTrainingParams { augment: true, ..PLAIN }, &images, None, 3);
    check(
        LocalTrainingParams { augment: true, momentum: 0.5, work: LocalWork::Steps(7), ..PLAIN },
        &images,
        None,
        0,
    );
}

/// What a worker makes of the first parameters.
fn bytes(trainer: &Trainer, worker: &mut NativeWorker, task: &LocalTask<'_>) -> Vec<u32> {
    let mut parameters = trainer.model().initial(Seed(2));
    worker.train(task, &mut parameters).unwrap();
    parameters.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn the_same_task_gives_the_same_bytes_whatever_was_before() {
    let images = noise(small().input, 3, 40, 1);
    let pixels = standardised(&images);
    let samples = Samples::all(&images, &pixels);
    let some = LocalTrainingParams { momentum: 0.9, proximal: 0.1, ..PLAIN };
    let tasks = [
        PLAIN,
        some,
        LocalTrainingParams { batch: 32, ..PLAIN },
        LocalTrainingParams { proximal: 1.0, ..PLAIN },
    ]
    .map(|params| params.check().unwrap());
    let task = |index: usize| LocalTask {
        training: &tasks[index],
        samples,
        seed: Seed(5),
        round: index as u64,
        client: 3,
    };
    for backend in Backend::available() {
        let trainer = Trainer::new(Model::with_backend(small(), backend).unwrap());
        let fresh: Vec<_> = (0..tasks.len())
            .map(|index| bytes(&trainer, &mut trainer.worker(), &task(index)))
            .collect();
        let mut worker = trainer.worker();
        for index in [0, 0, 1, 1, 2, 0, 3, 1, 3, 2, 0] {
            assert!(
                bytes(&trainer, &mut worker, &task(index)) == fresh[index],
                "{backend}: task {index}"
            );
            let parameters = trainer.model().initial(Seed(9));
            worker.evaluate(&parameters, &samples).unwrap();
        }
        let other = LocalTask { client: 4, ..task(0) };
        assert!(bytes(&trainer, &mut worker, &other) != fresh[0], "clients have their own orders");
    }
}

#[test]
fn a_diverged_run_does_not_poison_the_next() {
    let images = noise(small().input, 3, 23, 1);
    let pixels = standardised(&images);
    let wild = LocalTrainingParams { learning_rate: 1e30, momentum: 0.9, ..PLAIN }.check().unwrap();
    let tame = LocalTrainingParams { momentum: 0.9, ..PLAIN }.check().unwrap();
    let trainer = Trainer::new(Model::new(small()).unwrap());
    let samples = Samples::all(&images, &pixels);
    let task = |training| LocalTask { training, samples, seed: Seed(5), round: 0, client: 3 };
    let mut worker = trainer.worker();
    let before = bytes(&trainer, &mut worker, &task(&tame));
    let diverged = bytes(&trainer, &mut worker, &task(&wild));
    assert!(diverged.iter().any(|&bits| !f32::from_bits(bits).is_finite()));
    assert!(bytes(&trainer, &mut worker, &task(&tame)) == before);
}

#[test]
fn runs_that_diverge_come_to_an_end() {
    // Two pools in a row: the second one meets whatever the first lets through.
    let layers = [convolution(4, 3, 1), pool(2, 2, 0), pool(2, 1, 0), dense(3)];
    let spec = spec("two pools", (2, 8, 8), &layers);
    let images = noise(spec.input, 3, 23, 1);
    let pixels = standardised(&images);
    for learning_rate in [1e5, 1e20, 1e36, 1e37, 1e38, 3e38] {
        let training = LocalTrainingParams { learning_rate, ..PLAIN }.check().unwrap();
        let samples = Samples::all(&images, &pixels);
        let task = LocalTask { training: &training, samples, seed: Seed(5), round: 0, client: 3 };
        for backend in Backend::available() {
            let trainer = Trainer::new(Model::with_backend(spec.clone(), backend).unwrap());
            bytes(&trainer, &mut trainer.worker(), &task);
        }
    }
}

#[test]
fn windows_of_nothing_but_minus_infinity() {
    let spec = spec(
        "two pools",
        (1, 8, 8),
        &[convolution(1, 3, 0), pool(2, 2, 0), pool(2, 1, 0), dense(3)],
    );
    let images = Images::new(spec.input, 3, vec![255; 64], vec![1]).unwrap();
    let pixels = PixelNormalization::new(PixelScale::Unit, &images);
    for backend in Backend::available() {
        let trainer = Trainer::new(Model::with_backend(spec.clone(), backend).unwrap());
        // Finite parameters that a run with a large rate can come to: 9 times -3e38 is too much for a float.
        let mut parameters = trainer.model().initial(Seed(1));
        parameters[..10].fill(-3e38);
        let result = trainer.worker().gradient(&parameters, &Samples::all(&images, &pixels));
        assert!(!result.unwrap().0.is_finite(), "{backend}: a loss that says so, and no panic");
    }
}

#[test]
fn a_pool_does_not_hide_what_is_not_a_number() {
    let layers = [convolution(1, 1, 0), convolution(1, 1, 0), pool(2, 2, 0), dense(3)];
    let spec = spec("hidden", (1, 2, 2), &layers);
    for bright in 0..4 {
        let mut bytes = vec![0; 4];
        bytes[bright] = 255;
        let images = Images::new(spec.input, 3, bytes, vec![1]).unwrap();
        let pixels = PixelNormalization::new(PixelScale::Unit, &images);
        for backend in Backend::available() {
            let trainer = Trainer::new(Model::with_backend(spec.clone(), backend).unwrap());
            // The first convolution makes the bright pixel infinite, the second multiplies it by 0.
            let mut parameters = trainer.model().initial(Seed(1));
            parameters[..4].copy_from_slice(&[3e38, 3e38, 0.0, 0.0]);
            let samples = Samples::all(&images, &pixels);
            let (loss, _) = trainer.worker().gradient(&parameters, &samples).unwrap();
            assert!(loss.is_nan(), "{backend}: pixel {bright} has vanished, loss {loss}");
        }
    }
}

#[test]
fn paths_agree_after_a_round() {
    let digits = embedded_digits().unwrap();
    let pixels = standardised(&digits.train);
    let indices: Vec<u32> = (0..60).collect();
    let samples = Samples::of_images(&digits.train, Some(&indices), &pixels);
    let training =
        LocalTrainingParams { batch: 10, work: LocalWork::Epochs(2), learning_rate: 0.02, ..PLAIN };
    let training = training.check().unwrap();
    let task = LocalTask { training: &training, samples, seed: Seed(5), round: 0, client: 3 };
    let ends = Backend::available().into_iter().map(|backend| {
        let spec = ModelSpec::named("cnn", digits.train.shape(), 10).unwrap();
        let trainer = Trainer::new(Model::with_backend(spec, backend).unwrap());
        let mut parameters = trainer.model().initial(Seed(1));
        let first: Vec<f64> = parameters.iter().copied().map(f64::from).collect();
        trainer.worker().train(&task, &mut parameters).unwrap();
        let last: Vec<f64> = parameters.into_iter().map(f64::from).collect();
        (backend, distance(&first, &last), last)
    });
    let ends: Vec<_> = ends.collect();
    for (backend, way, last) in &ends[1..] {
        let far = distance(last, &ends[0].2);
        // Of the way of a whole round; the norm of the parameters is larger still.
        assert!(far <= 1e-3 * way, "{backend} is {far:e} from {}, after a way of {way}", ends[0].0);
        assert!(*way > 1e-2 * norm(last), "they have gone somewhere");
    }
}

/// The field of the error of a task on the small model, for training and for evaluation.
fn error_field(samples: Samples<'_>, parameters: usize) -> [Option<String>; 2] {
    let trainer = Trainer::new(Model::new(small()).unwrap());
    let training = PLAIN.check().unwrap();
    let task = LocalTask { training: &training, samples, seed: Seed(5), round: 0, client: 4 };
    let mut parameters = vec![0.5; parameters];
    let mut worker = trainer.worker();
    let trained = worker.train(&task, &mut parameters);
    assert!(parameters.iter().all(|&value| value == 0.5), "an error leaves parameters alone");
    let evaluated = worker.evaluate(&parameters, &samples);
    let field = |error: agewise_core::Error| error.field().to_string();
    [trained.err().map(field), evaluated.err().map(field)]
}

#[test]
fn what_cannot_be_trained_is_named() {
    let len = Model::new(small()).unwrap().parameters();
    let images = noise(small().input, 3, 4, 1);
    let pixels = standardised(&images);
    let good = Samples::all(&images, &pixels);
    let both = |field: &str| [Some(field.to_string()), Some(field.to_string())];
    assert_eq!(error_field(good, len - 1), both("parameters"));
    assert_eq!(error_field(good, len + 1), both("parameters"));
    // Nothing to learn from; as a test set it is only small.
    let empty = Samples { indices: Some(&[]), ..good };
    assert_eq!(error_field(empty, len), [Some("samples of client 4".to_string()), None]);
    assert_eq!(error_field(Samples { indices: Some(&[0, 4]), ..good }, len), both("index"));
    for (channels, height, width) in [(1, 8, 8), (3, 8, 8), (2, 7, 8), (2, 8, 7)] {
        let images = noise(ImageShape::new(channels, height, width), 3, 4, 1);
        let pixels = standardised(&images);
        assert_eq!(error_field(Samples::all(&images, &pixels), len), both("images"));
    }
    let images = noise(small().input, 4, 4, 1);
    assert_eq!(error_field(Samples::all(&images, &pixels), len), both("classes"));
}

#[test]
fn a_table_for_other_channels_is_named() {
    let len = Model::new(small()).unwrap().parameters();
    let images = noise(small().input, 3, 4, 1);
    let grey: PixelNormalization = standardised(&noise(ImageShape::new(1, 8, 8), 3, 4, 1));
    let samples = Samples::of_images(&images, None, &grey);
    assert_eq!(error_field(samples, len), [Some("pixels".to_string()), Some("pixels".to_string())]);
}

/// Rows of a kernel that end inside a register, without a border that would hide it: what a client whose model is not a
/// number leaves in the buffers must not reach the next one.
#[test]
fn a_client_that_diverged_leaves_nothing_behind() {
    let digits = embedded_digits().unwrap();
    let pixels = PixelNormalization::new(PixelScale::Unit, &digits.train);
    let layers = vec![
        Layer::Convolution { channels: 6, kernel: 5, padding: 2 },
        Layer::Relu,
        Layer::MaxPool { size: 2, stride: 2, padding: 0 },
        Layer::Convolution { channels: 16, kernel: 5, padding: 0 },
        Layer::Relu,
        Layer::MaxPool { size: 2, stride: 2, padding: 0 },
        Layer::Dense { units: 10 },
    ];
    let spec = ModelSpec { name: "lenet".into(), input: digits.train.shape(), layers };
    for backend in Backend::available() {
        let trainer = Trainer::new(Model::with_backend(spec.clone(), backend).unwrap());
        let indices: Vec<u32> = (0..69).collect();
        let samples = |range: std::ops::Range<usize>| {
            Samples::of_images(&digits.train, Some(&indices[range]), &pixels)
        };
        let mut worker = trainer.worker();
        let parameters = trainer.initial(Seed(1));
        let mut bad = parameters.clone();
        bad[3] = f32::NAN;
        worker.gradient(&bad, &samples(0..50)).unwrap();
        let after = worker.gradient(&parameters, &samples(50..69)).unwrap();
        let fresh = trainer.worker().gradient(&parameters, &samples(50..69)).unwrap();
        assert_eq!(after, fresh, "{backend}");
    }
}
