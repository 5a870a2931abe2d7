//! The parameters of a model in its one slice: names, places, first values, and files.
//!
//! In the slice a convolution's weights lie as its kernels read them (output channel, row, column, input channel), and a
//! dense layer behind images takes pixels with their channels side by side. PyTorch has the channels first in both, so
//! tensors are put into its order on the way to a file, and back.

use super::layer::{Layer, Shape};
use super::{Field, Model};
use crate::checkpoint::{CheckpointView, Metadata, read_float, read_model, write_floats};
use crate::task::TaskDescription;
use agewise_core::{Draws, Error, Result, Seed, Stream};
use rand_core::Rng;

/// Random numbers for first parameters.
const FIRST_PARAMETERS: Stream = Stream::custom(200);

/// Some parameters with a name, as PyTorch knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// For example `conv1.weight`.
    pub name: String,
    /// Its shape in PyTorch.
    pub shape: Vec<usize>,
    /// Where it begins in the slice.
    pub offset: usize,
    /// Inputs of each output of the layer.
    fan_in: usize,
    order: Order,
}

/// In which order the slice has the numbers of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The same as in PyTorch.
    Same,
    /// For each output, pixels with their channels side by side, where PyTorch has whole channels.
    ChannelsLast { pixels: usize, channels: usize },
}

impl Tensor {
    /// A tensor that begins here in the slice, whose numbers are in the same order there.
    pub fn new(name: impl Into<String>, shape: Vec<usize>, offset: usize) -> Self {
        let fan_in = shape.iter().skip(1).product();
        Self { name: name.into(), shape, offset, fan_in, order: Order::Same }
    }

    /// How many numbers it has.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// For each number in PyTorch's order its place in the slice, counted from the tensor's first.
    fn places(&self) -> impl Iterator<Item = usize> {
        let (pixels, channels) = match self.order {
            Order::Same => (1, self.len()),
            Order::ChannelsLast { pixels, channels } => (pixels, channels),
        };
        let block = pixels * channels;
        let blocks =
            (0..self.len().checked_div(block).unwrap_or(0)).map(move |index| index * block);
        let channel = move |first| (0..channels).map(move |channel| first + channel);
        let pixel = move |first| (0..pixels).map(move |pixel| first + pixel * channels);
        blocks.flat_map(channel).flat_map(pixel)
    }

    /// Appends its numbers in PyTorch's order, as bytes.
    pub(crate) fn write_pytorch(&self, parameters: &[f32], buffer: &mut Vec<u8>) {
        let values = &parameters[self.offset..][..self.len()];
        if self.is_in_order() {
            return write_floats(values, buffer);
        }
        let begin = buffer.len();
        buffer.resize(begin + 4 * values.len(), 0);
        for (bytes, place) in buffer[begin..].chunks_exact_mut(4).zip(self.places()) {
            bytes.copy_from_slice(&values[place].to_le_bytes());
        }
    }

    /// Takes its numbers from such bytes.
    pub(crate) fn read_pytorch(&self, bytes: &[u8], parameters: &mut [f32]) {
        let values = &mut parameters[self.offset..][..self.len()];
        for (bytes, place) in bytes.chunks_exact(4).zip(self.places()) {
            values[place] = read_float(bytes);
        }
    }

    /// Whether both orders are the same.
    fn is_in_order(&self) -> bool {
        match self.order {
            Order::Same => true,
            Order::ChannelsLast { pixels, channels } => pixels == 1 || channels == 1,
        }
    }
}

/// The tensors of layers, weights and biases in turn; `shapes` are those before, between and behind the layers.
pub(super) fn tensors(layers: &[Layer], shapes: &[Shape]) -> Vec<Tensor> {
    let mut tensors: Vec<Tensor> = Vec::new();
    let (mut convolutions, mut dense) = (0, 0);
    let mut offset = 0;
    for (layer, before) in layers.iter().zip(shapes) {
        let Field { height, width, channels, .. } = before.field(0);
        let (name, shape, order) = match *layer {
            Layer::Convolution { channels: outputs, kernel, .. } => {
                convolutions += 1;
                let order = Order::ChannelsLast { pixels: kernel * kernel, channels };
                (format!("conv{convolutions}"), vec![outputs, channels, kernel, kernel], order)
            }
            Layer::Dense { units } => {
                dense += 1;
                let order = Order::ChannelsLast { pixels: height * width, channels };
                (format!("fc{dense}"), vec![units, before.len()], order)
            }
            Layer::MaxPool { .. } | Layer::Relu => continue,
        };
        let fan_in = shape[1..].iter().product();
        let outputs = vec![shape[0]];
        for (kind, shape, order) in [("weight", shape, order), ("bias", outputs, Order::Same)] {
            let tensor = Tensor { name: format!("{name}.{kind}"), shape, offset, fan_in, order };
            offset += tensor.len();
            tensors.push(tensor);
        }
    }
    tensors
}

impl Model {
    /// First parameters as PyTorch draws them by default: uniform between plus and minus 1 / sqrt(fan-in), weights and
    /// biases alike.
    pub fn initial(&self, seed: Seed) -> Vec<f32> {
        let draws = Draws::new(seed, FIRST_PARAMETERS, 0);
        let mut parameters = vec![0.0; self.parameters()];
        for (index, tensor) in (0..).zip(self.tensors()) {
            let bound = 1.0 / (tensor.fan_in as f32).sqrt();
            let mut numbers = draws.sequence(index);
            for value in &mut parameters[tensor.offset..][..tensor.len()] {
                // 24 bits: as many as a float in [0, 1) can have.
                let unit = (numbers.next_u64() >> 40) as f32 / (1u32 << 24) as f32;
                *value = bound * (2.0 * unit - 1.0);
            }
        }
        parameters
    }

