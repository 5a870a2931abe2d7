//! Models and images to try.

use agewise_core::{Draws, Seed, Stream};
use agewise_train::data::{ImageShape, Images, PixelNormalization, PixelScale};
use agewise_train::model::{Layer, ModelSpec};
use rand_core::Rng;

pub(crate) const RELU: Layer = Layer::Relu;

pub(crate) fn convolution(channels: usize, kernel: usize, padding: usize) -> Layer {
    Layer::Convolution { channels, kernel, padding }
}

pub(crate) fn pool(size: usize, stride: usize, padding: usize) -> Layer {
    Layer::MaxPool { size, stride, padding }
}

pub(crate) fn dense(units: usize) -> Layer {
    Layer::Dense { units }
}

pub(crate) fn spec(
    name: &str,
    (channels, height, width): (u32, u32, u32),
    layers: &[Layer],
) -> ModelSpec {
    let input = ImageShape { channels, height, width };
    ModelSpec { name: name.to_string(), input, layers: layers.to_vec() }
}

/// Random numbers for tests.
pub(crate) fn numbers(seed: u64) -> impl Rng {
    Draws::new(Seed(seed), Stream::custom(900), 0).sequence(0)
}

/// Images of noise: no two values of a window are equal in them, so that nothing depends on who wins a tie.
pub(crate) fn noise(shape: ImageShape, classes: u32, count: usize, seed: u64) -> Images {
    let mut numbers = numbers(seed);
    let mut bytes = |count: usize| -> Vec<u8> {
        (0..count).map(|_| (numbers.next_u64() >> 56) as u8).collect()
    };
    let pixels = bytes(count * shape.len());
    let labels: Vec<u8> =
        bytes(count).iter().map(|byte| (u32::from(*byte) % classes) as u8).collect();
    Images::new(shape, classes, pixels, labels).unwrap()
}

/// Pixels with mean 0 and deviation 1: half of them are negative.
pub(crate) fn standardised(images: &Images) -> PixelNormalization {
    PixelNormalization::new(PixelScale::Standardised, images)
}
