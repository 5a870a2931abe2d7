//! Layers, and the shapes that go through them.

use super::{Field, zoo};
use crate::data::ImageShape;
use agewise_core::{Error, Result};

/// One layer of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Squares of `kernel` by `kernel` pixels, every one, with zeros around the image.
    Convolution {
        /// Channels of the output.
        channels: usize,
        /// Side of the square.
        kernel: usize,
        /// Width of the border of zeros.
        padding: usize,
    },
    /// The largest value of each square, channel by channel.
    MaxPool {
        /// Side of the square.
        size: usize,
        /// From one square to the next.
        stride: usize,
        /// How far the first square begins outside of the image.
        padding: usize,
    },
    /// Every output depends on every input.
    Dense {
        /// Outputs.
        units: usize,
    },
    /// max(0, x).
    Relu,
}

/// A model that has not been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSpec {
    /// The name, as it is shown.
    pub name: String,
    /// Images that it takes.
    pub input: ImageShape,
    /// Its layers; the outputs of the last are the scores of the classes.
    pub layers: Vec<Layer>,
}

/// What goes from a layer to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Image { height: usize, width: usize, channels: usize },
    Flat(usize),
}

/// More floats than any layer needs, and few enough for all products of sizes to be exact.
const MOST_FLOATS: usize = 1 << 28;

impl Shape {
    pub(super) fn len(self) -> usize {
        match self {
            Self::Image { height, width, channels } => {
                height.saturating_mul(width).saturating_mul(channels)
            }
            Self::Flat(len) => len,
        }
    }

    pub(super) fn area(self) -> (usize, usize) {
        match self {
            Self::Image { height, width, .. } => (height, width),
            Self::Flat(_) => (1, 1),
        }
    }

    pub(super) fn field(self, border: usize) -> Field {
        let (height, width) = self.area();
        Field { height, width, channels: self.len() / (height * width), border }
    }
}

impl Layer {
    pub(super) fn has_parameters(&self) -> bool {
        matches!(self, Self::Convolution { .. } | Self::Dense { .. })
    }

    pub(super) fn pool(&self) -> Option<(usize, usize, usize)> {
        match *self {
            Self::MaxPool { size, stride, padding } => Some((size, stride, padding)),
            _ => None,
        }
    }

    /// The shape behind this layer, or what is wrong with it.
    fn shape(&self, before: Shape) -> std::result::Result<Shape, String> {
        let needs_image = || "images, but a dense layer came before".to_string();
        match (*self, before) {
            (Self::Relu, shape) => Ok(shape),
            (Self::Dense { units }, _) => Ok(Shape::Flat(units)),
            (
                Self::Convolution { channels, kernel, padding },
                Shape::Image { height, width, .. },
            ) => {
                let side = |len: usize| (len + 2 * padding + 1).checked_sub(kernel);
                let sides = side(height).zip(side(width)).filter(|(h, w)| *h > 0 && *w > 0);
                let (height, width) =
                    sides.filter(|_| kernel > 0 && padding < kernel).ok_or_else(|| {
                        format!(
                            "a kernel of 1 to {} and a padding below it",
                            height.min(width) + 2 * padding
                        )
                    })?;
                Ok(Shape::Image { height, width, channels })
            }
            (Self::MaxPool { size, stride, padding }, Shape::Image { height, width, channels }) => {
                let side = |len: usize| (len + 2 * padding).checked_sub(size);
                let sides = side(height).zip(side(width));
                let fits = size > 0 && stride > 0 && 2 * padding <= size;
                let (height, width) = sides.filter(|_| fits).ok_or_else(|| {
                    "squares that fit into the image, a stride of 1 or more and a padding of at most half \
                     a square"
                        .to_string()
                })?;
                let count = |rest: usize| rest / stride + 1;
                Ok(Shape::Image { height: count(height), width: count(width), channels })
            }
            (Self::Convolution { .. } | Self::MaxPool { .. }, Shape::Flat(_)) => Err(needs_image()),
        }
    }
}

impl ModelSpec {
    /// A model by name, for images of this shape and so many classes: see [`super::MODELS`].
    pub fn named(name: &str, input: ImageShape, classes: usize) -> Result<Self> {
        zoo::named(name, input, classes)
    }

    /// The shapes before, between and behind the layers.
    pub(super) fn shapes(&self) -> Result<Vec<Shape>> {
        let ImageShape { channels, height, width } = self.input;
        let sizes = [channels, height, width].map(|side| side as usize);
        let [channels, height, width] = sizes;
        if sizes.contains(&0) || sizes.iter().any(|&side| side > 1 << 16) {
            let value = format!("{channels} x {height} x {width}");
            return Err(Error::new("input", value, "sides from 1 to 65536"));
        }
        let mut shapes = vec![Shape::Image { height, width, channels }];
        if shapes[0].len() > MOST_FLOATS {
            let value = format!("{channels} x {height} x {width}");
            return Err(Error::new("input", value, format!("at most {MOST_FLOATS} numbers")));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let wrong = |expected: String| {
                Error::new(format!("layers[{index}]"), format!("{layer:?}"), expected)
            };
            let too_large = || wrong(format!("sizes from 1 up to {MOST_FLOATS} numbers in all"));
            let numbers = match *layer {
                Layer::Convolution { channels, kernel, padding } => {
                    vec![channels, kernel, padding.max(1)]
                }
                Layer::MaxPool { size, stride, padding } => vec![size, stride, padding.max(1)],
                Layer::Dense { units } => vec![units],
                Layer::Relu => Vec::new(),
            };
            if numbers.iter().any(|&number| number == 0 || number > MOST_FLOATS / 64) {
                return Err(too_large());
            }
            let before = shapes[index];
            let shape = layer.shape(before).map_err(wrong)?;
            let weights = match *layer {
                Layer::Convolution { kernel, .. } => kernel
                    .saturating_mul(kernel)
                    .saturating_mul(before.field(0).channels)
                    .saturating_mul(shape.field(0).channels),
                Layer::Dense { units } => units.saturating_mul(before.len()),
                // The table of its windows.
                Layer::MaxPool { size, .. } => {
                    let (height, width) = shape.area();
                    size.saturating_mul(size).saturating_mul(height).saturating_mul(width)
                }
                Layer::Relu => 0,
            };
            if shape.len() == 0 || shape.len() > MOST_FLOATS || weights > MOST_FLOATS {
                return Err(too_large());
            }
            shapes.push(shape);
        }
        if !matches!(shapes.last(), Some(Shape::Flat(_))) {
            let expected = "a dense layer, whose outputs are the scores of the classes";
            return Err(Error::new("layers", "no dense layer at the end", expected));
        }
        Ok(shapes)
    }
}
