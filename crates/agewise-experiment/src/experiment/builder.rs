//! An experiment piece by piece.

use super::{Experiment, ExperimentClock, Variant};
use crate::clock::{RateDistribution, Schedule};
use crate::params::{ExperimentParams, TrainingParams};
use crate::world::{RankedBy, World, calibration};
use agewise_core::{
    Error, Policy, PolicyVariant, Result, Seed, Setting, SettingParams, SizeDistribution, Sizes,
    Weighting,
};
use agewise_train::aggregation::{Aggregation, AggregationParams, AggregationRule};
use agewise_train::data::Data;
use agewise_train::{NativeTask, Task};
use std::sync::{Arc, OnceLock};

/// Makes an [`Experiment`].
///
/// Everything that is not said is as in [`ExperimentParams::comparison`] where there is a task, and as in
/// [`ExperimentParams::default`] where there is none.
#[must_use]
#[derive(Default)]
pub struct ExperimentBuilder {
    params: Option<ExperimentParams>,
    variants: Vec<Variant>,
    policies: Vec<PolicyVariant>,
    aggregation: Option<Aggregation>,
    task: Option<Arc<dyn Task>>,
    data: Option<Data>,
    changes: Vec<Change>,
}

type Change = Box<dyn FnOnce(&mut ExperimentParams)>;

impl ExperimentBuilder {
    /// Begins with these parameters.
    pub fn params(self, params: ExperimentParams) -> Self {
        Self { params: Some(params), ..self }
    }

    /// Trains this.
    pub fn task(self, task: impl Task + 'static) -> Self {
        self.shared_task(Arc::new(task))
    }

    /// Trains this task, which is shared with the caller.
    pub fn shared_task(self, task: Arc<dyn Task>) -> Self {
        Self { task: Some(task), ..self }
    }

    /// Trains the model of the parameters on these data.
    pub fn data(self, data: impl Into<Data>) -> Self {
        Self { data: Some(data.into()), ..self }
    }

    /// One more policy, for example one of your own; only those that are named here are compared.
    pub fn policy(mut self, policy: PolicyVariant) -> Self {
        self.policies.push(policy);
        self
    }

    /// One more variant: a policy with a rule of aggregation of its own.
    pub fn variant(mut self, variant: Variant) -> Self {
        self.variants.push(variant);
        self
    }

    /// The rule of aggregation of all policies, for example one of your own.
    pub fn aggregation(self, aggregation: Aggregation) -> Self {
        Self { aggregation: Some(aggregation), ..self }
    }

    /// n: clients at the beginning.
    pub fn clients(self, clients: u64) -> Self {
        self.change(move |params| params.clients = clients)
    }

    /// m: clients per round.
    pub fn cohort(self, cohort: u64) -> Self {
        self.change(move |params| params.cohort = cohort)
    }

    /// Rounds to play, at most.
    pub fn rounds(self, rounds: u64) -> Self {
        self.change(move |params| params.rounds = rounds)
    }

    /// How many seeds.
    pub fn seeds(self, seeds: u32) -> Self {
        self.change(move |params| params.seeds = seeds)
    }

    /// The targets of training: accuracies to reach, or losses to fall below.
    pub fn targets(self, targets: impl Into<Vec<f64>>) -> Self {
        let targets = targets.into();
        self.change(move |params| {
            params.training.get_or_insert_with(TrainingParams::default).targets = targets;
        })
    }

