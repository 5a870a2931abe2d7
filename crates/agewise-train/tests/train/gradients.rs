//! Gradients against an independent reference: finite differences of its loss, and the chain rule written out.
//!
//! The tolerance is 1e-4 of each tensor's norm: sums of some thousand 32-bit products are right to about 1e-6, and a
//! wrong index, mask or factor is off by orders of magnitude more.

use crate::reference::cases::{RELU, convolution, dense, noise, numbers, pool, spec, standardised};
use crate::reference::check::{TOLERANCE, check_paths};
use crate::reference::{Batch, Named, Network, distance, norm};
use agewise_core::Seed;
use agewise_train::Backend;
use agewise_train::data::{ImageShape, Images, PixelNormalization, embedded_digits};
use agewise_train::local::{Samples, Trainer};
use agewise_train::model::{Layer, Model, ModelSpec};
use proptest::prelude::*;
use rand_core::Rng;

/// Changes of a parameter for finite differences: far from rounding, and too small to cross many kinks.
const STEP: f64 = 1e-6;

/// Finite differences for some parameters of each tensor, and for one random direction through all of it.
fn check_differences(network: &Network, batch: &Batch, gradient: &[Named], most: usize) {
    let mut numbers = numbers(7);
    for (t, tensor) in gradient.iter().enumerate() {
        let slope = |direction: &[(usize, f64)]| {
            let loss_at = |step: f64| {
                let mut moved = network.clone();
                for &(at, by) in direction {
                    moved.tensors[t].values[at] += step * by;
                }
                moved.loss(batch)
            };
            (loss_at(STEP) - loss_at(-STEP)) / (2.0 * STEP)
        };
        let len = tensor.values.len();
        let some: Vec<usize> = if len <= most {
            (0..len).collect()
        } else {
            (0..most).map(|_| (numbers.next_u64() % len as u64) as usize).collect()
        };
        let found: Vec<f64> = some.iter().map(|&at| slope(&[(at, 1.0)])).collect();
        let expected: Vec<f64> = some.iter().map(|&at| tensor.values[at]).collect();
        let (far, own) = (distance(&found, &expected), norm(&tensor.values));
        // The subset's share of the norm, and what rounding of a loss near 1 does to a difference.
        let near = TOLERANCE * norm(&expected) + 1e-8 * (some.len() as f64).sqrt();
        assert!(far <= near, "{}: differences {far:e} away, norm {own:e}", tensor.name);

        let sign = |_| if numbers.next_u64() >> 63 == 0 { 1.0 } else { -1.0 };
        // Of length 1: a long way through a million parameters would cross kinks.
        let signs: Vec<f64> =
            (0..len).map(sign).map(|sign: f64| sign / (len as f64).sqrt()).collect();
        let along: f64 = signs.iter().zip(&tensor.values).map(|(s, g)| s * g).sum();
        let direction: Vec<(usize, f64)> = signs.into_iter().enumerate().collect();
        let found = slope(&direction);
        assert!(
            (found - along).abs() <= TOLERANCE * own / (len as f64).sqrt() + 1e-8,
            "{}: {found} along signs, expected {along}",
            tensor.name
        );
    }
}

/// All checks, on the first samples as batches of these sizes; `most` finite differences per tensor on the first of them,
/// and none for 0.
fn check(
    spec: &ModelSpec,
    images: &Images,
    pixels: &PixelNormalization,
    batches: &[usize],
    most: usize,
) {
    let model = Model::new(spec.clone()).unwrap();
    let parameters = model.initial(Seed(3));
    let network = Network::new(&model, &parameters);
    for (turn, &count) in batches.iter().enumerate() {
        let indices: Vec<u32> = (0..count as u32).collect();
        let samples = Samples::of_images(images, Some(&indices), pixels);
        let batch = Batch::middle(&model, &samples);
        let expected = network.gradient(&batch);
        if turn == 0 && most > 0 {
            check_differences(&network, &batch, &expected.1, most);
        }
        check_paths(spec, &network, &parameters, &samples, &expected).unwrap();
    }
}

/// The same on noise of the model's own shape.
fn check_on_noise(name: &str, input: (u32, u32, u32), layers: &[Layer]) {
    let spec = spec(name, input, layers);
    let images = noise(spec.input, 3, 7, 5);
    check(&spec, &images, &standardised(&images), &[1, 7], 20);
}

#[test]
fn named_models_on_digits() {
    let digits = embedded_digits().unwrap();
    let pixels = standardised(&digits.train);
    for (name, batches, most) in [("softmax", [7, 1], 40), ("2nn", [7, 1], 40), ("cnn", [1, 3], 2)]
    {
        let spec = ModelSpec::named(name, digits.train.shape(), 10).unwrap();
        check(&spec, &digits.train, &pixels, &batches, most);
    }
}

