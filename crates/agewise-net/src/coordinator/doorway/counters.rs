//! What happened at the doorway, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of connections.
#[derive(Debug, Default)]
pub(crate) struct DoorCounters {
    accepted: AtomicU64,
    turned_away: AtomicU64,
    evicted: AtomicU64,
    timed_out: AtomicU64,
    open: AtomicU64,
    strangers: AtomicU64,
}

impl DoorCounters {
    /// Connections that were let in.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Connections that were closed at once because there were too many.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Relaxed)
    }

    /// Strangers that were closed to make room for another.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Strangers that were closed because they did not authenticate in time.
    pub(crate) fn timed_out(&self) -> u64 {
        self.timed_out.load(Relaxed)
    }

    /// Connections that are open now.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }

    /// Connections that are open now and have not authenticated.
    pub(crate) fn strangers(&self) -> u64 {
        self.strangers.load(Relaxed)
    }

    pub(super) fn let_in(&self) {
        self.accepted.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
    }

    pub(super) fn let_out(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    pub(super) fn turn_away(&self) {
        self.turned_away.fetch_add(1, Relaxed);
    }

    pub(super) fn evict(&self) {
        self.evicted.fetch_add(1, Relaxed);
    }

    pub(super) fn time_out(&self) {
        self.timed_out.fetch_add(1, Relaxed);
    }

    pub(super) fn set_strangers(&self, strangers: usize) {
        self.strangers.store(strangers as u64, Relaxed);
    }
}
