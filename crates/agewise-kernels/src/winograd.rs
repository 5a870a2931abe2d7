//! Convolutions of 5 by 5 with fewer multiplications (Winograd, 1980; Lavin and Gray, 2016).
//!
//! A tile of M by M outputs depends on A by A inputs, A = M + 4. As polynomials, inputs and weights are evaluated at A
//! points, where a convolution is a product, and the outputs are interpolated from the products: A² multiplications for
//! M² outputs instead of 25 M². For M = 2 that is 9 per output, for M = 4 it is 4. The products of all tiles and
//! channels at one point are a matrix product. More points lose more digits: M = 2 keeps six of them and serves
//! training, M = 4 keeps five and serves evaluation.

use crate::vector::Vector;
use crate::{Aligned, Backend, Instructions};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

/// Side of the kernels that this is made for.
const KERNEL: usize = 5;

/// Fewer input channels are faster directly: the matrix products would be too thin.
const FEWEST_CHANNELS: usize = 16;

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
    /// Where this backend is worth it.
    pub fn new(
        backend: Backend,
        tiles: Tiles,
        (height, width, in_channels): (usize, usize, usize),
        kernel: usize,
        channels: usize,
    ) -> Option<Self> {
        let fits = kernel == KERNEL
            && backend != Backend::PORTABLE
            && in_channels >= FEWEST_CHANNELS
            && in_channels.is_multiple_of(backend.lanes());
        let winograd = Self {
            backend,
            tiles,
            height,
            width,
            in_channels,
            channels,
            padded_channels: channels.next_multiple_of(2 * backend.lanes()),
        };
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
        let chunk = match self.tiles {
            Tiles::Two => 32,
            Tiles::Four => 16,
        };
        // At least one block of the matrix product.
        chunk.max(2 * self.backend.lanes()).min(self.padded_channels)
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
    pub fn prepare(&self, weights: &[f32], biases: &[f32], scratch: &mut WinogradScratch) {
        scratch.biases[..self.channels].copy_from_slice(biases);
        match self.tiles {
            Tiles::Two => self.transform_weights::<6, 2, Two>(weights, &mut scratch.weights),
            Tiles::Four => self.transform_weights::<8, 4, Four>(weights, &mut scratch.weights),
        }
    }

    /// For each point, blocks of output channels that lie side by side for each input channel.
    fn transform_weights<const A: usize, const M: usize, P: Points<A, M>>(
        &self,
        weights: &[f32],
        transformed: &mut [f32],
    ) {
        /// Input channels that are transformed side by side.
        const LANES: usize = 8;
        let (inputs, block) = (self.in_channels, 2 * self.backend.lanes());
        let taps = KERNEL * KERNEL * inputs;
        for channel in 0..self.channels {
            let weights = &weights[channel * taps..][..taps];
            let column = channel / block * block * inputs + channel % block;
            for first in (0..inputs).step_by(LANES) {
                let mut rows = [[[0.0; LANES]; KERNEL]; A];
                for (row, matrix) in rows.iter_mut().zip(P::WEIGHT) {
                    for (k, factor) in matrix.into_iter().enumerate() {
                        for (x, sums) in row.iter_mut().enumerate() {
                            let values = &weights[(k * KERNEL + x) * inputs + first..][..LANES];
                            for (sum, value) in sums.iter_mut().zip(values) {
                                *sum += factor * value;
                            }
                        }
                    }
                }
                for (down, row) in rows.iter().enumerate() {
                    for (right, matrix) in P::WEIGHT.into_iter().enumerate() {
                        let mut sums = [0.0; LANES];
                        for (factor, values) in matrix.into_iter().zip(row) {
                            for (sum, value) in sums.iter_mut().zip(values) {
                                *sum += factor * value;
                            }
                        }
                        let point = (down * A + right) * inputs * self.padded_channels + column;
                        for (lane, sum) in sums.into_iter().enumerate() {
                            transformed[point + (first + lane) * block] = sum;
                        }
                    }
                }
            }
        }
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
        match self.backend.0 {
            // SAFETY: the backend says that the processor has the instructions, and the buffers were checked.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { forward_avx2(self, images, scratch, out) },
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { forward_avx512(self, images, scratch, out) },
            // Never made for this backend.
            Instructions::Portable => {}
        }
    }
}

