//! The objectives of all clients along a run: what the selection skew (Definition 1) and the bound (Theorem 1) are made
//! of. Costs a pass over all training images in every round, so it is done only where it is asked for.

use super::log::RoundLog;
use super::{Scene, Study};
use crate::objective::{
    ConvexProblem, OptimumBudget, ProblemConstants, SkewRange, SkewTrack, is_strongly_convex,
    local_losses, local_optima,
};
use agewise_core::theory::ConvergenceBound;
use agewise_core::{Availability, Error, Result, Selector, build_policy};
use agewise_learn::aggregate::ServerRule;
use agewise_learn::train::{Crew, LocalTraining, LocalTrainingParams, LocalWork, Samples};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, PoisonError};

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
pub struct GapLog {
    /// F_k of every client at the model that the round began with.
    pub losses: Vec<f64>,
    /// The mean weight of every client over cohorts that could have been drawn.
    pub expected_weights: Vec<f64>,
    /// In the first round: what was known before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optima: Option<Optima>,
}

/// What the objectives say about a run.
#[derive(Debug, Clone)]
pub struct GapRecord {
    /// The selection skew: over rounds, and at the optimum (the true one if it is known, else the last model).
    pub skew: Option<SkewRange>,
    /// The constants of Theorem 1.
    pub constants: Option<ProblemConstants>,
    /// F(theta) - F* after so many rounds, if F* is known.
    pub error: Vec<(u64, f64)>,
}

impl Study {
    /// Checks that the constants of Theorem 1 can be found, where they are asked for.
    pub(super) fn check_bound(&self) -> Result<()> {
        let params = self.params();
        if !params.bound {
            return Ok(());
        }
        let weight_decay = params.weight_decay as f32;
        if params.model != "softmax" {
            return Err(Error::new("model", &params.model, "softmax, where bound is asked for"));
        }
        if !is_strongly_convex(self.trainer().model(), weight_decay) {
            let expected = "a number above 0, where bound is asked for: mu is the weight decay";
            return Err(Error::new("weight_decay", params.weight_decay, expected));
        }
        if !matches!(self.training().params().work, LocalWork::Steps(2..)) {
            let expected = "2 steps or more, where bound is asked for";
            return Err(Error::new("local_work", &params.local_work, expected));
        }
        let plain = params.momentum == 0.0 && params.proximal == 0.0 && !params.augment;
        if !plain || params.server != ServerRule::Average {
            let expected = "plain SGD and averaging, where bound is asked for";
            return Err(Error::new("momentum, proximal, augment or server", "set", expected));
        }
        Ok(())
    }

    /// Whether the objectives of all clients are looked at.
    pub(super) fn watches_gaps(&self) -> bool {
        self.params().skew || self.params().bound
    }

    /// Whether they are looked at before a round: at the first model, and wherever the model was just evaluated.
    pub(super) fn watches_gaps_before(&self, round: u64) -> bool {
        self.watches_gaps() && round.checked_sub(1).is_none_or(|before| self.evaluates(before))
    }

    fn all_samples<'a>(&'a self, scene: &'a Scene) -> Vec<Samples<'a>> {
        (0..scene.setting.clients()).map(|client| self.samples(scene, client)).collect()
    }

    /// What is known about a seed before its runs begin: found once, by whoever asks first.
    pub(super) fn optima(&self, scene: &Scene, crew: &mut Crew) -> Result<Arc<Optima>> {
        // Whoever panicked has stored nothing.
        let mut place = scene.optima.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(optima) = &*place {
            return Ok(Arc::clone(optima));
        }
        let optima = Arc::new(self.find_optima(scene, crew)?);
        *place = Some(Arc::clone(&optima));
        Ok(optima)
    }

