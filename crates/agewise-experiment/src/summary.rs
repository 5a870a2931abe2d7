//! What all runs say together: means over seeds with 95% intervals beside the closed forms, and paired comparisons.

mod pairs;

pub use pairs::{Measure, Pair, Significance};

use crate::clock::{RoundCosts, Schedule, Unit};
use crate::experiment::{Experiment, Variant};
use crate::record::{ClockRecord, LoadRecord, Record, TrainingRecord};
use crate::stats::{Estimate, RoundsToTarget, Spent};
use agewise_core::theory::PolicyTheory;
use agewise_core::{Error, Result, Start, Weighting};
use agewise_train::Metric;
use serde::Serialize;
use std::collections::BTreeMap;

/// The figures of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The data set, where there is a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The model, where there is a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// n at the beginning.
    pub clients: u64,
    /// m.
    pub cohort: u64,
    /// m', as it is at the beginning.
    pub max_age: u32,
    /// Rounds, at most.
    pub rounds: u64,
    /// Seeds.
    pub seeds: u32,
    /// The variant with which the others are compared.
    pub baseline: String,
    /// The unit in which what a target costs is told first, where there is a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// Runs that are at their end.
    pub finished_runs: usize,
    /// All runs.
    pub runs: usize,
    /// Each variant.
    pub policies: Vec<VariantSummary>,
    /// Each pair of variants, for each measure; nothing where there is no task.
    pub pairs: Vec<Pair>,
}

/// The figures of one variant, over its finished runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantSummary {
    /// What it is called.
    pub policy: String,
    /// How its cohorts are weighed.
    pub weighting: Weighting,
    /// Its first ages.
    pub start: Start,
    /// Its rule of aggregation, where there is a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<String>,
    /// Its finished runs.
    pub runs: usize,
    /// Rounds to each target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds_to: Vec<RoundsTo>,
    /// What each target costs in other units, where there is a clock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs_to: Vec<CostTo>,
    /// The schedule, where it is not the synchronous one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Means over seeds, by name.
    pub means: BTreeMap<&'static str, Estimate>,
    /// Smallest cohort of any run.
    pub cohort_min: Option<u64>,
    /// Largest cohort of any run.
    pub cohort_max: Option<u64>,
    /// The longest time that a client of any run had to wait.
    pub longest_wait: Option<u64>,
    /// sqrt(Var Y)/T for each T.
    pub window_sd: BTreeMap<u32, Estimate>,
    /// The closed forms, where the world is the one of the theory and they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theory: Option<TheorySummary>,
}

/// The closed forms that stand beside what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TheorySummary {
    /// Sigma.
    pub sigma: Option<f64>,
    /// Var\[X\].
    pub var_interval: f64,
    /// sqrt(Var Y)/T for each T.
    pub window_sd: BTreeMap<u32, f64>,
}

/// Rounds to one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoundsTo {
    /// The test accuracy, or the test loss where the task is measured by it.
    pub target: f64,
    /// The rounds, over the finished runs.
    #[serde(flatten)]
    pub rounds: RoundsToTarget,
}

/// What one target costs in a unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostTo {
    /// What is counted.
    pub unit: Unit,
    /// The target with its cost, over the finished runs.
    #[serde(flatten)]
    pub cost: RoundsTo,
}

impl VariantSummary {
    /// What a target costs in a unit.
    pub fn cost_to(&self, unit: Unit, target: f64) -> Option<&RoundsTo> {
        if unit == Unit::Rounds {
            return self.rounds_to.iter().find(|to| to.target == target);
        }
        let costs = self.costs_to.iter().find(|to| to.unit == unit && to.cost.target == target);
        costs.map(|to| &to.cost)
    }
}

impl Summary {
    /// Sums up the records of an experiment.
    pub fn new(experiment: &Experiment, records: &[Record]) -> Result<Self> {
        let (params, setting) = (experiment.params(), experiment.setting());
        let of = |place: usize| -> Vec<&Record> {
            let mine = |record: &&Record| record.finished && record.id.variant == place;
            records.iter().filter(mine).collect()
        };
        let finished: Vec<Vec<&Record>> = (0..experiment.variants().len()).map(of).collect();
        let task = experiment.task().map(|task| task.describe());
        let at_the_end = ends_late(experiment, &finished);
        let policies = finished.iter().enumerate().map(|(place, runs)| {
            let theory = experiment.theory(place)?;
            Ok(summarise(experiment, &experiment.variants()[place], runs, at_the_end, theory))
        });
        Ok(Self {
            data: task.as_ref().map(|task| task.data.clone()),
            model: task.as_ref().map(|task| task.model.clone()),
            clients: params.clients,
            cohort: params.cohort,
            max_age: setting.max_age().at(setting.interval())?,
            rounds: params.rounds,
            seeds: params.seeds,
            baseline: experiment.variants()[experiment.baseline()].name().to_string(),
            unit: Some(experiment.unit()).filter(|_| experiment.has_clock()),
            finished_runs: records.iter().filter(|record| record.finished).count(),
            runs: records.len(),
            policies: policies.collect::<Result<_>>()?,
            pairs: pairs::all(experiment, &finished, at_the_end),
        })
    }

