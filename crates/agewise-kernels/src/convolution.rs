//! Convolutions of channels-last images, with stride 1.

use crate::direct::{self, Strides};
use crate::matrix::{Matrix, MatrixMut, product};
use crate::{Aligned, Backend, Instructions};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

/// The geometry of a convolution, and tables that depend on the backend.
#[derive(Debug, Clone)]
pub struct Convolution {
    backend: Backend,
    /// Floats of one padded input image.
    pub image_len: usize,
    pub(crate) kernel_rows: usize,
    /// Inputs that one row of the kernel sees: they lie side by side.
    pub(crate) row_len: usize,
    /// From one row of the padded image to the next.
    pub(crate) row_stride: usize,
    /// Where in the padded image the patch of each output begins.
    pub(crate) positions: Vec<u32>,
    channels: usize,
    /// Where the weights of each channel begin.
    channel_offsets: Vec<u32>,
    /// Channels with those that fill up the last block.
    pub(crate) padded_channels: usize,
    groups: Vec<Group>,
}

/// A gradient that is not zero: where its patch or its weights begin, and how much it counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Entry {
    /// Where its patch or its weights begin.
    pub offset: u32,
    /// How much it counts.
    pub factor: f32,
}

/// Lists of entries, with a fixed room for each.
#[derive(Debug, Clone, Default)]
pub struct EntryLists {
    room: usize,
    lens: Vec<u32>,
    entries: Vec<Entry>,
}

impl EntryLists {
    /// So many empty lists.
    pub fn new(lists: usize, room: usize) -> Self {
        // One more: a list that is full may still be offered entries that are not kept.
        let entries = vec![Entry::default(); lists * room + 1];
        Self { room, lens: vec![0; lists], entries }
    }

    /// The number of lists.
    fn lists(&self) -> usize {
        self.lens.len()
    }

    /// Empties all lists.
    pub fn clear(&mut self) {
        self.lens.fill(0);
    }

    /// Writes an entry behind a list, where it stays only if it is kept (1, not 0).
    #[inline]
    pub fn offer(&mut self, list: usize, entry: Entry, kept: u32) {
        let len = &mut self.lens[list];
        self.entries[list * self.room + *len as usize] = entry;
        *len += kept;
    }

    /// The entries of one list.
    #[inline]
    pub fn list(&self, index: usize) -> &[Entry] {
        &self.entries[index * self.room..][..self.lens[index] as usize]
    }

    /// Whether the entries of the first lists have no offset above `last`.
    fn are_below(&self, lists: usize, last: u32) -> bool {
        (0..lists).all(|list| self.list(list).iter().all(|entry| entry.offset <= last))
    }
}

/// Registers of a patch, and of the weights of a channel, that are summed up together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    weight: usize,
    input: usize,
    pub(crate) registers: usize,
    /// One register in each of several rows, or several side by side in one row.
    pub(crate) by_rows: bool,
    /// Lanes that count, where the row ends inside the register.
    pub(crate) lanes: usize,
}

/// The most registers of a group.
const MOST_REGISTERS: usize = 10;

impl Convolution {
    /// A convolution of an image with so many channels that has been padded already.
    pub fn new(
        backend: Backend,
        (height, width, in_channels): (usize, usize, usize),
        kernel: usize,
        channels: usize,
    ) -> Self {
        let (rows, columns) = (height + 1 - kernel, width + 1 - kernel);
        let row_stride = width * in_channels;
        let position = |row: usize, column: usize| (row * row_stride + column * in_channels) as u32;
        let row_len = kernel * in_channels;
        Self {
            backend,
            image_len: height * row_stride,
            kernel_rows: kernel,
            row_len,
            row_stride,
            positions: (0..rows)
                .flat_map(|row| (0..columns).map(move |column| position(row, column)))
                .collect(),
            channels,
            channel_offsets: (0..channels).map(|c| (c * kernel * row_len) as u32).collect(),
            padded_channels: channels.next_multiple_of(2 * backend.lanes()),
            groups: groups(backend.lanes(), kernel, row_len, row_stride),
        }
    }

    /// Weights of one output.
    pub fn taps(&self) -> usize {
        self.kernel_rows * self.row_len
    }

    /// Outputs of one channel.
    pub fn positions(&self) -> usize {
        self.positions.len()
    }

    /// Where the patch of each output begins.
    pub fn patches(&self) -> &[u32] {
        &self.positions
    }

    /// Floats of the outputs of one image: positions by padded channels.
    pub fn plane_len(&self) -> usize {
        self.positions.len() * self.padded_channels
    }

    /// From one position of the outputs to the next.
    pub fn plane_stride(&self) -> usize {
        self.padded_channels
    }

    /// Floats of packed weights and biases.
    pub fn packed_len(&self) -> usize {
        (self.taps() + 1) * self.padded_channels
    }

    /// Floats that the portable backend needs beside everything else: all patches of an image.
    pub fn patches_len(&self) -> usize {
        let direct = self.backend != Backend::PORTABLE && self.positions.len() >= SMALLEST_IMAGE;
        if direct { 0 } else { self.positions.len() * self.taps() }
    }

