//! Parameters as they are written in a file, not checked yet, and their defaults.

use super::ReportDeadline;
use agewise_core::{EmptyCohort, MaxAge, Start, Weighting};
use agewise_train::aggregation::{AggregationParams, MaxNorm};
use agewise_train::data::PixelScale;
use agewise_train::local::LocalTrainingParams;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A coordinator, as it is written in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoordinatorParams {
    /// Where clients connect.
    pub listen: String,
    /// Where people and monitoring look: live page, metrics, health. Empty: nowhere.
    pub http: String,
    /// Names under which the page may be asked for on a loopback address, beside localhost: those of proxies in front of it.
    pub http_names: Vec<String>,
    /// The folder of the run.
    pub state: PathBuf,
    /// Whether the coordinator goes on answering when all rounds are over, instead of ending.
    pub serve_after_end: bool,
    /// Encryption.
    pub tls: TlsParams,
    /// Access control.
    pub access: AccessParams,
    /// Bounds on connections and calls.
    pub limits: LimitParams,
    /// Rounds and selection.
    pub round: RoundParams,
    /// The model.
    pub model: DeployedModelParams,
    /// How clients train.
    pub training: LocalTrainingParams,
    /// Which updates are accepted.
    pub updates: UpdateParams,
    /// How updates become the next model.
    pub aggregation: AggregationParams,
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

/// Access control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessParams {
    /// Whether enrolling and looking need tokens. Without them every machine that reaches the port may, which only loopback
    /// addresses may do.
    pub tokens: bool,
}

/// Bounds on connections and calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitParams {
    /// The most connections.
    pub connections: u64,
    /// The most connections that have not authenticated yet.
    pub unauthenticated: u64,
    /// The share of these places that one address can have.
    pub address_share: f64,
    /// How long a connection may live without having authenticated.
    pub handshake_seconds: f64,
    /// Calls that a client may make per second, on average over five.
    pub calls_per_second: f64,
    /// The most calls that are worked on at a time; more of them wait.
    pub calls: u64,
    /// How long a call may take to be made and answered, but for reports, which have the time of a round.
    pub call_seconds: f64,
}

/// Where the draws of clients come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrawSource {
    /// From the client's key and the seed of the round, with a proof that the coordinator checks.
    #[default]
    Proven,
    /// From the seed of the run, as in the simulator: anyone can compute them beforehand, so they are for tests.
    Seeded,
}

impl DrawSource {
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
    /// The most clients of a round; further ones are told that it is full. 0: twice the cohort.
    pub max_cohort: u64,
    /// The fewest reports from which a model is made. 0: two, or one where the cohort is one. A client that was forced is enough where
    /// `aggregation.full_reports` lets it move the model by its share.
    pub min_reports: u64,
    /// A round ends as soon as so many have reported, once joining is over; 0: when every member has reported or failed. With a larger
    /// cohort than that more clients are selected than are needed, and the slowest are not waited for.
    pub goal_reports: u64,
    /// Whether a client that fails again and again has to wait, longer after each failure in a row.
    pub backoff: bool,
    /// After so many failures in a row a client is suspended until an operator reinstates it; 0: never.
    pub suspend_after: u64,
    /// The age at which laws saturate; `auto` is as large as the interval asks.
    pub max_age: MaxAge,
    /// How long clients may join.
    pub join_seconds: f64,
    /// How long clients may take to report at most, from the announcement on.
    pub report_seconds: f64,
    /// When a round stops waiting for the reports of its last members before that.
    pub report_deadline: ReportDeadline,
    /// A pause between rounds.
    pub pause_seconds: f64,
    /// Rounds of the run; 0: no end.
    pub rounds: u64,
    /// Whether the interval of the age laws follows the number of reports. If absent: with every policy that has an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibrate: Option<bool>,
    /// The rule for a round in which no client takes part.
    pub empty_cohort: EmptyCohort,
    /// First ages.
    pub start: Start,
    /// Where draws come from.
    pub draws: DrawSource,
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
pub struct DeployedModelParams {
    /// Its name.
    pub name: String,
    /// The data set that it is for: its images' shape, its classes, and the test images on which it is evaluated.
    pub data: String,
    /// How pixels become numbers.
    pub pixels: PixelScale,
    /// Rounds from one evaluation to the next; 0: never.
    pub eval_every: u64,
    /// A model is not committed if its test accuracy is below this share of that of the model before. 0: any accuracy will do.
    pub collapse: f64,
    /// How many models are kept.
    pub keep: u64,
}

/// Which updates are accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateParams {
    /// An update farther from the global model is refused.
    pub max_norm: MaxNorm,
    /// Memory for aggregating them, in MiB.
    pub memory_mib: u64,
}

impl Default for CoordinatorParams {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7070".to_string(),
            http: "127.0.0.1:7071".to_string(),
            http_names: Vec::new(),
            state: PathBuf::from("state"),
            serve_after_end: false,
            tls: TlsParams::default(),
            access: AccessParams::default(),
            limits: LimitParams::default(),
            round: RoundParams::default(),
            model: DeployedModelParams::default(),
            training: LocalTrainingParams::default(),
            updates: UpdateParams::default(),
            // 0 stands for the cohort size: a round with a single report moves the model by 1/m only.
            aggregation: AggregationParams { full_reports: 0, ..AggregationParams::default() },
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
            unauthenticated: 1_000,
            address_share: 0.5,
            handshake_seconds: 15.0,
            calls_per_second: 100.0,
            calls: 4_096,
            call_seconds: 30.0,
        }
    }
}

impl Default for RoundParams {
    fn default() -> Self {
        Self {
            // It mixes where n/m is whole, and clients that wait do not choose their round.
            policy: "markov-capped".to_string(),
            clients: 20,
            cohort: 5,
            max_cohort: 0,
            min_reports: 0,
            goal_reports: 0,
            backoff: true,
            suspend_after: 8,
            max_age: MaxAge::Auto,
            join_seconds: 2.0,
            report_seconds: 120.0,
            report_deadline: ReportDeadline::default(),
            pause_seconds: 0.0,
            rounds: 100,
            calibrate: None,
            empty_cohort: EmptyCohort::default(),
            start: Start::default(),
            draws: DrawSource::default(),
            weighting: None,
            seed: 0,
            drain_seconds: 30.0,
        }
    }
}

impl RoundParams {
    /// The fewest reports from which a model is made.
    pub(crate) fn fewest_reports(&self) -> u64 {
        if self.min_reports == 0 { self.cohort.min(2) } else { self.min_reports }
    }

    /// Whether anything follows from failures, so that they are counted.
    pub(crate) fn counts_failures(&self) -> bool {
        self.backoff || self.suspend_after > 0
    }
}

impl Default for DeployedModelParams {
    fn default() -> Self {
        Self {
            name: "2nn".to_string(),
            data: "digits".to_string(),
            pixels: PixelScale::default(),
            eval_every: 1,
            collapse: 0.3,
            keep: 3,
        }
    }
}

impl Default for UpdateParams {
    fn default() -> Self {
        Self { max_norm: MaxNorm::default(), memory_mib: 256 }
    }
}
