//! What a run writes down about each round.

use super::gaps::GapLog;
use serde::{Deserialize, Serialize};

/// One round of a run: enough to know everything about the run but its model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundLog {
    /// The round, from 0.
    pub round: u64,
    /// The cohort.
    pub clients: Vec<u32>,
    /// The weight of each.
    pub weights: Vec<f64>,
    /// The mean training loss of each, or nothing where its update was not taken.
    pub losses: Vec<Option<f32>>,
    /// The mean loss of all samples of each under the model that it was sent, where the policy looks at it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whole_losses: Vec<f32>,
    /// The root of the mean square of the losses of each one's samples, where the policy looks at it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub root_mean_squares: Vec<Option<f32>>,
    /// Clients that were sent the model to answer a question of the policy, and not chosen then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked: u32,
    /// What clients said about their loss when they were asked before the first round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_losses: Vec<(u32, f32)>,
    /// In the first round, the ages of all clients, where the answers decided them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ages: Option<Vec<u64>>,
    /// Whether nobody had been selected, and one client was forced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// How well the global model did on the test images after the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<TestScore>,
    /// The objectives of all clients, where they are looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<GapLog>,
    /// In the last round, where the objectives are looked at: those of all clients at the last model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_losses: Option<Vec<f64>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A model on the test images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestScore {
    /// Images of each class that were recognised.
    pub correct: Vec<u64>,
    /// The mean loss, if it is finite.
    pub loss: Option<f64>,
}

impl TestScore {
    /// The share of images that were recognised.
    pub fn accuracy(&self, class_counts: &[u32]) -> Option<f64> {
        let images: u64 = class_counts.iter().map(|&count| u64::from(count)).sum();
        (images > 0).then(|| self.correct.iter().sum::<u64>() as f64 / images as f64)
    }

    /// The accuracy that a client with these labels would see: that of each class, in its proportions.
    pub fn accuracy_for(&self, class_counts: &[u32], labels: &[u32]) -> Option<f64> {
        let (mut hits, mut all) = (0.0, 0.0);
        for ((&correct, &count), &label) in self.correct.iter().zip(class_counts).zip(labels) {
            if count > 0 {
                hits += f64::from(label) * correct as f64 / f64::from(count);
                all += f64::from(label);
            }
        }
        (all > 0.0).then_some(hits / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_sees_the_accuracy_of_its_own_classes() {
        let score = TestScore { correct: vec![90, 10], loss: Some(0.5) };
        assert_eq!(score.accuracy(&[100, 20]), Some(100.0 / 120.0));
        assert_eq!(score.accuracy_for(&[100, 20], &[7, 0]), Some(0.9));
        assert_eq!(score.accuracy_for(&[100, 20], &[1, 1]), Some(0.7));
        assert_eq!(score.accuracy_for(&[100, 0], &[0, 3]), None);
        assert_eq!(score.accuracy(&[]), None);
    }
}
