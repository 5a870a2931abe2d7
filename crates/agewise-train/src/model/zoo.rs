//! The models that have a name: those of the paper's experiments (McMahan et al., 2017), convex ones, and any number of
//! dense layers.

use super::layer::{Layer, ModelSpec};
use crate::data::ImageShape;
use agewise_core::{Error, Result};

/// The names of all models, with a line about each.
pub const MODELS: [(&str, &str); 6] = [
    ("softmax", "one dense layer: convex, and strongly convex with weight decay"),
    ("linear", "one dense layer that predicts a number"),
    ("mlp:64,32", "dense layers of so many units with ReLUs between them"),
    ("2nn", "two hidden layers of 200 units; 199,210 parameters on MNIST"),
    ("cnn", "two convolutions of 5 x 5 and a layer of 512 units; 1,663,370 parameters on MNIST"),
    (
        "cnn-cifar",
        "two convolutions of 5 x 5 and layers of 384 and 192 units, for crops of 24 x 24 pixels; 1,068,298 parameters on CIFAR-10",
    ),
];

/// The side of the crops that `cnn-cifar` sees.
const CROP: u32 = 24;

pub(super) fn named(name: &str, input: ImageShape, classes: usize) -> Result<ModelSpec> {
    let mut input = input;
    let dense = |units| Layer::Dense { units };
    let convolution = |channels| Layer::Convolution { channels, kernel: 5, padding: 2 };
    let scores = dense(classes);
    let layers = match name {
        "softmax" | "linear" => vec![scores],
        "2nn" => vec![dense(200), Layer::Relu, dense(200), Layer::Relu, scores],
        "cnn" => {
            let pool = Layer::MaxPool { size: 2, stride: 2, padding: 0 };
            let first = [convolution(32), Layer::Relu, pool, convolution(64), Layer::Relu, pool];
            first.into_iter().chain([dense(512), Layer::Relu, scores]).collect()
        }
        "cnn-cifar" => {
            if input.height < CROP || input.width < CROP {
                let value = format!("{} x {}", input.height, input.width);
                let expected = format!("images of at least {CROP} x {CROP} pixels for cnn-cifar");
                return Err(Error::new("input", value, expected));
            }
            input = ImageShape { height: CROP, width: CROP, ..input };
            let pool = Layer::MaxPool { size: 3, stride: 2, padding: 1 };
            let first = [convolution(64), Layer::Relu, pool, convolution(64), Layer::Relu, pool];
            let last = [dense(384), Layer::Relu, dense(192), Layer::Relu, scores];
            first.into_iter().chain(last).collect()
        }
        mlp if mlp.split(':').next() == Some("mlp") => {
            let hidden = hidden_units(mlp)?.into_iter();
            hidden.flat_map(|units| [dense(units), Layer::Relu]).chain([scores]).collect()
        }
        unknown => {
            let names = MODELS.iter().map(|(name, _)| *name);
            return Err(Error::unknown("model", unknown, names));
        }
    };
    Ok(ModelSpec { name: name.to_string(), input, layers })
}

/// The units of the hidden layers of `mlp:64,32`.
fn hidden_units(name: &str) -> Result<Vec<usize>> {
    let list = name.split_once(':').map_or("", |(_, list)| list);
    let units = |text: &str| text.trim().parse().ok().filter(|&units: &usize| units > 0);
    let all: Option<Vec<usize>> = list.split(',').map(units).collect();
    all.ok_or_else(|| {
        Error::new("model", name, "mlp: and the units of each hidden layer, such as mlp:64,32")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    fn parameters(name: &str, (channels, height, width): (u32, u32, u32), classes: usize) -> usize {
        let input = ImageShape { channels, height, width };
        Model::new(ModelSpec::named(name, input, classes).unwrap()).unwrap().parameters()
    }

    #[test]
    fn have_the_parameters_of_the_literature() {
        let (mnist, cifar) = ((1, 28, 28), (3, 32, 32));
        assert_eq!(parameters("softmax", mnist, 10), 7_850);
        assert_eq!(parameters("2nn", mnist, 10), 199_210);
        assert_eq!(parameters("cnn", mnist, 10), 1_663_370);
        assert_eq!(parameters("cnn-cifar", cifar, 10), 1_068_298);
        assert_eq!(parameters("cnn-cifar", cifar, 100), 1_068_298 + 90 * 193);
    }

    #[test]
    fn dense_layers_are_named_by_their_units() {
        assert_eq!(parameters("mlp:64,32", (8, 1, 1), 3), 9 * 64 + 65 * 32 + 33 * 3);
        assert_eq!(parameters("linear", (8, 1, 1), 1), 9);
        assert_eq!(parameters("mlp:200,200", (1, 28, 28), 10), 199_210);
        for bad in ["mlp", "mlp:", "mlp:0", "mlp:8,", "mlp:x"] {
            let error = ModelSpec::named(bad, ImageShape::flat(4), 2).unwrap_err().to_string();
            assert!(error.contains("such as mlp:64,32"), "{error}");
        }
    }

    #[test]
    fn an_unknown_name_is_an_error_that_suggests() {
        let input = ImageShape { channels: 1, height: 28, width: 28 };
        let error = ModelSpec::named("cn", input, 10).unwrap_err().to_string();
        assert!(error.contains("did you mean cnn?"), "{error}");
    }
}
