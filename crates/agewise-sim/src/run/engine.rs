//! Which engine plays a policy.

use super::RunSpec;
use super::numbered::Numbered;
use crate::asked::Asked;
use crate::listed::{Listed, Rule};
use crate::played::{Chosen, Settled, Weighing};
use agewise_core::metrics::MeanWeights;
use agewise_core::{Laws, Policy, Ranking, Result, Setting, Weighting};
use std::collections::BTreeMap;

/// The most rounds that are settled at once: more would not save much.
const LONGEST_BLOCK: u64 = 32;

/// Chosen clients that may wait to be settled, at two bytes each; or as many as there are clients.
const UNSETTLED: u64 = 1 << 23;

pub(super) enum Engine {
    Listed { engine: Box<Listed>, rule: Rule },
    Numbered(Box<Numbered>),
    Asked(Box<Asked>),
}

impl Engine {
    pub(super) fn new(
        policy: Box<dyn Policy>,
        everyone: Setting,
        spec: &RunSpec,
        means: MeanWeights,
        ages: Vec<u64>,
    ) -> Self {
        let (world, weighting, warmup) = (spec.world, spec.weighting, spec.warmup);
        let weighing = Weighing {
            by_size: weighting == Weighting::DataSize && !everyone.sizes().are_equal(),
            known_means: means == MeanWeights::Alike,
        };
        match Rule::of(policy.plan()).filter(|_| weighting != Weighting::Unbiased) {
            Some(Rule::Ranked(Ranking::Random)) => {
                let engine = Numbered::new(everyone, world, weighing, warmup, ages);
                Self::Numbered(Box::new(engine))
            }
            Some(rule) => {
                let engine = Listed::new(everyone, world, weighing, warmup, ages);
                Self::Listed { engine: Box::new(engine), rule }
            }
            None => {
                let engine = Asked::new(policy, everyone, world, weighting, warmup, ages);
                Self::Asked(Box::new(engine))
            }
        }
    }

    /// How many rounds are best played before they are settled.
    pub(super) fn block(&self, spec: &RunSpec) -> u64 {
        let (clients, cohort) = (spec.setting.clients(), spec.setting.cohort());
        match self {
            // These know ages only when a round is settled, and need those of clients that leave.
            Self::Numbered(_) if spec.world.leave > 0.0 => 1,
            Self::Asked(_) => 1,
            _ => (u64::from(clients).max(UNSETTLED) / u64::from(cohort)).clamp(1, LONGEST_BLOCK),
        }
    }

    /// Whether there is enough to share out.
    pub(super) fn is_large(&self) -> bool {
        match self {
            Self::Listed { engine, .. } => engine.is_large(),
            Self::Numbered(engine) => engine.is_large(),
            Self::Asked(engine) => engine.is_large(),
        }
    }

    /// Chooses the clients of a round, by these laws if the policy's own are not to be used.
    pub(super) fn choose(&mut self, round: u64, laws: Option<Laws>) -> Result<Chosen> {
        match self {
            Self::Listed { engine, rule } => {
                if let Some(laws) = laws {
                    *rule = Rule::Laws(laws);
                }
                Ok(engine.choose(round, rule))
            }
            Self::Numbered(engine) => Ok(engine.choose(round)),
            Self::Asked(engine) => engine.choose(round),
        }
    }

    /// What the rounds chosen since the last time came to.
    pub(super) fn settle(&mut self) -> Vec<Settled> {
        match self {
            Self::Listed { engine, .. } => engine.settle(),
            Self::Numbered(engine) => engine.settle(),
            Self::Asked(engine) => engine.settle(),
        }
    }

    /// The clients credited in the round before this one, in increasing order.
    pub(super) fn cohort_before(&self, round: u64) -> Vec<u32> {
        match self {
            Self::Listed { engine, .. } => engine.members_since(round as i64),
            Self::Numbered(engine) => engine.members_since(round),
            Self::Asked(engine) => engine.cohort().to_vec(),
        }
    }

    /// How many clients took part how often.
    pub(super) fn selections(&self) -> BTreeMap<u32, u64> {
        let mut counts = BTreeMap::new();
        let mut count = |selections: u32| *counts.entry(selections).or_default() += 1;
        match self {
            Self::Listed { engine, .. } => engine.selections().for_each(&mut count),
            Self::Numbered(engine) => engine.selections().for_each(&mut count),
            Self::Asked(engine) => engine.selections().for_each(&mut count),
        }
        counts
    }
}
