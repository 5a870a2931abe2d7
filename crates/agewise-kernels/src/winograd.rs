//! Convolutions of 5 by 5 with fewer multiplications (Winograd, 1980; Lavin and Gray, 2016).
//!
//! A tile of M by M outputs depends on A by A inputs, A = M + 4. As polynomials, inputs and weights are evaluated at A
//! points, where a convolution is a product, and the outputs are interpolated from the products: A² multiplications for
//! M² outputs instead of 25 M². For M = 2 that is 9 per output, for M = 4 it is 4. The products of all tiles and
//! channels at one point are a matrix product. More points lose more digits: M = 2 keeps six of them and serves
//! training, M = 4 keeps five and serves evaluation.

mod points;
mod transforms;

use crate::backend::Kernel;
use crate::tile::{Strided, blocks, multiply_add, with_rows};
use crate::vector::{LANES, Vector};
use crate::{Aligned, Backend};
use points::KERNEL;
use transforms::{Prepare, TransformInputs, TransformOutputs};

/// Fewer tiles are faster directly: the matrix products would be too thin.
const FEWEST_TILES: usize = 9;

/// Which tiles are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tiles {
    /// 2 by 2 outputs.
    Two,
    /// 4 by 4 outputs.
    Four,
}

/// The geometry of a convolution by tiles.
#[derive(Debug, Clone)]
pub struct Winograd {
    backend: Backend,
    tiles: Tiles,
    /// Of the padded image.
    height: usize,
    width: usize,
    in_channels: usize,
    channels: usize,
    padded_channels: usize,
}

/// What a convolution by tiles keeps.
#[derive(Debug, Clone, Default)]
pub struct WinogradScratch {
    weights: Aligned,
    biases: Aligned,
    inputs: Aligned,
    products: Aligned,
}

impl Winograd {
    /// Where it is worth it. The shape alone decides, as this form rounds in other places than the direct one.
    pub fn new(
        backend: Backend,
        tiles: Tiles,
        (height, width, in_channels): (usize, usize, usize),
        kernel: usize,
        channels: usize,
    ) -> Option<Self> {
        let winograd = Self {
            backend,
            tiles,
            height,
            width,
            in_channels,
            channels,
            padded_channels: channels.next_multiple_of(LANES),
        };
        let fits = kernel == KERNEL && in_channels > 0 && in_channels.is_multiple_of(LANES);
        (fits && winograd.count() >= FEWEST_TILES).then_some(winograd)
    }

    fn side(&self) -> usize {
        match self.tiles {
            Tiles::Two => 2,
            Tiles::Four => 4,
        }
    }

    fn image_len(&self) -> usize {
        self.height * self.width * self.in_channels
    }

    fn points(&self) -> usize {
        (self.side() + KERNEL - 1).pow(2)
    }

    /// Rows and columns of outputs.
    fn outputs(&self) -> (usize, usize) {
        (self.height + 1 - KERNEL, self.width + 1 - KERNEL)
    }

    fn tiles_across(&self) -> usize {
        self.outputs().1.div_ceil(self.side())
    }

    /// Output channels whose products are made at once: they stay in the second cache until they are used.
    fn chunk(&self) -> usize {
        self.padded_channels.min(2 * LANES)
    }

    /// Tiles of an image.
    fn count(&self) -> usize {
        self.outputs().0.div_ceil(self.side()) * self.tiles_across()
    }

    /// Floats from one point to the next, in rows of so many channels for each tile: a line more than there are, as powers of two
    /// would fall into the same places of the cache.
    fn point_stride(&self, channels: usize) -> usize {
        self.count() * channels + LANES
    }

    /// Multiply-adds of one image.
    pub fn multiply_adds(&self) -> u64 {
        (self.points() * self.count() * self.in_channels * self.channels) as u64
    }

