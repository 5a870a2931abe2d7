//! What can be checked before anything is loaded or built.

use super::{ExperimentParams, TrainingParams, WorldParams};
use crate::clock::Schedule;
use crate::experiment::Variant;
use crate::world::{AvailabilityModel, World};
use agewise_core::{Error, Result, Seed, Weighting};
use agewise_train::Metric;
use agewise_train::local::{LocalTraining, LocalTrainingParams};

/// The most rounds of a run.
const MOST_ROUNDS: u64 = 10_000_000;
/// The most rounds of a run that trains.
const MOST_TRAINING_ROUNDS: u64 = 1_000_000;
/// The most seeds of an experiment.
const MOST_SEEDS: u32 = 10_000;

impl ExperimentParams {
    /// Whether age laws learn the target interval from the number of reports, for this variant in this world. In a calm one
    /// without lost updates n/m is right by itself, and unbiased weights need a rate that is known.
    pub(crate) fn calibrates(&self, world: &World, variant: &Variant) -> bool {
        let is_calm = world.is_calm() && !variant.schedule().late_have_failed();
        let weighting = variant.policy().weighting();
        self.calibrate.unwrap_or(!is_calm && weighting != Weighting::Unbiased)
    }

    /// When rounds end, where a variant does not say it.
    pub(crate) fn usual_schedule(&self) -> Result<Schedule> {
        self.clock.as_ref().map_or(Ok(Schedule::Sync), |clock| clock.schedule.parse())
    }

    /// Checks rounds and seeds.
    pub(crate) fn check_numbers(&self) -> Result<()> {
        let most = if self.training.is_some() { MOST_TRAINING_ROUNDS } else { MOST_ROUNDS };
        check_range("rounds", self.rounds, 1, most)?;
        if self.warmup >= self.rounds {
            let expected = format!("fewer than the {} rounds", self.rounds);
            return Err(Error::new("warmup", self.warmup, expected));
        }
        check_range("seeds", u64::from(self.seeds), 1, u64::from(MOST_SEEDS))?;
        // A TOML file holds whole numbers up to this.
        check_range("seed", self.seed, 0, i64::MAX as u64 - u64::from(MOST_SEEDS))
    }
}

impl WorldParams {
    /// The world under a seed.
    pub(crate) fn check(&self, seed: Seed) -> Result<World> {
        let availability: AvailabilityModel = self.availability.parse()?;
        for (field, value) in [("dropout", self.dropout), ("leave", self.leave)] {
            if !(0.0..1.0).contains(&value) {
                return Err(Error::new(field, value, "a probability from 0 to under 1"));
            }
        }
        let failing = self.failing.unwrap_or(0.0);
        if !(0.0..1.0).contains(&failing) {
            return Err(Error::new(
                "failing",
                failing,
                "a share of the clients, from 0 to under 1",
            ));
        }
        if !(0.0..=1e6).contains(&self.join) {
            let expected = "a share of the first population, 0 or more";
            return Err(Error::new("join", self.join, expected));
        }
        let &Self { dropout, join, leave, .. } = self;
        Ok(World { seed, availability, dropout, failing, join, leave })
    }
}

impl TrainingParams {
    /// Checks evaluations and targets.
    pub(crate) fn check(&self, rounds: u64, metric: Metric) -> Result<()> {
        check_range("eval_every", self.eval_every, 1, rounds)?;
        check_range("eval_from", self.eval_from, 1, rounds)?;
        let (range, what) = match metric {
            Metric::Accuracy => (0.0..=1.0, "accuracies above 0, at most 1"),
            Metric::Loss => (0.0..=f64::MAX, "losses above 0"),
        };
        for target in &self.targets {
            if *target <= 0.0 || !range.contains(target) {
                let percent = metric == Metric::Accuracy && (1.0..=100.0).contains(target);
                let hint = format!("{what} (did you mean {}, which is {target}%?)", target / 100.0);
                return Err(Error::new(
                    "targets",
                    target,
                    if percent { hint } else { what.into() },
                ));
            }
        }
        let in_order = |pair: &[f64]| match metric {
            Metric::Accuracy => pair[0] < pair[1],
            Metric::Loss => pair[0] > pair[1],
        };
        if !self.targets.windows(2).all(in_order) {
            let expected = match metric {
                Metric::Accuracy => "accuracies in increasing order, each once",
                Metric::Loss => "losses in decreasing order, each once",
            };
            return Err(Error::new("targets", format!("{:?}", self.targets), expected));
        }
        if self.stop_at_target && self.targets.is_empty() {
            return Err(Error::new("targets", "[]", "a target, as runs are to stop there"));
        }
        Ok(())
    }

    /// How clients train.
    pub fn local(&self) -> Result<LocalTraining> {
        LocalTrainingParams {
            work: self.local_work.parse()?,
            batch: self.batch,
            learning_rate: self.learning_rate as f32,
            decay: self.decay,
            offset: self.offset,
            momentum: self.momentum as f32,
            weight_decay: self.weight_decay as f32,
            proximal: self.proximal as f32,
            augment: self.augment,
        }
        .check()
    }
}

fn check_range(field: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::new(field, value, format!("a whole number from {low} to {high}")))
}
