//! An experiment: a world, variants of selection and aggregation, rounds, seeds, and what is trained if anything is.
//!
//! For one seed every variant gets the same division of the data, the same first model, the same world and, for the
//! same client and round, the same batches, so that differences come from the variants alone.

mod builder;
mod clock;
mod context;
mod variant;

pub use builder::ExperimentBuilder;
pub(crate) use clock::ExperimentClock;
pub use context::SeedContext;
pub use variant::Variant;

use crate::clock::{RateDistribution, Schedule};
use crate::error::ExperimentError;
use crate::log::RoundLog;
use crate::params::{ExperimentParams, TrainingParams, load_data};
use crate::record::{Record, RunId};
use crate::run::{SelectionRun, SelectionSpec};
use crate::world::World;
use agewise_core::theory::PolicyTheory;
use agewise_core::{
    Error, MaxAgeCost, Result, Seed, Setting, SettingParams, SizeDistribution, Start,
};
use agewise_train::data::{AlteredFile, Data};
use agewise_train::task::PartitionKey;
use agewise_train::{Metric, Task};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Larger populations are played one after the other: each run uses all cores, and memory counts.
const SIDE_BY_SIDE: u32 = 1_000_000;

/// An experiment that can be played.
#[derive(Clone)]
pub struct Experiment {
    params: ExperimentParams,
    /// Without the sizes of a task's clients, which depend on the seed.
    setting: Setting,
    size_distribution: SizeDistribution,
    world: World,
    variants: Vec<Variant>,
    baseline: usize,
    task: Option<Arc<dyn Task>>,
    speeds: RateDistribution,
    /// Where simulated time is counted.
    clock: Option<ExperimentClock>,
    altered: Vec<AlteredFile>,
    contexts: Arc<Vec<OnceLock<SeedContext>>>,
}

impl Experiment {
    /// What parameters ask for. Data sets are looked for in these folders.
    pub fn new(
        mut params: ExperimentParams,
        folders: &[PathBuf],
    ) -> std::result::Result<Self, ExperimentError> {
        let seed = Seed(params.seed);
        params.load_columns()?;
        let Some(training) = &mut params.training else {
            return Ok(Self::builder().params(params).build()?);
        };
        let data = load_data(training, seed, folders)?;
        Ok(Self::with_data(params, data)?)
    }

    /// The same with data that are there already.
    pub fn with_data(params: ExperimentParams, data: impl Into<Data>) -> Result<Self> {
        Self::builder().params(params).data(data).build()
    }

    /// An experiment piece by piece: with tasks, policies and rules of aggregation of one's own.
    pub fn builder() -> ExperimentBuilder {
        ExperimentBuilder::default()
    }

    /// The parameters it was made from.
    pub fn params(&self) -> &ExperimentParams {
        &self.params
    }

    /// Files of the data that are not those that were published, of which the user should hear.
    pub fn altered_data(&self) -> &[AlteredFile] {
        &self.altered
    }

    /// The parameters of training, where there is a task.
    pub fn training(&self) -> Option<&TrainingParams> {
        self.params.training.as_ref()
    }

    /// The setting at the beginning; with a task its sizes are those of [`SeedContext::setting`].
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// What happens to clients, under the first seed.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Whether the population and everyone in it behave as the theory assumes.
    pub fn is_calm(&self) -> bool {
        self.world.is_calm()
    }

    /// Whether age laws learn the target interval from the number of reports, in a run of this variant.
    pub fn calibrates(&self, variant: &Variant) -> bool {
        self.params.calibrates(&self.world, variant)
    }

    /// What is compared, in the order in which it was named.
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    /// The variant of a run.
    pub fn variant(&self, id: RunId) -> Result<&Variant> {
        self.variants.get(id.variant).ok_or_else(|| {
            let expected = format!("a number under {}", self.variants.len());
            Error::new("variant", id.variant, expected)
        })
    }

    /// The place of the variant with which the others are compared.
    pub fn baseline(&self) -> usize {
        self.baseline
    }

