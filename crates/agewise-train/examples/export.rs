//! Writes a model as safetensors, and beside it some images with the scores that it gives them, for
//! `bench/training/check_safetensors.py`, which loads the file into PyTorch and compares.
//!
//! `cargo run --release -p agewise-train --example export -- MODEL FOLDER`

use agewise_core::Seed;
use agewise_train::data::{self, ImageShape, Images, PixelNormalization, PixelScale};
use agewise_train::local::{Samples, Trainer};
use agewise_train::model::{Model, ModelSpec};
use safetensors::tensor::{Dtype, TensorView, serialize};
use std::error::Error;
use std::path::Path;

/// Images to compare.
const COUNT: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, folder] = &arguments[..] else {
        return Err("MODEL FOLDER".into());
    };
    let digits = data::embedded_digits()?.test;
    let images = if name == "cnn-cifar" { coloured(&digits)? } else { digits };
    let pixels = PixelNormalization::new(PixelScale::Standardised, &images);
    let spec = ModelSpec::named(name, images.shape(), images.classes() as usize)?;
    let trainer = Trainer::new(Model::new(spec)?);
    let model = trainer.model();
    let parameters = trainer.initial(Seed(7));
    let indices: Vec<u32> = (0..COUNT as u32).collect();
    let samples = Samples::of_images(&images, Some(&indices), &pixels);
    let scores = trainer.worker().scores(&parameters, &samples)?;

    let folder = Path::new(folder);
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("{name}.safetensors"));
    std::fs::write(&path, model.to_safetensors(&parameters)?)?;
    let seen = channels_first(&images, &pixels, model.input());
    let shape = model.input();
    let sides = [shape.channels, shape.height, shape.width].map(|side| side as usize);
    let bytes = |values: &[f32]| -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    };
    let (seen, scores) = (bytes(&seen), bytes(&scores));
    let images = TensorView::new(Dtype::F32, vec![COUNT, sides[0], sides[1], sides[2]], &seen)?;
    let logits = TensorView::new(Dtype::F32, vec![COUNT, model.classes()], &scores)?;
    let check = folder.join(format!("{name}-check.safetensors"));
    std::fs::write(&check, serialize([("images", images), ("logits", logits)], None)?)?;
    println!("{}\n{}", path.display(), check.display());
    Ok(())
}

/// Three channels that differ, so that an exchange of two would be seen.
fn coloured(images: &Images) -> Result<Images, Box<dyn Error>> {
    let shape = ImageShape { channels: 3, ..images.shape() };
    let pixels: Vec<u8> =
        images.pixels().iter().flat_map(|&pixel| [pixel, pixel / 2, 255 - pixel]).collect();
    Ok(Images::new(shape, images.classes(), pixels, images.labels().to_vec())?)
}

/// The first images as PyTorch has them, cut to the middle that the model sees.
fn channels_first(images: &Images, pixels: &PixelNormalization, input: ImageShape) -> Vec<f32> {
    let shape = images.shape();
    let (top, left) = ((shape.height - input.height) / 2, (shape.width - input.width) / 2);
    let mut values = Vec::new();
    for index in 0..COUNT {
        let image = images.image(index);
        for channel in 0..shape.channels {
            for row in top..top + input.height {
                for column in left..left + input.width {
                    let place = (row * shape.width + column) * shape.channels + channel;
                    let pixel = usize::from(image[place as usize]);
                    values.push(pixels.of(channel as usize)[pixel]);
                }
            }
        }
    }
    values
}
