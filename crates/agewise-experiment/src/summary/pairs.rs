//! Variants against each other, over the seeds that they have in common.

use crate::clock::Unit;
use crate::experiment::Experiment;
use crate::record::{Record, TrainingRecord};
use crate::stats::{Interval, PairedChange, PairedDifference, holm};
use agewise_train::Metric;
use serde::Serialize;
use std::fmt;

/// What is compared between two variants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Rounds to this test accuracy; the effect is a change in percent.
    RoundsTo(f64),
    /// Rounds until the test loss is at most this; the effect is a change in percent.
    RoundsToLoss(f64),
    /// What it costs in a unit to reach this test accuracy, or to fall to this test loss where the task is measured by it;
    /// the effect is a change in percent.
    CostTo {
        /// What is counted.
        unit: Unit,
        /// The accuracy or the loss.
        target: f64,
        /// Whether it is a loss.
        #[serde(skip)]
        is_loss: bool,
    },
    /// The mean accuracy over the rounds; the effect is a difference in percentage points.
    Area,
    /// The mean loss over the rounds; the effect is a difference.
    MeanLoss,
    /// The accuracy at the end; in percentage points.
    FinalAccuracy,
    /// The loss at the end; the effect is a difference.
    FinalLoss,
    /// The mean accuracy for the tenth of the clients that is served worst; in percentage points.
    WorstTenth,
}

impl Measure {
    /// What it costs in a unit to reach an accuracy, or a loss.
    pub fn to_target(unit: Unit, target: f64, is_loss: bool) -> Self {
        match (unit, is_loss) {
            (Unit::Rounds, false) => Self::RoundsTo(target),
            (Unit::Rounds, true) => Self::RoundsToLoss(target),
            _ => Self::CostTo { unit, target, is_loss },
        }
    }

    /// Whether it counts rounds to a target; its effect is a change in percent.
    pub fn is_rounds(self) -> bool {
        matches!(self, Self::RoundsTo(_) | Self::RoundsToLoss(_))
    }

    /// Whether it counts what a target costs, in any unit; its effect is a change in percent.
    pub fn is_cost(self) -> bool {
        self.unit().is_some()
    }

    /// The unit in which it counts what a target costs.
    pub fn unit(self) -> Option<Unit> {
        match self {
            Self::RoundsTo(_) | Self::RoundsToLoss(_) => Some(Unit::Rounds),
            Self::CostTo { unit, .. } => Some(unit),
            _ => None,
        }
    }

    /// Whether it is the mean over the rounds of what the task is measured by.
    pub fn is_area(self) -> bool {
        matches!(self, Self::Area | Self::MeanLoss)
    }

    /// Whether less is better.
    pub fn lower_is_better(self) -> bool {
        self.is_cost() || matches!(self, Self::MeanLoss | Self::FinalLoss)
    }

    /// Whether its effect is a difference in percentage points.
    pub fn is_in_points(self) -> bool {
        matches!(self, Self::Area | Self::FinalAccuracy | Self::WorstTenth)
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Without digits that say nothing.
            Self::RoundsTo(target) => write!(f, "rounds to {}%", (target * 1e4).round() / 1e2),
            Self::RoundsToLoss(target) => write!(f, "rounds to a loss of {target}"),
            Self::CostTo { unit, target, is_loss: false } => {
                write!(f, "{} to {}%", unit.words(), (target * 1e4).round() / 1e2)
            }
            Self::CostTo { unit, target, is_loss: true } => {
                write!(f, "{} to a loss of {target}", unit.words())
            }
            Self::Area => f.write_str("mean accuracy over the rounds"),
            Self::MeanLoss => f.write_str("mean loss over the rounds"),
            Self::FinalAccuracy => f.write_str("final accuracy"),
            Self::FinalLoss => f.write_str("final loss"),
            Self::WorstTenth => f.write_str("accuracy for the worst-served tenth"),
        }
    }
}

/// Whether the difference of a pair is statistically significant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Significance {
    /// A significant difference, also after Holm correction for all pairs.
    Significant,
    /// A difference that is significant only without correction.
    OnlyUncorrected,
    /// No significant difference.
    NotSignificant,
    /// Too few seeds for a test.
    TooFew,
}

/// Two variants over their common seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// What is compared.
    pub measure: Measure,
    /// The first variant.
    pub policy: String,
    /// The second variant, with which it is compared.
    pub other: String,
    /// Seeds under which both are finished.
    pub pairs: usize,
    /// The first against the second.
    pub effect: f64,
    /// Its 95% interval.
    pub interval: Option<Interval>,
    /// How likely an effect of this size is if there is none in truth.
    pub p_value: Option<f64>,
    /// The same when all pairs of this measure are allowed for (Holm).
    pub p_adjusted: Option<f64>,
    /// Pairs in which a run never reached the target and was counted at its end.
    pub at_limit: usize,
    /// What follows.
    pub verdict: Significance,
}

