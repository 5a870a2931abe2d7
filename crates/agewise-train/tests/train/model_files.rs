//! Files of models: what is written comes back, and what is broken is an error.

use crate::reference::cases::{RELU, convolution, dense, pool, spec};
use agewise_core::Seed;
use agewise_train::data::ImageShape;
use agewise_train::model::{Layer, MODELS, Model, ModelSpec};
use proptest::prelude::*;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize};

fn small() -> Model {
    let layers = [convolution(2, 3, 1), RELU, pool(2, 2, 0), dense(3)];
    Model::new(spec("small", (2, 4, 4), &layers)).unwrap()
}

fn small_file() -> (Model, Vec<f32>, Vec<u8>) {
    let model = small();
    let parameters = model.initial(Seed(4));
    let file = model.to_safetensors(&parameters).unwrap();
    (model, parameters, file)
}

#[test]
fn every_model_comes_back_from_its_file() {
    for (name, _) in MODELS {
        let spec = ModelSpec::named(name, ImageShape::new(3, 28, 28), 10).unwrap();
        let model = Model::new(spec).unwrap();
        let parameters = model.initial(Seed(4));
        let file = model.to_safetensors(&parameters).unwrap();
        assert!(model.from_safetensors(&file).unwrap() == parameters, "{name}");
        assert!(
            model.to_safetensors(&parameters).unwrap() == file,
            "{name}: the same bytes each time"
        );
        let names: Vec<&str> = model.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
        let mut found: Vec<String> = SafeTensors::deserialize(&file)
            .unwrap()
            .names()
            .iter()
            .map(ToString::to_string)
            .collect();
        found.sort();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(found, sorted);
    }
}

#[test]
fn bits_of_any_number_come_back() {
    let (model, mut parameters, _) = small_file();
    parameters[..4].copy_from_slice(&[-0.0, f32::MIN_POSITIVE / 8.0, f32::MAX, 1.0 / 3.0]);
    let back = model.from_safetensors(&model.to_safetensors(&parameters).unwrap()).unwrap();
    assert!(back.iter().zip(&parameters).all(|(b, p)| b.to_bits() == p.to_bits()));
    for wrong in [0, parameters.len() - 1, parameters.len() + 1] {
        assert_eq!(model.to_safetensors(&vec![0.0; wrong]).unwrap_err().field(), "parameters");
    }
}

/// The small model's tensors with one of them replaced or left out.
fn with(name: &str, other: Option<(Dtype, Vec<usize>)>) -> Vec<u8> {
    let (model, ..) = small_file();
    let zeros = vec![0; 4096];
    let mut views = Vec::new();
    let expected = model.tensors().iter().map(|t| (t.name.as_str(), Dtype::F32, t.shape.clone()));
    let kept = expected.filter(|(known, ..)| *known != name);
    for (name, dtype, shape) in kept.chain(other.map(|(dtype, shape)| (name, dtype, shape))) {
        let len = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        views.push((name, TensorView::new(dtype, shape, &zeros[..len]).unwrap()));
    }
    serialize(views, None).unwrap()
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let model = small();
    let field = |file: &[u8]| model.from_safetensors(file).unwrap_err().field().to_string();
    assert_eq!(field(&with("fc1.weight", None)), "fc1.weight");
    assert_eq!(field(&with("fc1.weight", Some((Dtype::F32, vec![8, 3])))), "fc1.weight");
    assert_eq!(field(&with("fc1.weight", Some((Dtype::F32, vec![24])))), "fc1.weight");
    assert_eq!(field(&with("conv1.bias", Some((Dtype::F64, vec![2])))), "conv1.bias");
    assert_eq!(field(&with("conv1.bias", Some((Dtype::I32, vec![2])))), "conv1.bias");
    let extra =
        model.from_safetensors(&with("fc2.weight", Some((Dtype::F32, vec![1])))).unwrap_err();
    assert!(extra.to_string().contains("fc2.weight"), "{extra}");
    assert!(model.from_safetensors(&with("other", None)).is_ok());
}

#[test]
fn every_cut_is_an_error() {
    let (model, _, file) = small_file();
    for len in 0..file.len() {
        assert!(model.from_safetensors(&file[..len]).is_err(), "cut to {len} bytes");
    }
    let longer = [&file[..], &[0]].concat();
    assert!(model.from_safetensors(&longer).is_err());
}

#[test]
fn every_flip_of_the_length_and_the_header_is_survived() {
    let (model, parameters, file) = small_file();
    let header = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    for at in 0..header {
        for bit in 0..8 {
            let mut broken = file.clone();
            broken[at] ^= 1 << bit;
            // A flip in the name of the model or in a blank changes no number.
            if let Ok(read) = model.from_safetensors(&broken) {
                assert!(read == parameters, "bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn sizes_beyond_all_bounds_are_errors() {
    let huge = [1, 1 << 16, 1 << 22, 1 << 32, usize::MAX / 2, usize::MAX];
    let sides = [1, 1 << 16, u32::MAX];
    for &a in &huge {
        for &b in &huge {
            for &c in &huge {
                let layers = [
                    Layer::Convolution { channels: a, kernel: b, padding: c },
                    Layer::Convolution { channels: a, kernel: b, padding: b.wrapping_sub(1) },
                    Layer::MaxPool { size: a, stride: b, padding: c },
                ];
                for layer in layers {
                    // The last one makes sure that no model of these is small enough to be built.
                    for side in sides {
                        let spec =
                            spec("huge", (side, side, side), &[layer, dense(a), dense(1 << 28)]);
                        assert!(Model::new(spec).is_err(), "{layer:?} on {side}");
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn broken_files_never_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (model, _, mut file) = small_file();
        for (at, byte) in flips {
            let at = at.index(file.len());
            file[at] ^= byte;
        }
        let len = cut.map_or(file.len(), |cut| cut.index(file.len()));
        let read = model.from_safetensors(&file[..len]);
        if let Ok(read) = read {
            prop_assert_eq!(read.len(), model.parameters());
            // What was read can be written.
            prop_assert!(model.to_safetensors(&read).is_ok());
        }
    }

    #[test]
    fn anything_else_is_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(small().from_safetensors(&bytes).is_err());
    }
}
