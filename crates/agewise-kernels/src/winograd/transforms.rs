//! The transforms of weights, inputs and outputs. Each is a kernel of its own.

use super::points::{Four, KERNEL, Points, Two};
use super::{Tiles, Winograd};
use crate::backend::Kernel;
use crate::vector::{LANES, Vector};
use std::mem::MaybeUninit;

/// One row of a transform: a chain over the factors that are not 0. The factors are constants, and those that are 1 are
/// no product.
#[inline(always)]
unsafe fn combine<V: Vector, const N: usize>(factors: &[f32; N], values: &[V; N]) -> V {
    unsafe {
        let mut sum = None;
        for k in 0..N {
            if factors[k] != 0.0 {
                sum = Some(match sum {
                    None if factors[k] == 1.0 => values[k],
                    None => V::splat(factors[k]).mul(values[k]),
                    Some(sum) if factors[k] == 1.0 => values[k].add(sum),
                    Some(sum) => V::splat(factors[k]).mul_add(values[k], sum),
                });
            }
        }
        sum.unwrap_or(V::splat(0.0))
    }
}

/// [`Winograd::prepare`].
pub(super) struct Prepare<'a> {
    pub(super) shape: &'a Winograd,
    pub(super) weights: *const f32,
    pub(super) transformed: *mut f32,
}

impl Kernel for Prepare<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        unsafe {
            match self.shape.tiles {
                Tiles::Two => self.transform::<V, 6, 2, Two>(),
                Tiles::Four => self.transform::<V, 8, 4, Four>(),
            }
        }
    }
}

impl Prepare<'_> {
    /// For each point, panels of output channels that lie side by side for each input channel.
    #[inline(always)]
    unsafe fn transform<V: Vector, const A: usize, const M: usize, P: Points<A, M>>(&self) {
        let inputs = self.shape.in_channels;
        for channel in 0..self.shape.channels {
            let column = channel / LANES * LANES * inputs + channel % LANES;
            for first in (0..inputs).step_by(LANES) {
                unsafe {
                    let weights = self.weights.add(channel * KERNEL * KERNEL * inputs + first);
                    let zero = V::splat(0.0);
                    let mut rows = [[zero; KERNEL]; A];
                    for x in 0..KERNEL {
                        let mut values = [zero; KERNEL];
                        for y in 0..KERNEL {
                            values[y] = V::load(weights.add((y * KERNEL + x) * inputs));
                        }
                        for y in 0..A {
                            rows[y][x] = combine(&P::WEIGHT[y], &values);
                        }
                    }
                    for y in 0..A {
                        for x in 0..A {
                            let mut sums = [0.0; LANES];
                            combine(&P::WEIGHT[x], &rows[y]).store(sums.as_mut_ptr());
                            let point = (y * A + x) * inputs * self.shape.padded_channels + column;
                            for (lane, sum) in sums.into_iter().enumerate() {
                                *self.transformed.add(point + (first + lane) * LANES) = sum;
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The values of one image at the points: for each point a row of input channels per tile.
pub(super) struct TransformInputs<'a> {
    pub(super) shape: &'a Winograd,
    pub(super) image: *const f32,
    pub(super) transformed: *mut f32,
}

impl Kernel for TransformInputs<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        unsafe {
            match self.shape.tiles {
                Tiles::Two => self.transform::<V, 6, 2, Two>(),
                Tiles::Four => self.transform::<V, 8, 4, Four>(),
            }
        }
    }
}

impl TransformInputs<'_> {
    #[inline(always)]
    unsafe fn transform<V: Vector, const A: usize, const M: usize, P: Points<A, M>>(&self) {
        let Self { shape, image, transformed } = *self;
        let (across, inputs) = (shape.tiles_across(), shape.in_channels);
        let stride = shape.point_stride(inputs);
        for tile in 0..shape.count() {
            let (top, left) = (tile / across * M, tile % across * M);
            // What lies behind the image is zero, as if the border were wider.
            let (down, right) = (A.min(shape.height - top), A.min(shape.width - left));
            for first in (0..inputs).step_by(LANES) {
                unsafe {
                    let zero = V::splat(0.0);
                    // Filling it with zeros first would be a call for each tile.
                    let mut columns = [[MaybeUninit::<V>::uninit(); A]; A];
                    for x in 0..A {
                        let mut values = [zero; A];
                        if x < right {
                            for y in 0..down {
                                let pixel = (top + y) * shape.width + left + x;
                                values[y] = V::load(image.add(pixel * inputs + first));
                            }
                        }
                        for y in 0..A {
                            columns[y][x].write(combine(&P::INPUT[y], &values));
                        }
                    }
                    for y in 0..A {
                        // Every place was written above.
                        let row = columns[y].as_ptr().cast::<[V; A]>().read();
                        for x in 0..A {
                            let place = (y * A + x) * stride + tile * inputs + first;
                            combine(&P::INPUT[x], &row).store(transformed.add(place));
                        }
                    }
                }
            }
        }
    }
}

/// The outputs of one image, of so many channels from `first` on.
pub(super) struct TransformOutputs<'a> {
    pub(super) shape: &'a Winograd,
    pub(super) first: usize,
    pub(super) channels: usize,
    pub(super) products: *const f32,
    pub(super) biases: *const f32,
    pub(super) out: *mut f32,
}

impl Kernel for TransformOutputs<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        unsafe {
            match self.shape.tiles {
                Tiles::Two => self.transform::<V, 6, 2, Two>(),
                Tiles::Four => self.transform::<V, 8, 4, Four>(),
            }
        }
    }
}

impl TransformOutputs<'_> {
    #[inline(always)]
    unsafe fn transform<V: Vector, const A: usize, const M: usize, P: Points<A, M>>(&self) {
        let Self { shape, channels, products, .. } = *self;
        let (across, outputs) = (shape.tiles_across(), shape.padded_channels);
        let (height, width) = shape.outputs();
        let stride = shape.point_stride(channels);
        for tile in 0..shape.count() {
            let (top, left) = (tile / across * M, tile % across * M);
            for first in (0..channels).step_by(LANES) {
                unsafe {
                    let bias = V::load(self.biases.add(self.first + first));
                    let mut columns = [[MaybeUninit::<V>::uninit(); A]; M];
                    for x in 0..A {
                        let mut values = [V::splat(0.0); A];
                        for y in 0..A {
                            let place = (y * A + x) * stride + tile * channels + first;
                            values[y] = V::load(products.add(place));
                        }
                        for y in 0..M {
                            columns[y][x].write(combine(&P::OUTPUT[y], &values));
                        }
                    }
                    for y in 0..M.min(height - top) {
                        // Every place was written above.
                        let row = columns[y].as_ptr().cast::<[V; A]>().read();
                        for x in 0..M.min(width - left) {
                            let position = (top + y) * width + left + x;
                            let to = self.out.add(position * outputs + self.first + first);
                            combine(&P::OUTPUT[x], &row).add(bias).store(to);
                        }
                    }
                }
            }
        }
    }
}