    /// One JSON document, for people and programs.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|error| Error::new("summary", error, "figures that JSON holds"))?;
        Ok(text + "\n")
    }

    /// What is known about a pair of variants, the first against the second.
    pub fn pair(&self, measure: Measure, policy: &str, other: &str) -> Option<&Pair> {
        let is_it =
            |pair: &&Pair| pair.measure == measure && pair.policy == policy && pair.other == other;
        self.pairs.iter().find(is_it)
    }

    /// The measure that leads: the mean score over the rounds, where all runs go on to the last round and no other unit was
    /// asked for. It uses every evaluation, so it depends far less on which seeds were drawn than the round in which a
    /// curve first crosses a target. Otherwise what the last target costs in the unit that comes first.
    pub fn main_measure(&self) -> Option<Measure> {
        let measures = || self.pairs.iter().rev().map(|pair| pair.measure);
        let area = || measures().find(|measure| measure.is_area());
        let unit = self.unit.unwrap_or_default();
        let last = || measures().find(|measure| measure.unit() == Some(unit));
        if self.unit.is_none() { area().or_else(last) } else { last().or_else(area) }
    }
}

/// Whether all runs went on to the last round, so that their last models can be compared: where runs end at the target,
/// those that reach it have equally good ones.
fn ends_late(experiment: &Experiment, finished: &[Vec<&Record>]) -> bool {
    let stops = experiment.training().is_some_and(|training| training.stop_at_target);
    let target = experiment.targets().last();
    let reaches = |record: &&Record| {
        record.training.as_ref().zip(target).is_some_and(|(run, &to)| run.rounds_to(to).is_some())
    };
    !stops || !finished.iter().flatten().any(reaches)
}

/// A mean over the finished runs of a variant, where any of them has the value.
struct Means<'a> {
    runs: &'a [&'a Record],
    means: BTreeMap<&'static str, Estimate>,
}

impl Means<'_> {
    fn add(&mut self, name: &'static str, value: impl Fn(&Record) -> Option<f64>) {
        let values = self.runs.iter().filter_map(|record| value(record)).filter(|v| v.is_finite());
        self.means.extend(Estimate::of(values).map(|estimate| (name, estimate)));
    }

    fn load(&mut self, name: &'static str, value: fn(&LoadRecord) -> Option<f64>) {
        self.add(name, |record| value(record.load.as_ref()?));
    }

    fn training(&mut self, name: &'static str, value: fn(&TrainingRecord) -> Option<f64>) {
        self.add(name, |record| value(record.training.as_ref()?));
    }

    fn of_load(&mut self, experiment: &Experiment) {
        self.load("sigma", |load| load.sigma);
        self.load("mean_interval", |load| load.mean_interval);
        self.load("var_interval", |load| load.var_interval);
        self.load("mean_covariance", |load| load.mean_covariance);
        self.load("cohort_mean", |load| Some(load.cohort_mean));
        self.load("cohort_sd", |load| Some(load.cohort_sd));
        self.load("jain", |load| load.jain);
        self.load("never_reached", |load| Some(load.never_reached as f64));
        self.load("mean_longest_wait", |load| Some(load.longest_wait as f64));
        self.add("rounds", |record| Some(record.rounds.len() as f64));
        self.add("forced", |record| Some(record.forced() as f64));
        self.add("selected", |record| Some(record.selected() as f64 / record.rounds.len() as f64));
        self.add("reported", |record| Some(record.reported() as f64 / record.rounds.len() as f64));
        if experiment.loses_updates() {
            self.add("places_lost", |record| Some(record.places_lost() as f64));
            self.add("share_lost", |record| {
                Some(record.places_lost() as f64 / record.selected() as f64)
            });
        }
        self.add("available", |record| {
            let available: Option<u64> = record.rounds.iter().map(|row| row.available).sum();
            Some(available? as f64 / record.rounds.len() as f64)
        });
    }

    fn of_training(&mut self, experiment: &Experiment, at_the_end: bool) {
        if experiment.training().is_none() {
            return;
        }
        if at_the_end {
            let accuracy = experiment.metric() == Metric::Accuracy;
            let (last, area) =
                if accuracy { ("final_accuracy", "area") } else { ("final_loss", "mean_loss") };
            self.training(last, TrainingRecord::final_score);
            self.training(area, TrainingRecord::area);
            self.training("final_loss", |training| training.curve.last().and_then(|p| p.loss));
        }
        self.training("worst_tenth", TrainingRecord::worst_tenth);
        self.training("rejected", |training| Some(training.rejected() as f64));
        self.training("skew_min", |training| training.objectives.as_ref()?.skew?.min);
        self.training("skew_mean", |training| training.objectives.as_ref()?.skew?.mean);
        self.training("skew_max", |training| training.objectives.as_ref()?.skew?.max);
        self.of_clock();
        self.add("bytes_moved", |record| Some(experiment.bytes_moved(record)? as f64));
    }
}

