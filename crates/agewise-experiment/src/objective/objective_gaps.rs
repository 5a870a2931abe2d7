//! The objectives of all clients along a run: what the selection skew (Definition 1) and the bound (Theorem 1) are made
//! of. Costs a pass over all training data in every round, so it is done only where it is asked for.

use super::{
    ConvexProblem, OptimumBudget, ProblemConstants, SkewRange, SkewTrack, is_strongly_convex,
    local_losses, local_optima,
};
use crate::experiment::{Experiment, SeedContext, Variant};
use crate::log::RoundLog;
use crate::world::WorldSelector;
use agewise_core::theory::ConvergenceBound;
use agewise_core::{Error, Result};
use agewise_train::aggregation::AggregationParams;
use agewise_train::local::{LocalTrainingParams, LocalWork};
use agewise_train::{NativeTask, Task, Threads};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Cohorts that are drawn to estimate the mean weight of each client in a round.
const REDRAWS: u32 = 200;
/// Passes over its data with which a client's own optimum is looked for, where the problem is not convex.
const EPOCHS_ALONE: u32 = 60;

/// What is known about the objectives of a seed before its runs begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Optima {
    /// F_k* of every client.
    pub local: Vec<f64>,
    /// The constants of Theorem 1, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constants: Option<ProblemConstants>,
    /// F_k of every client at the optimum of all, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_optimum: Option<Vec<f64>>,
}

/// The objectives of all clients in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveLog {
    /// F_k of every client at the model that the round began with.
    pub losses: Vec<f64>,
    /// The mean weight of every client over cohorts that could have been drawn.
    pub expected_weights: Vec<f64>,
    /// In the first round: what was known before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optima: Option<Optima>,
}

/// What the objectives say about a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectiveRecord {
    /// The selection skew: over rounds, and at the optimum (the true one if it is known, else the last model).
    pub skew: Option<SkewRange>,
    /// The constants of Theorem 1.
    pub constants: Option<ProblemConstants>,
    /// F(theta) - F* after so many rounds, if F* is known.
    pub error: Vec<(u64, f64)>,
}

impl Experiment {
    /// Checks that skew and bound can be found, where they are asked for.
    pub(crate) fn check_objectives(&self) -> Result<()> {
        let Some(training) = self.training().filter(|_| self.looks_at_objectives()) else {
            return Ok(());
        };
        let asked = if training.bound { "bound" } else { "skew" };
        let wrong = |field: &str, value: &dyn std::fmt::Display, expected: &str| {
            let expected = format!("{expected}, where {asked} is asked for");
            Err(Error::new(field, value, expected))
        };
        let Some(native) = self.native() else {
            return wrong("task", &training.model, "a built-in model");
        };
        if self.params().world.join > 0.0 {
            return wrong("join", &self.params().world.join, "0");
        }
        if !training.bound {
            return Ok(());
        }
        if !self.is_calm() {
            return wrong("world", &"clients that come and go", "clients that are always there");
        }
        if training.model != "softmax" {
            return wrong("model", &training.model, "softmax");
        }
        if !is_strongly_convex(native.trainer().model(), training.weight_decay as f32) {
            let expected = "a number above 0 (mu is the weight decay)";
            return wrong("weight_decay", &training.weight_decay, expected);
        }
        if !matches!(native.training().params().work, LocalWork::Steps(2..)) {
            return wrong("local_work", &training.local_work, "2 steps or more");
        }
        let plain = training.momentum == 0.0 && training.proximal == 0.0 && !training.augment;
        let averages = |params: Option<&AggregationParams>| {
            params.is_some_and(|params| *params == AggregationParams::default())
        };
        let average = self.variants().iter().all(|v| averages(v.aggregation().params()));
        if !plain || !average {
            let field = "momentum, proximal, augment or aggregation";
            return wrong(field, &"set", "plain SGD and averaging");
        }
        Ok(())
    }

    fn native(&self) -> Option<&NativeTask> {
        self.task()?.as_native()
    }

    /// The task, which check_objectives has found to be native.
    fn required_native(&self) -> Result<&NativeTask> {
        self.native().ok_or_else(|| Error::new("task", "another engine", "a built-in model"))
    }

    fn weight_decay(&self) -> f32 {
        self.training().map_or(0.0, |training| training.weight_decay as f32)
    }

    /// Whether the objectives of all clients are looked at.
    pub(crate) fn looks_at_objectives(&self) -> bool {
        self.training().is_some_and(|training| training.skew || training.bound)
    }

    /// Whether they are looked at before a round: at the first model, and wherever the model was just evaluated.
    pub(crate) fn looks_at_objectives_before(&self, variant: &Variant, round: u64) -> bool {
        let before = round.checked_sub(1);
        self.looks_at_objectives() && before.is_none_or(|before| self.evaluates(variant, before))
    }

    /// What is known about a seed before its runs begin: found once, by the run that asks first.
    fn optima(&self, context: &SeedContext, threads: Threads) -> Result<Arc<Optima>> {
        // A run that panicked has stored nothing.
        let mut place = context.optima.lock();
        if let Some(optima) = &*place {
            return Ok(Arc::clone(optima));
        }
        let optima = Arc::new(self.find_optima(context, threads)?);
        *place = Some(Arc::clone(&optima));
        Ok(optima)
    }

