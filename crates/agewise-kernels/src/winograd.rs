//! Convolutions of 5 by 5 with fewer multiplications (Winograd, 1980; Lavin and Gray, 2016).
//!
//! A tile of M by M outputs depends on A by A inputs, A = M + 4. As polynomials, inputs and weights are evaluated at A
//! points, where a convolution is a product, and the outputs are interpolated from the products: A² multiplications for
//! M² outputs instead of 25 M². For M = 2 that is 9 per output, for M = 4 it is 4. The products of all tiles and
//! channels at one point are a matrix product. More points lose more digits: M = 2 keeps six of them and serves
//! training, M = 4 keeps five and serves evaluation.

use crate::backend::Kernel;
use crate::tile::{Strided, blocks, multiply_add, with_rows};
use crate::vector::{LANES, Vector};
use crate::{Aligned, Backend};

/// Side of the kernels that this is made for.
const KERNEL: usize = 5;

/// Fewer tiles are faster directly: the matrix products would be too thin.
const FEWEST_TILES: usize = 9;

/// The transforms for one size of tiles: A points, M outputs.
trait Points<const A: usize, const M: usize> {
    /// Inputs to values at the points.
    const INPUT: [[f32; A]; A];
    /// Weights to values at the points.
    const WEIGHT: [[f32; KERNEL]; A];
    /// Products to outputs.
    const OUTPUT: [[f32; A]; M];
}

/// The points 0, 1, -1, 2, -2 and infinity.
struct Two;

impl Points<6, 2> for Two {
    const INPUT: [[f32; 6]; 6] = [
        [4.0, 0.0, -5.0, 0.0, 1.0, 0.0],
        [0.0, -4.0, -4.0, 1.0, 1.0, 0.0],
        [0.0, 4.0, -4.0, -1.0, 1.0, 0.0],
        [0.0, -2.0, -1.0, 2.0, 1.0, 0.0],
        [0.0, 2.0, -1.0, -2.0, 1.0, 0.0],
        [0.0, 4.0, 0.0, -5.0, 0.0, 1.0],
    ];
    const WEIGHT: [[f32; 5]; 6] = [
        [1.0 / 4.0, 0.0, 0.0, 0.0, 0.0],
        [-1.0 / 6.0; 5],
        [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
        [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0, 1.0 / 3.0, 2.0 / 3.0],
        [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0, -1.0 / 3.0, 2.0 / 3.0],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ];
    const OUTPUT: [[f32; 6]; 2] =
        [[1.0, 1.0, 1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, 2.0, -2.0, 1.0]];
}

/// The points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity.
struct Four;

impl Points<8, 4> for Four {
    const INPUT: [[f32; 8]; 8] = [
        [1.0, 0.0, -21.0 / 4.0, 0.0, 21.0 / 4.0, 0.0, -1.0, 0.0],
        [0.0, 1.0, 1.0, -17.0 / 4.0, -17.0 / 4.0, 1.0, 1.0, 0.0],
        [0.0, -1.0, 1.0, 17.0 / 4.0, -17.0 / 4.0, -1.0, 1.0, 0.0],
        [0.0, 1.0 / 2.0, 1.0 / 4.0, -5.0 / 2.0, -5.0 / 4.0, 2.0, 1.0, 0.0],
        [0.0, -1.0 / 2.0, 1.0 / 4.0, 5.0 / 2.0, -5.0 / 4.0, -2.0, 1.0, 0.0],
        [0.0, 2.0, 4.0, -5.0 / 2.0, -5.0, 1.0 / 2.0, 1.0, 0.0],
        [0.0, -2.0, 4.0, 5.0 / 2.0, -5.0, -1.0 / 2.0, 1.0, 0.0],
        [0.0, -1.0, 0.0, 21.0 / 4.0, 0.0, -21.0 / 4.0, 0.0, 1.0],
    ];
    const WEIGHT: [[f32; 5]; 8] = [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [-2.0 / 9.0; 5],
        [-2.0 / 9.0, 2.0 / 9.0, -2.0 / 9.0, 2.0 / 9.0, -2.0 / 9.0],
        [1.0 / 90.0, 1.0 / 45.0, 2.0 / 45.0, 4.0 / 45.0, 8.0 / 45.0],
        [1.0 / 90.0, -1.0 / 45.0, 2.0 / 45.0, -4.0 / 45.0, 8.0 / 45.0],
        [32.0 / 45.0, 16.0 / 45.0, 8.0 / 45.0, 4.0 / 45.0, 2.0 / 45.0],
        [32.0 / 45.0, -16.0 / 45.0, 8.0 / 45.0, -4.0 / 45.0, 2.0 / 45.0],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ];
    const OUTPUT: [[f32; 8]; 4] = [
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        [0.0, 1.0, -1.0, 2.0, -2.0, 1.0 / 2.0, -1.0 / 2.0, 0.0],
        [0.0, 1.0, 1.0, 4.0, 4.0, 1.0 / 4.0, 1.0 / 4.0, 0.0],
        [0.0, 1.0, -1.0, 8.0, -8.0, 1.0 / 8.0, -1.0 / 8.0, 1.0],
    ];
}

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

