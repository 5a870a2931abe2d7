//! Samples whose features are numbers, with classes or numbers to be predicted.

use super::images::ImageShape;
use agewise_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::sync::Arc;

/// The most samples of one set: their numbers fit into 32 bits.
const MOST_SAMPLES: usize = u32::MAX as usize;

/// What is to be predicted.
#[derive(Debug, Clone, PartialEq)]
pub enum Labels {
    /// One of so many classes; training descends on the cross-entropy.
    Classes {
        /// The number of classes; labels are below it.
        classes: u32,
        /// The class of each sample.
        labels: Arc<[u8]>,
    },
    /// A number; training descends on the squared error.
    Numbers(Arc<[f32]>),
}

impl Labels {
    /// The number of labels.
    pub fn len(&self) -> usize {
        match self {
            Self::Classes { labels, .. } => labels.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of classes; 0 where numbers are predicted.
    pub fn classes(&self) -> u32 {
        match self {
            Self::Classes { classes, .. } => *classes,
            Self::Numbers(_) => 0,
        }
    }

    /// How many outputs a model needs: one score for each class, or the number itself.
    pub fn outputs(&self) -> usize {
        (self.classes() as usize).max(1)
    }

    /// The labels of some samples.
    fn take(&self, indices: &[u32]) -> Self {
        match self {
            Self::Classes { classes, labels } => Self::Classes {
                classes: *classes,
                labels: indices.iter().map(|&index| labels[index as usize]).collect(),
            },
            Self::Numbers(numbers) => {
                Self::Numbers(indices.iter().map(|&index| numbers[index as usize]).collect())
            }
        }
    }
}

/// Samples whose features are numbers; a clone shares the memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    shape: ImageShape,
    features: Arc<[f32]>,
    labels: Labels,
}

impl Table {
    /// Samples from their features, one sample after the other. Features without an order in space are the channels of
    /// an image of one pixel ([`ImageShape::flat`]).
    pub fn new(shape: ImageShape, features: impl Into<Arc<[f32]>>, labels: Labels) -> Result<Self> {
        let features = features.into();
        let sides = [shape.channels, shape.height, shape.width];
        if sides.iter().any(|side| !(1..=1 << 16).contains(side)) {
            return Err(Error::new("features", shape, "sides from 1 to 65536"));
        }
        if labels.len() > MOST_SAMPLES {
            return Err(Error::new("samples", labels.len(), format!("at most {MOST_SAMPLES}")));
        }
        if labels.len().checked_mul(shape.len()) != Some(features.len()) {
            let expected = format!("{} for each of {} labels", shape.len(), labels.len());
            return Err(Error::new("features", features.len(), expected));
        }
        let row = |place: usize| format!("features[{}]", place / shape.len());
        if let Some(place) = features.iter().position(|feature| !feature.is_finite()) {
            return Err(Error::new(row(place), features[place], "a finite number"));
        }
        match &labels {
            Labels::Classes { classes, labels } => {
                if !(1..=256).contains(classes) {
                    return Err(Error::new("classes", classes, "a whole number from 1 to 256"));
                }
                let outside = labels.iter().position(|&label| u32::from(label) >= *classes);
                if let Some(index) = outside {
                    let expected = format!("a class from 0 to {}", classes - 1);
                    return Err(Error::new(format!("labels[{index}]"), labels[index], expected));
                }
            }
            Labels::Numbers(numbers) => {
                if let Some(index) = numbers.iter().position(|number| !number.is_finite()) {
                    let field = format!("labels[{index}]");
                    return Err(Error::new(field, numbers[index], "a finite number"));
                }
            }
        }
        Ok(Self { shape, features, labels })
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The shape of the features of a sample.
    pub fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The features of all samples, one sample after the other.
    pub fn features(&self) -> &[f32] {
        &self.features
    }

    /// The features of one sample.
    ///
    /// # Panics
    ///
    /// If there is no such sample.
    pub fn sample(&self, index: usize) -> &[f32] {
        &self.features[index * self.shape.len()..][..self.shape.len()]
    }

    /// What is to be predicted.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Some of the samples, in this order.
    ///
    /// # Panics
    ///
    /// If there is no such sample.
    #[must_use]
    pub fn take(&self, indices: &[u32]) -> Self {
        let rows = indices.iter().flat_map(|&index| self.sample(index as usize));
        Self {
            shape: self.shape,
            features: rows.copied().collect(),
            labels: self.labels.take(indices),
        }
    }
}

/// How features become the numbers that a model sees: `standardised` or `raw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureScale {
    /// Mean 0 and deviation 1 in each feature of the training samples, and in their labels where those are numbers.
    #[default]
    Standardised,
    /// As they are.
    Raw,
}

impl FromStr for FeatureScale {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "standardised" => Ok(Self::Standardised),
            "raw" => Ok(Self::Raw),
            _ => Err(Error::new("features", text, "standardised or raw")),
        }
    }
}

