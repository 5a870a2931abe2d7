//! The engine once more, from the mathematics and without any hurry: scalar loops over `f64`, images with their
//! channels first, parameters as PyTorch has them and read from the engine's own files, so that names, shapes and
//! order of the files are tested with everything else.

pub(crate) mod cases;
pub(crate) mod check;
mod layers;
pub(crate) mod training;

use agewise_train::data::ImageShape;
use agewise_train::local::{SampleSource, Samples};
use agewise_train::model::{Layer, Model};
use layers::Shape;
use safetensors::{Dtype, SafeTensors};

/// A named tensor of parameters or of their gradient, in PyTorch's order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) values: Vec<f64>,
}

/// A model with parameters.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    input: Shape,
    layers: Vec<Layer>,
    /// Weights and biases in turn.
    pub(crate) tensors: Vec<Named>,
}

/// Images as a model sees them, and their classes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    pub(crate) images: Vec<Vec<f64>>,
    pub(crate) labels: Vec<usize>,
}

/// Numbers of the model's own slice (parameters, a gradient) as named tensors: by way of a file.
pub(crate) fn tensors(model: &Model, slice: &[f32]) -> Vec<Named> {
    let file = model.to_safetensors(slice).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    let ImageShape { channels, height, width } = model.spec().input;
    let mut shape =
        Shape { channels: channels as usize, height: height as usize, width: width as usize };
    let (mut convolutions, mut dense) = (0, 0);
    let mut tensors = Vec::new();
    for &layer in &model.spec().layers {
        let expected = match layer {
            Layer::Convolution { channels, kernel, .. } => {
                convolutions += 1;
                Some((
                    format!("conv{convolutions}"),
                    vec![channels, shape.channels, kernel, kernel],
                ))
            }
            Layer::Dense { units } => {
                dense += 1;
                Some((format!("fc{dense}"), vec![units, shape.len()]))
            }
            Layer::MaxPool { .. } | Layer::Relu => None,
        };
        if let Some((name, weights)) = expected {
            let biases = vec![weights[0]];
            tensors.push(read(&file, format!("{name}.weight"), &weights));
            tensors.push(read(&file, format!("{name}.bias"), &biases));
        }
        shape = shape.behind(layer);
    }
    assert_eq!(file.len(), tensors.len(), "a tensor too many among {:?}", file.names());
    tensors
}

fn read(file: &SafeTensors<'_>, name: String, shape: &[usize]) -> Named {
    let view = file.tensor(&name).unwrap();
    assert_eq!((view.dtype(), view.shape()), (Dtype::F32, shape), "{name}");
    let floats = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    Named { name, values: floats.map(f64::from).collect() }
}

impl Batch {
    /// The middle of all samples.
    pub(crate) fn middle(model: &Model, samples: &Samples<'_>) -> Self {
        let (have, want) = (samples.shape(), model.input());
        let corner = ((have.height - want.height) / 2, (have.width - want.width) / 2);
        let mut batch = Self::default();
        for sample in 0..samples.len() {
            batch.push(model, samples, sample, corner, false);
        }
        batch
    }

    /// Adds the part of a sample that begins at a corner.
    pub(crate) fn push(
        &mut self,
        model: &Model,
        samples: &Samples<'_>,
        sample: usize,
        (top, left): (u32, u32),
        mirrored: bool,
    ) {
        let index = samples.indices.map_or(sample, |indices| indices[sample] as usize);
        let (have, want) = (samples.shape(), model.input());
        let source = match samples.source {
            SampleSource::Images(images, pixels) => Some((images, pixels)),
            SampleSource::Table(_) => None,
        };
        // The reference knows images only.
        let (images, pixels) = source.unwrap();
        let bytes = images.image(index);
        let mut image = Vec::with_capacity(want.len());
        for channel in 0..want.channels {
            for row in 0..want.height {
                for column in 0..want.width {
                    let column = if mirrored { want.width - 1 - column } else { column };
                    let at = ((top + row) * have.width + left + column) * have.channels + channel;
                    let byte = bytes[at as usize];
                    image.push(f64::from(pixels.of(channel as usize)[usize::from(byte)]));
                }
            }
        }
        self.images.push(image);
        self.labels.push(usize::from(images.label(index)));
    }
}

impl Network {
    /// A model with the parameters of its own slice.
    pub(crate) fn new(model: &Model, parameters: &[f32]) -> Self {
        let ImageShape { channels, height, width } = model.spec().input;
        let [channels, height, width] = [channels, height, width].map(|side| side as usize);
        Self {
            input: Shape { channels, height, width },
            layers: model.spec().layers.clone(),
            tensors: tensors(model, parameters),
        }
    }

