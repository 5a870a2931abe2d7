//! One run: a policy, a seed, so many rounds.

use crate::asked::Asked;
use crate::listed::{Listed, Rule};
use crate::played::Played;
use crate::world::World;
use agewise_core::metrics::{CohortSizes, Intervals, Load};
use agewise_core::{
    Calibrator, LawFamily, Laws, Policy, PolicySpec, Result, Seed, Setting, SettingParams, SizeLaw,
    Sizes, Start, Weighting, build_policy,
};
use std::collections::BTreeMap;

/// Everything that a run depends on.
#[derive(Debug, Clone)]
pub struct RunSpec {
    /// The setting at the beginning.
    pub setting: Setting,
    /// The law that sizes of clients that join are drawn from.
    pub size_law: SizeLaw,
    /// The policy.
    pub policy: PolicySpec,
    /// How its cohorts are weighed.
    pub weighting: Weighting,
    /// Real life, with the seed of the run.
    pub world: World,
    /// First ages.
    pub start: Start,
    /// Rounds to play in all.
    pub rounds: u64,
    /// Rounds at the beginning that are played and not recorded.
    pub warmup: u64,
    /// Whether the target interval is learned from the number of reports.
    pub calibrate: bool,
}

/// One round in the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundRow {
    /// The round.
    pub round: u64,
    /// Clients selected.
    pub selected: u64,
    /// Clients that reported.
    pub reported: u64,
    /// Whether one was forced.
    pub forced: bool,
    /// The target interval of this round.
    pub interval: f64,
    /// Sigma over the recorded rounds so far; NaN before.
    pub sigma: f64,
}

/// How many clients have which age, in some rounds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgeMap {
    /// The rounds that were looked at.
    pub rounds: Vec<u64>,
    /// For each of them the number of clients by age.
    pub counts: Vec<BTreeMap<u64, u64>>,
}

/// What came out of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// Every round.
    pub rows: Vec<RoundRow>,
    /// X.
    pub intervals: Intervals,
    /// Cohort sizes (reports) of the recorded rounds.
    pub cohort_sizes: CohortSizes,
    /// Sigma.
    pub sigma: f64,
    /// Mean covariance of two clients' weights.
    pub mean_covariance: f64,
    /// Jain's index and clients never selected.
    pub load: Load,
    /// The number of clients by how often they took part.
    pub selections: BTreeMap<u32, u64>,
    /// The longest X, or the age of a client that still waits.
    pub longest_wait: u64,
    /// sqrt(Var Y)/T.
    pub window_sd: BTreeMap<u32, f64>,
    /// Ages over time.
    pub age_map: AgeMap,
}

/// The rounds of the age map: at most this many.
const AGE_MAP_ROUNDS: u64 = 400;

enum Engine {
    Listed { engine: Box<Listed>, rule: Rule, family: Option<LawFamily> },
    Asked(Box<Asked>),
}

/// A run in progress.
pub struct Run {
    spec: RunSpec,
    engine: Engine,
    calibrator: Option<Calibrator>,
    round: u64,
    rows: Vec<RoundRow>,
    cohort_sizes: CohortSizes,
    total_weight: (f64, f64),
    age_map: AgeMap,
}

impl Run {
    /// Prepares a run; nothing is played yet.
    pub fn new(spec: RunSpec) -> Result<Self> {
        let policy = build_policy(&spec.policy, &spec.setting)?;
        let seed = spec.world.seed;
        let ages = match spec.start {
            Start::Stationary => policy.first_ages(&spec.setting, seed),
            Start::Cold => vec![0; spec.setting.clients() as usize],
        };
        let everyone = setting_with_newcomers(&spec)?;
        let calibrator = if spec.calibrate && policy.law_family().is_some() {
            Some(Calibrator::new(spec.setting.cohort(), spec.setting.interval())?)
        } else {
            None
        };
        Ok(Self {
            engine: Engine::new(policy, everyone, &spec, ages),
            spec,
            calibrator,
            round: 0,
            rows: Vec::new(),
            cohort_sizes: CohortSizes::default(),
            total_weight: (0.0, 0.0),
            age_map: AgeMap::default(),
        })
    }

    /// The round that is played next.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Plays one round.
    pub fn play(&mut self) -> Result<RoundRow> {
        self.look_at_ages();
        let interval =
            self.calibrator.as_ref().map_or(self.spec.setting.interval(), Calibrator::interval);
        let played = match &mut self.engine {
            Engine::Asked(engine) => engine.play(self.round)?,
            Engine::Listed { engine, rule, family } => {
                if let (Some(_), Some(family)) = (&self.calibrator, family) {
                    *rule = Rule::Laws(Laws::shared(
                        family.law(interval, self.spec.setting.max_age())?,
                    ));
                }
                engine.play(self.round, rule)
            }
        };
        if let Some(calibrator) = &mut self.calibrator {
            calibrator.observe(played.reported);
        }
        Ok(self.record(&played, interval))
    }

    fn record(&mut self, played: &Played, interval: f64) -> RoundRow {
        let recorded = (self.round + 1).saturating_sub(self.spec.warmup);
        if recorded > 0 {
            self.cohort_sizes.record(played.reported);
            self.total_weight.0 += played.total_weight;
            self.total_weight.1 += played.total_weight * played.total_weight;
        }
        let row = RoundRow {
            round: self.round,
            selected: played.selected,
            reported: played.reported,
            forced: played.forced,
            interval,
            sigma: self.engine.weights().sigma(recorded),
        };
        self.rows.push(row);
        self.round += 1;
        row
    }

