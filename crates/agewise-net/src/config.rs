//! What a coordinator is asked to do: parameters from outside, checked into a configuration that can be run.

use crate::rule::RuleParams;
use agewise_core::{
    EmptyCohort, Error, PolicySpec, Result, Seed, SettingParams, Start, Weighting, build_policy,
    find_policy,
};
use agewise_learn::aggregate::{Server, ServerRule};
use agewise_learn::combine::{Combine, CombineParams, CombineRule};
use agewise_learn::data::PixelScale;
use agewise_learn::train::{LocalTraining, LocalTrainingParams};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// A coordinator, as it is written in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoordinatorParams {
    /// Where clients connect.
    pub listen: String,
    /// Where people and monitoring look: live page, metrics, health. Empty: nowhere.
    pub http: String,
    /// The folder of the run.
    pub state: PathBuf,
    /// Whether the coordinator goes on answering when all rounds are over, instead of ending.
    pub serve_after_end: bool,
    /// Encryption.
    pub tls: TlsParams,
    /// Who may come in.
    pub access: AccessParams,
    /// How much anybody may ask for.
    pub limits: LimitParams,
    /// Rounds and selection.
    pub round: RoundParams,
    /// The model.
    pub model: ModelParams,
    /// How clients train.
    pub training: LocalTrainingParams,
    /// What is accepted, and how it becomes a model.
    pub updates: UpdateParams,
    /// How the server moves the global model.
    pub server: ServerRule,
}

/// Files for TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsParams {
    /// The certificate chain, PEM. Empty: no TLS, which only loopback addresses may do.
    pub certificate: PathBuf,
    /// The key, PEM.
    pub key: PathBuf,
}

/// Who may come in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessParams {
    /// Whether enrolling and looking need tokens. Without them everybody who reaches the port may, which only loopback
    /// addresses may do.
    pub tokens: bool,
}

/// How much anybody may ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitParams {
    /// The most connections.
    pub connections: u64,
    /// The most connections of those who have not shown who they are.
    pub strangers: u64,
    /// How long a connection may live without that.
    pub stranger_seconds: f64,
    /// Calls that a client may make per second, on average over five.
    pub calls_per_second: f64,
    /// The most calls that are worked on at a time; more of them wait.
    pub calls: u64,
    /// How long a call may take to be made and answered, but for reports, which have the time of a round.
    pub call_seconds: f64,
}

/// Where the lots of clients come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LotSource {
    /// From the client's key and the seed of the round, with a proof that the coordinator checks.
    #[default]
    Proven,
    /// From the seed of the run, as in the simulator: everybody can compute them beforehand, so they are for tests.
    Seeded,
}

impl LotSource {
    /// As it is written in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Seeded => "seeded",
        }
    }
}

/// How rounds go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RoundParams {
    /// The policy.
    pub policy: String,
    /// n: the run begins when so many clients have enrolled. More may come later.
    pub clients: u64,
    /// m: clients that a round aims at.
    pub cohort: u64,
    /// The most clients of a round; who asks then is told that it is full. 0: twice the cohort.
    pub max_cohort: u64,
    /// The fewest reports from which a model is made.
    pub min_reports: u64,
    /// The age at which laws saturate.
    pub max_age: u64,
    /// How long clients may join.
    pub join_seconds: f64,
    /// How long clients may take to report, from the announcement on.
    pub report_seconds: f64,
    /// A pause between rounds.
    pub pause_seconds: f64,
    /// Rounds of the run; 0: no end.
    pub rounds: u64,
    /// Whether the interval of the age laws follows the number of reports.
    pub calibrate: bool,
    /// The rule for a round in which nobody takes part.
    pub empty_cohort: EmptyCohort,
    /// First ages.
    pub start: Start,
    /// Where lots come from.
    pub lots: LotSource,
    /// Weights; the policy's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighting: Option<Weighting>,
    /// The seed.
    pub seed: u64,
    /// On SIGTERM, how long the round may still take before it is handed back.
    pub drain_seconds: f64,
}

