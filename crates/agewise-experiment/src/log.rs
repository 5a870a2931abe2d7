//! What a training run writes down about each round: enough to know everything about the run but its model.

use crate::clock::ClockLog;
use crate::objective::ObjectiveLog;
use serde::{Deserialize, Serialize};

/// One round of a training run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct RoundLog {
    /// The round, from 0.
    pub round: u64,
    /// Clients that could be selected.
    pub available: u32,
    /// The clients that reported, in increasing order.
    pub clients: Vec<u32>,
    /// The weight of each.
    pub weights: Vec<f64>,
    /// The mean training loss of each, or nothing where its update was not taken.
    pub losses: Vec<Option<f32>>,
    /// Clients that were selected and never reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<u32>,
    /// Clients that were selected and reported too late to count, in increasing order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<u32>,
    /// Where there are no rounds, for each client how many steps the server made while it worked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staleness: Vec<u64>,
    /// Where there are no rounds, who was asked each time that places were free: from it follows who is at work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<AskLog>,
    /// What the round took in simulated time, where there is a clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockLog>,
    /// The mean loss of all samples of each under the model that it was sent, where the policy looks at it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whole_losses: Vec<f32>,
    /// The root of the mean square of the losses of each one's samples, where the policy looks at it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub root_mean_squares: Vec<Option<f32>>,
    /// Clients that were sent the model for a probe of the policy, and not selected then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub probed: u32,
    /// The losses that clients said when they were probed before the first round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_losses: Vec<(u32, f32)>,
    /// In the first round, the ages of all clients, where the probes decided them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "first_ages")]
    pub initial_ages: Option<Vec<u64>>,
    /// Whether no client had been selected, and one was forced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// Whether the task was known by then to give other results when a client is trained again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_deterministic: bool,
    /// How well the global model did on the test set after the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<TestScore>,
    /// The objectives of all clients before the round, where they are looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objectives: Option<ObjectiveLog>,
    /// In the last round, where the objectives are looked at: those of all clients at the last model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_losses: Option<Vec<f64>>,
}

/// Who was asked when places were free.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct AskLog {
    /// The clients, in the order in which they were named.
    pub clients: Vec<u32>,
    /// Those of them that had been probed before and have the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probed: Vec<u32>,
    /// How many seconds they had to wait for the answers to probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl RoundLog {
    /// Clients that were selected, whether they reported or not.
    pub fn selected(&self) -> u64 {
        (self.clients.len() + self.dropped.len() + self.late.len()) as u64
    }

    /// Everyone who was selected, in increasing order.
    pub fn asked(&self) -> Vec<u32> {
        let mut asked = [&self.clients[..], &self.dropped, &self.late].concat();
        asked.sort_unstable();
        asked
    }

    /// Updates that were not taken.
    pub fn rejected(&self) -> u64 {
        self.losses.iter().filter(|loss| loss.is_none()).count() as u64
    }

    /// The mean training loss of the updates that were taken.
    pub fn training_loss(&self) -> Option<f32> {
        let taken: Vec<f32> = self.losses.iter().flatten().copied().collect();
        (!taken.is_empty()).then(|| taken.iter().sum::<f32>() / taken.len() as f32)
    }
}

/// A model on the test set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TestScore {
    /// Samples of the test set.
    pub samples: u64,
    /// The mean loss, if it is finite.
    pub loss: Option<f64>,
    /// Samples of each class, for tasks that have classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class_samples: Vec<u64>,
    /// Those of each class that were recognised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class_correct: Vec<u64>,
}

impl TestScore {
    /// The share of samples that were recognised, for tasks that have classes.
    pub fn accuracy(&self) -> Option<f64> {
        let known = !self.class_correct.is_empty() && self.samples > 0;
        known.then(|| self.class_correct.iter().sum::<u64>() as f64 / self.samples as f64)
    }

    /// The accuracy that a client with these labels would see: that of each class, in its proportions.
    pub fn accuracy_for(&self, labels: &[u32]) -> Option<f64> {
        let (mut hits, mut all) = (0.0, 0.0);
        let classes = self.class_correct.iter().zip(&self.class_samples);
        for ((&correct, &samples), &label) in classes.zip(labels) {
            if samples > 0 {
                hits += f64::from(label) * correct as f64 / samples as f64;
                all += f64::from(label);
            }
        }
        (all > 0.0).then_some(hits / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(class_samples: &[u64], class_correct: &[u64]) -> TestScore {
        TestScore {
            samples: class_samples.iter().sum(),
            loss: Some(0.5),
            class_samples: class_samples.to_vec(),
            class_correct: class_correct.to_vec(),
        }
    }

    #[test]
    fn a_client_sees_the_accuracy_of_its_own_classes() {
        let seen = score(&[100, 20], &[90, 10]);
        assert_eq!(seen.accuracy(), Some(100.0 / 120.0));
        assert_eq!(seen.accuracy_for(&[7, 0]), Some(0.9));
        assert_eq!(seen.accuracy_for(&[1, 1]), Some(0.7));
        assert_eq!(score(&[100, 0], &[90, 0]).accuracy_for(&[0, 3]), None);
        assert_eq!(score(&[], &[]).accuracy(), None);
    }
}