/// The fewest tiles: as many as the smallest block of the matrix product has rows, on any backend.
const FEWEST_TILES: usize = 9;

/// # Safety
/// The processor has AVX2 and FMA, and the buffers are long enough for the geometry.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn forward_avx2(
    shape: &Winograd,
    images: &[f32],
    scratch: &mut WinogradScratch,
    out: &mut [f32],
) {
    unsafe {
        match shape.tiles {
            Tiles::Two => forward::<__m256, 6, 2, Two, 6, 5, 4>(shape, images, scratch, out),
            Tiles::Four => forward::<__m256, 8, 4, Four, 6, 5, 4>(shape, images, scratch, out),
        }
    }
}

/// # Safety
/// The processor has AVX-512, and the buffers are long enough for the geometry.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn forward_avx512(
    shape: &Winograd,
    images: &[f32],
    scratch: &mut WinogradScratch,
    out: &mut [f32],
) {
    unsafe {
        match shape.tiles {
            Tiles::Two => forward::<__m512, 6, 2, Two, 14, 12, 9>(shape, images, scratch, out),
            Tiles::Four => forward::<__m512, 8, 4, Four, 14, 12, 9>(shape, images, scratch, out),
        }
    }
}

/// `MOST`, `LESS` and `LEAST` are the numbers of rows that a block of the matrix product can have.
#[inline(always)]
unsafe fn forward<
    V: Vector,
    const A: usize,
    const M: usize,
    P: Points<A, M>,
    const MOST: usize,
    const LESS: usize,
    const LEAST: usize,
>(
    shape: &Winograd,
    images: &[f32],
    scratch: &mut WinogradScratch,
    out: &mut [f32],
) {
    let tiles = images.len() / shape.image_len() * shape.count();
    let (inputs, outputs) = (shape.in_channels, shape.padded_channels);
    // The last block overlaps the one before it: as few rows as possible are computed twice.
    let computed = |rows: &usize| tiles.next_multiple_of(*rows);
    let fitting = [MOST, LESS, LEAST].into_iter().filter(|&rows| rows <= tiles);
    let rows = fitting.min_by_key(computed).unwrap_or(LEAST);
    unsafe {
        transform_inputs::<V, A, M, P>(shape, tiles, images.as_ptr(), scratch.inputs.as_mut_ptr());
        for first in (0..outputs).step_by(shape.chunk()) {
            let channels = shape.chunk().min(outputs - first);
            let products = scratch.products.as_mut_ptr();
            for point in 0..A * A {
                let left = scratch.inputs.as_ptr().add(point * tiles * inputs);
                let right = scratch.weights.as_ptr().add((point * outputs + first) * inputs);
                let products = products.add(point * tiles * channels);
                if rows == MOST {
                    multiply::<V, MOST>(tiles, inputs, channels, left, right, products);
                } else if rows == LESS {
                    multiply::<V, LESS>(tiles, inputs, channels, left, right, products);
                } else {
                    multiply::<V, LEAST>(tiles, inputs, channels, left, right, products);
                }
            }
            let (biases, out) = (scratch.biases.as_ptr().add(first), out.as_mut_ptr().add(first));
            transform_outputs::<V, A, M, P>(shape, tiles, channels, products, biases, out);
        }
    }
}