    /// Buffers for one thread.
    pub fn scratch(&self) -> WinogradScratch {
        let points = self.points();
        WinogradScratch {
            weights: Aligned::zeros(points * self.in_channels * self.padded_channels),
            biases: Aligned::zeros(self.padded_channels),
            inputs: Aligned::zeros(points * self.point_stride(self.in_channels)),
            products: Aligned::zeros(points * self.point_stride(self.chunk())),
        }
    }

    /// Transforms weights (channel by channel) for [`Self::forward`].
    ///
    /// # Panics
    /// If a buffer is too short.
    pub fn prepare(&self, weights: &[f32], biases: &[f32], scratch: &mut WinogradScratch) {
        scratch.biases[..self.channels].copy_from_slice(biases);
        let weights = &weights[..self.channels * KERNEL * KERNEL * self.in_channels];
        let transformed = &mut scratch.weights;
        assert!(transformed.len() >= self.points() * self.in_channels * self.padded_channels);
        let (weights, transformed) = (weights.as_ptr(), transformed.as_mut_ptr());
        // SAFETY: the buffers have the lengths of the shape.
        unsafe { self.backend.run(Prepare { shape: self, weights, transformed }) }
    }

    /// The outputs of the image that begins at `start`: positions by padded channels.
    ///
    /// # Panics
    /// If a buffer is too short.
    pub fn forward(
        &self,
        images: &Aligned,
        start: usize,
        scratch: &mut WinogradScratch,
        out: &mut Aligned,
    ) {
        let image = &images[start..][..self.image_len()];
        let (rows, columns) = self.outputs();
        let outputs = self.padded_channels;
        assert!(out.len() >= rows * columns * outputs);
        let points = self.points();
        assert!(scratch.weights.len() >= points * self.in_channels * outputs);
        assert!(scratch.inputs.len() >= points * self.point_stride(self.in_channels));
        assert!(scratch.products.len() >= points * self.point_stride(self.chunk()));
        assert!(scratch.biases.len() >= outputs);
        let WinogradScratch { weights, biases, inputs, products } = scratch;
        let (image, transformed) = (image.as_ptr(), inputs.as_mut_ptr());
        // SAFETY: the buffers have the lengths of the shape, here and below.
        unsafe { self.backend.run(TransformInputs { shape: self, image, transformed }) }
        for first in (0..outputs).step_by(self.chunk()) {
            let channels = self.chunk().min(outputs - first);
            let multiply = Multiply {
                shape: self,
                first,
                channels,
                inputs: inputs.as_ptr(),
                weights: weights.as_ptr(),
                products: products.as_mut_ptr(),
            };
            let transform = TransformOutputs {
                shape: self,
                first,
                channels,
                products: products.as_ptr(),
                biases: biases.as_ptr(),
                out: out.as_mut_ptr(),
            };
            unsafe {
                self.backend.run(multiply);
                self.backend.run(transform);
            }
        }
    }
}

/// The matrix products of all points, for so many output channels from `first` on. A kernel of its own: beside the
/// transforms the compiler runs out of registers in the tiles.
struct Multiply<'a> {
    shape: &'a Winograd,
    first: usize,
    channels: usize,
    inputs: *const f32,
    weights: *const f32,
    products: *mut f32,
}