    /// Values before, between and behind the layers.
    fn values(&self, image: &[f64]) -> Vec<Vec<f64>> {
        let mut values = vec![image.to_vec()];
        self.each_layer(|layer, shape, weights, biases| {
            let x = values.last().unwrap();
            let y = layers::forward(layer, shape, weights, biases, x);
            values.push(y);
        });
        values
    }

    fn each_layer(&self, mut visit: impl FnMut(Layer, Shape, &[f64], &[f64])) {
        let mut shape = self.input;
        let mut tensors = self.tensors.chunks_exact(2);
        for &layer in &self.layers {
            if has_parameters(layer) {
                let pair = tensors.next().unwrap();
                visit(layer, shape, &pair[0].values, &pair[1].values);
            } else {
                visit(layer, shape, &[], &[]);
            }
            shape = shape.behind(layer);
        }
    }

    /// The scores of the classes for one image.
    pub(crate) fn scores(&self, image: &[f64]) -> Vec<f64> {
        self.values(image).pop().unwrap()
    }

    /// The cross-entropy of each sample of a batch.
    pub(crate) fn losses(&self, batch: &Batch) -> Vec<f64> {
        let pairs = batch.images.iter().zip(&batch.labels);
        pairs.map(|(image, &label)| -softmax(&self.scores(image))[label].ln()).collect()
    }

    /// The mean cross-entropy of a batch.
    pub(crate) fn loss(&self, batch: &Batch) -> f64 {
        self.losses(batch).iter().sum::<f64>() / batch.labels.len() as f64
    }

    /// The mean cross-entropy of a batch, and its gradient by the chain rule.
    pub(crate) fn gradient(&self, batch: &Batch) -> (f64, Vec<Named>) {
        let zeros = |t: &Named| Named { name: t.name.clone(), values: vec![0.0; t.values.len()] };
        let mut gradient: Vec<Named> = self.tensors.iter().map(zeros).collect();
        let mut shapes = vec![self.input];
        shapes.extend(self.layers.iter().scan(self.input, |shape, &layer| {
            *shape = shape.behind(layer);
            Some(*shape)
        }));
        let share = 1.0 / batch.labels.len() as f64;
        let mut loss = 0.0;
        for (image, &label) in batch.images.iter().zip(&batch.labels) {
            let values = self.values(image);
            let mut slope = softmax(values.last().unwrap());
            loss -= share * slope[label].ln();
            slope[label] -= 1.0;
            for slope in &mut slope {
                *slope *= share;
            }
            let mut place = gradient.len();
            for (index, &layer) in self.layers.iter().enumerate().rev() {
                let (x, shape) = (&values[index], shapes[index]);
                if has_parameters(layer) {
                    place -= 2;
                    let [dw, db] = &mut gradient[place..place + 2] else { unreachable!() };
                    let weights = &self.tensors[place].values;
                    let (dw, db) = (&mut dw.values, &mut db.values);
                    slope = layers::backward(layer, shape, weights, x, &slope, dw, db);
                } else {
                    slope = layers::backward(layer, shape, &[], x, &slope, &mut [], &mut []);
                }
            }
        }
        (loss, gradient)
    }
}

fn has_parameters(layer: Layer) -> bool {
    matches!(layer, Layer::Convolution { .. } | Layer::Dense { .. })
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.iter().map(|power| power / total).collect()
}

/// The Euclidean norm.
pub(crate) fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The norm of a difference.
pub(crate) fn distance(left: &[f64], right: &[f64]) -> f64 {
    assert_eq!(left.len(), right.len());
    norm(&left.iter().zip(right).map(|(l, r)| l - r).collect::<Vec<_>>())
}

/// The first tensor that is farther away than `tolerance` times its own norm. The parts of a tensor may cancel (a bias
/// sums over samples and positions) but their rounding does not: a thousandth of `tolerance` times the norm of
/// everything, 1e-7 for gradients, is allowed in addition.
pub(crate) fn first_difference(
    found: &[Named],
    expected: &[Named],
    tolerance: f64,
) -> Option<String> {
    assert_eq!(found.len(), expected.len());
    let everything = norm(&expected.iter().map(|tensor| norm(&tensor.values)).collect::<Vec<_>>());
    found.iter().zip(expected).find_map(|(found, expected)| {
        let (far, own) = (distance(&found.values, &expected.values), norm(&expected.values));
        // Not a number is not near.
        let near = far <= tolerance * (own + 1e-3 * everything);
        (!near).then(|| format!("{}: {far:e} away, norm {own:e}", expected.name))
    })
}