/// All pairs of all measures; `finished` has the finished runs of each variant, and `at_the_end` says whether their last
/// models can be compared.
pub(super) fn all(
    experiment: &Experiment,
    finished: &[Vec<&Record>],
    at_the_end: bool,
) -> Vec<Pair> {
    let pairs = |measure| of_measure(experiment, finished, measure);
    measures(experiment, at_the_end).into_iter().flat_map(pairs).collect()
}

/// What can be compared.
fn measures(experiment: &Experiment, at_the_end: bool) -> Vec<Measure> {
    let Some(training) = &experiment.params().training else {
        return Vec::new();
    };
    let accuracy = experiment.metric() == Metric::Accuracy;
    let targets = || training.targets.iter().copied();
    let measure = |unit: Unit| move |target: f64| Measure::to_target(unit, target, !accuracy);
    let units = experiment.units().into_iter();
    let mut measures: Vec<Measure> =
        units.flat_map(|unit| targets().map(measure(unit)).collect::<Vec<_>>()).collect();
    if at_the_end && accuracy {
        measures.extend([Measure::Area, Measure::FinalAccuracy, Measure::WorstTenth]);
    } else if at_the_end {
        measures.extend([Measure::MeanLoss, Measure::FinalLoss]);
    }
    measures
}

/// All pairs of variants: first those with the baseline.
fn of_measure(experiment: &Experiment, finished: &[Vec<&Record>], measure: Measure) -> Vec<Pair> {
    let count = experiment.variants().len();
    let base = experiment.baseline();
    let others = || (0..count).filter(|&place| place != base);
    let with_base = others().map(|place| (place, base));
    let rest = others().flat_map(|a| others().filter(move |&b| b < a).map(move |b| (a, b)));
    let mut pairs: Vec<Pair> = with_base
        .chain(rest)
        .filter_map(|pair| compare(experiment, finished, measure, pair))
        .collect();
    let known: Vec<f64> = pairs.iter().filter_map(|pair| pair.p_value).collect();
    let tested = pairs.iter_mut().filter(|pair| pair.p_value.is_some());
    for (pair, adjusted) in tested.zip(holm(&known)) {
        pair.p_adjusted = Some(adjusted);
        let alone = pair.p_value.is_some_and(|p| p < 0.05);
        pair.verdict = match (alone, adjusted < 0.05) {
            (true, true) => Significance::Significant,
            (true, false) => Significance::OnlyUncorrected,
            (false, _) => Significance::NotSignificant,
        };
    }
    pairs
}

fn compare(
    experiment: &Experiment,
    finished: &[Vec<&Record>],
    measure: Measure,
    (first, second): (usize, usize),
) -> Option<Pair> {
    let both: Vec<(&TrainingRecord, &TrainingRecord)> = finished[first]
        .iter()
        .filter_map(|one| {
            let other = finished[second].iter().find(|other| other.id.seed == one.id.seed)?;
            Some((one.training.as_ref()?, other.training.as_ref()?))
        })
        .collect();
    let (effect, interval, p_value, at_limit) = match measure {
        Measure::RoundsTo(target) | Measure::RoundsToLoss(target) => {
            let rounds: Vec<_> = both
                .iter()
                .map(|(one, other)| (one.rounds_to(target), other.rounds_to(target)))
                .collect();
            let change = PairedChange::of(&rounds, experiment.params().rounds)?;
            (change.percent, change.interval, change.p_value, change.at_limit)
        }
        Measure::CostTo { unit, target, .. } => {
            let cost = |run: &TrainingRecord| run.cost_to(target, unit);
            let costs: Option<Vec<_>> =
                both.iter().map(|(one, other)| Some((cost(one)?, cost(other)?))).collect();
            let change = PairedChange::of_costs(&costs?)?;
            (change.percent, change.interval, change.p_value, change.at_limit)
        }
        Measure::Area | Measure::MeanLoss => difference(measure, &both, TrainingRecord::area)?,
        Measure::FinalAccuracy | Measure::FinalLoss => {
            difference(measure, &both, TrainingRecord::final_score)?
        }
        Measure::WorstTenth => difference(measure, &both, TrainingRecord::worst_tenth)?,
    };
    let name = |place: usize| experiment.variants()[place].name().to_string();
    Some(Pair {
        measure,
        policy: name(first),
        other: name(second),
        pairs: both.len(),
        effect,
        interval,
        p_value,
        p_adjusted: None,
        at_limit,
        verdict: Significance::TooFew,
    })
}

type Effect = (f64, Option<Interval>, Option<f64>, usize);

/// The mean difference of a value; shares as percentage points.
fn difference(
    measure: Measure,
    both: &[(&TrainingRecord, &TrainingRecord)],
    value: fn(&TrainingRecord) -> Option<f64>,
) -> Option<Effect> {
    let values: Option<Vec<(f64, f64)>> =
        both.iter().map(|(one, other)| Some((value(one)?, value(other)?))).collect();
    let difference = PairedDifference::of(&values?)?;
    let scale = if measure.is_in_points() { 100.0 } else { 1.0 };
    let scaled = |Interval { low, high }| Interval { low: scale * low, high: scale * high };
    Some((scale * difference.mean, difference.interval.map(scaled), difference.p_value, 0))
}