    /// Images that are best computed together: few tiles make thin matrices.
    pub fn group(&self) -> usize {
        match self.tiles {
            Tiles::Two => 1,
            Tiles::Four => 3,
        }
    }

    /// Output channels whose products are made at once: they stay in the second cache until they are used.
    fn chunk(&self) -> usize {
        self.padded_channels.min(2 * LANES)
    }

    /// Tiles of an image.
    fn count(&self) -> usize {
        self.outputs().0.div_ceil(self.side()) * self.tiles_across()
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
            inputs: Aligned::zeros(points * self.group() * self.count() * self.in_channels),
            products: Aligned::zeros(points * self.group() * self.count() * self.chunk()),
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

    /// The outputs of so many images, the first of which begins at `start`: for each of them positions by padded channels.
    ///
    /// # Panics
    /// If there are more than [`Self::group`], or a buffer is too short.
    pub fn forward(
        &self,
        images: &Aligned,
        start: usize,
        count: usize,
        scratch: &mut WinogradScratch,
        out: &mut Aligned,
    ) {
        let images = &images[start..][..count * self.image_len()];
        let (rows, columns) = self.outputs();
        assert!(count <= self.group());
        assert!(out.len() >= count * rows * columns * self.padded_channels);
        let points = self.points();
        assert!(scratch.weights.len() >= points * self.in_channels * self.padded_channels);
        assert!(scratch.inputs.len() >= points * count * self.count() * self.in_channels);
        assert!(scratch.products.len() >= points * count * self.count() * self.chunk());
        assert!(scratch.biases.len() >= self.padded_channels);
        let kernel = Forward {
            shape: self,
            tiles: count * self.count(),
            images: images.as_ptr(),
            weights: scratch.weights.as_ptr(),
            biases: scratch.biases.as_ptr(),
            inputs: scratch.inputs.as_mut_ptr(),
            products: scratch.products.as_mut_ptr(),
            out: out.as_mut_ptr(),
        };
        // SAFETY: the buffers have the lengths of the shape.
        unsafe { self.backend.run(kernel) }
    }
}

/// [`Winograd::prepare`].
struct Prepare<'a> {
    shape: &'a Winograd,
    weights: *const f32,
    transformed: *mut f32,
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

/// [`Winograd::forward`] of so many tiles, of one image or of several.
struct Forward<'a> {
    shape: &'a Winograd,
    tiles: usize,
    images: *const f32,
    weights: *const f32,
    biases: *const f32,
    inputs: *mut f32,
    products: *mut f32,
    out: *mut f32,
}

impl Kernel for Forward<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        unsafe {
            match self.shape.tiles {
                Tiles::Two => self.forward::<V, 6, 2, Two>(),
                Tiles::Four => self.forward::<V, 8, 4, Four>(),
            }
        }
    }
}

impl Forward<'_> {
    #[inline(always)]
    unsafe fn forward<V: Vector, const A: usize, const M: usize, P: Points<A, M>>(&self) {
        let Self { shape, tiles, inputs: transformed, .. } = *self;
        let (inputs, outputs) = (shape.in_channels, shape.padded_channels);
        unsafe {
            transform_inputs::<V, A, M, P>(shape, tiles, self.images, transformed);
            for first in (0..outputs).step_by(shape.chunk()) {
                let channels = shape.chunk().min(outputs - first);
                for point in 0..A * A {
                    let left = transformed.add(point * tiles * inputs);
                    let right = self.weights.add((point * outputs + first) * inputs);
                    let products = self.products.add(point * tiles * channels);
                    multiply::<V>(tiles, inputs, channels, left, right, products);
                }
                let (biases, out) = (self.biases.add(first), self.out.add(first));
                transform_outputs::<V, A, M, P>(shape, tiles, channels, self.products, biases, out);
            }
        }
    }
}

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