    /// Brings weights (channel by channel) into the order in which [`Self::forward`] reads them: blocks of channels,
    /// and in each block the channels side by side for every tap. The biases follow.
    pub fn pack(&self, weights: &[f32], biases: &[f32], packed: &mut Aligned) {
        let (taps, width) = (self.taps(), 2 * self.backend.lanes());
        for channel in 0..self.channels {
            let panel = &mut packed[channel / width * width * taps..];
            let weights = &weights[channel * taps..][..taps];
            for (tap, weight) in weights.iter().enumerate() {
                panel[tap * width + channel % width] = *weight;
            }
        }
        packed[taps * self.padded_channels..][..self.channels].copy_from_slice(biases);
    }

    /// The outputs of the image that begins at `start`.
    ///
    /// # Panics
    /// If a buffer is too short.
    pub fn forward(
        &self,
        images: &Aligned,
        start: usize,
        packed: &Aligned,
        patches: &mut [f32],
        out: &mut Aligned,
    ) {
        let image = &images[start..][..self.image_len];
        assert!(packed.len() >= self.packed_len() && out.len() >= self.plane_len());
        match self.backend.0 {
            // SAFETY of both: the backend says that the processor has the instructions; the buffers were checked, and a
            // patch that begins at a position ends in the image.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 if self.positions.len() >= SMALLEST_IMAGE => unsafe {
                forward_avx2(self, image.as_ptr(), packed.as_ptr(), out.as_mut_ptr());
            },
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 if self.positions.len() >= SMALLEST_IMAGE => unsafe {
                forward_avx512(self, image.as_ptr(), packed.as_ptr(), out.as_mut_ptr());
            },
            _ => self.forward_by_product(image, packed, patches, out),
        }
    }

    /// Gathers all patches and multiplies them with the weights.
    fn forward_by_product(
        &self,
        image: &[f32],
        packed: &Aligned,
        patches: &mut [f32],
        out: &mut Aligned,
    ) {
        let (taps, channels) = (self.taps(), self.padded_channels);
        for (patch, &position) in patches.chunks_exact_mut(taps).zip(&self.positions) {
            for (row, values) in patch.chunks_exact_mut(self.row_len).enumerate() {
                let begin = position as usize + row * self.row_stride;
                values.copy_from_slice(&image[begin..begin + self.row_len]);
            }
        }
        let biases = &packed[taps * channels..];
        for outputs in out.chunks_exact_mut(channels) {
            outputs.copy_from_slice(&biases[..channels]);
        }
        let width = 2 * self.backend.lanes();
        let left = Matrix::new(patches, self.positions.len(), taps);
        for block in (0..channels).step_by(width) {
            let right = Matrix::new(&packed[block * taps..], taps, width);
            let mut target =
                MatrixMut::with_stride(&mut out[block..], self.positions.len(), width, channels);
            product(&mut target, 1.0, 1.0, left, right);
        }
    }

    /// Adds to the gradient of the weights: patches of the image that begins at `start`. There is a list for each channel,
    /// of entries with the offsets of their positions.
    ///
    /// # Panics
    /// If a buffer is too short or an entry lies outside of the image.
    pub fn add_weight_gradient(
        &self,
        images: &Aligned,
        start: usize,
        lists: &EntryLists,
        gradient: &mut Aligned,
    ) {
        let last = self.positions.last().copied().unwrap_or(0);
        let source = &images.with_slack()[start..];
        assert!(source.len() >= self.image_len + Aligned::SLACK);
        assert!(lists.lists() >= self.channels && lists.are_below(self.channels, last));
        assert!(self.channels * self.taps() <= gradient.len());
        self.accumulate(Gradient::Weights, gradient.with_slack_mut(), source, lists);
    }

    /// Adds to the gradient of the image that begins at `start`: weights of channels. There is a list for each position, of
    /// entries with the offsets of their channels.
    ///
    /// # Panics
    /// If a buffer is too short or an entry lies outside of the weights.
    pub fn add_input_gradient(
        &self,
        weights: &Aligned,
        lists: &EntryLists,
        gradient: &mut Aligned,
        start: usize,
    ) {
        let taps = self.taps();
        assert!(weights.len() >= self.channels * taps);
        let last = ((self.channels - 1) * taps) as u32;
        assert!(lists.lists() >= self.positions() && lists.are_below(self.positions(), last));
        assert!(start + self.image_len <= gradient.len());
        let target = &mut gradient.with_slack_mut()[start..];
        self.accumulate(Gradient::Inputs, target, weights.with_slack(), lists);
    }

    /// Both gradients. The callers have checked that a patch and a channel's weights fit wherever an entry begins.
    fn accumulate(
        &self,
        gradient: Gradient,
        target: &mut [f32],
        source: &[f32],
        lists: &EntryLists,
    ) {
        match self.backend.0 {
            // SAFETY of both: the backend says that the processor has the instructions. The registers of a group lie in
            // the patch and in the weights; only the lanes that do not count may lie behind them, where the buffers
            // have room for one register.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe {
                accumulate_avx2(self, gradient, target.as_mut_ptr(), source.as_ptr(), lists);
            },
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe {
                accumulate_avx512(self, gradient, target.as_mut_ptr(), source.as_ptr(), lists);
            },
            Instructions::Portable => accumulate_portable(self, gradient, target, source, lists),
        }
    }

    /// Where the target of each list begins.
    fn origins(&self, gradient: Gradient) -> &[u32] {
        match gradient {
            Gradient::Weights => &self.channel_offsets,
            Gradient::Inputs => &self.positions,
        }
    }

    fn strides(&self, gradient: Gradient) -> Strides {
        match gradient {
            Gradient::Weights => Strides { target: self.row_len, source: self.row_stride },
            Gradient::Inputs => Strides { target: self.row_stride, source: self.row_len },
        }
    }
}

