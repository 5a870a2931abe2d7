//! The configuration of a coordinator: parameters from a file, and their checked form.

mod params;
mod report_deadline;

pub use params::{
    AccessParams, CoordinatorParams, DeployedModelParams, DrawSource, LimitParams, RoundParams,
    TlsParams, UpdateParams,
};
pub use report_deadline::ReportDeadline;

use crate::protocol::{ParticipationParams, ParticipationRule};
use agewise_core::{Error, MaxAgeCost, PolicySpec, PolicyVariant, Result, Seed, SettingParams};
use agewise_train::aggregation::{Aggregation, AggregationParams};
use agewise_train::local::LocalTraining;
use std::time::Duration;

/// Keys that have other names since version 0.2.0, with the table in which they stood.
const RENAMED: [(&str, &str, &str); 6] = [
    ("limits", "strangers", "limits.unauthenticated"),
    ("limits", "stranger_seconds", "limits.handshake_seconds"),
    ("round", "lots", "round.draws"),
    ("updates", "combine", "aggregation.rule"),
    ("updates", "trim", "aggregation.trim"),
    ("updates", "clip_norm", "aggregation.clip_norm"),
];

/// Refuses a file of an older version with the new name of the key.
pub fn refuse_renamed_keys(file: &toml::Table) -> Result<()> {
    let renamed = |field: String, value: &toml::Value, now: &str| {
        Err(Error::new(field, value, format!("the key {now} instead (docs/upgrading.md)")))
    };
    for (table, key, now) in RENAMED {
        if let Some(value) = file.get(table).and_then(|table| table.get(key)) {
            return renamed(format!("{table}.{key}"), value, now);
        }
    }
    match file.get("server") {
        Some(value) => renamed("server".to_string(), value, "aggregation.server"),
        None => Ok(()),
    }
}

/// A configuration that can be run.
#[derive(Debug, Clone)]
pub struct CoordinatorConfig {
    /// The parameters that it was made from.
    pub params: CoordinatorParams,
    /// The policy, with its first ages and its weighting.
    pub variant: PolicyVariant,
    /// Whether clients decide by themselves; otherwise the coordinator selects.
    pub clients_decide: bool,
    /// Whether the interval of the age laws follows the number of reports.
    pub calibrates: bool,
    /// What the maximum age costs, if it costs anything.
    pub max_age_cost: Option<MaxAgeCost>,
    /// How clients train.
    pub training: LocalTraining,
    /// How updates become the next model.
    pub aggregation: Aggregation,
    /// The most clients of a round.
    pub max_cohort: usize,
    /// The fewest reports from which a model is made.
    pub min_reports: usize,
    /// Whether the policy looks at sketches of updates.
    pub needs_sketches: bool,
}

/// A hundred days: longer waits are mistakes.
const LONGEST_SECONDS: f64 = 8_640_000.0;

impl CoordinatorParams {
    /// Checks every field. The policy is a registered one, by its name.
    pub fn check(self) -> Result<CoordinatorConfig> {
        let spec: PolicySpec = self.round.policy.parse().map_err(inside("round"))?;
        let variant = PolicyVariant::from_spec(&spec).map_err(inside("round"))?;
        let weighting = self.round.weighting.unwrap_or(variant.weighting());
        let variant = variant.with_start(self.round.start).with_weighting(weighting);
        self.check_with(variant)
    }

