//! Observers of a running experiment.

use crate::log::RoundLog;
use crate::record::RunId;

/// Observes a running experiment; its methods are called from several threads at once and do nothing by default.
pub trait Callbacks: Sync {
    /// A run begins, or resumes after this many rounds; with a task `logs` holds them.
    fn on_begin(&self, _id: RunId, _rounds: u64, _logs: &[RoundLog]) {}

    /// This many more rounds are complete; with a task it is one, and `logs` ends with it.
    fn on_rounds(&self, _id: RunId, _rounds: u64, _logs: &[RoundLog]) {}

    /// A run is complete.
    fn on_end(&self, _id: RunId) {}
}

/// Ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCallbacks;

impl Callbacks for NoCallbacks {}
