//! What all runs of a study say together.

use super::log::RoundLog;
use super::record::Record;
use super::{Contender, Study};
use crate::objective::SkewRange;
use crate::statistics::{Estimate, Interval, PairedChange, PairedDifference, RoundsToTarget, holm};
use agewise_core::metrics::ParticipationSummary;
use agewise_core::{Start, Weighting};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The figures of a study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudySummary {
    /// The data set.
    pub data: String,
    /// The model.
    pub model: String,
    /// n.
    pub clients: u64,
    /// m.
    pub cohort: u64,
    /// Rounds, at most.
    pub rounds: u64,
    /// Seeds.
    pub seeds: u32,
    /// The policy with which the others are compared.
    pub baseline: String,
    /// Runs that are at their end.
    pub finished_runs: usize,
    /// All runs.
    pub runs: usize,
    /// Each policy.
    pub policies: Vec<ContenderSummary>,
    /// Each pair of policies, for each measure.
    pub pairs: Vec<Pair>,
}

/// The figures of one policy, over its finished runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContenderSummary {
    /// Its label.
    pub policy: String,
    /// How its cohorts are weighed.
    pub weighting: Weighting,
    /// Its first ages.
    pub start: Start,
    /// Its finished runs.
    pub runs: usize,
    /// Rounds to each target.
    pub rounds_to: Vec<RoundsTo>,
    /// Means over seeds, by name.
    pub means: BTreeMap<&'static str, Estimate>,
    /// The longest time that a client of any finished run had to wait.
    pub longest_wait: Option<u64>,
}

/// Rounds to one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoundsTo {
    /// The test accuracy.
    pub target: f64,
    /// The rounds, over the finished runs.
    #[serde(flatten)]
    pub rounds: RoundsToTarget,
}

/// What is compared between two policies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Rounds to this test accuracy; the effect is a change in percent.
    RoundsTo(f64),
    /// The mean accuracy over the rounds; the effect is a difference in percentage points.
    Area,
    /// The accuracy at the end; in percentage points.
    FinalAccuracy,
    /// The mean accuracy for the tenth of the clients that is served worst; in percentage points.
    WorstTenth,
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoundsTo(target) => write!(f, "rounds to {}%", percent(*target)),
            Self::Area => f.write_str("mean accuracy over the rounds"),
            Self::FinalAccuracy => f.write_str("final accuracy"),
            Self::WorstTenth => f.write_str("accuracy for the worst-served tenth"),
        }
    }
}

/// A share in percent, without digits that say nothing.
fn percent(share: f64) -> f64 {
    (share * 1e4).round() / 1e2
}

/// What the data say about a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// They support a difference, also when all pairs are allowed for.
    Supported,
    /// They would support a difference if this were the only pair.
    OnlyAlone,
    /// They do not support a difference.
    NotSupported,
    /// There are too few pairs to tell.
    TooFew,
}

/// Two policies over their common seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// What is compared.
    pub measure: Measure,
    /// The first policy.
    pub policy: String,
    /// The second policy, with which it is compared.
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
    pub verdict: Verdict,
}

impl StudySummary {
    /// Sums up the records of a study, in the order of its runs.
    pub fn new(study: &Study, records: &[Record]) -> Self {
        let params = study.params();
        let of = |place: usize| -> Vec<&Record> {
            records
                .iter()
                .filter(|record| record.finished && record.id.contender == place)
                .collect()
        };
        let finished: Vec<Vec<&Record>> = (0..study.contenders().len()).map(of).collect();
        let measures = measures(study);
        let pairs = measures.iter().flat_map(|&measure| pairs(study, &finished, measure)).collect();
        Self {
            data: params.data.clone(),
            model: params.model.clone(),
            clients: params.clients,
            cohort: params.cohort,
            rounds: params.rounds,
            seeds: params.seeds,
            baseline: study.contenders()[study.baseline()].label.clone(),
            finished_runs: records.iter().filter(|record| record.finished).count(),
            runs: records.len(),
            policies: study
                .contenders()
                .iter()
                .zip(&finished)
                .map(|(contender, runs)| summarise(study, contender, runs))
                .collect(),
            pairs,
        }
    }

    /// What is known about a pair of policies, the first against the second.
    pub fn pair(&self, measure: Measure, policy: &str, other: &str) -> Option<&Pair> {
        let is_it =
            |pair: &&Pair| pair.measure == measure && pair.policy == policy && pair.other == other;
        self.pairs.iter().find(is_it)
    }

    /// The measure that matters most: rounds to the last target, or the area if there is none.
    pub fn main_measure(&self) -> Option<Measure> {
        let targets = self.pairs.iter().rev().map(|pair| pair.measure);
        let last = targets.clone().find(|measure| matches!(measure, Measure::RoundsTo(_)));
        last.or_else(|| targets.clone().find(|&measure| measure == Measure::Area))
    }
}

/// What can be compared: where runs end at the target, only the rounds to targets.
fn measures(study: &Study) -> Vec<Measure> {
    let params = study.params();
    let mut measures: Vec<Measure> =
        params.targets.iter().map(|&target| Measure::RoundsTo(target)).collect();
    if !params.stop_at_target {
        measures.extend([Measure::Area, Measure::FinalAccuracy, Measure::WorstTenth]);
    }
    measures
}