    /// Checks every field, for a policy that may be one of your own: its name, first ages and weighting are the variant's, whatever the
    /// parameters say. A policy that is not registered has to leave selection to the coordinator, as clients know registered ones only.
    pub fn check_with(mut self, variant: PolicyVariant) -> Result<CoordinatorConfig> {
        self.round.start = variant.start();
        if variant.spec().is_none() {
            self.round.policy = variant.name().to_string();
            self.round.weighting = Some(variant.weighting());
        }
        let round = &self.round;
        round.check_times()?;
        self.limits.check()?;
        if let Some(name) = self.http_names.iter().find(|name| !is_host(name)) {
            let expected = "names of hosts without a port, such as fl.example.org";
            return Err(Error::new("http_names", format!("{name:?}"), expected));
        }
        if self.state.as_os_str().is_empty() {
            return Err(Error::new("state", "\"\"", "the name of a folder"));
        }
        let setting = self.setting_params(round.clients).check().map_err(inside("round"))?;
        let built = variant.build(&setting).map_err(inside("round"))?;
        let clients_decide = built.law_family().is_some() || built.local_rule().is_some();
        if clients_decide && variant.spec().is_none() {
            let expected = "a registered policy where clients decide by themselves, as they have to build its rule, too \
                            (a policy of your own must have neither a law nor a local rule)";
            return Err(Error::new("round.policy", variant.name(), expected));
        }
        let family = built.law_family();
        if round.calibrate == Some(true) && family.is_none() {
            let expected =
                format!("false or nothing, as {} has no interval to calibrate", variant.name());
            return Err(Error::new("round.calibrate", true, expected));
        }
        let calibrates = family.is_some() && round.calibrate.unwrap_or(true);
        let max_cohort = if round.max_cohort == 0 { 2 * round.cohort } else { round.max_cohort };
        if max_cohort < round.cohort || max_cohort > u64::from(u32::MAX) {
            let expected = format!("at least the cohort, {}, or 0 for twice that", round.cohort);
            return Err(Error::new("round.max_cohort", round.max_cohort, expected));
        }
        if calibrates && max_cohort < 2 * round.cohort {
            let expected = format!(
                "at least twice the cohort, {}, as calibration has to see who comes (or round.calibrate = false)",
                2 * round.cohort
            );
            return Err(Error::new("round.max_cohort", max_cohort, expected));
        }
        if round.min_reports > max_cohort {
            let expected = format!("from 1 to the largest cohort, {max_cohort}, or 0 for 2");
            return Err(Error::new("round.min_reports", round.min_reports, expected));
        }
        let min_reports = round.fewest_reports();
        let goal = round.goal_reports;
        if goal != 0 && !(min_reports..=max_cohort).contains(&goal) {
            let expected = format!(
                "from min_reports, {min_reports}, to the largest cohort, {max_cohort}, or 0 for all"
            );
            return Err(Error::new("round.goal_reports", goal, expected));
        }
        if !(1..=1_000).contains(&self.model.keep) {
            return Err(Error::new("model.keep", self.model.keep, "from 1 to 1000 models"));
        }
        if !(0.0..1.0).contains(&self.model.collapse) {
            let expected = "a share from 0, for off, to below 1";
            return Err(Error::new("model.collapse", self.model.collapse, expected));
        }
        let UpdateParams { max_norm, memory_mib } = self.updates;
        max_norm.check().map_err(inside("updates"))?;
        if !(1..=1 << 20).contains(&memory_mib) {
            return Err(Error::new("updates.memory_mib", memory_mib, "from 1 to 1048576"));
        }
        let aggregation = self.aggregation()?;
        let training = self.training.check().map_err(inside("training"))?;
        let cost = family.map(|family| setting.max_age_cost(family)).transpose();
        let max_age_cost = cost.map_err(inside("round"))?.flatten();
        let max_cohort = max_cohort as usize;
        let needs_sketches = built.needs().update_sketches;
        Ok(CoordinatorConfig {
            params: self,
            variant,
            clients_decide,
            calibrates,
            max_age_cost,
            training,
            aggregation,
            max_cohort,
            min_reports: min_reports as usize,
            needs_sketches,
        })
    }

    /// The rule of aggregation, with its share for small rounds.
    fn aggregation(&self) -> Result<Aggregation> {
        if !self.aggregation.max_norm.is_off() {
            let expected = "updates.max_norm instead: a deployment refuses updates when they come";
            return Err(Error::new("aggregation.max_norm", self.aggregation.max_norm, expected));
        }
        let full_reports = match self.aggregation.full_reports {
            0 if self.round.goal_reports > 0 => self.round.cohort.min(self.round.goal_reports),
            0 => self.round.cohort,
            given => given,
        };
        let aggregation = AggregationParams { full_reports, ..self.aggregation };
        Aggregation::from_params(aggregation).map_err(inside("aggregation"))
    }

    /// The selection problem of a population of so many clients.
    pub(crate) fn setting_params(&self, clients: u64) -> SettingParams {
        SettingParams {
            empty_cohort: self.round.empty_cohort,
            backoff: self.round.backoff,
            ..SettingParams::new(clients, self.round.cohort, self.round.max_age)
        }
    }
}

