//! Watches a comparison: keeps its runs in the folder, measures their time, and tells a view.

use super::CompareError;
use super::store::{OpenRun, Store};
use super::timing::{RoundTimes, TIMING, Timing};
use crate::run_folder::RunFolder;
use crate::sim::study::{Checkpoint, RoundLog, RunId, TrainingRun, Watcher};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Who wants to see how a comparison goes.
pub trait View: Sync {
    /// A run begins, or goes on behind these rounds.
    fn begun(&self, id: RunId, logs: &[RoundLog]);
    /// A round was played: the last of these.
    fn round(&self, id: RunId, logs: &[RoundLog]);
    /// A run is at its end.
    fn finished(&self, id: RunId);
}

pub(super) struct Keeper<'a> {
    store: Store<'a>,
    view: &'a dyn View,
    stop: &'a AtomicBool,
    open: Mutex<BTreeMap<RunId, (OpenRun, Instant)>>,
    timing: Timing,
    folder: &'a RunFolder,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(
        store: Store<'a>,
        folder: &'a RunFolder,
        view: &'a dyn View,
        stop: &'a AtomicBool,
    ) -> Result<Self, CompareError> {
        let timing = Timing::open(folder)?;
        Ok(Self { store, view, stop, open: Mutex::default(), timing, folder })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked had nothing half done behind this lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watcher for Keeper<'_> {
    type Failure = CompareError;

    fn known(&self, id: RunId) -> Result<(Vec<RoundLog>, Option<Checkpoint>), CompareError> {
        let logs = self.store.logs(id)?;
        let checkpoint = self.store.checkpoint(id, &logs)?;
        Ok((logs, checkpoint))
    }

    fn begun(&self, id: RunId, logs: &[RoundLog]) -> Result<(), CompareError> {
        let open = self.store.open(id, logs)?;
        lock(&self.open).insert(id, (open, Instant::now()));
        self.view.begun(id, logs);
        Ok(())
    }

    fn round(&self, id: RunId, run: &TrainingRun<'_>) -> Result<(), CompareError> {
        // Taken out, so that lanes do not wait for each other's files.
        let Some((mut open, since)) = lock(&self.open).remove(&id) else {
            return Ok(());
        };
        let round = since.elapsed();
        let begin = Instant::now();
        self.store.keep(id, &mut open, run)?;
        let checkpoint = begin.elapsed();
        lock(&self.open).insert(id, (open, begin));
        let (policy, seed) = self.store.names(id);
        let times = RoundTimes { round, checkpoint, selection: run.choosing_time() };
        let written = self.timing.note(policy, seed, run.logs().len(), times);
        written.map_err(|error| self.folder.trouble(TIMING, error))?;
        self.view.round(id, run.logs());
        Ok(())
    }

    fn finished(&self, id: RunId, run: Option<&TrainingRun<'_>>) -> Result<(), CompareError> {
        self.store.finish(id, run)?;
        lock(&self.open).remove(&id);
        self.view.finished(id);
        Ok(())
    }

    fn wants_model(&self, id: RunId) -> bool {
        self.store.lacks_model(id)
    }

    fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
