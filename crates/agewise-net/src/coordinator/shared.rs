//! What people and monitoring see without asking the driver.

use super::doorway::DoorCounters;
use super::metrics::Metrics;
use crate::proto::State;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// Where the run stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Live {
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

/// The window through which the world looks at a coordinator.
#[derive(Debug)]
pub(crate) struct Shared {
    live: RwLock<Option<Live>>,
    pub(crate) metrics: Metrics,
    /// Connections.
    pub(crate) door: Arc<DoorCounters>,
    /// The ledger, to be read beside the driver.
    pub(crate) ledger: PathBuf,
}

impl Shared {
    pub(crate) fn new(ledger: PathBuf) -> Self {
        Self { live: RwLock::default(), metrics: Metrics::new(), door: Arc::default(), ledger }
    }

    /// All figures, as Prometheus reads them.
    pub(crate) fn metrics_text(&self) -> String {
        self.metrics.show_door(&self.door);
        self.metrics.text()
    }

    /// Where the run stands; `None` before the driver has begun and after it has ended.
    pub(crate) fn live(&self) -> Option<Live> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn publish(&self, live: Live) {
        self.metrics.show(&live);
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Some(live);
    }

    /// The driver has ended.
    pub(crate) fn close(&self) {
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
