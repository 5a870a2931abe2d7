//! Each layer from its definition, for one image: channels, then rows, then columns.

use agewise_train::model::Layer;

/// What goes from a layer to the next; a dense layer has one pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl Shape {
    pub(crate) fn len(self) -> usize {
        self.channels * self.height * self.width
    }

    /// The shape behind a layer.
    pub(crate) fn behind(self, layer: Layer) -> Self {
        let side = |len: usize, size: usize, stride: usize, padding: usize| {
            (len + 2 * padding - size) / stride + 1
        };
        match layer {
            Layer::Relu => self,
            Layer::Dense { units } => Self { channels: units, height: 1, width: 1 },
            Layer::Convolution { channels, kernel, padding } => Self {
                channels,
                height: side(self.height, kernel, 1, padding),
                width: side(self.width, kernel, 1, padding),
            },
            Layer::MaxPool { size, stride, padding } => Self {
                channels: self.channels,
                height: side(self.height, size, stride, padding),
                width: side(self.width, size, stride, padding),
            },
        }
    }
}

/// All (output, weight, input) of a convolution that are multiplied: its definition, and that of both gradients.
fn each_product(
    before: Shape,
    (channels, kernel, padding): (usize, usize, usize),
    mut visit: impl FnMut(usize, usize, usize),
) {
    let behind = before.behind(Layer::Convolution { channels, kernel, padding });
    for o in 0..behind.channels {
        for i in 0..behind.height {
            for j in 0..behind.width {
                let output = (o * behind.height + i) * behind.width + j;
                for c in 0..before.channels {
                    for u in 0..kernel {
                        if i + u < padding || i + u - padding >= before.height {
                            continue;
                        }
                        let row = (c * before.height + i + u - padding) * before.width;
                        let weights = ((o * before.channels + c) * kernel + u) * kernel;
                        let columns =
                            padding.saturating_sub(j)..kernel.min(before.width + padding - j);
                        for v in columns {
                            visit(output, weights + v, row + j + v - padding);
                        }
                    }
                }
            }
        }
    }
}

/// For each output of a pool the input that it takes: the first of the largest.
fn winners(before: Shape, (size, stride, padding): (usize, usize, usize), x: &[f64]) -> Vec<usize> {
    let behind = before.behind(Layer::MaxPool { size, stride, padding });
    let mut winners = Vec::with_capacity(behind.len());
    for c in 0..behind.channels {
        for i in 0..behind.height {
            for j in 0..behind.width {
                let mut best = None;
                for row in (i * stride..i * stride + size).filter_map(|r| r.checked_sub(padding)) {
                    for column in
                        (j * stride..j * stride + size).filter_map(|r| r.checked_sub(padding))
                    {
                        if row < before.height && column < before.width {
                            let at = (c * before.height + row) * before.width + column;
                            if best.is_none_or(|best: usize| x[at] > x[best]) {
                                best = Some(at);
                            }
                        }
                    }
                }
                winners.push(best.unwrap());
            }
        }
    }
    winners
}

/// The outputs of a layer. `weights` and `biases` are empty for a layer that has none.
pub(crate) fn forward(
    layer: Layer,
    before: Shape,
    weights: &[f64],
    biases: &[f64],
    x: &[f64],
) -> Vec<f64> {
    match layer {
        Layer::Relu => x.iter().map(|&x| x.max(0.0)).collect(),
        Layer::Dense { .. } => {
            let rows = weights.chunks_exact(x.len()).zip(biases);
            rows.map(|(row, bias)| bias + dot(row, x)).collect()
        }
        Layer::Convolution { channels, kernel, padding } => {
            let area = before.behind(layer).len() / channels;
            let mut y: Vec<f64> =
                biases.iter().flat_map(|&b| std::iter::repeat_n(b, area)).collect();
            each_product(before, (channels, kernel, padding), |output, weight, input| {
                y[output] += weights[weight] * x[input];
            });
            y
        }
        Layer::MaxPool { size, stride, padding } => {
            winners(before, (size, stride, padding), x).into_iter().map(|at| x[at]).collect()
        }
    }
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(l, r)| l * r).sum()
}

/// The gradient of the inputs, from that of the outputs; adds to those of weights and biases.
pub(crate) fn backward(
    layer: Layer,
    before: Shape,
    weights: &[f64],
    x: &[f64],
    dy: &[f64],
    dw: &mut [f64],
    db: &mut [f64],
) -> Vec<f64> {
    let mut dx = vec![0.0; x.len()];
    match layer {
        Layer::Relu => {
            for ((dx, &dy), &x) in dx.iter_mut().zip(dy).zip(x) {
                *dx = if x > 0.0 { dy } else { 0.0 };
            }
        }
        Layer::Dense { .. } => {
            for (o, &dy) in dy.iter().enumerate() {
                db[o] += dy;
                for i in 0..x.len() {
                    dw[o * x.len() + i] += dy * x[i];
                    dx[i] += dy * weights[o * x.len() + i];
                }
            }
        }
        Layer::Convolution { channels, kernel, padding } => {
            for (db, dy) in db.iter_mut().zip(dy.chunks_exact(dy.len() / channels)) {
                *db += dy.iter().sum::<f64>();
            }
            each_product(before, (channels, kernel, padding), |output, weight, input| {
                dw[weight] += dy[output] * x[input];
                dx[input] += dy[output] * weights[weight];
            });
        }
        Layer::MaxPool { size, stride, padding } => {
            for (at, dy) in winners(before, (size, stride, padding), x).into_iter().zip(dy) {
                dx[at] += dy;
            }
        }
    }
    dx
}