/// What is subtracted from numbers, and by what they are divided then.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scaling {
    /// For each channel of the features.
    pub features: Vec<(f64, f64)>,
    /// For the labels, where they are numbers.
    pub labels: Option<(f64, f64)>,
}

impl Scaling {
    /// Mean 0 and deviation 1 in each channel of these (training) samples, and of their labels where those are numbers.
    pub fn standard(table: &Table) -> Self {
        let channels = table.shape.channels as usize;
        let column = |channel: usize| {
            table.features.iter().skip(channel).step_by(channels).copied().map(f64::from)
        };
        let labels = match &table.labels {
            Labels::Classes { .. } => None,
            Labels::Numbers(numbers) => {
                Some(shift_and_divisor(&|| Box::new(numbers.iter().copied().map(f64::from))))
            }
        };
        let features =
            (0..channels).map(|channel| shift_and_divisor(&|| Box::new(column(channel))));
        Self { features: features.collect(), labels }
    }

    /// The samples on this scale.
    #[must_use]
    pub fn apply(&self, table: &Table) -> Table {
        let scaled = |value: f32, &(shift, divisor): &(f64, f64)| {
            ((f64::from(value) - shift) / divisor) as f32
        };
        // Without channels nothing is scaled.
        let features = if self.features.is_empty() {
            Arc::clone(&table.features)
        } else {
            let channels = self.features.iter().cycle();
            table.features.iter().zip(channels).map(|(&value, by)| scaled(value, by)).collect()
        };
        let labels = match (&table.labels, &self.labels) {
            (Labels::Numbers(numbers), Some(by)) => {
                Labels::Numbers(numbers.iter().map(|&number| scaled(number, by)).collect())
            }
            (labels, _) => labels.clone(),
        };
        Table { shape: table.shape, features, labels }
    }
}

/// The mean and the deviation of some numbers; a column without any spread is only shifted.
fn shift_and_divisor<'a>(numbers: &dyn Fn() -> Box<dyn Iterator<Item = f64> + 'a>) -> (f64, f64) {
    let count = numbers().count();
    if count == 0 {
        return (0.0, 1.0);
    }
    let mean = numbers().sum::<f64>() / count as f64;
    let variance =
        numbers().map(|number| (number - mean) * (number - mean)).sum::<f64>() / count as f64;
    let deviation = variance.sqrt();
    // What is left of equal numbers is the rounding of their mean.
    let noise = mean.abs() * 1e-12;
    (mean, if deviation > noise { deviation } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(features: &[f32], labels: &[f32]) -> Result<Table> {
        let shape = ImageShape::flat(2);
        Table::new(shape, features.to_vec(), Labels::Numbers(labels.to_vec().into()))
    }

    #[test]
    fn standard_scale_has_mean_0_and_deviation_1() {
        let table = numbers(&[1.0, 7.0, 3.0, 7.0], &[10.0, 30.0]).unwrap();
        let scaling = Scaling::standard(&table);
        assert_eq!(scaling.features, [(2.0, 1.0), (7.0, 1.0)]);
        let scaled = scaling.apply(&table);
        assert_eq!(scaled.features(), [-1.0, 0.0, 1.0, 0.0]);
        assert_eq!(*scaled.labels(), Labels::Numbers(vec![-1.0, 1.0].into()));
        assert_eq!(Scaling::default().apply(&table), table);
        assert_eq!(table.take(&[1]).sample(0), [3.0, 7.0]);
    }

    #[test]
    fn refuses_what_does_not_fit_together() {
        let field = |table: Result<Table>| table.unwrap_err().field().to_string();
        assert_eq!(field(numbers(&[1.0], &[1.0])), "features");
        assert_eq!(field(numbers(&[1.0, 2.0, f32::NAN, 0.0], &[1.0, 1.0])), "features[1]");
        assert_eq!(field(numbers(&[1.0, 2.0], &[f32::INFINITY])), "labels[0]");
        let labels = Labels::Classes { classes: 2, labels: vec![0, 2].into() };
        assert_eq!(field(Table::new(ImageShape::flat(1), vec![0.0; 2], labels)), "labels[1]");
    }
}