/// Which gradient is summed up. For that of the weights they are the target and inputs the source, for that of the
/// inputs it is the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gradient {
    Weights,
    Inputs,
}

impl Gradient {
    /// Where a group begins in the target and in the source.
    fn begin(self, group: &Group) -> (usize, usize) {
        match self {
            Self::Weights => (group.weight, group.input),
            Self::Inputs => (group.input, group.weight),
        }
    }
}

/// Smaller images go through the portable backend: a tile of pixels has to fit in.
const SMALLEST_IMAGE: usize = 14;

/// Rows of the kernel as registers: side by side where a row is long, below each other where it is short.
fn groups(lanes: usize, rows: usize, row_len: usize, row_stride: usize) -> Vec<Group> {
    let whole = row_len / lanes;
    let mut groups = Vec::new();
    let mut column = 0;
    if whole >= 4 {
        column = whole * lanes;
        for row in 0..rows {
            for first in (0..whole).step_by(MOST_REGISTERS) {
                groups.push(Group {
                    weight: row * row_len + first * lanes,
                    input: row * row_stride + first * lanes,
                    registers: MOST_REGISTERS.min(whole - first),
                    by_rows: false,
                    lanes,
                });
            }
        }
    }
    while column < row_len {
        for row in (0..rows).step_by(MOST_REGISTERS) {
            groups.push(Group {
                weight: row * row_len + column,
                input: row * row_stride + column,
                registers: MOST_REGISTERS.min(rows - row),
                by_rows: true,
                lanes: lanes.min(row_len - column),
            });
        }
        column += lanes;
    }
    groups
}

/// [`direct::accumulate`] in plain code.
fn accumulate_portable(
    shape: &Convolution,
    gradient: Gradient,
    target: &mut [f32],
    source: &[f32],
    lists: &EntryLists,
) {
    let strides = shape.strides(gradient);
    for (list, &origin) in shape.origins(gradient).iter().enumerate() {
        for row in 0..shape.kernel_rows {
            let target = &mut target[origin as usize + row * strides.target..][..shape.row_len];
            for entry in lists.list(list) {
                let begin = entry.offset as usize + row * strides.source;
                for (sum, value) in target.iter_mut().zip(&source[begin..begin + shape.row_len]) {
                    *sum += entry.factor * value;
                }
            }
        }
    }
}

/// # Safety
/// As for [`direct::forward`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn forward_avx2(shape: &Convolution, image: *const f32, packed: *const f32, out: *mut f32) {
    // 12 of 16 registers are sums.
    unsafe { direct::forward::<__m256, 6, 2>(shape, image, packed, out) }
}

/// # Safety
/// As for [`direct::forward`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn forward_avx512(
    shape: &Convolution,
    image: *const f32,
    packed: *const f32,
    out: *mut f32,
) {
    // 28 of 32 registers are sums.
    unsafe { direct::forward::<__m512, 14, 2>(shape, image, packed, out) }
}

/// # Safety
/// As for [`direct::accumulate`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn accumulate_avx2(
    shape: &Convolution,
    gradient: Gradient,
    target: *mut f32,
    source: *const f32,
    lists: &EntryLists,
) {
    let (origins, strides) = (shape.origins(gradient), shape.strides(gradient));
    // One group of all lists after the other: its part of the source stays in the first cache.
    for group in &shape.groups {
        let (to, from) = gradient.begin(group);
        unsafe {
            let (target, source) = (target.add(to), source.add(from));
            direct::accumulate::<__m256>(group, strides, origins, target, source, lists);
        }
    }
}

/// # Safety
/// As for [`direct::accumulate`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn accumulate_avx512(
    shape: &Convolution,
    gradient: Gradient,
    target: *mut f32,
    source: *const f32,
    lists: &EntryLists,
) {
    let (origins, strides) = (shape.origins(gradient), shape.strides(gradient));
    // One group of all lists after the other: its part of the source stays in the first cache.
    for group in &shape.groups {
        let (to, from) = gradient.begin(group);
        unsafe {
            let (target, source) = (target.add(to), source.add(from));
            direct::accumulate::<__m512>(group, strides, origins, target, source, lists);
        }
    }
}
