//! Models as lists of layers over one flat slice of parameters.
//!
//! A [`ModelSpec`] is checked into a [`Model`]: shapes are followed from layer to layer, parameters get their places,
//! and layers that are faster together are fused. Training sees only the slice and the fused
//! layers, so a new model is a new list.

mod described;
mod layer;
mod parameters;
mod zoo;

pub use described::{LayerOutline, LayerParams};
pub use layer::{Layer, ModelSpec};
pub use parameters::Tensor;
pub use zoo::MODELS;

use crate::data::ImageShape;
use crate::fused::{ConvolutionLayer, DenseLayer, FusedLayer, PoolLayer, Purpose, ReluLayer};
use crate::selected_backend;
use agewise_core::{Error, Result};
use agewise_kernels::{Backend, Windows};

/// A model that can be trained: layers whose shapes fit, and the places of their parameters.
#[derive(Debug)]
pub struct Model {
    spec: ModelSpec,
    backend: Backend,
    input: Field,
    pub(crate) layers: Vec<Box<dyn FusedLayer>>,
    tensors: Vec<Tensor>,
    classes: usize,
}

/// Images in memory: channels-last, with a border of zeros around each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) channels: usize,
    pub(crate) border: usize,
}

impl Field {
    pub(crate) fn padded_height(self) -> usize {
        self.height + 2 * self.border
    }

    pub(crate) fn padded_width(self) -> usize {
        self.width + 2 * self.border
    }

    /// Floats of one image with its border.
    pub(crate) fn len(self) -> usize {
        self.padded_height() * self.padded_width() * self.channels
    }

    /// Where the channels of a pixel begin.
    pub(crate) fn place(self, row: usize, column: usize) -> usize {
        ((row + self.border) * self.padded_width() + column + self.border) * self.channels
    }

    /// The same for all pixels, row by row.
    pub(crate) fn places(self) -> Vec<u32> {
        let row = |row| (0..self.width).map(move |column| self.place(row, column) as u32);
        (0..self.height).flat_map(row).collect()
    }
}

impl Model {
    /// The model of a specification, computed by the backend of this process: see [`Backend::selected`].
    pub fn new(spec: ModelSpec) -> Result<Self> {
        Self::with_backend(spec, selected_backend()?)
    }

    /// The model of a specification, computed by this backend.
    pub fn with_backend(spec: ModelSpec, backend: Backend) -> Result<Self> {
        let shapes = spec.shapes()?;
        let tensors = parameters::tensors(&spec.layers, &shapes);
        // What a convolution sees has its border already; ReLUs on the way keep it.
        let border = |next: usize| {
            let mut layers = spec.layers.iter().skip(next);
            match layers.find(|layer| **layer != Layer::Relu) {
                Some(Layer::Convolution { padding, .. }) => *padding,
                _ => 0,
            }
        };
        let mut places = tensors.iter().step_by(2).map(|weights| weights.offset);
        let mut layers: Vec<Box<dyn FusedLayer>> = Vec::new();
        let input = shapes[0].field(border(0));
        let mut index = 0;
        while index < spec.layers.len() {
            let layer = &spec.layers[index];
            let before = shapes[index];
            let relu = spec.layers.get(index + 1) == Some(&Layer::Relu);
            let first_parameter = if layer.has_parameters() { places.next() } else { None };
            let fused: Box<dyn FusedLayer> = match (layer, first_parameter) {
                (Layer::Convolution { kernel, padding, .. }, Some(first)) => {
                    let plane = shapes[index + 1];
                    index += usize::from(relu);
                    let pool = spec.layers.get(index + 1).and_then(Layer::pool);
                    index += usize::from(pool.is_some());
                    let windows = pool.map(|pool| Windows::new(plane.area(), pool));
                    let output = shapes[index + 1].field(border(index + 1));
                    let input = before.field(*padding);
                    let fused = ConvolutionLayer::new(
                        backend, input, *kernel, relu, windows, output, first,
                    );
                    Box::new(fused)
                }
                (Layer::Dense { units }, Some(first)) => {
                    index += usize::from(relu);
                    Box::new(DenseLayer::new(backend, before.len(), *units, relu, first))
                }
                (Layer::MaxPool { size, stride, padding }, _) => {
                    let windows = Windows::new(before.area(), (*size, *stride, *padding));
                    let output = shapes[index + 1].field(border(index + 1));
                    Box::new(PoolLayer::new(backend, before.field(0), windows, output))
                }
                _ => Box::new(ReluLayer::new(before.field(border(index + 1)).len())),
            };
            layers.push(fused);
            index += 1;
        }
        let classes = shapes.last().map_or(0, |shape| shape.len());
        Ok(Self { spec, backend, input, layers, tensors, classes })
    }

    /// What it was made from.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// How it is computed.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// The number of parameters.
    pub fn parameters(&self) -> usize {
        self.tensors.iter().map(Tensor::len).sum()
    }

    /// The parameters by name, in the order of the slice.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The images that it takes.
    pub fn input(&self) -> ImageShape {
        self.spec.input
    }

    /// Multiply-adds of a forward pass of one image, as they are executed.
    pub(crate) fn multiply_adds(&self, purpose: Purpose) -> u64 {
        self.layers.iter().map(|layer| layer.multiply_adds(purpose)).sum()
    }

    pub(crate) fn field(&self) -> Field {
        self.input
    }

    /// Checks the length of a parameter slice.
    pub(crate) fn check_parameters(&self, parameters: &[f32]) -> Result<()> {
        if parameters.len() == self.parameters() {
            return Ok(());
        }
        let expected = format!("{} parameters of the model {}", self.parameters(), self.spec.name);
        Err(Error::new("parameters", parameters.len(), expected))
    }
}
