//! Sketches of updates: few numbers whose sums and distances are nearly those of the whole.
//!
//! Only the output layer is looked at. What tells clients with different labels apart is there, and in our studies a
//! projection of all layers did no better (docs/policies.md). Layers with more parameters than a sketch has numbers are
//! folded by a count sketch: each parameter is added, with a random sign, to one of the numbers. Inner products are
//! then right on average, with an error that falls with the root of the width.

use crate::task::Task;
use agewise_core::{Draws, Error, Result, Seed, Stream};
use std::ops::Range;

/// Where parameters go, and with which sign.
const FOLDS: Stream = Stream::custom(202);

/// Makes sketches, all of one width.
#[derive(Debug, Clone)]
pub struct Sketcher {
    layer: Range<usize>,
    width: usize,
    /// For each parameter of the layer the number it is added to, and its sign; nothing if they are kept as they are.
    folds: Option<Vec<(u32, f32)>>,
}

impl Sketcher {
    /// The most numbers of a sketch of a task's update.
    pub const WIDTH: u32 = 512;

    /// For the updates of a task; the seed decides how parameters are folded.
    pub fn for_task(task: &dyn Task, seed: Seed) -> Self {
        Self::folding(task.sketch_range(), Self::WIDTH, seed)
    }

    /// For some of the parameters of any model: sketches of at most `width` numbers.
    pub fn of_range(parameters: Range<usize>, width: u32, seed: Seed) -> Result<Self> {
        if width == 0 {
            return Err(Error::new("width", width, "a whole number of at least 1"));
        }
        Ok(Self::folding(parameters, width, seed))
    }

    fn folding(layer: Range<usize>, width: u32, seed: Seed) -> Self {
        let folds = (layer.len() > width as usize).then(|| {
            let draws = Draws::new(seed, FOLDS, 0);
            let fold = |parameter: usize| {
                let bits = draws.of(parameter as u64).bits();
                let sign = if bits & 1 == 0 { 1.0 } else { -1.0 };
                ((bits >> 32) as u32 % width, sign)
            };
            (0..layer.len()).map(fold).collect()
        });
        Self { width: layer.len().min(width as usize), layer, folds }
    }

    /// How many numbers a sketch has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The sketch of an update, from the models before and after it; nothing if it has a number that is not finite.
    pub fn sketch(&self, before: &[f32], after: &[f32]) -> Option<Vec<f32>> {
        let (before, after) = (before.get(self.layer.clone())?, after.get(self.layer.clone())?);
        let changes = after.iter().zip(before).map(|(after, before)| after - before);
        let sketch: Vec<f32> = match &self.folds {
            None => changes.collect(),
            Some(folds) => {
                let mut sums = vec![0.0; self.width];
                for (change, &(place, sign)) in changes.zip(folds) {
                    sums[place as usize] += sign * change;
                }
                sums
            }
        };
        sketch.iter().all(|number| number.is_finite()).then_some(sketch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::ImageShape;
    use crate::local::Trainer;
    use crate::model::{Model, ModelSpec};

    fn trainer(name: &str) -> Trainer {
        let spec = ModelSpec::named(name, ImageShape::new(1, 28, 28), 10).unwrap();
        Trainer::new(Model::new(spec).unwrap())
    }

    fn sketcher_of(trainer: &Trainer, seed: Seed) -> Sketcher {
        Sketcher::of_range(trainer.output_layer(), Sketcher::WIDTH, seed).unwrap()
    }

    #[test]
    fn small_layers_are_kept_and_large_ones_folded() {
        for (model, layer, width) in [("2nn", 2_010, 512), ("softmax", 7_850, 512)] {
            let trainer = trainer(model);
            let sketcher = sketcher_of(&trainer, Seed(1));
            assert_eq!((trainer.output_layer().len(), sketcher.width()), (layer, width));
            assert_eq!(trainer.output_layer().end, trainer.parameters());
        }
        let tiny = ModelSpec::named("softmax", ImageShape::new(1, 5, 5), 10).unwrap();
        let tiny = Trainer::new(Model::new(tiny).unwrap());
        let sketcher = sketcher_of(&tiny, Seed(1));
        let after: Vec<f32> = (0..260u16).map(f32::from).collect();
        assert_eq!(sketcher.sketch(&vec![1.0; 260], &after).unwrap()[259], 258.0);
    }

    /// Inner products of folded vectors: right on average over seeds. For vectors of unit length one has the variance
    /// (1 + 2c^2 - ...)/512 < 0.004, so the mean of 400 seeds stays within 4 deviations, 0.013.
    #[test]
    fn inner_products_survive_folding() {
        let trainer = trainer("2nn");
        let layer = trainer.output_layer();
        let zeros = vec![0.0; trainer.parameters()];
        let vector = |phase: f32| {
            let mut vector = zeros.clone();
            for (index, value) in vector[layer.clone()].iter_mut().enumerate() {
                *value =
                    (index as f32).mul_add(0.7, phase).sin() * (2.0 / layer.len() as f32).sqrt();
            }
            vector
        };
        let (one, other) = (vector(0.0), vector(1.0));
        let exact: f32 = one.iter().zip(&other).map(|(a, b)| a * b).sum();
        let mean: f32 = (0..400)
            .map(|seed| {
                let sketcher = sketcher_of(&trainer, Seed(seed));
                let [a, b] = [&one, &other].map(|v| sketcher.sketch(&zeros, v).unwrap());
                a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>() / 400.0
            })
            .sum();
        assert!((mean - exact).abs() < 0.013, "{mean} {exact}");
    }

    #[test]
    fn part_of_any_model_is_folded_like_the_output_layer() {
        let trainer = trainer("2nn");
        let layer = trainer.output_layer();
        let before = vec![0.5; trainer.parameters()];
        let after: Vec<f32> = (0..before.len()).map(|index| (index as f32).sin()).collect();
        let sketch = sketcher_of(&trainer, Seed(3)).sketch(&before, &after).unwrap();
        let alone = Sketcher::of_range(0..layer.len(), Sketcher::WIDTH, Seed(3)).unwrap();
        assert_eq!(alone.sketch(&before[layer.clone()], &after[layer.clone()]).unwrap(), sketch);
        let narrow = Sketcher::of_range(layer, 7, Seed(3)).unwrap();
        assert_eq!((narrow.width(), narrow.sketch(&before, &after).unwrap().len()), (7, 7));
        assert_eq!(Sketcher::of_range(0..9, 0, Seed(3)).unwrap_err().field(), "width");
    }

    #[test]
    fn a_number_that_is_not_finite_makes_no_sketch() {
        let trainer = trainer("2nn");
        let sketcher = sketcher_of(&trainer, Seed(1));
        let before = vec![0.0; trainer.parameters()];
        let mut after = before.clone();
        after[trainer.parameters() - 1] = f32::NAN;
        assert!(sketcher.sketch(&before, &after).is_none());
        assert!(sketcher.sketch(&before[1..], &after).is_none());
    }
}
