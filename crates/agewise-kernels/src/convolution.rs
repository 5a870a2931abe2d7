//! Convolutions of channels-last images, with stride 1.

use crate::direct::{Accumulate, Forward, Strides};
use crate::tile::pack_panels;
use crate::vector::LANES;
use crate::{Aligned, Backend};

/// The geometry of a convolution.
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
    /// The largest offset of all lists.
    largest: u32,
}

impl EntryLists {
    /// So many empty lists.
    pub fn new(lists: usize, room: usize) -> Self {
        let entries = vec![Entry::default(); lists * room];
        Self { room, lens: vec![0; lists], entries, largest: 0 }
    }

    /// The number of lists.
    fn lists(&self) -> usize {
        self.lens.len()
    }

    /// Empties all lists.
    pub fn clear(&mut self) {
        self.lens.fill(0);
        self.largest = 0;
    }

    /// Writes an entry behind a list.
    ///
    /// # Panics
    /// If there is no such list, or no room behind the last one.
    #[inline]
    pub fn push(&mut self, list: usize, entry: Entry) {
        let len = &mut self.lens[list];
        self.entries[list * self.room + *len as usize] = entry;
        *len += 1;
        self.largest = self.largest.max(entry.offset);
    }

    /// The entries of one list.
    #[inline]
    pub fn list(&self, index: usize) -> &[Entry] {
        &self.entries[index * self.room..][..self.lens[index] as usize]
    }
}

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
            padded_channels: channels.next_multiple_of(LANES),
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

    /// Brings weights (channel by channel) into the order in which [`Self::forward`] reads them: panels of channels that
    /// lie side by side for every tap. The biases follow.
    pub fn pack(&self, weights: &[f32], biases: &[f32], packed: &mut Aligned) {
        let taps = self.taps();
        let weight = |tap, channel| weights[channel * taps + tap];
        pack_panels(taps, self.channels, weight, packed);
        packed[taps * self.padded_channels..][..self.channels].copy_from_slice(biases);
    }

    /// The outputs of the image that begins at `start`.
    ///
    /// # Panics
    /// If a buffer is too short.
    pub fn forward(&self, images: &Aligned, start: usize, packed: &Aligned, out: &mut Aligned) {
        let image = &images[start..][..self.image_len];
        assert!(packed.len() >= self.packed_len() && out.len() >= self.plane_len());
        let (image, packed, out) = (image.as_ptr(), packed.as_ptr(), out.as_mut_ptr());
        // SAFETY: the buffers were checked, and a patch that begins at a position ends in the image.
        unsafe { self.backend.run(Forward { shape: self, image, packed, out }) }
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
        let image = &images[start..][..self.image_len];
        assert!(lists.lists() >= self.channels && lists.largest <= last);
        let gradient = &mut gradient[..self.channels * self.taps()];
        self.accumulate(Gradient::Weights, gradient, image, lists);
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
        let last = ((self.channels - 1) * taps) as u32;
        assert!(lists.lists() >= self.positions() && lists.largest <= last);
        let weights = &weights[..self.channels * taps];
        let image = &mut gradient[start..][..self.image_len];
        self.accumulate(Gradient::Inputs, image, weights, lists);
    }

    /// Both gradients. The callers have checked that a patch and a channel's weights fit wherever an entry begins.
    fn accumulate(
        &self,
        gradient: Gradient,
        target: &mut [f32],
        source: &[f32],
        lists: &EntryLists,
    ) {
        let kernel = Accumulate {
            rows: self.kernel_rows,
            row_len: self.row_len,
            strides: self.strides(gradient),
            origins: self.origins(gradient),
            target: target.as_mut_ptr(),
            source: source.as_ptr(),
            lists,
        };
        // SAFETY: the rows of the kernel lie in the patch and in the weights.
        unsafe { self.backend.run(kernel) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::long_part;
    use crate::testing::{assert_same_bits, numbers};

    /// Shapes of all kinds: rows of the kernel that are shorter and longer than vectors, images of few outputs, channels
    /// that fill no panel.
    const SHAPES: [((usize, usize, usize), usize, usize); 8] = [
        ((9, 8, 1), 5, 32),
        ((5, 5, 3), 5, 10),
        ((12, 12, 3), 5, 48),
        ((8, 7, 32), 5, 33),
        ((6, 6, 16), 3, 17),
        ((14, 9, 1), 7, 5),
        ((13, 12, 2), 11, 20),
        ((4, 3, 70), 1, 16),
    ];

    fn lists(count: usize, offsets: &[u32], room: usize) -> EntryLists {
        let mut lists = EntryLists::new(count, room);
        for list in 0..count {
            for k in 0..(list * 7 + 3) % (room + 1) {
                let offset = offsets[(list * 13 + k * 5) % offsets.len()];
                let factor = ((list * 31 + k) as f32).sin();
                lists.push(list, Entry { offset, factor });
            }
        }
        lists
    }

    /// The three kernels as they are defined: chains of fused products.
    #[test]
    fn every_backend_gives_the_bits_of_the_definition() {
        for (size, kernel, channels) in SHAPES {
            let (_, width, inputs) = size;
            let shape = Convolution::new(Backend::PORTABLE, size, kernel, channels);
            let (taps, positions) = (shape.taps(), shape.positions());
            // The second of two images.
            let start = shape.image_len;
            let mut images = Aligned::zeros(2 * shape.image_len);
            images.copy_from_slice(&numbers(2 * shape.image_len, 0.37));
            let mut weights = Aligned::zeros(channels * taps);
            weights.copy_from_slice(&numbers(channels * taps, 0.71));
            let biases = numbers(channels, 1.3);
            let tap_in_image =
                |tap: usize| tap / shape.row_len * width * inputs + tap % shape.row_len;
            let mut outputs = vec![0.0; shape.plane_len()];
            for (position, &patch) in shape.patches().iter().enumerate() {
                for channel in 0..channels {
                    let chain = (0..taps).fold(biases[channel], |sum: f32, tap| {
                        let input = images[start + patch as usize + tap_in_image(tap)];
                        input.mul_add(weights[channel * taps + tap], sum)
                    });
                    outputs[position * shape.plane_stride() + channel] = chain;
                }
            }
            let by_channel = lists(channels, shape.patches(), 9);
            let mut weight_gradient = numbers(channels * taps, 0.11);
            for (at, sum) in weight_gradient.iter_mut().enumerate() {
                *sum = by_channel.list(at / taps).iter().fold(*sum, |sum, entry| {
                    let input = images[start + entry.offset as usize + tap_in_image(at % taps)];
                    entry.factor.mul_add(input, sum)
                });
            }
            let by_position = lists(positions, &shape.channel_offsets, 6);
            let mut input_gradient = numbers(2 * shape.image_len, 0.13);
            // Parts of the rows from the last to the first, and all positions for each of them.
            let long = long_part(shape.row_len);
            let mut parts: Vec<_> = (long..shape.row_len)
                .step_by(LANES)
                .map(|begin| (begin, shape.row_len.min(begin + LANES)))
                .collect();
            parts.reverse();
            parts.push((0, long));
            let places = parts.iter().flat_map(|part| {
                shape.patches().iter().enumerate().map(move |place| (part, place))
            });
            for (&(begin, end), (position, &patch)) in places {
                for tap in (0..taps).filter(|tap| (begin..end).contains(&(tap % shape.row_len))) {
                    let sum = &mut input_gradient[start + patch as usize + tap_in_image(tap)];
                    *sum = by_position.list(position).iter().fold(*sum, |sum, entry| {
                        entry.factor.mul_add(weights[entry.offset as usize + tap], sum)
                    });
                }
            }
            for backend in Backend::available() {
                let shape = Convolution::new(backend, size, kernel, channels);
                let what = format!("{backend}: {size:?}, {kernel}, {channels}");
                let mut packed = Aligned::zeros(shape.packed_len());
                shape.pack(&weights, &biases, &mut packed);
                let mut out = Aligned::zeros(shape.plane_len());
                shape.forward(&images, start, &packed, &mut out);
                assert_same_bits(&out, &outputs, &what);
                let mut gradient = Aligned::zeros(channels * taps);
                gradient.copy_from_slice(&numbers(channels * taps, 0.11));
                shape.add_weight_gradient(&images, start, &by_channel, &mut gradient);
                assert_same_bits(&gradient, &weight_gradient, &what);
                let mut gradient = Aligned::zeros(2 * shape.image_len);
                gradient.copy_from_slice(&numbers(2 * shape.image_len, 0.13));
                shape.add_input_gradient(&weights, &by_position, &mut gradient, start);
                assert_same_bits(&gradient, &input_gradient, &what);
            }
        }
    }
}
