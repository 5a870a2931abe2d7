//! A convolution with what follows it: ReLU and pool, in any combination. And a pool that follows something else.

use super::sparse::SparseGradient;
use super::{Flow, FusedLayer, Purpose, Scratch, Update};
use crate::model::Field;
use agewise_kernels::{
    Aligned, Backend, Convolution, NO_WINNER, Plane, Pooled, Tiles, Windows, Winograd,
};
use std::ops::Range;

/// A convolution, then a ReLU and a pool if there are any.
#[derive(Debug)]
pub(crate) struct ConvolutionLayer {
    backend: Backend,
    kernel: Convolution,
    /// The forward pass by tiles, for training and for evaluation, where that is faster.
    tiles: [Option<Winograd>; 2],
    channels: usize,
    relu: bool,
    windows: Windows,
    /// Where the channels of each output begin.
    places: Vec<u32>,
    output: Field,
    weights: Range<usize>,
    biases: Range<usize>,
}

impl ConvolutionLayer {
    /// `input` is padded already; the weights begin at `first_parameter`, the biases follow.
    pub(crate) fn new(
        backend: Backend,
        input: Field,
        kernel: usize,
        relu: bool,
        windows: Option<Windows>,
        output: Field,
        first_parameter: usize,
    ) -> Self {
        let channels = output.channels;
        let padded = (input.padded_height(), input.padded_width(), input.channels);
        let tiles = [Tiles::Two, Tiles::Four]
            .map(|tiles| Winograd::new(backend, tiles, padded, kernel, channels));
        let kernel = Convolution::new(backend, padded, kernel, channels);
        let biases = first_parameter + channels * kernel.taps();
        Self {
            backend,
            tiles,
            channels,
            relu,
            windows: windows.unwrap_or_else(|| Windows::single(kernel.positions())),
            places: output.places(),
            output,
            weights: first_parameter..biases,
            biases: biases..biases + channels,
            kernel,
        }
    }

    fn outputs(&self) -> usize {
        self.windows.outputs() * self.channels
    }

    fn tiles(&self, purpose: Purpose) -> Option<&Winograd> {
        self.tiles[purpose as usize].as_ref()
    }
}

impl FusedLayer for ConvolutionLayer {
    fn input_len(&self) -> usize {
        self.kernel.image_len
    }

    fn output_len(&self) -> usize {
        self.output.len()
    }

    fn scratch(&self, batch: usize) -> Scratch {
        let windows = self.windows.outputs();
        Scratch {
            packed: Aligned::zeros(self.kernel.packed_len()),
            weights: Aligned::zeros(self.weights.len()),
            tiles: [0, 1].map(|purpose: usize| {
                self.tiles[purpose].as_ref().map(Winograd::scratch).unwrap_or_default()
            }),
            planes: Aligned::zeros(self.kernel.plane_len()),
            winners: vec![NO_WINNER; batch * self.outputs()],
            gradient: Aligned::zeros(self.weights.len() + self.channels),
            sparse: SparseGradient::new(
                windows,
                self.channels,
                self.kernel.patches(),
                self.windows.most_windows(),
            ),
            backward_multiply_adds: 0,
        }
    }

    fn prepare(&self, purpose: Purpose, parameters: &[f32], scratch: &mut Scratch) {
        let weights = &parameters[self.weights.clone()];
        let biases = &parameters[self.biases.clone()];
        match self.tiles(purpose) {
            Some(tiles) => tiles.prepare(weights, biases, &mut scratch.tiles[purpose as usize]),
            None => self.kernel.pack(weights, biases, &mut scratch.packed),
        }
        if purpose == Purpose::Training {
            scratch.weights.copy_from_slice(weights);
        }
    }

    fn forward(
        &self,
        purpose: Purpose,
        count: usize,
        _parameters: &[f32],
        input: &Aligned,
        output: &mut Aligned,
        scratch: &mut Scratch,
    ) {
        let Scratch { packed, planes, winners, tiles, .. } = scratch;
        for image in 0..count {
            let start = image * self.kernel.image_len;
            match self.tiles(purpose) {
                Some(by_tiles) => {
                    by_tiles.forward(input, start, &mut tiles[purpose as usize], planes);
                }
                None => self.kernel.forward(input, start, packed, planes),
            }
            let (stride, channels) = (self.kernel.plane_stride(), self.channels);
            let plane = Plane { values: planes, stride, channels };
            let pooled = Pooled {
                places: &self.places,
                out: &mut output[image * self.output.len()..][..self.output.len()],
                winners: &mut winners[image * self.outputs()..][..self.outputs()],
            };
            self.windows.forward(self.backend, self.relu, plane, pooled);
        }
    }