    /// The numbers of each tensor in PyTorch's order.
    pub fn to_pytorch(&self, parameters: &[f32]) -> Result<Vec<Vec<f32>>> {
        self.check_parameters(parameters)?;
        let tensors = self.tensors().iter().map(|tensor| {
            let values = &parameters[tensor.offset..][..tensor.len()];
            tensor.places().map(|place| values[place]).collect()
        });
        Ok(tensors.collect())
    }

    /// The parameters from the numbers of each tensor in PyTorch's order, all of them finite.
    pub fn from_pytorch<T: AsRef<[f32]>>(&self, tensors: &[T]) -> Result<Vec<f32>> {
        if tensors.len() != self.tensors().len() {
            let expected =
                format!("{} tensors of the model {}", self.tensors().len(), self.spec().name);
            return Err(Error::new("tensors", tensors.len(), expected));
        }
        let mut parameters = vec![0.0; self.parameters()];
        for (tensor, numbers) in self.tensors().iter().zip(tensors) {
            let numbers = numbers.as_ref();
            if numbers.len() != tensor.len() {
                let expected = format!("{:?} numbers", tensor.shape);
                return Err(Error::new(&tensor.name, numbers.len(), expected));
            }
            let values = &mut parameters[tensor.offset..][..tensor.len()];
            for (place, &number) in tensor.places().zip(numbers) {
                values[place] = number;
            }
            if let Some(bad) = values.iter().find(|value| !value.is_finite()) {
                return Err(Error::new(&tensor.name, bad, "finite numbers only"));
            }
        }
        Ok(parameters)
    }

    /// The parameters as a safetensors file, with the names, shapes and order of PyTorch.
    pub fn to_safetensors(&self, parameters: &[f32]) -> Result<Vec<u8>> {
        let model = self.spec().name.clone();
        let task = TaskDescription { model, ..TaskDescription::default() };
        let metadata = Metadata { task, ..Metadata::default() };
        CheckpointView::model(&metadata, self.tensors(), parameters).encode()
    }

    /// The parameters from any safetensors file: exactly the tensors of this model, finite and in 32 bits.
    pub fn from_safetensors(&self, file: &[u8]) -> Result<Vec<f32>> {
        read_model(file, self.tensors())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::ImageShape;
    use crate::model::ModelSpec;

    fn small() -> Model {
        let layers = vec![
            Layer::Convolution { channels: 2, kernel: 3, padding: 1 },
            Layer::MaxPool { size: 2, stride: 2, padding: 0 },
            Layer::Dense { units: 3 },
        ];
        let input = ImageShape::new(2, 4, 4);
        Model::new(ModelSpec { name: "small".into(), input, layers }).unwrap()
    }

    #[test]
    fn names_shapes_and_places() {
        let model = small();
        let tensors: Vec<_> =
            model.tensors().iter().map(|t| (t.name.as_str(), t.shape.clone(), t.offset)).collect();
        assert_eq!(
            tensors,
            [
                ("conv1.weight", vec![2, 2, 3, 3], 0),
                ("conv1.bias", vec![2], 36),
                ("fc1.weight", vec![3, 8], 38),
                ("fc1.bias", vec![3], 62),
            ]
        );
        // Slice: pixel, then channel. PyTorch: channel, then pixel.
        assert_eq!(
            model.tensors()[2].places().take(9).collect::<Vec<_>>(),
            [0, 2, 4, 6, 1, 3, 5, 7, 8]
        );
    }

    #[test]
    fn files_give_back_what_was_written() {
        let model = small();
        let parameters = model.initial(Seed(4));
        let file = model.to_safetensors(&parameters).unwrap();
        assert_eq!(model.from_safetensors(&file).unwrap(), parameters);
        for cut in [0, 7, 8, 40, file.len() - 1] {
            assert!(model.from_safetensors(&file[..cut]).is_err());
        }
        assert!(model.to_safetensors(&parameters[1..]).is_err());
        let mut bad = parameters.clone();
        bad[40] = f32::NAN;
        let file_with_nan = model.to_safetensors(&bad).unwrap();
        assert_eq!(model.from_safetensors(&file_with_nan).unwrap_err().field(), "fc1.weight");
        let other = ModelSpec::named("softmax", ImageShape::new(1, 4, 2), 3).unwrap();
        let error = Model::new(other).unwrap().from_safetensors(&file).unwrap_err().to_string();
        assert!(error.contains("conv1.bias"), "{error}");
    }

    #[test]
    fn first_parameters_are_within_their_bounds() {
        let model = small();
        let parameters = model.initial(Seed(4));
        for tensor in model.tensors() {
            let bound = 1.0 / (tensor.fan_in as f32).sqrt();
            let values = &parameters[tensor.offset..][..tensor.len()];
            assert!(values.iter().all(|value| value.abs() <= bound));
            assert!(values.iter().any(|value| value.abs() > bound / 2.0));
        }
        assert_ne!(parameters, model.initial(Seed(5)));
    }
}