    fn find_optima(&self, context: &SeedContext, threads: Threads) -> Result<Optima> {
        let native = self.required_native()?;
        let (key, weight_decay) = (context.key, self.weight_decay());
        if is_strongly_convex(native.trainer().model(), weight_decay) {
            let partition = native.partition(key)?;
            let clients = (0..key.clients).map(|client| native.samples(&partition, client));
            let clients = clients.collect::<Result<Vec<_>>>()?;
            let problem = ConvexProblem::new(native, &clients, weight_decay, threads)?;
            let batch = native.training().params().batch;
            let shares = context.shares();
            let constants = problem.constants(&shares, &context.first_model, &[], batch)?;
            let at_optimum = local_losses(native, key, &constants.optimum, weight_decay, threads)?;
            let local = constants.local_optimum_values.clone();
            return Ok(Optima { local, constants: Some(constants), at_optimum: Some(at_optimum) });
        }
        let budget =
            OptimumBudget { epochs: EPOCHS_ALONE, weight_decay, ..OptimumBudget::default() };
        let local = local_optima(native, key, &context.first_model, &budget, threads)?;
        let local = local.into_iter().map(writable).collect();
        Ok(Optima { local, constants: None, at_optimum: None })
    }

    /// Looks at the objectives of all clients before the present round.
    pub(crate) fn objectives_before(
        &self,
        context: &SeedContext,
        selector: &mut WorldSelector,
        global: &[f32],
        threads: Threads,
    ) -> Result<ObjectiveLog> {
        let optima = match selector.selector().round() {
            0 => Some((*self.optima(context, threads)?).clone()),
            _ => None,
        };
        let losses = self.objectives(context, global, threads)?;
        let expected_weights = selector.expected_weights(REDRAWS)?;
        Ok(ObjectiveLog { losses, expected_weights, optima })
    }

    /// F_k of every client.
    pub(crate) fn objectives(
        &self,
        context: &SeedContext,
        global: &[f32],
        threads: Threads,
    ) -> Result<Vec<f64>> {
        let (task, weight_decay) = (self.required_task()?, self.weight_decay());
        let losses = local_losses(task, context.key, global, weight_decay, threads)?;
        Ok(losses.into_iter().map(writable).collect())
    }

    /// The bound of Theorem 1 for a variant over the rounds, from the constants and skews of a run; nothing where a
    /// constant is missing or makes no sense.
    pub fn bound(
        &self,
        variant: usize,
        context: &SeedContext,
        objectives: &ObjectiveRecord,
    ) -> Option<ConvergenceBound> {
        let LocalWork::Steps(steps) = self.native()?.training().params().work else {
            return None;
        };
        let policy = self.variants().get(variant)?.policy();
        let theory = policy.build(&context.setting).ok()?;
        let sigma = theory.theory(&context.setting, policy.weighting()).ok()??.sigma?;
        let skews = objectives.skew?.of_the_theorem()?;
        let constants = objectives.constants.as_ref()?;
        let cohort = context.setting.cohort();
        ConvergenceBound::new(constants.with_policy(steps, cohort, sigma, skews)).ok()
    }
}

impl SeedContext {
    /// q_k of every client.
    fn shares(&self) -> Vec<f64> {
        let sizes = self.setting.sizes();
        (0..self.setting.clients()).map(|client| sizes.share(client)).collect()
    }

    /// What is trained under this seed: with the schedule of Theorem 1, where its bound is drawn.
    pub(crate) fn task(&self, experiment: &Experiment, threads: Threads) -> Result<Arc<dyn Task>> {
        let bound = experiment.training().is_some_and(|training| training.bound);
        if let Some(task) = experiment.task().filter(|_| !bound) {
            return Ok(Arc::clone(task));
        }
        let native = experiment.required_native()?;
        let params = *native.training().params();
        let optima = experiment.optima(self, threads)?;
        let training = match (&optima.constants, params.work) {
            (Some(constants), LocalWork::Steps(steps)) => {
                let (rate, offset) = constants.theorem_schedule(steps);
                let learning_rate = rate as f32;
                LocalTrainingParams { learning_rate, offset, decay: 1.0, ..params }
            }
            _ => params,
        };
        Ok(Arc::new(native.clone().with_training(training.check()?)?))
    }
}

impl ObjectiveRecord {
    /// Follows the logs of a run; nothing where the objectives were not looked at.
    pub(crate) fn new(context: &SeedContext, logs: &[RoundLog]) -> Result<Option<Self>> {
        let optima = logs.first().and_then(|log| log.objectives.as_ref()?.optima.as_ref());
        let Some(optima) = optima else {
            return Ok(None);
        };
        let gaps = |losses: &[f64]| -> Vec<f64> {
            losses.iter().zip(&optima.local).map(|(loss, least)| loss - least).collect()
        };
        let shares = context.shares();
        let total = |losses: &[f64]| -> f64 {
            losses.iter().zip(&shares).map(|(loss, share)| loss * share).sum()
        };
        let least = optima.constants.as_ref().map(|constants| constants.optimum_value);
        let mut track = SkewTrack::new(shares.clone());
        let mut error = Vec::new();
        for log in logs {
            let Some(seen) = &log.objectives else {
                continue;
            };
            track.record(&gaps(&seen.losses), &seen.expected_weights)?;
            error.extend(least.map(|least| (log.round, total(&seen.losses) - least)));
        }
        let end = logs.last().and_then(|log| log.final_losses.as_ref());
        if let (Some(end), Some(least)) = (end, least) {
            error.push((logs.len() as u64, total(end) - least));
        }
        let skew = match optima.at_optimum.as_ref().or(end) {
            Some(losses) => Some(track.finish(&gaps(losses))?),
            None => None,
        };
        Ok(Some(Self { skew, constants: optima.constants.clone(), error }))
    }
}

/// A file holds no infinity, and nothing else is as bad.
fn writable(loss: f64) -> f64 {
    if loss.is_finite() { loss } else { f64::MAX }
}