    fn backward(&self, count: usize, update: &mut Update<'_>, mut flow: Flow<'_>) {
        let taps = self.kernel.taps();
        let Scratch { weights, winners, gradient, sparse, .. } = flow.scratch;
        gradient.fill(0.0);
        let mut entries = 0;
        for image in 0..count {
            sparse.sort(
                self.backend,
                &winners[image * self.outputs()..][..self.outputs()],
                &flow.output_gradient[image * self.output.len()..][..self.output.len()],
                &self.places,
                flow.input_gradient.is_some().then_some(taps),
            );
            entries += sparse.len();
            let start = image * self.kernel.image_len;
            for (channel, sum) in gradient[self.weights.len()..].iter_mut().enumerate() {
                let entries = sparse.by_channel().list(channel);
                *sum += entries.iter().map(|entry| entry.factor).sum::<f32>();
            }
            self.kernel.add_weight_gradient(flow.input, start, sparse.by_channel(), gradient);
            if let Some(input_gradient) = &mut flow.input_gradient {
                input_gradient[start..][..self.kernel.image_len].fill(0.0);
                let lists = sparse.by_position();
                self.kernel.add_input_gradient(weights, lists, input_gradient, start);
            }
        }
        let gradients = 1 + u64::from(flow.input_gradient.is_some());
        flow.scratch.backward_multiply_adds += gradients * (entries * taps) as u64;
        update.apply(self.weights.start..self.biases.end, &flow.scratch.gradient);
    }

    fn multiply_adds(&self, purpose: Purpose) -> u64 {
        let direct = (self.kernel.positions() * self.channels * self.kernel.taps()) as u64;
        self.tiles(purpose).map_or(direct, Winograd::multiply_adds)
    }
}

/// A pool that does not follow a convolution.
#[derive(Debug)]
pub(crate) struct PoolLayer {
    backend: Backend,
    windows: Windows,
    input: Field,
    output: Field,
    places: Vec<u32>,
}

impl PoolLayer {
    /// The input has no border.
    pub(crate) fn new(backend: Backend, input: Field, windows: Windows, output: Field) -> Self {
        Self { backend, windows, input, output, places: output.places() }
    }

    fn outputs(&self) -> usize {
        self.windows.outputs() * self.input.channels
    }
}

impl FusedLayer for PoolLayer {
    fn input_len(&self) -> usize {
        self.input.len()
    }

    fn output_len(&self) -> usize {
        self.output.len()
    }

    fn scratch(&self, batch: usize) -> Scratch {
        Scratch { winners: vec![NO_WINNER; batch * self.outputs()], ..Scratch::default() }
    }

    fn forward(
        &self,
        _purpose: Purpose,
        count: usize,
        _parameters: &[f32],
        input: &Aligned,
        output: &mut Aligned,
        scratch: &mut Scratch,
    ) {
        let channels = self.input.channels;
        for image in 0..count {
            let values = &input[image * self.input.len()..][..self.input.len()];
            let pooled = Pooled {
                places: &self.places,
                out: &mut output[image * self.output.len()..][..self.output.len()],
                winners: &mut scratch.winners[image * self.outputs()..][..self.outputs()],
            };
            let plane = Plane { values, stride: channels, channels };
            self.windows.forward(self.backend, false, plane, pooled);
        }
    }

    fn backward(&self, count: usize, _update: &mut Update<'_>, flow: Flow<'_>) {
        let Some(input_gradient) = flow.input_gradient else {
            return;
        };
        let channels = self.input.channels;
        for image in 0..count {
            let winners = &flow.scratch.winners[image * self.outputs()..][..self.outputs()];
            let gradients = &flow.output_gradient[image * self.output.len()..][..self.output.len()];
            let sums = &mut input_gradient[image * self.input.len()..][..self.input.len()];
            sums.fill(0.0);
            for (winners, &place) in winners.chunks_exact(channels).zip(&self.places) {
                for (channel, &winner) in winners.iter().enumerate() {
                    // Nothing but minus infinity: a run that diverges.
                    if winner == NO_WINNER {
                        continue;
                    }
                    sums[winner as usize * channels + channel] +=
                        gradients[place as usize + channel];
                }
            }
        }
    }

    fn multiply_adds(&self, _purpose: Purpose) -> u64 {
        0
    }
}
