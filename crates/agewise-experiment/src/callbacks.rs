//! What hears of an experiment while it is played.

use crate::log::RoundLog;
use crate::record::RunId;

/// Hears of an experiment while it is played, from several threads at once. Each method does nothing unless it is
/// written.
pub trait Callbacks: Sync {
    /// A run begins, or goes on behind so many rounds; with a task `logs` are theirs.
    fn on_begin(&self, _id: RunId, _rounds: u64, _logs: &[RoundLog]) {}

    /// So many more rounds were played; with a task it is one, and `logs` ends with it.
    fn on_rounds(&self, _id: RunId, _rounds: u64, _logs: &[RoundLog]) {}

    /// A run is at its end.
    fn on_end(&self, _id: RunId) {}
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCallbacks;

impl Callbacks for NoCallbacks {}
