//! Models as they are written in a file, layer by layer, and as they are shown.

use super::layer::{Layer, ModelSpec, Shape};
use crate::data::ImageShape;
use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// A layer as it is written in a file: `kind = "dense"` and its sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LayerParams {
    /// Every output depends on every input.
    Dense {
        /// Outputs; the last layer may leave them out and has as many as the task needs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        units: Option<usize>,
    },
    /// max(0, x).
    Relu {},
    /// Squares of `kernel` by `kernel` pixels.
    Convolution {
        /// Channels of the output.
        channels: usize,
        /// Side of the square.
        kernel: usize,
        /// Width of the border of zeros.
        #[serde(default)]
        padding: usize,
    },
    /// The largest value of each square.
    MaxPool {
        /// Side of the square.
        size: usize,
        /// From one square to the next; the side of the square unless it is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<usize>,
        /// How far the first square begins outside of the image.
        #[serde(default)]
        padding: usize,
    },
}

/// A layer of a model as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayerOutline {
    /// What it does.
    pub layer: String,
    /// The shape behind it.
    pub output: String,
    /// How many parameters it has.
    pub parameters: usize,
}

impl ModelSpec {
    /// The model of these layers, for samples of this shape and so many outputs: one score for each class, or the one
    /// number that is predicted.
    pub fn from_layers(layers: &[LayerParams], input: ImageShape, outputs: usize) -> Result<Self> {
        let last = layers.len().saturating_sub(1);
        let layer = |(place, layer): (usize, &LayerParams)| {
            let wrong = |value: &dyn std::fmt::Display, expected: String| {
                Err(Error::new(format!("model.layer[{place}].units"), value, expected))
            };
            Ok(match *layer {
                LayerParams::Dense { units: Some(units) } if place == last && units != outputs => {
                    return wrong(
                        &units,
                        format!(
                            "{outputs}, as the last layer has the scores of the classes, or \
                                                  the one number that is predicted"
                        ),
                    );
                }
                LayerParams::Dense { units: None } if place != last => {
                    return wrong(
                        &"not given",
                        "the number of outputs; only the last layer needs none".to_string(),
                    );
                }
                LayerParams::Dense { units } => Layer::Dense { units: units.unwrap_or(outputs) },
                LayerParams::Relu {} => Layer::Relu,
                LayerParams::Convolution { channels, kernel, padding } => {
                    Layer::Convolution { channels, kernel, padding }
                }
                LayerParams::MaxPool { size, stride, padding } => {
                    Layer::MaxPool { size, stride: stride.unwrap_or(size), padding }
                }
            })
        };
        if !matches!(layers.last(), Some(LayerParams::Dense { .. })) {
            let expected = "a dense layer at the end, whose outputs are what is predicted";
            return Err(Error::new("model.layer", format!("{} layers", layers.len()), expected));
        }
        let layers = layers.iter().enumerate().map(layer).collect::<Result<Vec<Layer>>>()?;
        let spec = Self { name: "layers".to_string(), input, layers };
        // Errors name the layer as it is written in the file.
        let named = |error: Error| match error.field().strip_prefix("layers") {
            Some(rest) => Error::new(format!("model.layer{rest}"), error.value(), error.expected()),
            None => error,
        };
        spec.shapes().map_err(named)?;
        Ok(spec)
    }

    /// The layers with the shapes behind them and their parameters.
    pub fn outline(&self) -> Result<Vec<LayerOutline>> {
        let shapes = self.shapes()?;
        let lines = self.layers.iter().zip(shapes.windows(2)).map(|(layer, shapes)| {
            let (before, behind) = (shapes[0], shapes[1]);
            let channels = before.field(0).channels;
            let (text, weights, biases) = match *layer {
                Layer::Dense { units } => ("dense".to_string(), before.len() * units, units),
                Layer::Relu => ("relu".to_string(), 0, 0),
                Layer::Convolution { channels: outputs, kernel, padding } => (
                    format!("convolution {kernel}x{kernel}, padding {padding}"),
                    kernel * kernel * channels * outputs,
                    outputs,
                ),
                Layer::MaxPool { size, stride, padding } => {
                    (format!("max-pool {size}x{size}, stride {stride}, padding {padding}"), 0, 0)
                }
            };
            let output = match behind {
                Shape::Image { height, width, channels } => format!("{height}x{width}x{channels}"),
                Shape::Flat(len) => len.to_string(),
            };
            LayerOutline { layer: text, output, parameters: weights + biases }
        });
        Ok(lines.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    #[test]
    fn layers_are_followed_and_counted() {
        let layers = [
            LayerParams::Convolution { channels: 32, kernel: 5, padding: 2 },
            LayerParams::Relu {},
            LayerParams::MaxPool { size: 2, stride: None, padding: 0 },
            LayerParams::Dense { units: Some(16) },
            LayerParams::Relu {},
            LayerParams::Dense { units: None },
        ];
        let spec = ModelSpec::from_layers(&layers, ImageShape::new(1, 28, 28), 10).unwrap();
        let outline = spec.outline().unwrap();
        let outputs: Vec<&str> = outline.iter().map(|layer| layer.output.as_str()).collect();
        assert_eq!(outputs, ["28x28x32", "28x28x32", "14x14x32", "16", "16", "10"]);
        let parameters: usize = outline.iter().map(|layer| layer.parameters).sum();
        assert_eq!(parameters, Model::new(spec).unwrap().parameters());
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_layer() {
        let field = |layers: &[LayerParams]| {
            let made = ModelSpec::from_layers(layers, ImageShape::flat(4), 3);
            made.unwrap_err().field().to_string()
        };
        let dense = |units| LayerParams::Dense { units };
        assert_eq!(field(&[dense(Some(5))]), "model.layer[0].units");
        assert_eq!(field(&[dense(None), dense(None)]), "model.layer[0].units");
        let convolution = LayerParams::Convolution { channels: 2, kernel: 3, padding: 0 };
        assert_eq!(field(&[convolution, dense(None)]), "model.layer[0]");
        assert_eq!(field(&[dense(Some(8)), convolution, dense(None)]), "model.layer[1]");
        assert_eq!(field(&[dense(Some(8)), LayerParams::Relu {}]), "model.layer");
        assert_eq!(field(&[]), "model.layer");
    }
}
