//! What came of a run.

use super::gaps::GapRecord;
use super::log::RoundLog;
use super::run::Selection;
use super::{RunId, Study};
use agewise_core::Result;
use agewise_core::metrics::ParticipationSummary;

/// A run as far as it was played: its logs and what follows from them.
#[derive(Debug, Clone)]
pub struct Record {
    /// Which run.
    pub id: RunId,
    /// Its rounds.
    pub logs: Vec<RoundLog>,
    /// Whether it is at its end.
    pub finished: bool,
    /// Its evaluations.
    pub curve: Vec<CurvePoint>,
    /// How it loaded its clients; nothing before the first round.
    pub participation: Option<ParticipationSummary>,
    /// How often each X was seen.
    pub intervals: Vec<(u64, u64)>,
    /// Each client.
    pub clients: Vec<ClientRecord>,
    /// Skew and error, where the objectives of all clients were looked at.
    pub gaps: Option<GapRecord>,
}

/// An evaluation on the test images.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Rounds played.
    pub round: u64,
    /// The share of images that were recognised.
    pub accuracy: f64,
    /// The mean loss, if it is finite.
    pub loss: Option<f64>,
}

/// A client in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRecord {
    /// How many images it has.
    pub samples: usize,
    /// How often it took part.
    pub selections: u32,
    /// Rounds since it last took part, or since the beginning.
    pub age: u64,
    /// The accuracy of the last model on its classes, in its proportions.
    pub accuracy: Option<f64>,
}

impl Record {
    /// Follows the logs of a run.
    pub fn new(study: &Study, id: RunId, logs: Vec<RoundLog>) -> Result<Self> {
        let scene = study.scene(id.seed)?;
        let mut selection = Selection::new(study, id, scene)?;
        for log in &logs {
            selection.follow(log, &[])?;
        }
        let counts = study.test_counts();
        let curve = logs
            .iter()
            .filter_map(|log| {
                let test = log.test.as_ref()?;
                let accuracy = test.accuracy(&counts)?;
                Some(CurvePoint { round: log.round + 1, accuracy, loss: test.loss })
            })
            .collect();
        let last = logs.iter().rev().find_map(|log| log.test.as_ref());
        let Selection { selector, participation, .. } = selection;
        let client = |(client, labels): (usize, &Vec<u32>)| ClientRecord {
            samples: scene.partition.of(client).len(),
            selections: participation.selections()[client],
            age: selector.ages().of(client as u32),
            accuracy: last.and_then(|test| test.accuracy_for(&counts, labels)),
        };
        Ok(Self {
            id,
            finished: study.is_finished(&logs),
            curve,
            participation: (!logs.is_empty()).then(|| participation.summary(selector.ages())),
            intervals: participation.intervals().histogram().collect(),
            gaps: GapRecord::new(scene, &logs)?,
            clients: scene.partition.histograms().iter().enumerate().map(client).collect(),
            logs,
        })
    }

    /// Rounds until the accuracy was first at least `target`.
    pub fn rounds_to(&self, target: f64) -> Option<u64> {
        self.curve.iter().find(|point| point.accuracy >= target).map(|point| point.round)
    }

    /// The accuracy of the last evaluation.
    pub fn final_accuracy(&self) -> Option<f64> {
        self.curve.last().map(|point| point.accuracy)
    }

    /// The mean accuracy over the rounds from the first evaluation to the last: the area under the curve, which is
    /// taken as straight in between, so that rare evaluations give about the same.
    pub fn area(&self) -> Option<f64> {
        let (first, last) = (self.curve.first()?, self.curve.last()?);
        if first.round == last.round {
            return Some(last.accuracy);
        }
        let area: f64 = self
            .curve
            .windows(2)
            .map(|pair| {
                let width = (pair[1].round - pair[0].round) as f64;
                width * f64::midpoint(pair[0].accuracy, pair[1].accuracy)
            })
            .sum();
        Some(area / (last.round - first.round) as f64)
    }

    /// The mean accuracy of the tenth of the clients that the last model serves worst.
    pub fn worst_tenth(&self) -> Option<f64> {
        let mut each: Vec<f64> = self.clients.iter().filter_map(|client| client.accuracy).collect();
        each.sort_by(f64::total_cmp);
        let worst = &each[..each.len().div_ceil(10)];
        (!worst.is_empty()).then(|| worst.iter().sum::<f64>() / worst.len() as f64)
    }

    /// Clients that took part, over all rounds.
    pub fn selections(&self) -> u64 {
        self.logs.iter().map(|log| log.clients.len() as u64).sum()
    }

    /// Models that were sent only to answer a question of the policy.
    pub fn asked(&self) -> u64 {
        self.logs.iter().map(|log| u64::from(log.asked)).sum()
    }

    /// Updates that were not taken.
    pub fn rejected(&self) -> u64 {
        let missing = |log: &RoundLog| log.losses.iter().filter(|loss| loss.is_none()).count();
        self.logs.iter().map(|log| missing(log) as u64).sum()
    }
}