fn summarise(study: &Study, contender: &Contender, runs: &[&Record]) -> ContenderSummary {
    type Value = fn(&Record) -> Option<f64>;
    type Load = fn(&ParticipationSummary) -> f64;
    let params = study.params();
    let mut means = BTreeMap::new();
    let mut mean = |name, value: &dyn Fn(&Record) -> Option<f64>| {
        let values = runs.iter().filter_map(|record| value(record));
        means.extend(Estimate::of(values).map(|estimate| (name, estimate)));
    };
    let learning: [(&'static str, Value); 3] = [
        ("final_accuracy", Record::final_accuracy),
        ("final_loss", |record| record.curve.last().and_then(|point| point.loss)),
        ("area", Record::area),
    ];
    if !params.stop_at_target {
        for (name, value) in learning {
            mean(name, &value);
        }
    }
    // Where runs end at the target, these are the worst-served clients of models that are equally good.
    mean("worst_tenth", &Record::worst_tenth);
    let load: [(&'static str, Load); 8] = [
        ("sigma", |load| load.sigma),
        ("mean_interval", |load| load.mean_interval),
        ("var_interval", |load| load.var_interval),
        ("cohort_mean", |load| load.cohort_mean),
        ("cohort_sd", |load| load.cohort_sd),
        ("jain", |load| load.jain),
        ("never_selected", |load| load.never_selected as f64),
        ("mean_longest_wait", |load| load.longest_wait as f64),
    ];
    for (name, value) in load {
        let value = |record: &Record| record.participation.as_ref().map(value);
        mean(name, &|record| value(record).filter(|value| value.is_finite()));
    }
    mean("rounds", &|record| Some(record.logs.len() as f64));
    mean("rejected", &|record| Some(record.rejected() as f64));
    mean("forced", &|record| {
        Some(record.logs.iter().filter(|log: &&RoundLog| log.forced).count() as f64)
    });
    let skew = |value: fn(&SkewRange) -> Option<f64>| {
        move |record: &Record| record.gaps.as_ref().and_then(|gaps| value(&gaps.skew?))
    };
    mean("skew_min", &skew(|skew| skew.min));
    mean("skew_mean", &skew(|skew| skew.mean));
    mean("skew_max", &skew(|skew| skew.max));
    mean("bytes_moved", &|record| {
        Some(study.bytes_moved(record.selections(), record.asked()) as f64)
    });
    let rounds_to = |&target: &f64| {
        let rounds: Vec<Option<u64>> = runs.iter().map(|record| record.rounds_to(target)).collect();
        RoundsTo { target, rounds: RoundsToTarget::of(&rounds) }
    };
    let waits = runs.iter().filter_map(|record| record.participation.as_ref());
    ContenderSummary {
        policy: contender.label.clone(),
        weighting: contender.weighting,
        start: contender.start,
        runs: runs.len(),
        rounds_to: params.targets.iter().map(rounds_to).collect(),
        means,
        longest_wait: waits.map(|load| load.longest_wait).max(),
    }
}

/// All pairs of policies: first those with the baseline.
fn pairs(study: &Study, finished: &[Vec<&Record>], measure: Measure) -> Vec<Pair> {
    let count = study.contenders().len();
    let base = study.baseline();
    let others = || (0..count).filter(|&place| place != base);
    let with_base = others().map(|place| (place, base));
    let rest = others().flat_map(|a| others().filter(move |&b| b < a).map(move |b| (a, b)));
    let mut pairs: Vec<Pair> =
        with_base.chain(rest).filter_map(|pair| compare(study, finished, measure, pair)).collect();
    let known: Vec<f64> = pairs.iter().filter_map(|pair| pair.p_value).collect();
    let adjusted = holm(&known);
    let tested = pairs.iter_mut().filter(|pair| pair.p_value.is_some());
    for (pair, adjusted) in tested.zip(adjusted) {
        pair.p_adjusted = Some(adjusted);
        let alone = pair.p_value.is_some_and(|p| p < 0.05);
        pair.verdict = match (alone, adjusted < 0.05) {
            (true, true) => Verdict::Supported,
            (true, false) => Verdict::OnlyAlone,
            (false, _) => Verdict::NotSupported,
        };
    }
    pairs
}

fn compare(
    study: &Study,
    finished: &[Vec<&Record>],
    measure: Measure,
    (first, second): (usize, usize),
) -> Option<Pair> {
    let both: Vec<(&Record, &Record)> = finished[first]
        .iter()
        .filter_map(|one| {
            let other = finished[second].iter().find(|other| other.id.seed == one.id.seed)?;
            Some((*one, *other))
        })
        .collect();
    let value = |value: fn(&Record) -> Option<f64>| {
        let values: Option<Vec<(f64, f64)>> =
            both.iter().map(|(one, other)| Some((value(one)?, value(other)?))).collect();
        PairedDifference::of(&values?)
    };
    let (effect, interval, p_value, at_limit) = match measure {
        Measure::RoundsTo(target) => {
            let rounds: Vec<_> = both
                .iter()
                .map(|(one, other)| (one.rounds_to(target), other.rounds_to(target)))
                .collect();
            let change = PairedChange::of(&rounds, study.params().rounds)?;
            (change.percent, change.interval, change.p_value, change.at_limit)
        }
        Measure::Area => in_points(value(Record::area)?),
        Measure::FinalAccuracy => in_points(value(Record::final_accuracy)?),
        Measure::WorstTenth => in_points(value(Record::worst_tenth)?),
    };
    let label = |place: usize| study.contenders()[place].label.clone();
    Some(Pair {
        measure,
        policy: label(first),
        other: label(second),
        pairs: both.len(),
        effect,
        interval,
        p_value,
        p_adjusted: None,
        at_limit,
        verdict: Verdict::TooFew,
    })
}

/// Shares as percentage points.
fn in_points(difference: PairedDifference) -> (f64, Option<Interval>, Option<f64>, usize) {
    let interval = difference
        .interval
        .map(|Interval { low, high }| Interval { low: 100.0 * low, high: 100.0 * high });
    (100.0 * difference.mean, interval, difference.p_value, 0)
}