    /// The command of the program that plays it.
    pub fn command(&self) -> &'static str {
        if self.task.is_some() { "compare" } else { "simulate" }
    }

    /// What is trained, if anything is.
    pub fn task(&self) -> Option<&Arc<dyn Task>> {
        self.task.as_ref()
    }

    /// The same, where it must be there.
    pub(crate) fn required_task(&self) -> Result<&dyn Task> {
        let none = || Error::new("task", "none", "an experiment that trains");
        self.task.as_deref().ok_or_else(none)
    }

    /// By which figure a model is measured.
    pub fn metric(&self) -> Metric {
        self.task.as_ref().map_or(Metric::Accuracy, |task| task.metric())
    }

    /// The targets of training.
    pub fn targets(&self) -> &[f64] {
        self.training().map_or(&[], |training| &training.targets)
    }

    /// How fast clients are.
    pub fn speeds(&self) -> &RateDistribution {
        &self.speeds
    }

    /// How the data sizes are described.
    pub fn sizes(&self) -> String {
        match &self.params.size_list {
            Some(list) => format!("from a list of {}", list.len()),
            None => self.params.sizes.clone(),
        }
    }

    /// The seed of a number.
    pub fn seed(&self, index: u32) -> Seed {
        Seed(self.params.seed + u64::from(index))
    }

    /// How many clients will ever have been there.
    pub fn everyone(&self) -> u32 {
        self.world.joined(self.setting.clients(), self.params.rounds)
    }

    /// All runs, by seed and then by variant: an experiment that is stopped early has whole pairs.
    pub fn runs(&self) -> Vec<RunId> {
        let variants = 0..self.variants.len();
        let of_seed = |seed| variants.clone().map(move |variant| RunId { seed, variant });
        (0..self.params.seeds).flat_map(of_seed).collect()
    }

    /// What all variants share under one seed of a training experiment; made when it is first asked for.
    pub fn context(&self, seed: u32) -> Result<&SeedContext> {
        let place = self.contexts.get(seed as usize).ok_or_else(|| {
            Error::new("seed", seed, format!("a number under {}", self.params.seeds))
        })?;
        if let Some(context) = place.get() {
            return Ok(context);
        }
        // Another thread may have been faster; its context is the same.
        let context = SeedContext::new(self, seed)?;
        Ok(place.get_or_init(|| context))
    }

    /// The division of the data under a seed: among everyone who will ever join.
    pub fn partition_key(&self, seed: u32) -> PartitionKey {
        PartitionKey { seed: self.seed(seed), clients: self.everyone() }
    }

    /// The theory of a variant, if the world is the one of the theory. With a task the sizes of clients follow from the
    /// seed, so that there is one theory for all seeds only where the sizes are equal.
    pub fn theory(&self, variant: usize) -> Result<Option<PolicyTheory>> {
        let calm = |variant: &&Variant| self.is_calm() && variant.schedule() == Schedule::Sync;
        let Some(variant) = self.variants.get(variant).filter(calm) else {
            return Ok(None);
        };
        let setting = match self.task {
            None => &self.setting,
            Some(_) => &self.context(0)?.setting,
        };
        if self.task.is_some() && setting.sizes().classes().len() > 1 {
            return Ok(None);
        }
        variant.policy().build(setting)?.theory(setting, variant.policy().weighting())
    }

    /// Bytes that a training run moved: the model to every client that was selected or probed, and back from those that
    /// reported.
    pub fn bytes_moved(&self, record: &Record) -> Option<u64> {
        let logs = &record.training.as_ref()?.logs;
        Some(logs.iter().map(|log| self.bytes_of(log)).sum())
    }

    /// Bytes that a round moved.
    pub fn bytes_of(&self, log: &RoundLog) -> u64 {
        if let Some(clock) = &log.clock {
            return clock.costs.bytes_down + clock.costs.bytes_up;
        }
        let parameters = self.task.as_ref().map_or(0, |task| task.parameters() as u64);
        let models = log.selected() + log.clients.len() as u64 + u64::from(log.probed);
        models * 4 * parameters
    }

    /// Whether a step (from 0) of the server ends with an evaluation, in a training run of a variant: where there are
    /// rounds, each step is one.
    pub fn evaluates(&self, variant: &Variant, step: u64) -> bool {
        let Some(&TrainingParams { eval_every, eval_from, .. }) = self.training() else {
            return false;
        };
        let due = |steps| {
            let rounds = self.rounds_after(variant, steps);
            rounds.checked_sub(eval_from).map_or(0, |behind| behind / eval_every + 1)
        };
        due(step + 1) > due(step) || step + 1 == self.steps_of(variant)
    }

    /// Whether a training run of a variant with these logs is at its end.
    pub fn is_finished(&self, variant: &Variant, logs: &[RoundLog]) -> bool {
        let stops = self.training().is_some_and(|training| training.stop_at_target);
        // The targets become harder, so the last one counts.
        let target = self.targets().last().filter(|_| stops);
        let score = logs.last().and_then(|log| self.score(log));
        let reached = |(&target, score)| self.metric().reaches(score, target);
        logs.len() as u64 >= self.steps_of(variant) || target.zip(score).is_some_and(reached)
    }

    /// What the evaluation of a round says, by the figure by which the task is measured.
    pub fn score(&self, log: &RoundLog) -> Option<f64> {
        let test = log.test.as_ref()?;
        match self.metric() {
            Metric::Accuracy => test.accuracy(),
            Metric::Loss => test.loss,
        }
    }

    /// About how much memory it takes, in bytes, where only selection is simulated with so many threads.
    pub fn memory(&self, threads: usize) -> u64 {
        /// The engines' state, and the first ages that it is made from.
        const PER_CLIENT: u64 = 32;
        /// A row while it is played, its record, and its line of the table.
        const PER_ROUND: u64 = 250;
        /// The failures of a client in a row, and when it may be asked again.
        const FAILURES: u64 = 8;
        let params = &self.params;
        let sizes = if self.setting.sizes().are_equal() { 0 } else { 8 };
        let runs = self.variants.len() as u64 * u64::from(params.seeds);
        let at_once = (self.runs_at_once(threads) as u64).min(runs);
        let clients = u64::from(self.everyone());
        let failures = if self.world.all_report() { 0 } else { FAILURES };
        let of_clients = clients.saturating_mul((PER_CLIENT + failures) * at_once + sizes);
        let of_rounds = runs.saturating_mul(params.rounds).saturating_mul(PER_ROUND);
        of_clients.saturating_add(of_rounds)
    }

    /// How many runs are played at the same time with so many threads.
    pub fn runs_at_once(&self, threads: usize) -> usize {
        let one = self.task.is_none() && self.setting.clients() > SIDE_BY_SIDE;
        if one { 1 } else { threads.max(1) }
    }

    /// What a run without a task depends on.
    pub fn selection(&self, id: RunId) -> Result<SelectionSpec> {
        Ok(SelectionSpec {
            setting: self.setting.clone(),
            size_distribution: self.size_distribution,
            policy: self.variant(id)?.policy().clone(),
            world: World { seed: self.seed(id.seed), ..self.world },
            rounds: self.params.rounds,
            warmup: self.params.warmup,
            calibrate: self.calibrates(self.variant(id)?),
        })
    }

    /// The cohorts of an age law's first rounds from the start that was not asked for; nothing for other policies and
    /// for very large populations.
    pub fn other_start(&self, variant: usize) -> Result<Option<Vec<u64>>> {
        const ROUNDS: u64 = 60;
        let mut spec = self.selection(RunId { seed: 0, variant })?;
        let is_law = spec.policy.build(&spec.setting)?.law_family().is_some();
        if !is_law || self.setting.clients() > SIDE_BY_SIDE {
            return Ok(None);
        }
        let other = match spec.policy.start() {
            Start::Stationary => Start::Cold,
            Start::Cold => Start::Stationary,
        };
        spec.policy = spec.policy.with_start(other);
        (spec.rounds, spec.warmup) = (spec.rounds.min(ROUNDS), 0);
        let mut run = SelectionRun::new(spec)?;
        run.play_on(|_| true)?;
        Ok(Some(run.finish().0.iter().map(|row| row.reported).collect()))
    }

    /// Checks what can be wrong with training.
    fn check_training(&self) -> Result<()> {
        let Some(training) = self.training() else {
            return Ok(());
        };
        training.check(self.params.rounds, self.metric())?;
        for variant in &self.variants {
            variant.aggregation().build(self.required_task()?.parameters())?;
        }
        self.check_objectives()?;
        self.context(0)?;
        self.check_schedules()
    }

    /// What the maximum age costs, for each variant that it costs anything, with the variant's name.
    pub fn max_age_costs(&self) -> Result<Vec<(&str, MaxAgeCost)>> {
        let cost = |variant: &Variant| {
            let Some(family) = variant.policy().build(&self.setting)?.law_family() else {
                return Ok(None);
            };
            self.setting.max_age_cost(family)
        };
        let mut costs = Vec::new();
        for variant in &self.variants {
            costs.extend(cost(variant)?.map(|cost| (variant.name(), cost)));
        }
        Ok(costs)
    }

    /// The setting of so many clients with these sizes.
    fn setting_of(
        params: &ExperimentParams,
        clients: u64,
        sizes: agewise_core::Sizes,
    ) -> Result<Setting> {
        let plain = SettingParams::new(clients, params.cohort, params.max_age);
        let (empty_cohort, backoff) = (params.empty_cohort, params.backs_off());
        SettingParams { sizes: Some(sizes), empty_cohort, backoff, ..plain }.check()
    }
}