/// One row of a transform. The factors are constants, and those that are 0 or 1 cost nothing.
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
        for first in (0..inputs).step_by(V::LANES) {
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

/// A matrix product for one point: `rows` tiles, `inner` input channels, `columns` output channels in blocks of two
/// registers.
#[inline(always)]
unsafe fn multiply<V: Vector, const MR: usize>(
    rows: usize,
    inner: usize,
    columns: usize,
    left: *const f32,
    right: *const f32,
    products: *mut f32,
) {
    let width = 2 * V::LANES;
    for block in (0..columns).step_by(width) {
        let mut done = 0;
        while done < rows {
            let first = done.min(rows - MR);
            done = first + MR;
            unsafe {
                let zero = V::splat(0.0);
                let mut sums = [[zero; 2]; MR];
                let values = left.add(first * inner);
                let mut weights = right.add(block * inner);
                for k in 0..inner {
                    let pair = [V::load(weights), V::load(weights.add(V::LANES))];
                    weights = weights.add(width);
                    for i in 0..MR {
                        let value = V::splat(*values.add(i * inner + k));
                        sums[i][0] = value.mul_add(pair[0], sums[i][0]);
                        sums[i][1] = value.mul_add(pair[1], sums[i][1]);
                    }
                }
                for i in 0..MR {
                    let to = products.add((first + i) * columns + block);
                    sums[i][0].store(to);
                    sums[i][1].store(to.add(V::LANES));
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
        for first in (0..channels).step_by(V::LANES) {
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

    fn numbers(len: usize, step: f32) -> Vec<f32> {
        (0..len).map(|index| (index as f32 * step).sin()).collect()
    }

    /// Against the portable convolution. The error is measured by the size of the sum of all products without their
    /// signs, of which rounding loses 1e-7 in any order; the transforms lose up to 10 and 100 times as much.
    #[test]
    fn agrees_with_the_definition_of_a_convolution() {
        for (height, width, inputs, channels) in
            [(18, 18, 32, 64), (16, 16, 64, 64), (13, 21, 16, 5), (24, 11, 48, 40)]
        {
            let size = (height, width, inputs);
            let image_len = height * width * inputs;
            let weights = numbers(channels * 25 * inputs, 0.71);
            let biases = numbers(channels, 1.3);
            let mut images = Aligned::zeros(2 * image_len);
            images.copy_from_slice(&numbers(2 * image_len, 0.37));
            let plain = Convolution::new(Backend::PORTABLE, size, KERNEL, channels);
            let mut packed = Aligned::zeros(plain.packed_len());
            plain.pack(&weights, &biases, &mut packed);
            let mut expected = Aligned::zeros(plain.plane_len());
            let mut patches = vec![0.0; plain.patches_len()];
            plain.forward(&images, image_len, &packed, &mut patches, &mut expected);
            for backend in Backend::available() {
                for (tiles, tolerance) in [(Tiles::Two, 1e-6), (Tiles::Four, 1e-5)] {
                    let Some(winograd) = Winograd::new(backend, tiles, size, KERNEL, channels)
                    else {
                        continue;
                    };
                    let mut scratch = winograd.scratch();
                    winograd.prepare(&weights, &biases, &mut scratch);
                    // The second of two images, alone or with the first.
                    let plane = plain.positions() * winograd.padded_channels;
                    let mut out = Aligned::zeros(winograd.group() * plane);
                    let count = winograd.group().min(2);
                    winograd.forward(
                        &images,
                        (2 - count) * image_len,
                        count,
                        &mut scratch,
                        &mut out,
                    );
                    let out = &out[(count - 1) * plane..][..plane];
                    let rows = out.chunks_exact(winograd.padded_channels);
                    let expected = expected.chunks_exact(plain.plane_stride());
                    let pairs =
                        rows.zip(expected).flat_map(|(a, b)| a.iter().zip(b).take(channels));
                    let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    // Half of |sin| times |sin| on average.
                    let size = 25.0 * inputs as f32 / 2.0;
                    assert!(worst < tolerance * size, "{tiles:?}, {channels}: {worst} of {size}");
                }
            }
        }
    }

    #[test]
    fn is_not_made_where_it_does_not_fit() {
        let backend = Backend::fastest();
        assert!(Winograd::new(Backend::PORTABLE, Tiles::Two, (18, 18, 32), 5, 64).is_none());
        assert!(Winograd::new(backend, Tiles::Two, (18, 18, 32), 3, 64).is_none());
        assert!(Winograd::new(backend, Tiles::Two, (18, 18, 1), 5, 64).is_none());
        assert!(Winograd::new(backend, Tiles::Four, (8, 12, 32), 5, 64).is_none());
    }
}
