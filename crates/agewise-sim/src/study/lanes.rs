//! All runs of a study on a number of threads.
//!
//! Runs stand side by side in lanes, one client at a time in each: that uses the cores better than many threads in one
//! run, as long as there are runs. When fewer are left than threads, those that remain get the threads of the others.
//! A run gives the same bytes on any number of threads, so who did what leaves no trace.

use super::Study;
use super::log::RoundLog;
use super::record::Record;
use super::run::{Checkpoint, TrainingRun};
use agewise_core::Error;
use agewise_learn::train::Crew;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Which run of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    /// The number of the seed, from 0.
    pub seed: u32,
    /// The place of the policy.
    pub contender: usize,
}

/// What watches a study while it is played: stores, shows, and says when to stop. Each method has a default that does
/// nothing, which forgets everything and never stops.
pub trait Watcher: Sync {
    /// What can go wrong with it.
    type Failure: From<Error> + Send;

    /// What is known of a run from before: its logs, and a model to go on with.
    fn known(&self, _id: RunId) -> Result<(Vec<RoundLog>, Option<Checkpoint>), Self::Failure> {
        Ok((Vec::new(), None))
    }

    /// A run begins, or goes on behind these rounds.
    fn begun(&self, _id: RunId, _logs: &[RoundLog]) -> Result<(), Self::Failure> {
        Ok(())
    }

    /// A round was played: the last of the run's logs.
    fn round(&self, _id: RunId, _run: &TrainingRun<'_>) -> Result<(), Self::Failure> {
        Ok(())
    }

    /// A run is at its end. Where it was finished before, there is no model.
    fn finished(&self, _id: RunId, _run: Option<&TrainingRun<'_>>) -> Result<(), Self::Failure> {
        Ok(())
    }

    /// Whether a finished run is needed once more, as its model is missing.
    fn wants_model(&self, _id: RunId) -> bool {
        false
    }

    /// Whether to stop after the present rounds.
    fn should_stop(&self) -> bool {
        false
    }
}

/// Nobody watches: the records are all that is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watcher for Unwatched {
    type Failure = Error;
}

impl Study {
    /// All runs, by seed and then by policy: whoever stops early has whole pairs.
    pub fn runs(&self) -> Vec<RunId> {
        let contenders = 0..self.contenders().len();
        (0..self.params().seeds)
            .flat_map(|seed| contenders.clone().map(move |contender| RunId { seed, contender }))
            .collect()
    }
}

/// Plays all runs, or what is left of them, and returns what there is of each, in the order of [`Study::runs`].
pub fn play_all<W: Watcher>(
    study: &Study,
    threads: usize,
    watcher: &W,
) -> Result<Vec<Record>, W::Failure> {
    let runs = study.runs();
    let threads = threads.max(1);
    let waiting: Mutex<VecDeque<(usize, RunId)>> =
        Mutex::new(runs.iter().copied().enumerate().collect());
    let active = AtomicUsize::new(threads.min(runs.len()));
    let failure: Mutex<Option<W::Failure>> = Mutex::new(None);
    let failed = || lock(&failure).is_some();
    let results: Vec<Mutex<Option<Vec<RoundLog>>>> =
        runs.iter().map(|_| Mutex::default()).collect();
    let lane = || {
        let mut crew: Option<Crew> = None;
        loop {
            let next = lock(&waiting).pop_front();
            let Some((place, id)) = next else {
                break;
            };
            let stop = || watcher.should_stop() || failed();
            match play(study, id, watcher, &mut crew, &|| threads / active_of(&active), &stop) {
                Ok(logs) => *lock(&results[place]) = Some(logs),
                Err(error) => {
                    lock(&failure).get_or_insert(error);
                }
            }
        }
        active.fetch_sub(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(runs.len()) {
            scope.spawn(lane);
        }
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut records = Vec::with_capacity(runs.len());
    for (id, result) in runs.into_iter().zip(results) {
        let logs = result.into_inner().unwrap_or_else(PoisonError::into_inner);
        records.push(Record::new(study, id, logs.unwrap_or_default())?);
    }
    Ok(records)
}

fn active_of(active: &AtomicUsize) -> usize {
    active.load(Ordering::Relaxed).max(1)
}

/// Plays one run to its end, or until it has to stop.
fn play<W: Watcher>(
    study: &Study,
    id: RunId,
    watcher: &W,
    crew: &mut Option<Crew>,
    share: &dyn Fn() -> usize,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<RoundLog>, W::Failure> {
    let (logs, checkpoint) = watcher.known(id)?;
    if study.is_finished(&logs) && !watcher.wants_model(id) {
        watcher.begun(id, &logs)?;
        watcher.finished(id, None)?;
        return Ok(logs);
    }
    if stop() {
        // What is known still counts.
        return Ok(logs);
    }
    let mut run = match checkpoint {
        Some(checkpoint) => TrainingRun::resume(study, id, logs, checkpoint)?,
        None => TrainingRun::new(study, id)?,
    };
    watcher.begun(id, run.logs())?;
    while !run.is_finished() && !stop() {
        let workers = share().max(1);
        if crew.as_ref().is_none_or(|crew| crew.len() != workers) {
            *crew = Some(Crew::new(study.trainer(), workers)?);
        }
        if let Some(crew) = crew {
            run.play_round(crew)?;
        }
        watcher.round(id, &run)?;
    }
    if run.is_finished() {
        watcher.finished(id, Some(&run))?;
    }
    Ok(run.into_logs())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A lane that panicked has left nothing half done behind this lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
