//! The engines that play selection alone, and which of them plays a policy.
//!
//! Policies that follow age (age laws, oldest-first, round-robin) run on [`by_age`], which keeps clients in groups of
//! equal age, so that a round costs what the due clients cost; random selection on [`random`], which keeps them in order
//! of number; any other policy is asked for its cohort by [`generic`]. All give exactly the cohorts of a client-by-client
//! replay, for any number of threads.

mod by_age;
pub(crate) mod counters;
pub(crate) mod generic;
mod random;
pub(crate) mod round;
mod shard;
mod shards;

use crate::run::SelectionSpec;
use crate::world::{OLDEST, WorldSelector};
use agewise_core::metrics::MeanWeights;
use agewise_core::{Error, Laws, Policy, Ranking, Result, Start, Weighting};
use by_age::{ByAge, SelectionRule};
use generic::Generic;
use random::Random;
use round::{AgeCounts, RoundMetrics, RoundSelection, Weighing};
use std::collections::BTreeMap;

/// The most rounds whose metrics are counted at once: more would not save much.
const LONGEST_BLOCK: u64 = 32;

/// Selected clients that may wait to be counted, at two bytes each; or as many as there are clients.
const MOST_PENDING: u64 = 1 << 23;

fn initial_ages(spec: &SelectionSpec, policy: &dyn Policy) -> Vec<u64> {
    let mut ages = match spec.policy.start() {
        Start::Stationary => policy.initial_ages(&spec.setting, spec.world.seed),
        Start::Cold => vec![0; spec.setting.clients() as usize],
    };
    for age in &mut ages {
        *age = OLDEST.min(*age);
    }
    ages
}

pub(crate) enum Engine {
    ByAge { engine: Box<ByAge>, rule: SelectionRule },
    Random(Box<Random>),
    Generic(Box<Generic>),
}

impl Engine {
    /// The engine of a policy, and the ages with which it begins.
    pub(crate) fn new(spec: &SelectionSpec, means: MeanWeights) -> Result<(Self, AgeCounts)> {
        let (world, weighting, warmup) = (spec.world, spec.policy.weighting(), spec.warmup);
        let policy = spec.policy.build(&spec.setting)?;
        if world.availability.timed().is_some() {
            let expected = "availability in rounds, where there is no clock";
            return Err(Error::new("availability", world.availability, expected));
        }
        let ranked = world.availability.ranked();
        let is_plain = weighting != Weighting::Unbiased && ranked.is_none();
        let rule = SelectionRule::of(policy.plan()).filter(|_| is_plain);
        let Some(rule) = rule else {
            let (setting, newcomers) = (spec.setting.clone(), spec.newcomers()?);
            let everyone = setting.clients() + newcomers.len() as u32;
            let mut selector =
                WorldSelector::new(&spec.policy, setting, newcomers, world, spec.calibrate)?;
            if let Some(ranked) = ranked {
                let sizes = spec.everyone()?;
                let sizes = (0..everyone).map(|client| sizes.sizes().of(client));
                selector = selector.with_chances(&ranked.chances(&sizes.collect::<Vec<_>>()));
            }
            let counts = selector.ages_here().collect();
            return Ok((Self::Generic(Box::new(Generic::new(selector, everyone, warmup))), counts));
        };
        let everyone = spec.everyone()?;
        let ages = initial_ages(spec, &*policy);
        let counts = ages.iter().copied().collect();
        let weighing = Weighing {
            by_size: weighting == Weighting::DataSize && !everyone.sizes().are_equal(),
            known_means: means == MeanWeights::Alike,
        };
        let engine = if let SelectionRule::Ranked(Ranking::Random) = rule {
            Self::Random(Box::new(Random::new(everyone, world, weighing, warmup, ages)))
        } else {
            let engine = Box::new(ByAge::new(everyone, world, weighing, warmup, ages));
            Self::ByAge { engine, rule }
        };
        Ok((engine, counts))
    }

    /// How many rounds are best played before their metrics are counted.
    pub(crate) fn block(&self, spec: &SelectionSpec) -> u64 {
        let (clients, cohort) = (spec.setting.clients(), spec.setting.cohort());
        match self {
            // This one knows ages only when metrics are counted, and needs those of clients that leave.
            Self::Random(_) if spec.world.leave > 0.0 => 1,
            Self::Generic(_) => 1,
            _ => (u64::from(clients).max(MOST_PENDING) / u64::from(cohort)).clamp(1, LONGEST_BLOCK),
        }
    }

    /// Whether there is enough to share out.
    pub(crate) fn is_large(&self) -> bool {
        match self {
            Self::ByAge { engine, .. } => engine.is_large(),
            Self::Random(engine) => engine.is_large(),
            Self::Generic(engine) => engine.is_large(),
        }
    }

    /// Chooses the clients of a round. `interval` is the target interval that was published for it; `laws` are those to
    /// go by if the policy's own are not to be used.
    pub(crate) fn choose(
        &mut self,
        round: u64,
        interval: f64,
        laws: Option<Laws>,
    ) -> Result<RoundSelection> {
        match self {
            Self::ByAge { engine, rule } => {
                if let Some(laws) = laws {
                    *rule = SelectionRule::Laws(laws);
                }
                Ok(engine.choose(round, interval, rule))
            }
            Self::Random(engine) => Ok(engine.choose(round)),
            Self::Generic(engine) => engine.choose(),
        }
    }

    /// What the rounds chosen since the last time came to.
    pub(crate) fn take_metrics(&mut self) -> Vec<RoundMetrics> {
        match self {
            Self::ByAge { engine, .. } => engine.take_metrics(),
            Self::Random(engine) => engine.take_metrics(),
            Self::Generic(engine) => engine.take_metrics(),
        }
    }

    /// The clients credited in the round before this one, in increasing order.
    pub(crate) fn cohort_before(&self, round: u64) -> Vec<u32> {
        match self {
            Self::ByAge { engine, .. } => engine.members_since(round as i64),
            Self::Random(engine) => engine.members_since(round),
            Self::Generic(engine) => engine.cohort().to_vec(),
        }
    }

    /// How many clients took part how often.
    pub(crate) fn selections(&self) -> BTreeMap<u32, u64> {
        let mut counts = BTreeMap::new();
        let mut count = |selections: u32| *counts.entry(selections).or_default() += 1;
        match self {
            Self::ByAge { engine, .. } => engine.selections().for_each(&mut count),
            Self::Random(engine) => engine.selections().for_each(&mut count),
            Self::Generic(engine) => engine.selections().for_each(&mut count),
        }
        counts
    }
}