impl RoundParams {
    /// Checks how long the parts of a round may last.
    fn check_times(&self) -> Result<()> {
        for (field, seconds, least) in [
            ("join_seconds", self.join_seconds, 0.001),
            ("report_seconds", self.report_seconds, self.join_seconds),
            ("pause_seconds", self.pause_seconds, 0.0),
            ("drain_seconds", self.drain_seconds, 0.0),
        ] {
            if !(least..=LONGEST_SECONDS).contains(&seconds) {
                let expected = format!("a number of seconds from {least} to {LONGEST_SECONDS}");
                return Err(Error::new(format!("round.{field}"), seconds, expected));
            }
        }
        self.report_deadline.check()
    }
}

impl LimitParams {
    fn check(&self) -> Result<()> {
        for (field, value, most) in [
            ("connections", self.connections, 10_000_000),
            ("unauthenticated", self.unauthenticated, self.connections),
            ("calls", self.calls, 1_000_000),
        ] {
            if !(1..=most).contains(&value) {
                return Err(Error::new(
                    format!("limits.{field}"),
                    value,
                    format!("from 1 to {most}"),
                ));
            }
        }
        if !(self.address_share > 0.0 && self.address_share <= 1.0) {
            let expected = "above 0, up to 1 for all places";
            return Err(Error::new("limits.address_share", self.address_share, expected));
        }
        for (field, value, least) in [
            ("handshake_seconds", self.handshake_seconds, 0.1),
            ("calls_per_second", self.calls_per_second, 0.1),
            ("call_seconds", self.call_seconds, 0.1),
        ] {
            if !(least..=1e6).contains(&value) {
                let expected = format!("from {least} to 1000000");
                return Err(Error::new(format!("limits.{field}"), value, expected));
            }
        }
        Ok(())
    }
}

/// Whether this can be the name of a host in a URL.
fn is_host(name: &str) -> bool {
    let is_letter =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 253 && name.chars().all(is_letter)
}

/// Names the table in which a wrong field stands.
fn inside(table: &'static str) -> impl Fn(Error) -> Error {
    move |error| Error::new(format!("{table}.{}", error.field()), error.value(), error.expected())
}

impl CoordinatorConfig {
    /// The seed of the run.
    pub fn seed(&self) -> Seed {
        Seed(self.params.round.seed)
    }

    /// What follows from the policy for clients that decide by themselves, in a population of so many, with this interval.
    pub(crate) fn participation(&self, clients: u32, interval: f64) -> Result<ParticipationRule> {
        let Some(spec) = self.variant.spec().filter(|_| self.clients_decide) else {
            return Ok(ParticipationRule::CoordinatorSelected);
        };
        let params = ParticipationParams {
            policy: spec.clone(),
            max_age: self.params.round.max_age,
            clients,
            cohort: self.params.round.cohort as u32,
            interval,
        };
        params.build()
    }

    /// The same with a rule of aggregation of your own.
    #[must_use]
    pub fn with_aggregation(self, aggregation: Aggregation) -> Self {
        Self { aggregation, ..self }
    }

    /// The part of the aggregation that cannot change during a run, because models keep the state of the aggregator.
    pub(crate) fn aggregation_fact(&self) -> String {
        match self.aggregation.params() {
            Some(params) => {
                let server = params.server;
                AggregationParams { server, ..AggregationParams::default() }.to_string()
            }
            None => self.aggregation.name().to_string(),
        }
    }

    /// The fewest reports from which a model of a round is made. A client that was forced moves the model by its share, and is enough then.
    pub(crate) fn needed_reports(&self, is_forced: bool) -> usize {
        let is_one_of_many =
            self.aggregation.params().is_some_and(|params| params.full_reports > 1);
        let own = self.params.round.min_reports == 0;
        if is_forced && is_one_of_many && own { 1 } else { self.min_reports }
    }

    /// The policy as clients are told.
    pub(crate) fn policy_text(&self) -> String {
        self.variant.spec().map_or_else(|| self.variant.name().to_string(), PolicySpec::to_string)
    }

    pub(crate) fn join_window(&self) -> Duration {
        Duration::from_secs_f64(self.params.round.join_seconds)
    }

    pub(crate) fn report_window(&self) -> Duration {
        Duration::from_secs_f64(self.params.round.report_seconds)
    }

    pub(crate) fn pause(&self) -> Duration {
        Duration::from_secs_f64(self.params.round.pause_seconds)
    }

    pub(crate) fn drain_window(&self) -> Duration {
        Duration::from_secs_f64(self.params.round.drain_seconds)
    }

    /// Memory for aggregating updates, in bytes.
    pub(crate) fn memory(&self) -> usize {
        (self.params.updates.memory_mib as usize) << 20
    }
}
