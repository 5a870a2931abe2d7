//! How well a model does on samples: the loss, and for classification the hits of each class.

use serde::{Deserialize, Serialize};

/// How well a model does on some samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Evaluation {
    /// How many samples there were.
    pub samples: u64,
    /// The sum of their losses.
    pub loss_sum: f64,
    /// Samples of each class; empty where there are no classes.
    pub class_samples: Vec<u64>,
    /// Those of each class that were recognised.
    pub class_correct: Vec<u64>,
}

impl Evaluation {
    /// No samples yet, of so many classes.
    pub fn new(classes: usize) -> Self {
        let counts = vec![0; classes];
        Self { class_samples: counts.clone(), class_correct: counts, ..Self::default() }
    }

    /// An evaluation without classes: so many samples with this sum of losses.
    pub fn regression(samples: u64, loss_sum: f64) -> Self {
        Self { samples, loss_sum, ..Self::default() }
    }

    /// The mean loss; NaN if there were no samples.
    pub fn loss(&self) -> f64 {
        self.loss_sum / self.samples as f64
    }

    /// The share of samples that were recognised; NaN if there were none, or no classes.
    pub fn accuracy(&self) -> f64 {
        let classified: u64 = self.class_samples.iter().sum();
        self.class_correct.iter().sum::<u64>() as f64 / classified as f64
    }

    /// The accuracy on each class; NaN where there were no samples of it.
    pub fn class_accuracy(&self) -> Vec<f64> {
        let pairs = self.class_correct.iter().zip(&self.class_samples);
        pairs.map(|(&correct, &samples)| correct as f64 / samples as f64).collect()
    }

    /// Adds other samples.
    pub fn merge(&mut self, other: &Self) {
        let add = |mine: &mut Vec<u64>, theirs: &[u64]| {
            mine.resize(mine.len().max(theirs.len()), 0);
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        };
        add(&mut self.class_samples, &other.class_samples);
        add(&mut self.class_correct, &other.class_correct);
        self.samples += other.samples;
        self.loss_sum += other.loss_sum;
    }
}

/// The number by which the models of a task are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// The share of test samples that are recognised: higher is better.
    #[default]
    Accuracy,
    /// The mean loss of the test samples: lower is better.
    Loss,
}

impl Metric {
    /// This number of an evaluation.
    pub fn of(self, evaluation: &Evaluation) -> f64 {
        match self {
            Self::Accuracy => evaluation.accuracy(),
            Self::Loss => evaluation.loss(),
        }
    }

    /// Whether a value is at least as good as a target; never for what is not a number.
    pub fn reaches(self, value: f64, target: f64) -> bool {
        match self {
            Self::Accuracy => value >= target,
            Self::Loss => value <= target,
        }
    }

    /// Its name in tables and figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Loss => "loss",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_has_a_loss_and_no_accuracy() {
        let mut evaluation = Evaluation::regression(3, 1.5);
        evaluation.merge(&Evaluation::regression(1, 0.5));
        assert_eq!((evaluation.samples, evaluation.loss()), (4, 0.5));
        assert!(evaluation.accuracy().is_nan() && evaluation.class_accuracy().is_empty());
        assert_eq!(Metric::Loss.of(&evaluation), 0.5);
    }

    #[test]
    fn a_metric_knows_which_side_is_better() {
        assert!(Metric::Accuracy.reaches(0.9, 0.9) && !Metric::Accuracy.reaches(0.8, 0.9));
        assert!(Metric::Loss.reaches(0.1, 0.2) && !Metric::Loss.reaches(f64::NAN, 0.2));
    }
}