#[test]
fn cnn_for_cifar_sees_the_middle_of_larger_images() {
    let shape = ImageShape::new(3, 32, 32);
    let images = noise(shape, 10, 3, 1);
    let spec = ModelSpec::named("cnn-cifar", shape, 10).unwrap();
    check(&spec, &images, &standardised(&images), &[1], 1);
    // An odd rest: the middle begins at 2 and at 1 of 5 and 3 pixels too many.
    let shape = ImageShape::new(3, 29, 27);
    let images = noise(shape, 10, 1, 1);
    check(&spec, &images, &standardised(&images), &[1], 0);
}

#[test]
fn kernels_of_all_sizes() {
    check_on_noise("3 x 3 without padding", (1, 8, 8), &[convolution(5, 3, 0), RELU, dense(3)]);
    check_on_noise("1 x 1", (3, 6, 5), &[convolution(9, 1, 0), RELU, pool(2, 2, 0), dense(3)]);
    check_on_noise("as large as the image", (2, 5, 5), &[convolution(17, 5, 0), RELU, dense(3)]);
    check_on_noise("image and all padding", (2, 3, 4), &[convolution(3, 7, 3), RELU, dense(3)]);
    check_on_noise("even", (1, 7, 7), &[convolution(4, 4, 2), RELU, pool(2, 2, 0), dense(3)]);
    check_on_noise("more rows than registers", (1, 14, 14), &[convolution(3, 12, 0), dense(3)]);
    check_on_noise("long rows", (24, 8, 8), &[convolution(3, 5, 2), RELU, dense(3)]);
    check_on_noise(
        "very long rows",
        (40, 6, 6),
        &[convolution(3, 5, 2), convolution(2, 3, 0), dense(3)],
    );
}

#[test]
fn channels_of_all_numbers() {
    for channels in [1, 2, 7, 8, 9, 15, 16, 17, 31, 33] {
        let layers = [
            convolution(channels, 3, 1),
            RELU,
            pool(2, 2, 0),
            convolution(5, 3, 1),
            RELU,
            dense(3),
        ];
        check_on_noise(&format!("{channels} channels"), (2, 8, 8), &layers);
    }
    for channels in [1, 2, 3, 5] {
        let layers = [convolution(6, 5, 2), RELU, pool(2, 2, 0), dense(3)];
        check_on_noise(&format!("{channels} channels of input"), (channels, 9, 6), &layers);
    }
}

#[test]
fn pools_of_all_kinds() {
    let first = convolution(6, 3, 1);
    check_on_noise("3 by 2, padded", (2, 9, 8), &[first, RELU, pool(3, 2, 1), dense(3)]);
    check_on_noise("without relu", (2, 9, 8), &[first, pool(3, 2, 1), dense(3)]);
    check_on_noise("without pool", (2, 9, 8), &[first, RELU, dense(3)]);
    check_on_noise("neither", (2, 9, 8), &[first, dense(3)]);
    check_on_noise("overlapping", (1, 7, 7), &[first, RELU, pool(3, 1, 0), dense(3)]);
    check_on_noise("with gaps", (1, 9, 9), &[first, RELU, pool(2, 3, 0), dense(3)]);
    check_on_noise("all of it", (1, 6, 6), &[first, RELU, pool(6, 1, 0), dense(3)]);
    check_on_noise(
        "pool after pool",
        (2, 12, 12),
        &[first, pool(2, 1, 0), pool(3, 2, 1), dense(3)],
    );
    check_on_noise(
        "pool first",
        (2, 12, 12),
        &[pool(2, 2, 0), convolution(4, 3, 1), RELU, dense(3)],
    );
    check_on_noise(
        "padded convolution after two pools",
        (2, 12, 12),
        &[first, RELU, pool(2, 2, 0), pool(2, 1, 0), convolution(4, 3, 1), RELU, dense(3)],
    );
}

#[test]
fn layers_in_odd_orders() {
    let (first, second) = (convolution(6, 3, 1), convolution(5, 3, 2));
    check_on_noise("convolution after convolution", (2, 6, 6), &[first, second, RELU, dense(3)]);
    check_on_noise("three in a row", (2, 6, 6), &[first, second, convolution(3, 2, 0), dense(3)]);
    check_on_noise("relu first", (2, 6, 6), &[RELU, convolution(6, 3, 0), RELU, dense(3)]);
    check_on_noise("relu before dense", (2, 4, 4), &[RELU, dense(5), RELU, RELU, dense(3)]);
    check_on_noise("relu after the scores", (2, 4, 4), &[dense(5), dense(3), RELU]);
    check_on_noise("pool, then relu", (2, 8, 8), &[first, pool(2, 2, 0), RELU, dense(3)]);
    check_on_noise("relu twice", (2, 8, 8), &[first, RELU, RELU, dense(3)]);
    for side in [1, 2, 3] {
        let layers = [convolution(4, 3, 1), RELU, convolution(20, 3, 1), RELU, dense(3)];
        check_on_noise(&format!("side {side}"), (3, side, side), &layers);
    }
}