/// A matrix product for one point: so many tiles, `inner` input channels, `columns` output channels.
#[inline(always)]
unsafe fn multiply<V: Vector>(
    tiles: usize,
    inner: usize,
    columns: usize,
    left: *const f32,
    right: *const f32,
    products: *mut f32,
) {
    for (panel, vectors) in blocks(columns / LANES, V::TILE.1) {
        for (first, rows) in blocks(tiles, V::TILE.0) {
            unsafe {
                let left = left.add(first * inner);
                let right = right.add(panel * LANES * inner);
                let to = products.add(first * columns + panel * LANES);
                with_rows!(rows, V::TILE.0, |R| if const { V::TILE.1 == 2 } && vectors == 2 {
                    multiply_tile::<V, R, 2>(inner, columns, left, right, to);
                } else {
                    multiply_tile::<V, R, 1>(inner, columns, left, right, to);
                });
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

#[inline(always)]
unsafe fn transform_inputs<V: Vector, const A: usize, const M: usize, P: Points<A, M>>(
    shape: &Winograd,
    tiles: usize,
    images: *const f32,
    transformed: *mut f32,
) {
    let (across, inputs) = (shape.tiles_across(), shape.in_channels);
    for tile in 0..tiles {
        let (image, place) = (tile / shape.count(), tile % shape.count());
        let image = unsafe { images.add(image * shape.image_len()) };
        let (top, left) = (place / across * M, place % across * M);
        // What lies behind the image is zero, as if the border were wider.
        let (down, right) = (A.min(shape.height - top), A.min(shape.width - left));
        for first in (0..inputs).step_by(LANES) {
            unsafe {
                let zero = V::splat(0.0);
                let mut columns = [[zero; A]; A];
                for x in 0..right {
                    let mut values = [zero; A];
                    for y in 0..down {
                        let pixel = (top + y) * shape.width + left + x;
                        values[y] = V::load(image.add(pixel * inputs + first));
                    }
                    for y in 0..A {
                        columns[y][x] = combine(&P::INPUT[y], &values);
                    }
                }
                for y in 0..A {
                    for x in 0..A {
                        let place = ((y * A + x) * tiles + tile) * inputs + first;
                        combine(&P::INPUT[x], &columns[y]).store(transformed.add(place));
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn transform_outputs<V: Vector, const A: usize, const M: usize, P: Points<A, M>>(
    shape: &Winograd,
    tiles: usize,
    channels: usize,
    products: *const f32,
    biases: *const f32,
    out: *mut f32,
) {
    let (across, outputs) = (shape.tiles_across(), shape.padded_channels);
    let (height, width) = shape.outputs();
    for tile in 0..tiles {
        let (image, place) = (tile / shape.count(), tile % shape.count());
        let out = unsafe { out.add(image * height * width * outputs) };
        let (top, left) = (place / across * M, place % across * M);
        for first in (0..channels).step_by(LANES) {
            unsafe {
                let zero = V::splat(0.0);
                let bias = V::load(biases.add(first));
                let mut columns = [[zero; A]; M];
                for x in 0..A {
                    let mut values = [zero; A];
                    for y in 0..A {
                        let place = ((y * A + x) * tiles + tile) * channels + first;
                        values[y] = V::load(products.add(place));
                    }
                    for y in 0..M {
                        columns[y][x] = combine(&P::OUTPUT[y], &values);
                    }
                }
                for y in 0..M.min(height - top) {
                    for x in 0..M.min(width - left) {
                        let position = (top + y) * width + left + x;
                        let value = combine(&P::OUTPUT[x], &columns[y]).add(bias);
                        value.store(out.add(position * outputs + first));
                    }
                }
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
                        // The second of two images, alone or with the first.
                        let count = winograd.group().min(2);
                        let mut out = Aligned::zeros(winograd.group() * plain.plane_len());
                        let start = (2 - count) * image_len;
                        winograd.forward(&images, start, count, &mut scratch, &mut out);
                        out[(count - 1) * plain.plane_len()..][..plain.plane_len()].to_vec()
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
