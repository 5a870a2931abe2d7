//! A run without a task: a policy, a seed, so many rounds.

use super::recorder::{RunMetrics, mean_weights};
use crate::engines::Engine;
use crate::engines::round::{RoundMetrics, RoundSelection};
use crate::record::{LoadRecord, RoundRecord};
use crate::world::{World, calibration};
use agewise_core::{
    Calibrator, LawFamily, Laws, PolicyVariant, Result, Setting, SettingParams, SizeDistribution,
    Sizes,
};

/// Everything that a run without a task depends on.
#[derive(Debug, Clone)]
pub struct SelectionSpec {
    /// The setting at the beginning.
    pub setting: Setting,
    /// What the sizes of clients that join are drawn from.
    pub size_distribution: SizeDistribution,
    /// The policy, with its first ages and its weighting.
    pub policy: PolicyVariant,
    /// What happens to clients, with the seed of the run.
    pub world: World,
    /// Rounds to play in all.
    pub rounds: u64,
    /// Rounds at the beginning that are played and not recorded.
    pub warmup: u64,
    /// Whether the target interval is learned from the number of reports.
    pub calibrate: bool,
}

/// A run in progress.
pub struct SelectionRun {
    spec: SelectionSpec,
    engine: Engine,
    /// Learns the interval, and makes the laws of this family for it.
    calibration: Option<(Calibrator, LawFamily)>,
    round: u64,
    metrics: RunMetrics,
}

impl SelectionRun {
    /// Prepares a run; nothing is played yet.
    pub fn new(spec: SelectionSpec) -> Result<Self> {
        let policy = spec.policy.build(&spec.setting)?;
        let setting = &spec.setting;
        let calibration = calibration(spec.calibrate, &*policy, setting)?;
        let is_calm = spec.world.is_calm();
        let means = mean_weights(&*policy, spec.policy.weighting(), setting, is_calm);
        let (engine, ages) = Engine::new(&spec, means)?;
        let everyone = u64::from(spec.total());
        let mut metrics = RunMetrics::new(everyone, spec.rounds, spec.warmup, means);
        metrics.begin(&ages);
        Ok(Self { spec, engine, calibration, round: 0, metrics })
    }

    /// The round that is played next.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Plays one round. Many rounds are played faster by [`Self::play_on`].
    pub fn play(&mut self) -> Result<RoundRecord> {
        Ok(self.play_block(1)?[0])
    }

    /// Plays the rounds that are left, in blocks whose metrics are counted at once, until `goes_on` says no behind a
    /// block.
    pub fn play_on(&mut self, mut goes_on: impl FnMut(&[RoundRecord]) -> bool) -> Result<()> {
        let block = self.engine.block(&self.spec);
        while !self.is_finished() {
            let rows = self.play_block(block.min(self.spec.rounds - self.round))?;
            if !goes_on(&rows) {
                break;
            }
        }
        Ok(())
    }

    /// Whether all rounds were played.
    pub fn is_finished(&self) -> bool {
        self.round >= self.spec.rounds
    }

    /// Plays so many rounds: first chooses the clients of all of them, then counts the metrics.
    fn play_block(&mut self, rounds: u64) -> Result<Vec<RoundRecord>> {
        if self.engine.is_large() {
            // Inside the pool its threads stay awake from one round to the next.
            rayon::scope(|_| self.play_here(rounds))
        } else {
            self.play_here(rounds)
        }
    }

    fn play_here(&mut self, rounds: u64) -> Result<Vec<RoundRecord>> {
        let selected = (0..rounds).map(|_| self.choose()).collect::<Result<Vec<_>>>()?;
        let metrics = self.engine.take_metrics();
        let row = |((interval, selection), metrics): (&(f64, RoundSelection), &RoundMetrics)| {
            self.metrics.record(*interval, selection, metrics)
        };
        Ok(selected.iter().zip(&metrics).map(row).collect())
    }

    /// Chooses the clients of the next round, by the target interval that is returned with them.
    fn choose(&mut self) -> Result<(f64, RoundSelection)> {
        let (interval, laws) = match &self.calibration {
            None => (self.spec.setting.interval(), None),
            Some((calibrator, family)) => {
                let law = family.law(calibrator.interval(), self.spec.setting.max_age())?;
                (calibrator.interval(), Some(Laws::shared(law)))
            }
        };
        let selection = self.engine.choose(self.round, interval, laws)?;
        if let Some((calibrator, _)) = &mut self.calibration {
            calibrator.observe(selection.reported);
        }
        self.round += 1;
        Ok((interval, selection))
    }

    /// The clients credited in the last round, in increasing order.
    pub fn last_cohort(&self) -> Vec<u32> {
        self.engine.cohort_before(self.round)
    }

    /// The rounds so far, and their figures.
    pub fn finish(self) -> (Vec<RoundRecord>, LoadRecord) {
        self.metrics.finish(self.engine.selections())
    }
}

impl SelectionSpec {
    /// How many clients will ever have been there.
    pub(crate) fn total(&self) -> u32 {
        self.world.joined(self.setting.clients(), self.rounds)
    }

    /// The sizes of those who join, in their order.
    pub(crate) fn newcomers(&self) -> Result<Vec<f64>> {
        let (here, total) = (self.setting.clients(), self.total());
        if total == here || self.setting.sizes().are_equal() {
            return Ok(vec![1.0; (total - here) as usize]);
        }
        let drawn = self.size_distribution.draw(total, self.world.seed)?;
        Ok((here..total).map(|client| drawn.of(client)).collect())
    }

    /// The setting with the sizes of everyone who will ever join.
    pub(crate) fn everyone(&self) -> Result<Setting> {
        let Self { setting, .. } = self;
        let newcomers = self.newcomers()?;
        if newcomers.is_empty() {
            return Ok(setting.clone());
        }
        let total = self.total();
        let sizes = if setting.sizes().are_equal() {
            Sizes::equal(total)
        } else {
            let here = (0..setting.clients()).map(|client| setting.sizes().of(client));
            Sizes::new(here.chain(newcomers).collect())?
        };
        let cohort = u64::from(setting.cohort());
        SettingParams {
            sizes: Some(sizes),
            empty_cohort: setting.empty_cohort(),
            backoff: setting.backoff(),
            ..SettingParams::new(u64::from(total), cohort, setting.max_age())
        }
        .check()
    }
}
