//! The simulated time of an experiment.

use super::{Experiment, SeedContext};
use crate::clock::{ClientTimes, LinkDistribution, Power, Schedule, Unit};
use crate::params::ClockParams;
use crate::run::RunClock;
use agewise_core::{Result, Seed, Setting};

/// What an experiment with a clock has beside the speeds of its clients.
#[derive(Debug, Clone)]
pub(crate) struct ExperimentClock {
    links: Option<LinkDistribution>,
    power: Option<Power>,
    unit: Unit,
}

impl ExperimentClock {
    /// Checks the parameters of a clock.
    pub(super) fn new(params: &ClockParams) -> Result<Self> {
        let (links, power) = (params.links()?, params.power()?);
        if params.unit == Unit::Joules && power.is_none() {
            let expected = "another unit, or power beside it: the watts of a client that computes";
            return Err(agewise_core::Error::new("unit", params.unit, expected));
        }
        Ok(Self { links, power, unit: params.unit })
    }
}

impl Experiment {
    /// Whether simulated time is counted.
    pub fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// The bandwidths of clients, where there is a clock and transfers take time.
    pub fn links(&self) -> Option<&LinkDistribution> {
        self.clock.as_ref()?.links.as_ref()
    }

    /// The unit in which what a target costs is told first.
    pub fn unit(&self) -> Unit {
        self.clock.as_ref().map_or(Unit::Rounds, |clock| clock.unit)
    }

    /// The units in which that is told, where there is a clock; without one it is told in rounds alone.
    pub fn units(&self) -> Vec<Unit> {
        let counted = |unit: &Unit| match unit {
            Unit::Rounds => true,
            Unit::Joules => self.power().is_some(),
            _ => self.has_clock(),
        };
        Unit::ALL.into_iter().filter(counted).collect()
    }

    /// What clients draw, where that is known.
    pub fn power(&self) -> Option<Power> {
        self.clock.as_ref()?.power
    }

    /// Whether updates can be lost of clients that deliver, or clients fail.
    pub fn loses_updates(&self) -> bool {
        let loses = |variant: &super::Variant| variant.schedule().loses_updates();
        !self.world().all_report() || self.variants().iter().any(loses)
    }

    /// The updates that a round of a variant aims at: those of a cohort, or of a buffer where there are no rounds.
    pub fn updates_of(&self, variant: &super::Variant) -> u64 {
        variant.schedule().updates_per_step().map_or(self.params.cohort, u64::from)
    }

    /// The rounds from one credit of a client to the next that a variant aims at: n/m, or n/K where a step takes K updates.
    pub fn interval_of(&self, variant: &super::Variant) -> f64 {
        self.params.clients as f64 / self.updates_of(variant) as f64
    }

    /// How many rounds a step of the server is: 1, or K/m where a step takes K updates, as a round is m updates.
    pub fn rounds_per_step(&self, variant: &super::Variant) -> f64 {
        self.updates_of(variant) as f64 / self.params.cohort as f64
    }

    /// The steps of the server in so many rounds: as many; or as take the same number of updates.
    pub(crate) fn steps_in(&self, variant: &super::Variant, rounds: u64) -> u64 {
        rounds.saturating_mul(self.params.cohort).div_ceil(self.updates_of(variant))
    }

    /// The most steps of a run of a variant.
    pub fn steps_of(&self, variant: &super::Variant) -> u64 {
        self.steps_in(variant, self.params.rounds)
    }

    /// The whole rounds in so many first steps.
    pub(crate) fn rounds_after(&self, variant: &super::Variant, steps: u64) -> u64 {
        let updates = steps.saturating_mul(self.updates_of(variant));
        (updates / self.params.cohort).min(self.params.rounds)
    }

    /// The samples of a batch.
    pub(crate) fn batch(&self) -> u32 {
        self.training().map_or(1, |training| training.batch)
    }

    /// The setting of a policy under a schedule that may ask more clients than a cohort has.
    pub(crate) fn asked_setting(&self, schedule: Schedule, setting: &Setting) -> Result<Setting> {
        let asked = schedule.asked(self.params.cohort);
        if asked == self.params.cohort {
            return Ok(setting.clone());
        }
        let params = crate::params::ExperimentParams { cohort: asked, ..self.params.clone() };
        Self::setting_of(&params, self.params.clients, setting.sizes().clone())
    }

    /// The times of the clients of a seed, where there is a clock.
    pub(super) fn client_times(&self, seed: Seed, trained: &[u64]) -> Result<Option<ClientTimes>> {
        let Some(clock) = &self.clock else {
            return Ok(None);
        };
        let columns = self.params.clock.as_ref().map(|clock| clock.columns.clone());
        let model_bytes = 4 * self.required_task()?.parameters() as u64;
        let rates = (&self.speeds, clock.links.as_ref());
        let columns = columns.unwrap_or_default();
        ClientTimes::draw(rates, &columns, seed, trained, model_bytes).map(Some)
    }

    /// Refuses schedules that cannot be kept, under any seed.
    pub(super) fn check_schedules(&self) -> Result<()> {
        let schedules = || self.variants().iter().map(super::Variant::schedule);
        for schedule in schedules() {
            schedule.check(self.params.clients, self.params.cohort)?;
        }
        let seeds = if schedules().any(Schedule::depends_on_seed) { self.params.seeds } else { 1 };
        for seed in 0..seeds {
            let context: &SeedContext = self.context(seed)?;
            for schedule in schedules() {
                RunClock::new(self, schedule, context)?;
            }
        }
        Ok(())
    }
}
