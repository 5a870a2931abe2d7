//! The state that the page and monitoring read without asking the driver.

use super::connections::ConnectionCounters;
use super::metrics::Metrics;
use crate::protocol::State;
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
    pub(crate) warnings: Vec<String>,
}

/// The state of a coordinator that other threads read: the page, metrics and health.
#[derive(Debug)]
pub(crate) struct Shared {
    live: RwLock<Option<LiveStatus>>,
    pub(crate) metrics: Metrics,
    pub(crate) connections: Arc<ConnectionCounters>,
    /// The ledger, to be read beside the driver.
    pub(crate) ledger: PathBuf,
}

impl Shared {
    pub(crate) fn new(ledger: PathBuf) -> Self {
        Self {
            live: RwLock::default(),
            metrics: Metrics::new(),
            connections: Arc::default(),
            ledger,
        }
    }

    /// All figures, as Prometheus reads them.
    pub(crate) fn metrics_text(&self) -> String {
        self.metrics.show_connections(&self.connections);
        self.metrics.text()
    }

    /// Where the run stands; `None` before the driver has begun and after it has ended.
    pub(crate) fn live(&self) -> Option<LiveStatus> {
        self.live.read().clone()
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