/// Which model is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelParams {
    /// Its name.
    pub name: String,
    /// The data set that it is for: its images' shape, its classes, and the test images on which it is evaluated.
    pub data: String,
    /// How pixels become numbers.
    pub pixels: PixelScale,
    /// Rounds from one evaluation to the next; 0: never.
    pub eval_every: u64,
    /// How many models are kept.
    pub keep: u64,
}

/// What is accepted, and how it becomes a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateParams {
    /// How updates are combined.
    pub combine: CombineRule,
    /// The share that a trimmed mean cuts at each end.
    pub trim: f64,
    /// An update farther from the global model is shortened to this. 0: off.
    pub clip_norm: f64,
    /// An update farther from the global model is refused. 0: off.
    pub max_norm: f64,
    /// Memory for combining, in MiB.
    pub memory_mib: u64,
}

impl Default for CoordinatorParams {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7070".to_string(),
            http: "127.0.0.1:7071".to_string(),
            state: PathBuf::from("state"),
            serve_after_end: false,
            tls: TlsParams::default(),
            access: AccessParams::default(),
            limits: LimitParams::default(),
            round: RoundParams::default(),
            model: ModelParams::default(),
            training: LocalTrainingParams::default(),
            updates: UpdateParams::default(),
            server: ServerRule::default(),
        }
    }
}

impl Default for AccessParams {
    fn default() -> Self {
        Self { tokens: true }
    }
}

impl Default for LimitParams {
    fn default() -> Self {
        Self {
            connections: 20_000,
            strangers: 1_000,
            stranger_seconds: 15.0,
            calls_per_second: 100.0,
            calls: 4_096,
            call_seconds: 30.0,
        }
    }
}

impl Default for RoundParams {
    fn default() -> Self {
        Self {
            policy: "markov-optimal".to_string(),
            clients: 20,
            cohort: 5,
            max_cohort: 0,
            min_reports: 1,
            max_age: 10,
            join_seconds: 2.0,
            report_seconds: 120.0,
            pause_seconds: 0.0,
            rounds: 100,
            calibrate: false,
            empty_cohort: EmptyCohort::default(),
            start: Start::default(),
            lots: LotSource::default(),
            weighting: None,
            seed: 0,
            drain_seconds: 30.0,
        }
    }
}

impl Default for ModelParams {
    fn default() -> Self {
        Self {
            name: "2nn".to_string(),
            data: "digits".to_string(),
            pixels: PixelScale::default(),
            eval_every: 1,
            keep: 3,
        }
    }
}

impl Default for UpdateParams {
    fn default() -> Self {
        let CombineParams { rule, trim, clip_norm } = CombineParams::default();
        Self { combine: rule, trim, clip_norm, max_norm: 0.0, memory_mib: 256 }
    }
}

/// A configuration that can be run.
#[derive(Debug, Clone)]
pub struct CoordinatorConfig {
    /// What it was made from.
    pub params: CoordinatorParams,
    /// The policy.
    pub policy: PolicySpec,
    /// How cohorts are weighed.
    pub weighting: Weighting,
    /// How clients train.
    pub training: LocalTraining,
    /// How updates are combined.
    pub combine: Combine,
    /// The most clients of a round.
    pub max_cohort: usize,
    /// Whether the policy looks at sketches of updates.
    pub wants_sketches: bool,
}

/// A hundred days: longer waits are mistakes.
const LONGEST_SECONDS: f64 = 8_640_000.0;