impl Means<'_> {
    fn clock(&mut self, name: &'static str, value: impl Fn(&ClockRecord) -> Option<f64>) {
        self.add(name, |record| value(record.training.as_ref()?.clock.as_ref()?));
    }

    /// The figures of a clock; none without one.
    fn of_clock(&mut self) {
        let mut sum = |name, value: fn(RoundCosts) -> Option<f64>| {
            self.clock(name, move |clock| value(RoundCosts::sum(&clock.rounds)));
        };
        sum("seconds", |costs| Some(costs.seconds));
        sum("client_seconds", |costs| Some(costs.client_seconds));
        sum("share_wasted", |costs| Some(costs.wasted_seconds / costs.client_seconds));
        sum("bytes_down", |costs| Some(costs.bytes_down as f64));
        sum("bytes_up", |costs| Some(costs.bytes_up as f64));
        sum("joules", |costs| costs.joules);
        self.training("round_seconds", |training| {
            let costs = &training.clock.as_ref()?.rounds;
            let rounds = costs.len() as f64 * training.rounds_per_step;
            Some(RoundCosts::sum(costs).seconds / rounds)
        });
        self.training("staleness", |training| {
            let all = || training.logs.iter().flat_map(|log| &log.staleness);
            let (sum, count) = (all().sum::<u64>(), all().count());
            (count > 0).then(|| sum as f64 / count as f64)
        });
        self.clock("mean_interval_seconds", |clock| clock.seconds.mean_interval);
        self.clock("var_interval_seconds", |clock| clock.seconds.var_interval);
        self.clock("longest_wait_seconds", |clock| Some(clock.seconds.longest_wait));
        self.clock("jain_client_seconds", |clock| clock.seconds.jain);
    }
}

fn summarise(
    experiment: &Experiment,
    variant: &Variant,
    runs: &[&Record],
    at_the_end: bool,
    theory: Option<PolicyTheory>,
) -> VariantSummary {
    let mut means = Means { runs, means: BTreeMap::new() };
    means.of_load(experiment);
    means.of_training(experiment, at_the_end);
    let loads = || runs.iter().filter_map(|record| record.load.as_ref());
    let rounds_to = |&target: &f64| {
        let each = runs.iter().map(|record| record.training.as_ref()?.rounds_to(target));
        RoundsTo { target, rounds: RoundsToTarget::of(&each.collect::<Vec<_>>()) }
    };
    let cost_to = |unit: Unit, target: f64| {
        let cost = |run: &&Record| run.training.as_ref()?.cost_to(target, unit);
        let reached = |spent: Spent| spent.reached.then_some(spent.amount);
        let each: Vec<Option<f64>> = runs.iter().map(|run| cost(run).and_then(reached)).collect();
        CostTo { unit, cost: RoundsTo { target, rounds: RoundsToTarget::of_costs(&each) } }
    };
    let other_units = experiment.units().into_iter().filter(|&unit| unit != Unit::Rounds);
    let targets = || experiment.targets().iter().copied();
    let costs_to = other_units.flat_map(|unit| targets().map(move |target| (unit, target)));
    let lengths = loads().next().into_iter().flat_map(|load| load.window_sd.keys().copied());
    let window = |length: u32| {
        let values = loads().filter_map(|load| load.window_sd.get(&length).copied());
        Some((length, Estimate::of(values)?))
    };
    VariantSummary {
        policy: variant.name().to_string(),
        weighting: variant.policy().weighting(),
        start: variant.policy().start(),
        aggregation: experiment.task().map(|_| variant.aggregation().name().to_string()),
        runs: runs.len(),
        rounds_to: experiment.targets().iter().map(rounds_to).collect(),
        costs_to: costs_to.map(|(unit, target)| cost_to(unit, target)).collect(),
        schedule: Some(variant.schedule())
            .filter(|schedule| *schedule != Schedule::Sync)
            .map(|schedule| schedule.to_string()),
        means: means.means,
        cohort_min: loads().map(|load| load.cohort_min).min(),
        cohort_max: loads().map(|load| load.cohort_max).max(),
        longest_wait: loads().map(|load| load.longest_wait).max(),
        window_sd: lengths.filter_map(window).collect(),
        theory: theory.map(|theory| TheorySummary {
            sigma: theory.sigma,
            var_interval: theory.var_interval,
            window_sd: theory.window_sd,
        }),
    }
}
