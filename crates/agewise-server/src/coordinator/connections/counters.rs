//! Counts of connections, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of connections.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounters {
    accepted: AtomicU64,
    rejected: AtomicU64,
    evicted: AtomicU64,
    timed_out: AtomicU64,
    open: AtomicU64,
    unauthenticated: AtomicU64,
}

impl ConnectionCounters {
    /// Connections that were accepted.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Connections that were closed at once because there were too many.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.load(Relaxed)
    }

    /// Unauthenticated that were closed to make room for another.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Unauthenticated that were closed because they did not authenticate in time.
    pub(crate) fn timed_out(&self) -> u64 {
        self.timed_out.load(Relaxed)
    }

    /// Connections that are open now.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }

    /// Connections that are open now and have not authenticated.
    pub(crate) fn unauthenticated(&self) -> u64 {
        self.unauthenticated.load(Relaxed)
    }

    pub(super) fn open_one(&self) {
        self.accepted.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
    }

    pub(super) fn close_one(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    pub(super) fn reject(&self) {
        self.rejected.fetch_add(1, Relaxed);
    }

    pub(super) fn evict(&self) {
        self.evicted.fetch_add(1, Relaxed);
    }

    pub(super) fn time_out(&self) {
        self.timed_out.fetch_add(1, Relaxed);
    }

    pub(super) fn set_unauthenticated(&self, unauthenticated: usize) {
        self.unauthenticated.store(unauthenticated as u64, Relaxed);
    }
}