    fn look_at_ages(&mut self) {
        let every = self.spec.rounds.div_ceil(AGE_MAP_ROUNDS).max(1);
        if self.round.is_multiple_of(every) {
            let waiting = self.engine.waiting();
            let round = self.round as i64;
            let by_age = waiting.into_iter().map(|(since, count)| ((round - since) as u64, count));
            self.age_map.rounds.push(self.round);
            self.age_map.counts.push(by_age.collect());
        }
    }

    /// The clients credited in the last round, in increasing order.
    pub fn last_cohort(&self) -> Vec<u32> {
        match &self.engine {
            Engine::Asked(engine) => engine.cohort().to_vec(),
            Engine::Listed { engine, .. } => engine.members_since(self.round as i64),
        }
    }

    /// The figures of the rounds so far.
    pub fn outcome(self) -> RunOutcome {
        let recorded = self.round.saturating_sub(self.spec.warmup);
        let rounds = recorded as f64;
        let mean = self.total_weight.0 / rounds;
        let total_variance = (self.total_weight.1 / rounds - mean * mean).max(0.0);
        let mut load = Load::default();
        let mut selections = BTreeMap::new();
        for (count, clients) in self.engine.selections() {
            *selections.entry(count).or_default() += clients;
            load.record_many(u64::from(count), clients);
        }
        let intervals = self.engine.intervals();
        let oldest =
            self.engine.waiting().keys().next().map_or(0, |since| self.round as i64 - since);
        RunOutcome {
            sigma: self.engine.weights().sigma(recorded),
            mean_covariance: self.engine.weights().mean_covariance(recorded, total_variance),
            longest_wait: intervals.longest().max(oldest as u64),
            window_sd: self.engine.window_sd(),
            intervals,
            rows: self.rows,
            cohort_sizes: self.cohort_sizes,
            load,
            selections,
            age_map: self.age_map,
        }
    }
}

/// The setting with the sizes of everyone who will ever join.
fn setting_with_newcomers(spec: &RunSpec) -> Result<Setting> {
    let setting = &spec.setting;
    let total = spec.world.joined(setting.clients(), spec.rounds);
    if total == setting.clients() {
        return Ok(setting.clone());
    }
    let sizes = setting.sizes();
    let all = if sizes.are_equal() {
        Sizes::equal(total)
    } else {
        let drawn = spec.size_law.draw(total, spec.world.seed)?;
        let here = setting.clients();
        let size = |client| if client < here { sizes.of(client) } else { drawn.of(client) };
        Sizes::new((0..total).map(size).collect())?
    };
    let params = SettingParams {
        sizes: Some(all),
        empty_cohort: setting.empty_cohort(),
        ..SettingParams::new(
            u64::from(total),
            u64::from(setting.cohort()),
            u64::from(setting.max_age()),
        )
    };
    params.check()
}

impl Engine {
    fn new(policy: Box<dyn Policy>, everyone: Setting, spec: &RunSpec, ages: Vec<u64>) -> Self {
        let (world, weighting, warmup) = (spec.world, spec.weighting, spec.warmup);
        let family = policy.law_family();
        match Rule::of(policy.plan()) {
            Some(rule) if weighting != Weighting::Unbiased => {
                let engine = Listed::new(everyone, world, weighting, warmup, &ages);
                Self::Listed { engine: Box::new(engine), rule, family }
            }
            _ => {
                let engine = Asked::new(policy, everyone, world, weighting, warmup, ages);
                Self::Asked(Box::new(engine))
            }
        }
    }

    fn weights(&self) -> &agewise_core::metrics::WeightMoments {
        match self {
            Self::Listed { engine, .. } => engine.weights(),
            Self::Asked(engine) => engine.weights(),
        }
    }

    fn waiting(&self) -> BTreeMap<i64, u64> {
        match self {
            Self::Listed { engine, .. } => engine.waiting(),
            Self::Asked(engine) => engine.waiting(),
        }
    }

    fn intervals(&self) -> Intervals {
        match self {
            Self::Listed { engine, .. } => engine.intervals(),
            Self::Asked(engine) => engine.intervals(),
        }
    }

    /// How many clients took part how often.
    fn selections(&self) -> BTreeMap<u32, u64> {
        let mut counts = BTreeMap::new();
        let mut count = |selections: u32| *counts.entry(selections).or_default() += 1;
        match self {
            Self::Listed { engine, .. } => engine.selections().for_each(&mut count),
            Self::Asked(engine) => engine.selections().for_each(&mut count),
        }
        counts
    }

    fn window_sd(&self) -> BTreeMap<u32, f64> {
        let windows = match self {
            Self::Listed { engine, .. } => engine.windows(),
            Self::Asked(engine) => engine.windows(),
        };
        let closed = windows.iter().map(|window| (window.length(), window.normalised_sd()));
        closed.filter(|(_, sd)| sd.is_finite()).collect()
    }
}

/// Plays a run to its end; `on_round` hears of every round.
pub fn play(spec: RunSpec, mut on_round: impl FnMut(&RoundRow)) -> Result<RunOutcome> {
    let rounds = spec.rounds;
    let mut run = Run::new(spec)?;
    while run.round() < rounds {
        on_round(&run.play()?);
    }
    Ok(run.outcome())
}

/// A world in which nothing happens.
pub fn calm(seed: Seed) -> World {
    World { seed, availability: crate::Availability::Always, dropout: 0.0, join: 0.0, leave: 0.0 }
}
