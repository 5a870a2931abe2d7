//! A run as far as it was played, as plain data: what is stored, summed up and drawn.

use crate::clock::{RoundCosts, SecondsRecord, Unit};
use crate::log::RoundLog;
use crate::objective::ObjectiveRecord;
use crate::stats::Spent;
use agewise_train::Metric;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which run of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    /// The number of the seed, from 0.
    pub seed: u32,
    /// The place of the variant.
    pub variant: usize,
}

/// A run as far as it was played.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Which run.
    pub id: RunId,
    /// Whether it is at its end.
    pub finished: bool,
    /// Every round, from 0.
    pub rounds: Vec<RoundRecord>,
    /// How it loaded its clients; nothing before the first round.
    pub load: Option<LoadRecord>,
    /// What came of training, where there is a task.
    pub training: Option<TrainingRecord>,
}

/// One round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Clients that could be selected; nothing where counting them would cost more than the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
    /// Clients that were selected.
    pub selected: u64,
    /// Clients that reported.
    pub reported: u64,
    /// Whether one was forced.
    pub forced: bool,
    /// The target interval.
    pub interval: f64,
    /// Sigma over the recorded rounds so far.
    pub sigma: Option<f64>,
}

/// How a run loaded its clients, over the rounds behind the warm-up.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadRecord {
    /// Every X that was seen, with how often.
    pub intervals: Vec<(u64, u64)>,
    /// E\[X\].
    pub mean_interval: Option<f64>,
    /// Var\[X\].
    pub var_interval: Option<f64>,
    /// Sigma.
    pub sigma: Option<f64>,
    /// Mean covariance of two clients' weights.
    pub mean_covariance: Option<f64>,
    /// Mean cohort (reports).
    pub cohort_mean: f64,
    /// Its standard deviation.
    pub cohort_sd: f64,
    /// Smallest cohort.
    pub cohort_min: u64,
    /// Largest cohort.
    pub cohort_max: u64,
    /// Jain's index.
    pub jain: Option<f64>,
    /// Clients that never reported.
    pub never_reached: u64,
    /// Longest X, or age of a client that still waits.
    pub longest_wait: u64,
    /// sqrt(Var Y)/T.
    pub window_sd: BTreeMap<u32, f64>,
    /// The number of clients by how often they took part.
    pub selections: Vec<(u32, u64)>,
    /// The number of clients by age, in some rounds.
    pub ages: Vec<(u64, Vec<(u64, u64)>)>,
    /// The share of pairs of clients that never shared a round, where it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub never_together: Option<f64>,
    /// The relative spread over pairs of the number of shared rounds, where it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub co_participation_spread: Option<f64>,
}

/// What came of training.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingRecord {
    /// By which figure the model is measured.
    pub metric: Metric,
    /// How many rounds a step of the server is: 1, or K/m where there are no rounds and a step takes K updates.
    pub rounds_per_step: f64,
    /// The steps as they were logged; each is a round, where there are rounds.
    pub logs: Vec<RoundLog>,
    /// The evaluations.
    pub curve: Vec<CurvePoint>,
    /// Each client, also those that had not joined yet.
    pub clients: Vec<ClientRecord>,
    /// Skew and error, where the objectives of all clients were looked at.
    pub objectives: Option<ObjectiveRecord>,
    /// What it took, where there is a clock.
    pub clock: Option<ClockRecord>,
}

/// What a training run took in simulated time.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockRecord {
    /// How long clients waited, and how evenly they worked.
    pub seconds: SecondsRecord,
    /// The costs of each step of the server; each is a round, where there are rounds.
    pub rounds: Vec<RoundCosts>,
}

/// An evaluation on the test set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Whole rounds played; where there are no rounds, a round is as many updates as a cohort has clients.
    pub round: u64,
    /// Steps of the server.
    pub step: u64,
    /// The figure by which the task is measured: one of the two below.
    pub score: f64,
    /// The share of samples that were recognised, for tasks that have classes.
    pub accuracy: Option<f64>,
    /// The mean loss, if it is finite.
    pub loss: Option<f64>,
}