impl Kernel for Multiply<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (tiles, columns) = (self.shape.count(), self.channels);
        let (inner, outputs) = (self.shape.in_channels, self.shape.padded_channels);
        for point in 0..self.shape.points() {
            unsafe {
                let left = self.inputs.add(point * self.shape.point_stride(inner));
                let right = self.weights.add((point * outputs + self.first) * inner);
                let products = self.products.add(point * self.shape.point_stride(columns));
                for (panel, vectors) in blocks(columns / LANES, V::TILE.1) {
                    for (first, rows) in blocks(tiles, V::TILE.0) {
                        let left = left.add(first * inner);
                        let right = right.add(panel * LANES * inner);
                        let to = products.add(first * columns + panel * LANES);
                        with_rows!(
                            rows,
                            V::TILE.0,
                            |R| if const { V::TILE.1 == 2 } && vectors == 2 {
                                multiply_tile::<V, R, 2>(inner, columns, left, right, to);
                            } else {
                                multiply_tile::<V, R, 1>(inner, columns, left, right, to);
                            }
                        );
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn multiply_tile<V: Vector, const R: usize, const C: usize>(
    inner: usize,
    columns: usize,
    left: *const f32,
    right: *const f32,
    to: *mut f32,
) {
    unsafe {
        let left = Strided { from: left, rows: inner, numbers: 1 };
        let mut sums = [[V::splat(0.0); C]; R];
        multiply_add(&mut sums, inner, &left, (right, LANES, inner * LANES));
        for r in 0..R {
            for c in 0..C {
                sums[r][c].store(to.add(r * columns + c * LANES));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Convolution;
    use crate::testing::{assert_same_bits, numbers};

    /// Every backend against the portable one, to the bit, and that one against the direct convolution. There the error is
    /// measured by the size of the sum of all products without their signs, of which rounding loses 1e-7 in any order;
    /// the transforms lose up to 10 and 100 times as much.
    #[test]
    fn every_backend_gives_the_same_bits_and_they_are_a_convolution() {
        for (height, width, inputs, channels) in
            [(18, 18, 32, 64), (16, 16, 64, 33), (13, 21, 16, 5), (24, 11, 48, 40)]
        {
            let size = (height, width, inputs);
            let image_len = height * width * inputs;
            let weights = numbers(channels * 25 * inputs, 0.71);
            let biases = numbers(channels, 1.3);
            let mut images = Aligned::zeros(2 * image_len);
            images.copy_from_slice(&numbers(2 * image_len, 0.37));
            let plain = Convolution::new(Backend::fastest(), size, KERNEL, channels);
            let mut packed = Aligned::zeros(plain.packed_len());
            plain.pack(&weights, &biases, &mut packed);
            let mut expected = Aligned::zeros(plain.plane_len());
            plain.forward(&images, image_len, &packed, &mut expected);
            for (tiles, tolerance) in [(Tiles::Two, 1e-6), (Tiles::Four, 1e-5)] {
                let by_backend = Backend::available().into_iter().map(|backend| {
                    let winograd = Winograd::new(backend, tiles, size, KERNEL, channels);
                    winograd.map(|winograd| {
                        let mut scratch = winograd.scratch();
                        winograd.prepare(&weights, &biases, &mut scratch);
                        // The second of two images.
                        let mut out = Aligned::zeros(plain.plane_len());
                        winograd.forward(&images, image_len, &mut scratch, &mut out);
                        out.to_vec()
                    })
                });
                let by_backend: Vec<_> = by_backend.collect();
                assert!(by_backend.iter().all(|out| out.is_some() == by_backend[0].is_some()));
                let outs: Vec<Vec<f32>> = by_backend.into_iter().flatten().collect();
                let Some(portable) = outs.last() else { continue };
                for out in &outs {
                    assert_same_bits(out, portable, &format!("{tiles:?}, {size:?}"));
                }
                let pairs = portable.iter().zip(expected.iter());
                let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                // Half of |sin| times |sin| on average.
                let size = 25.0 * inputs as f32 / 2.0;
                assert!(worst < tolerance * size, "{tiles:?}, {channels}: {worst} of {size}");
            }
        }
    }

    #[test]
    fn the_shape_decides_where_it_fits() {
        for backend in Backend::available() {
            assert!(Winograd::new(backend, Tiles::Two, (18, 18, 32), 5, 64).is_some());
            assert!(Winograd::new(backend, Tiles::Two, (18, 18, 32), 3, 64).is_none());
            assert!(Winograd::new(backend, Tiles::Two, (18, 18, 1), 5, 64).is_none());
            assert!(Winograd::new(backend, Tiles::Two, (18, 18, 24), 5, 64).is_none());
            assert!(Winograd::new(backend, Tiles::Four, (8, 12, 32), 5, 64).is_none());
        }
    }
}
