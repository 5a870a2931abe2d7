//! The state that the page and monitoring read without asking the driver.

use super::connections::ConnectionCounters;
use super::health::Health;
use super::metrics::Metrics;
use crate::protocol::{State, StatusReply};
use parking_lot::RwLock;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the run stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct LiveStatus {
    #[serde(skip)]
    pub(crate) state: State,
    pub(crate) round: u64,
    /// 0: no end.
    pub(crate) rounds: u64,
    pub(crate) policy: String,
    pub(crate) enrolled: u32,
    pub(crate) connected: u32,
    pub(crate) target: u32,
    pub(crate) selected: u32,
    pub(crate) reported: u32,
    pub(crate) interval: f64,
    /// Rounds since the last model.
    pub(crate) without_model: u64,
    pub(crate) warnings: Vec<String>,
}

impl From<LiveStatus> for StatusReply {
    /// What is known of a run without its ledger.
    fn from(live: LiveStatus) -> Self {
        Self {
            state: live.state.into(),
            round: live.round,
            rounds: live.rounds,
            policy: live.policy,
            enrolled: live.enrolled,
            connected: live.connected,
            target: live.target,
            selected: live.selected,
            reported: live.reported,
            interval: live.interval,
            warnings: live.warnings,
            ..Self::default()
        }
    }
}

/// The state of a coordinator that other threads read: the page, metrics and health.
#[derive(Debug)]
pub(crate) struct Shared {
    live: RwLock<Option<LiveStatus>>,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) connections: Arc<ConnectionCounters>,
    /// The ledger, to be read beside the driver.
    pub(crate) ledger: PathBuf,
}

impl Shared {
    pub(crate) fn new(ledger: PathBuf) -> Self {
        Self {
            live: RwLock::default(),
            metrics: Metrics::new(),
            health: Health::default(),
            connections: Arc::default(),
            ledger,
        }
    }

    /// All figures, as Prometheus reads them.
    pub(crate) fn metrics_text(&self) -> String {
        self.metrics.show_connections(&self.connections);
        let warnings = self.live().map(|live| live.warnings.len());
        self.metrics.show_health(self.not_ready().is_none(), warnings, self.health.silence());
        self.metrics.text()
    }

    /// Where the run stands, with everything that is wrong; `None` before the driver has begun and after it has ended.
    pub(crate) fn live(&self) -> Option<LiveStatus> {
        let mut live = self.live.read().clone()?;
        live.warnings.splice(0..0, self.health.stops_the_run(live.state));
        Some(live)
    }

    /// Why the coordinator cannot go on, if it cannot.
    pub(crate) fn not_ready(&self) -> Option<Vec<String>> {
        let Some(state) = self.live.read().as_ref().map(|live| live.state) else {
            return Some(vec!["the coordinator is starting or stopping".to_string()]);
        };
        Some(self.health.stops_the_run(state)).filter(|why| !why.is_empty())
    }

    pub(crate) fn publish(&self, live: LiveStatus) {
        self.metrics.show(&live);
        *self.live.write() = Some(live);
    }

    /// The driver has ended.
    pub(crate) fn close(&self) {
        *self.live.write() = None;
    }
}