/// A client in a training run.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRecord {
    /// How many samples it has.
    pub samples: u64,
    /// How often it took part.
    pub selections: u32,
    /// Rounds since it last took part, or since it was there.
    pub age: u64,
    /// The accuracy of the last model on its classes, in its proportions.
    pub accuracy: Option<f64>,
}

impl Record {
    /// A run without a task of which there is nothing.
    pub(crate) fn unplayed(id: RunId) -> Self {
        Self { id, finished: false, rounds: Vec::new(), load: None, training: None }
    }

    /// Updates that were received, over all rounds.
    pub fn reported(&self) -> u64 {
        self.rounds.iter().map(|row| row.reported).sum()
    }

    /// Clients that were sent the model to train it, over all rounds.
    pub fn selected(&self) -> u64 {
        self.rounds.iter().map(|row| row.selected).sum()
    }

    /// Places that were given to clients that did not report, over all rounds.
    pub fn places_lost(&self) -> u64 {
        self.selected() - self.reported()
    }

    /// Rounds in which a client was forced.
    pub fn forced(&self) -> u64 {
        self.rounds.iter().filter(|row| row.forced).count() as u64
    }
}

impl TrainingRecord {
    /// Rounds until the score was first at least as good as `target`.
    pub fn rounds_to(&self, target: f64) -> Option<u64> {
        self.first_at(target).map(|point| point.round)
    }

    fn first_at(&self, target: f64) -> Option<&CurvePoint> {
        self.curve.iter().find(|point| self.metric.reaches(point.score, target))
    }

    /// What it cost to reach a target, in a unit.
    pub fn cost_to(&self, target: f64, unit: Unit) -> Option<Spent> {
        let (rounds, steps, reached) = match self.first_at(target) {
            Some(point) => (point.round as f64, point.step as usize, true),
            None => (self.logs.len() as f64 * self.rounds_per_step, self.logs.len(), false),
        };
        let cost = match &self.clock {
            Some(clock) => unit.of(rounds, &RoundCosts::sum(clock.rounds.iter().take(steps))),
            None => (unit == Unit::Rounds).then_some(rounds),
        };
        Some(Spent { amount: cost?, reached })
    }

    /// The score of the last evaluation.
    pub fn final_score(&self) -> Option<f64> {
        self.curve.last().map(|point| point.score)
    }

    /// The mean score over the rounds from the first evaluation to the last: the area under the curve, which is taken
    /// as straight in between, so that rare evaluations give about the same.
    pub fn area(&self) -> Option<f64> {
        let (first, last) = (self.curve.first()?, self.curve.last()?);
        if first.round == last.round {
            return Some(last.score);
        }
        let piece = |pair: &[CurvePoint]| {
            let width = (pair[1].round - pair[0].round) as f64;
            width * f64::midpoint(pair[0].score, pair[1].score)
        };
        let area: f64 = self.curve.windows(2).map(piece).sum();
        Some(area / (last.round - first.round) as f64)
    }

    /// The mean accuracy of the tenth of the clients that the last model serves worst.
    pub fn worst_tenth(&self) -> Option<f64> {
        let mut each: Vec<f64> = self.clients.iter().filter_map(|client| client.accuracy).collect();
        each.sort_by(f64::total_cmp);
        let worst = &each[..each.len().div_ceil(10)];
        (!worst.is_empty()).then(|| worst.iter().sum::<f64>() / worst.len() as f64)
    }

    /// Models that were sent only for a probe of the policy.
    pub fn probed(&self) -> u64 {
        self.logs.iter().map(|log| u64::from(log.probed)).sum()
    }

    /// Updates that were not taken.
    pub fn rejected(&self) -> u64 {
        self.logs.iter().map(RoundLog::rejected).sum()
    }
}