    /// Any other change of the parameters.
    pub fn change(mut self, change: impl FnOnce(&mut ExperimentParams) + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Checks everything.
    pub fn build(mut self) -> Result<Experiment> {
        let trains = self.task.is_some() || self.data.is_some();
        let usual = if trains { ExperimentParams::comparison } else { ExperimentParams::default };
        let mut params = self.params.take().unwrap_or_else(usual);
        for change in std::mem::take(&mut self.changes) {
            change(&mut params);
        }
        if let Some(data) = &self.data {
            params.settle(data)?;
        }
        params.check_numbers()?;
        let altered = self.data.as_ref().map_or_else(Vec::new, |data| data.altered.clone());
        let task = self.trained(&mut params)?;
        let usual = match self.aggregation.take() {
            Some(own) => own,
            None => Aggregation::from_params(params.aggregation)?,
        };
        // What is played is what the configuration says, as far as that has words for it.
        params.aggregation = usual.params().copied().unwrap_or(params.aggregation);
        let schedule = params.usual_schedule()?;
        let variants = self.compared(&params, &usual, schedule)?;
        if variants.iter().any(|variant| variant.schedule() != Schedule::Sync) {
            params.clock.get_or_insert_default();
        }
        params.policies = variants.iter().map(|variant| variant.name().to_string()).collect();
        Ok(Experiment { altered, ..assemble(params, variants, task)? })
    }

    /// What is trained: the task that was given, or the model of the parameters on the data.
    fn trained(&mut self, params: &mut ExperimentParams) -> Result<Option<Arc<dyn Task>>> {
        if let Some(task) = self.task.take() {
            let training = params.training.get_or_insert_with(TrainingParams::default);
            let description = task.describe();
            (training.data, training.model) = (description.data, description.model);
            return Ok(Some(task));
        }
        match (&params.training, self.data.take()) {
            (Some(_), Some(data)) => native_task(params, data).map(Some),
            (Some(training), None) => {
                Err(Error::new("data", &training.data, "data or a task, as there is training"))
            }
            (None, _) => Ok(None),
        }
    }

    /// What is compared: what was named here, or what the parameters say.
    fn compared(
        &mut self,
        params: &ExperimentParams,
        usual: &Aggregation,
        schedule: Schedule,
    ) -> Result<Vec<Variant>> {
        let own = std::mem::take(&mut self.policies);
        let own = own
            .into_iter()
            .map(|policy| Variant::new(policy, usual.clone()).with_schedule(schedule));
        let named = own.chain(std::mem::take(&mut self.variants));
        let named: Vec<Variant> = named.map(|variant| variant.beside(usual, schedule)).collect();
        if !named.is_empty() {
            return Ok(named);
        }
        params.policies.iter().map(|text| Variant::parse(text, params, usual)).collect()
    }
}

/// Checks that the parts fit together.
fn assemble(
    params: ExperimentParams,
    variants: Vec<Variant>,
    task: Option<Arc<dyn Task>>,
) -> Result<Experiment> {
    let size_distribution = params.sizes.parse()?;
    let setting = first_setting(&params, size_distribution)?;
    let world = params.world.check(Seed(params.seed))?;
    if world.joined(setting.clients(), params.rounds) == u32::MAX {
        let expected = format!("fewer than {} clients in the end", u32::MAX);
        return Err(Error::new("join", params.world.join, expected));
    }
    for (place, variant) in variants.iter().enumerate() {
        if variants[..place].iter().any(|other| other.name() == variant.name()) {
            return Err(Error::new("policies", variant.name(), "each policy once"));
        }
        check_variant(&params, &world, &setting, variant, task.as_deref())?;
        variant.schedule().check(params.clients, params.cohort)?;
    }
    let speeds = match &params.training {
        Some(training) => training.speeds.parse()?,
        None => RateDistribution::default(),
    };
    let clock = params.clock.as_ref().map(ExperimentClock::new).transpose()?;
    if clock.is_some() && task.is_none() {
        let expected = "no table [clock]: nothing is trained here, `agewise compare` has a clock";
        return Err(Error::new("clock", "a table", expected));
    }
    check_availability(&world, clock.is_some(), task.is_some())?;
    let contexts = (0..params.seeds).map(|_| OnceLock::new()).collect();
    let experiment = Experiment {
        baseline: baseline(&params, &variants)?,
        setting,
        size_distribution,
        world,
        variants,
        task,
        speeds,
        clock,
        altered: Vec::new(),
        contexts: Arc::new(contexts),
        params,
    };
    experiment.check_training()?;
    Ok(experiment)
}

/// Refuses availability that follows what is not there: a clock, or the speeds of clients.
fn check_availability(world: &World, has_clock: bool, has_task: bool) -> Result<()> {
    let availability = world.availability;
    if availability.timed().is_some() && !has_clock {
        let expected = "rounds instead of seconds, or a clock: the table [clock], or one of --links, --schedule, --unit \
                        and --power of `agewise compare`";
        return Err(Error::new("availability", availability, expected));
    }
    let by_speed = availability.ranked().is_some_and(|ranked| ranked.by == RankedBy::Speed);
    if by_speed && !has_task {
        let expected = "more-data-first, or another: clients have no speeds here, `agewise compare` has --speeds";
        return Err(Error::new("availability", availability, expected));
    }
    Ok(())
}

/// The setting at the beginning.
fn first_setting(params: &ExperimentParams, distribution: SizeDistribution) -> Result<Setting> {
    // The numbers first, before sizes are drawn for them.
    let plain = SettingParams::new(params.clients, params.cohort, params.max_age).check()?;
    let sizes = match &params.size_list {
        Some(list) if params.training.is_some() => {
            let expected = "none, where there is training: clients have the sizes of their data";
            return Err(Error::new("size_list", format!("a list of {}", list.len()), expected));
        }
        Some(list) => Sizes::new(list.clone())?,
        None => distribution.draw(plain.clients(), Seed(params.seed))?,
    };
    Experiment::setting_of(params, params.clients, sizes)
}

fn check_variant(
    params: &ExperimentParams,
    world: &World,
    setting: &Setting,
    variant: &Variant,
    task: Option<&dyn Task>,
) -> Result<()> {
    let weighting = variant.policy().weighting();
    let policy = variant.policy().build(setting)?;
    if task.is_none() && policy.needs().training {
        let expected = "a policy that selects without losses and updates: nothing is trained here, \
                        `agewise compare` does";
        return Err(Error::new("policy", variant.name(), expected));
    }
    check_aggregation(setting, variant, task)?;
    check_without_rounds(params, variant, &*policy)?;
    let calibrated = calibration(params.calibrates(world, variant), &*policy, setting)?.is_some();
    if calibrated && weighting == Weighting::Unbiased {
        let expected = "weights that do not need a known rate, where laws are calibrated";
        return Err(Error::new("weighting", weighting, expected));
    }
    Ok(())
}

/// Refuses what has no meaning where there are no rounds.
fn check_without_rounds(
    params: &ExperimentParams,
    variant: &Variant,
    policy: &dyn Policy,
) -> Result<()> {
    let schedule = variant.schedule();
    if schedule.updates_per_step().is_none() {
        return Ok(());
    }
    if policy.law_family().is_some() || policy.local_rule().is_some() {
        let expected = format!(
            "a policy that fills free places, such as random or oldest-first: under {schedule} clients that decide for \
             themselves would leave it to chance how many are at work"
        );
        return Err(Error::new("policy", variant.name(), expected));
    }
    if variant.policy().weighting() == Weighting::Unbiased {
        let expected = format!("another weighting: under {schedule} no client has a known rate");
        return Err(Error::new("weighting", Weighting::Unbiased, expected));
    }
    let Some(training) = &params.training else {
        return Ok(());
    };
    for (field, asked) in [("skew", training.skew), ("bound", training.bound)] {
        if asked {
            let expected = format!("false: under {schedule} there are no cohorts to draw again");
            return Err(Error::new(field, asked, expected));
        }
    }
    Ok(())
}

/// Refuses a rule that would have no effect.
fn check_aggregation(setting: &Setting, variant: &Variant, task: Option<&dyn Task>) -> Result<()> {
    let rule = variant.aggregation();
    if task.is_none() && rule.params() != Some(&AggregationParams::default()) {
        let expected = "mean, which need not be said: nothing is trained and aggregated here, \
                        `agewise compare` does";
        return Err(Error::new(
            format!("aggregation of {}", variant.name()),
            rule.name(),
            expected,
        ));
    }
    let trims = rule
        .params()
        .filter(|params| params.rule == AggregationRule::TrimmedMean && params.trim > 0.0);
    let cohort = setting.cohort();
    // As the rule counts: a product that falls short of 1 by a rounding is 1.
    let cuts =
        |trim: f64| cohort > 2 && trim * f64::from(cohort) * (1.0 + 2.0 * f64::EPSILON) >= 1.0;
    if let Some(trim) = trims.map(|params| params.trim).filter(|&trim| !cuts(trim)) {
        let expected = if cohort > 2 {
            format!(
                "at least {}: less cuts no update off a cohort of {cohort}, and the rule would be a plain mean",
                (1e3 / f64::from(cohort)).ceil() / 1e3
            )
        } else {
            format!("another rule: nothing is left to trim of a cohort of {cohort}")
        };
        return Err(Error::new(format!("trim of {}", rule.name()), trim, expected));
    }
    Ok(())
}

/// The place of the baseline: the one that was named, `random`, or the first.
fn baseline(params: &ExperimentParams, variants: &[Variant]) -> Result<usize> {
    if variants.is_empty() {
        return Err(Error::new("policies", "[]", "at least one policy"));
    }
    let names = || variants.iter().map(Variant::name);
    let Some(wanted) = &params.baseline else {
        return Ok(names().position(|name| name == "random").unwrap_or(0));
    };
    // It may be spelled as its policy.
    let usual = Aggregation::from_params(params.aggregation)?;
    let spelled = Variant::parse(wanted, params, &usual);
    let spelled = spelled.map_or_else(|_| wanted.clone(), |variant| variant.name().to_string());
    let place = names().position(|name| name == spelled);
    place.ok_or_else(|| Error::unknown("baseline", wanted, names()))
}

/// The model of the parameters on data.
fn native_task(params: &ExperimentParams, data: Data) -> Result<Arc<dyn Task>> {
    let training = params.training.clone().unwrap_or_default();
    let model = params.model_for(&data)?;
    let task = NativeTask::new(data, model, training.local()?)?;
    let task = task.with_pixel_scale(training.pixels);
    Ok(Arc::new(task.with_partition(training.partition.parse()?, params.sizes.parse()?)))
}