impl CoordinatorParams {
    /// Checks every field.
    pub fn check(self) -> Result<CoordinatorConfig> {
        let round = &self.round;
        for (field, seconds, least) in [
            ("join_seconds", round.join_seconds, 0.001),
            ("report_seconds", round.report_seconds, round.join_seconds),
            ("pause_seconds", round.pause_seconds, 0.0),
            ("drain_seconds", round.drain_seconds, 0.0),
        ] {
            if !(least..=LONGEST_SECONDS).contains(&seconds) {
                let expected = format!("a number of seconds from {least} to {LONGEST_SECONDS}");
                return Err(Error::new(format!("round.{field}"), seconds, expected));
            }
        }
        self.limits.check()?;
        if self.state.as_os_str().is_empty() {
            return Err(Error::new("state", "\"\"", "the name of a folder"));
        }
        let setting = self.setting_params(round.clients).check().map_err(inside("round"))?;
        let policy: PolicySpec = round.policy.parse().map_err(inside("round"))?;
        let built = build_policy(&policy, &setting).map_err(inside("round"))?;
        if round.calibrate && built.law_family().is_none() {
            let expected = format!("false, as {policy} has no interval to calibrate");
            return Err(Error::new("round.calibrate", true, expected));
        }
        let max_cohort = if round.max_cohort == 0 { 2 * round.cohort } else { round.max_cohort };
        if max_cohort < round.cohort || max_cohort > u64::from(u32::MAX) {
            let expected = format!("at least the cohort, {}, or 0 for twice that", round.cohort);
            return Err(Error::new("round.max_cohort", round.max_cohort, expected));
        }
        if round.calibrate && max_cohort < 2 * round.cohort {
            let expected = "at least twice the cohort, as calibration has to see who comes";
            return Err(Error::new("round.max_cohort", max_cohort, expected));
        }
        if !(1..=max_cohort).contains(&round.min_reports) {
            let expected = format!("from 1 to the largest cohort, {max_cohort}");
            return Err(Error::new("round.min_reports", round.min_reports, expected));
        }
        if !(1..=1_000).contains(&self.model.keep) {
            return Err(Error::new("model.keep", self.model.keep, "from 1 to 1000 models"));
        }
        let UpdateParams { combine, trim, clip_norm, max_norm, memory_mib } = self.updates;
        if !(max_norm.is_finite() && max_norm >= 0.0) {
            let expected = "a number above 0, or 0 for no bound";
            return Err(Error::new("updates.max_norm", max_norm, expected));
        }
        if !(1..=1 << 20).contains(&memory_mib) {
            return Err(Error::new("updates.memory_mib", memory_mib, "from 1 to 1048576"));
        }
        let combine = CombineParams { rule: combine, trim, clip_norm };
        let combine = combine.check().map_err(inside("updates"))?;
        let training = self.training.check().map_err(inside("training"))?;
        Server::new(self.server, 0)?;
        let weighting = round.weighting.unwrap_or(find_policy(policy.name())?.weighting);
        let max_cohort = max_cohort as usize;
        let wants_sketches = built.wants_sketches();
        Ok(CoordinatorConfig {
            params: self,
            policy,
            weighting,
            training,
            combine,
            max_cohort,
            wants_sketches,
        })
    }

    /// The selection problem of a population of so many clients.
    pub(crate) fn setting_params(&self, clients: u64) -> SettingParams {
        SettingParams {
            empty_cohort: self.round.empty_cohort,
            ..SettingParams::new(clients, self.round.cohort, self.round.max_age)
        }
    }
}

impl LimitParams {
    fn check(&self) -> Result<()> {
        for (field, value, most) in [
            ("connections", self.connections, 10_000_000),
            ("strangers", self.strangers, self.connections),
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
        for (field, value, least) in [
            ("stranger_seconds", self.stranger_seconds, 0.1),
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

/// Names the table in which a wrong field stands.
fn inside(table: &'static str) -> impl Fn(Error) -> Error {
    move |error| Error::new(format!("{table}.{}", error.field()), error.value(), error.expected())
}

impl CoordinatorConfig {
    /// The seed of the run.
    pub fn seed(&self) -> Seed {
        Seed(self.params.round.seed)
    }

    /// What clients decide by in a population of so many, with this interval.
    pub(crate) fn rule_params(&self, clients: u32, interval: f64) -> RuleParams {
        RuleParams {
            policy: self.policy.clone(),
            max_age: self.params.round.max_age as u32,
            clients,
            cohort: self.params.round.cohort as u32,
            interval,
        }
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

    /// Memory for combining updates, in bytes.
    pub(crate) fn memory(&self) -> usize {
        (self.params.updates.memory_mib as usize) << 20
    }
}