#[test]
fn relu_between_something_else_and_a_padded_convolution() {
    let second = convolution(5, 3, 1);
    check_on_noise("relu first", (2, 6, 6), &[RELU, second, RELU, dense(3)]);
    let layers = [convolution(4, 3, 1), pool(2, 2, 0), RELU, second, RELU, dense(3)];
    check_on_noise("pool, then relu", (2, 8, 8), &layers);
    let layers = [convolution(4, 3, 1), RELU, RELU, second, RELU, dense(3)];
    check_on_noise("relu twice", (2, 8, 8), &layers);
}

#[test]
fn scores_and_evaluation_are_those_of_the_reference() {
    let digits = embedded_digits().unwrap();
    let pixels = standardised(&digits.train);
    let layers = [convolution(6, 5, 2), RELU, pool(3, 2, 1), dense(10)];
    let spec = spec("small", (1, 28, 28), &layers);
    // More than two evaluation batches, the last one small.
    let indices: Vec<u32> = (0..207).map(|index| index * 3 % 1000).collect();
    let samples = Samples::of_images(&digits.test, Some(&indices), &pixels);
    for backend in Backend::available() {
        let trainer = Trainer::new(Model::with_backend(spec.clone(), backend).unwrap());
        let parameters = trainer.model().initial(Seed(8));
        let network = Network::new(trainer.model(), &parameters);
        let batch = Batch::middle(trainer.model(), &samples);
        let mut worker = trainer.worker();
        let scores = worker.scores(&parameters, &samples).unwrap();
        let mut correct = 0;
        for ((scores, image), &label) in
            scores.chunks_exact(10).zip(&batch.images).zip(&batch.labels)
        {
            let expected = network.scores(image);
            let found: Vec<f64> = scores.iter().copied().map(f64::from).collect();
            assert!(distance(&found, &expected) <= 1e-5 * norm(&expected));
            let best = (0..10).max_by(|&a, &b| expected[a].total_cmp(&expected[b])).unwrap();
            correct += u64::from(best == label);
        }
        let evaluation = worker.evaluate(&parameters, &samples).unwrap();
        assert_eq!(evaluation.samples, 207);
        assert_eq!(evaluation.class_correct.iter().sum::<u64>(), correct);
        assert!((evaluation.loss() - network.loss(&batch)).abs() < 1e-5);
    }
}

#[test]
fn multiply_adds_are_never_forgotten() {
    let spec = spec("small", (1, 6, 6), &[convolution(4, 3, 1), RELU, dense(3)]);
    let images = noise(spec.input, 3, 7, 5);
    let pixels = standardised(&images);
    let trainer = Trainer::new(Model::new(spec).unwrap());
    let parameters = trainer.model().initial(Seed(1));
    let count = |batches: &[usize]| {
        let mut worker = trainer.worker();
        for &batch in batches {
            let indices: Vec<u32> = (0..batch as u32).collect();
            let samples = Samples::of_images(&images, Some(&indices), &pixels);
            worker.gradient(&parameters, &samples).unwrap();
        }
        worker.multiply_adds()
    };
    assert_eq!(count(&[1, 7]), count(&[1]) + count(&[7]), "a larger batch gets new buffers");
}

/// A model of those layers whose sizes fit behind the ones before.
fn fitting(input: (u32, u32, u32), layers: Vec<Layer>, scores: &[Layer]) -> Vec<Layer> {
    let mut chosen: Vec<Layer> = Vec::new();
    for layer in layers {
        let longer = [&chosen[..], &[layer], scores].concat();
        if Model::new(spec("any", input, &longer)).is_ok() {
            chosen.push(layer);
        }
    }
    [&chosen[..], scores].concat()
}

/// Any layer that is not dense.
fn any_layer() -> impl Strategy<Value = Layer> {
    prop_oneof![
        3 => (1..20usize, 1..6usize, 0..4usize).prop_map(|(c, k, p)| convolution(c, k, p)),
        2 => (1..4usize, 1..4usize, 0..2usize).prop_map(|(s, t, p)| pool(s, t, p)),
        2 => Just(RELU),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_model_that_can_be_built(
        input in (1..6u32, 1..10u32, 1..10u32),
        layers in prop::collection::vec(any_layer(), 0..6),
        hidden in prop::option::of(1..20usize),
        count in 1..4usize,
        seed in 0..1000u64,
    ) {
        let scores = [hidden.map(dense), Some(dense(3))].into_iter().flatten();
        let layers = fitting(input, layers, &scores.collect::<Vec<_>>());
        let spec = spec("any", input, &layers);
        let model = Model::new(spec.clone()).unwrap();
        let images = noise(spec.input, 3, count, seed);
        let pixels = standardised(&images);
        let samples = Samples::all(&images, &pixels);
        let parameters = model.initial(Seed(seed));
        let network = Network::new(&model, &parameters);
        let expected = network.gradient(&Batch::middle(&model, &samples));
        let result = check_paths(&spec, &network, &parameters, &samples, &expected);
        prop_assert!(result.is_ok(), "{layers:?}: {}", result.unwrap_err());
    }
}