    fn find_optima(&self, scene: &Scene, crew: &mut Crew) -> Result<Optima> {
        let clients = self.all_samples(scene);
        let weight_decay = self.params().weight_decay as f32;
        if is_strongly_convex(self.trainer().model(), weight_decay) {
            let mut problem =
                ConvexProblem::new(self.trainer(), &clients, weight_decay, crew.len())?;
            let shares = scene.shares();
            let batch = self.params().batch;
            let constants = problem.constants(&shares, &scene.first, &[], batch)?;
            let at_optimum = local_losses(crew, &constants.optimum, &clients, weight_decay)?;
            let local = constants.local_optimum_values.clone();
            return Ok(Optima { local, constants: Some(constants), at_optimum: Some(at_optimum) });
        }
        let budget =
            OptimumBudget { epochs: EPOCHS_ALONE, weight_decay, ..OptimumBudget::default() };
        let local = local_optima(crew, &scene.first, &clients, &budget, scene.seed)?;
        Ok(Optima {
            local: local.into_iter().map(writable).collect(),
            constants: None,
            at_optimum: None,
        })
    }

    /// How clients train under a seed: as Theorem 1 asks, where its bound is drawn.
    pub(super) fn training_in(&self, scene: &Scene, crew: &mut Crew) -> Result<LocalTraining> {
        let params = *self.training().params();
        let LocalWork::Steps(steps) = params.work else {
            return Ok(*self.training());
        };
        if !self.params().bound {
            return Ok(*self.training());
        }
        let optima = self.optima(scene, crew)?;
        let Some(constants) = &optima.constants else {
            return Ok(*self.training());
        };
        let (learning_rate, offset) = constants.theorem_schedule(steps);
        let learning_rate = learning_rate as f32;
        LocalTrainingParams { learning_rate, offset, decay: 1.0, ..params }.check()
    }

    /// Looks at the objectives of all clients before a round.
    pub(super) fn gaps_before(
        &self,
        scene: &Scene,
        selector: &mut Selector,
        global: &[f32],
        crew: &mut Crew,
    ) -> Result<GapLog> {
        let optima = match selector.round() {
            0 => Some((*self.optima(scene, crew)?).clone()),
            _ => None,
        };
        Ok(GapLog {
            losses: self.losses(scene, global, crew)?,
            expected_weights: selector.expected_weights(Availability::Everyone, REDRAWS)?,
            optima,
        })
    }

    /// F_k of every client.
    pub(super) fn losses(
        &self,
        scene: &Scene,
        global: &[f32],
        crew: &mut Crew,
    ) -> Result<Vec<f64>> {
        let clients = self.all_samples(scene);
        let losses = local_losses(crew, global, &clients, self.params().weight_decay as f32)?;
        Ok(losses.into_iter().map(writable).collect())
    }

    /// The bound of Theorem 1 for a policy over the rounds, from the constants and skews of a run; nothing where a
    /// constant is missing or makes no sense.
    pub fn bound(
        &self,
        contender: usize,
        scene: &Scene,
        gaps: &GapRecord,
    ) -> Option<ConvergenceBound> {
        let LocalWork::Steps(steps) = self.training().params().work else {
            return None;
        };
        let contender = self.contenders().get(contender)?;
        let policy = build_policy(&contender.spec, &scene.setting).ok()?;
        let sigma = policy.theory(&scene.setting, contender.weighting).ok()??.sigma?;
        let skews = gaps.skew?.of_the_theorem()?;
        let constants = gaps.constants.as_ref()?;
        let cohort = scene.setting.cohort();
        ConvergenceBound::new(constants.with_policy(steps, cohort, sigma, skews)).ok()
    }
}

impl Scene {
    /// q_k of every client.
    pub(super) fn shares(&self) -> Vec<f64> {
        (0..self.setting.clients()).map(|client| self.setting.sizes().share(client)).collect()
    }
}

impl GapRecord {
    /// Follows the logs of a run; nothing where the objectives were not looked at.
    pub(super) fn new(scene: &Scene, logs: &[RoundLog]) -> Result<Option<Self>> {
        let Some(optima) = logs.first().and_then(|log| log.gaps.as_ref()?.optima.as_ref()) else {
            return Ok(None);
        };
        let gaps = |losses: &[f64]| -> Vec<f64> {
            losses.iter().zip(&optima.local).map(|(loss, least)| loss - least).collect()
        };
        let shares = scene.shares();
        let total = |losses: &[f64]| -> f64 {
            losses.iter().zip(&shares).map(|(loss, share)| loss * share).sum()
        };
        let least = optima.constants.as_ref().map(|constants| constants.optimum_value);
        let mut track = SkewTrack::new(shares.clone());
        let mut error = Vec::new();
        for log in logs {
            let Some(seen) = &log.gaps else {
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
