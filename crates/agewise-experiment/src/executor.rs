//! All runs of an experiment on a number of threads.
//!
//! Runs stand side by side, each with a worker of one thread: that uses the cores better than many threads in one run, as
//! long as there are runs. When fewer are left than threads, those that remain get the threads of the others; runs of a
//! very large population are played one after the other, each with all threads. A run gives the same bytes on any number
//! of threads, so that which thread did what leaves no trace.

use crate::callbacks::Callbacks;
use crate::error::ExperimentError;
use crate::experiment::{Experiment, Variant};
use crate::log::RoundLog;
use crate::record::{Record, RunId};
use crate::results::Results;
use crate::run::{SelectionRun, TrainingRun};
use crate::run_dir::{
    MeanTimes, Provenance, RunDir, RunWriter, SelectionResult, Store, TIMING, Timing, mean_times,
};
use agewise_core::Error;
use agewise_train::Threads;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Result<T> = std::result::Result<T, ExperimentError>;

/// Plays an experiment, or what is left of it, on a number of threads.
///
/// With a run directory, whose configuration has been written before, everything that is played is kept there, and what
/// is there already is not played again; without one, nothing is stored. A stop flag that is set ends all runs behind
/// their present rounds; what there is of them is returned.
pub fn play(
    experiment: &Experiment,
    dir: Option<&RunDir>,
    threads: usize,
    callbacks: &dyn Callbacks,
    stop: &AtomicBool,
) -> Result<Results> {
    let threads = threads.max(1);
    let runs = experiment.runs();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Error::new("threads", threads, error.to_string()))?;
    let workers = experiment.runs_at_once(threads).min(runs.len());
    let kernels = match experiment.task() {
        Some(_) => Some(agewise_train::selected_backend()?.name()),
        None => None,
    };
    let begin = |dir| Provenance::begin(dir, threads, kernels);
    let provenance = dir.map(begin).transpose()?;
    let open_timing = |dir| Timing::open(dir, experiment.variants().len());
    let executor = Executor {
        experiment,
        store: dir.map(|dir| Store::new(experiment, dir)).transpose()?,
        timing: dir.filter(|_| experiment.task().is_some()).map(open_timing).transpose()?,
        callbacks,
        stop,
        threads,
        pool,
        waiting: Mutex::new((0..).zip(runs.iter().copied()).collect()),
        active: AtomicUsize::new(workers),
        records: runs.iter().map(|_| Mutex::default()).collect(),
        failure: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| executor.work());
        }
    });
    if let Some(provenance) = provenance {
        provenance.end()?;
    }
    executor.finish(runs, dir)
}

/// Reads an experiment from its run directory, as far as it was played.
pub fn read(experiment: &Experiment, dir: &RunDir) -> Result<Results> {
    let store = Store::new(experiment, dir)?;
    let record = |id| {
        if experiment.task().is_some() {
            return Ok(Record::of_training(experiment, id, store.logs(id)?)?);
        }
        Ok(store.selection(id)?.map_or_else(|| Record::unplayed(id), |known| of(id, known)))
    };
    let records = experiment.runs().into_iter().map(record).collect::<Result<_>>()?;
    Ok(Results { experiment: experiment.clone(), records, times: stored_times(experiment, dir)? })
}

/// What earlier processes measured.
fn stored_times(experiment: &Experiment, dir: &RunDir) -> Result<Vec<Option<MeanTimes>>> {
    let text = dir.read(TIMING)?.unwrap_or_default();
    Ok(mean_times(&text, experiment.variants().iter().map(Variant::name)))
}

struct Executor<'a> {
    experiment: &'a Experiment,
    store: Option<Store<'a>>,
    /// Of experiments with a task that have a run directory.
    timing: Option<Timing>,
    callbacks: &'a dyn Callbacks,
    stop: &'a AtomicBool,
    threads: usize,
    /// For runs without a task that have work for several threads.
    pool: rayon::ThreadPool,
    waiting: Mutex<VecDeque<(usize, RunId)>>,
    /// Lanes that still have a run.
    active: AtomicUsize,
    records: Vec<Mutex<Option<Record>>>,
    failure: Mutex<Option<ExperimentError>>,
}

impl Executor<'_> {
    /// Plays one run after the other.
    fn work(&self) {
        loop {
            let next = self.waiting.lock().pop_front();
            let Some((place, id)) = next else {
                break;
            };
            match self.play(id) {
                Ok(record) => *self.records[place].lock() = Some(record),
                Err(error) => {
                    self.failure.lock().get_or_insert(error);
                }
            }
        }
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.failure.lock().is_some()
    }

    /// Plays one run to its end, or until it has to stop.
    fn play(&self, id: RunId) -> Result<Record> {
        match self.experiment.task() {
            None => self.pool.install(|| self.select(id)),
            Some(_) => Ok(Record::of_training(self.experiment, id, self.train(id)?)?),
        }
    }

    /// Plays what is left of a training run, and returns its logs.
    fn train(&self, id: RunId) -> Result<Vec<RoundLog>> {
        let known = self.store.as_ref().map(|store| store.training(id)).transpose()?;
        let (logs, checkpoint) = known.unwrap_or_default();
        let rounds = logs.len() as u64;
        let mut complete = self.experiment.is_finished(self.experiment.variant(id)?, &logs);
        if let Some(store) = self.store.as_ref().filter(|_| complete) {
            complete = store.is_complete(id, rounds, checkpoint.as_ref())?;
        }
        if complete {
            // It may have been killed in its last step.
            self.store.as_ref().map_or(Ok(()), |store| store.remove_surplus(id, rounds))?;
            self.callbacks.on_begin(id, rounds, &logs);
            self.callbacks.on_end(id);
        }
        if complete || self.stops() {
            // What is known still counts.
            return Ok(logs);
        }
        let mut run = match checkpoint {
            Some(checkpoint) => TrainingRun::resume(self.experiment, id, logs, checkpoint)?,
            None => TrainingRun::new(self.experiment, id)?,
        };
        let files = self.store.as_ref().zip(self.timing.as_ref());
        let open = |(store, timing)| RunWriter::open(store, timing, id, &run);
        let mut writer = files.map(open).transpose()?;
        self.callbacks.on_begin(id, run.logs().len() as u64, run.logs());
        while !run.is_finished() && !self.stops() {
            let active = self.active.load(Ordering::Relaxed).max(1);
            run.play_round(Threads::new((self.threads / active).max(1))?)?;
            writer.as_mut().map_or(Ok(()), |writer| writer.keep(&run))?;
            self.callbacks.on_rounds(id, 1, run.logs());
        }
        if run.is_finished() {
            writer.map_or(Ok(()), |writer| writer.finish(&run))?;
            self.callbacks.on_end(id);
        }
        Ok(run.into_logs())
    }

    /// Plays a run without a task, unless it is known already.
    fn select(&self, id: RunId) -> Result<Record> {
        let known = self.store.as_ref().map(|store| store.selection(id)).transpose()?.flatten();
        if let Some(known) = known {
            self.callbacks.on_begin(id, known.rounds.len() as u64, &[]);
            self.callbacks.on_end(id);
            return Ok(of(id, known));
        }
        if self.stops() {
            return Ok(Record::unplayed(id));
        }
        self.callbacks.on_begin(id, 0, &[]);
        let mut run = SelectionRun::new(self.experiment.selection(id)?)?;
        run.play_on(|rows| {
            self.callbacks.on_rounds(id, rows.len() as u64, &[]);
            !self.stops()
        })?;
        if !run.is_finished() {
            return Ok(Record::unplayed(id));
        }
        let (rounds, load) = run.finish();
        let result = SelectionResult { rounds, load };
        if let Some(store) = &self.store {
            store.keep_selection(id, &result)?;
        }
        self.callbacks.on_end(id);
        Ok(of(id, result))
    }

    fn finish(self, runs: Vec<RunId>, dir: Option<&RunDir>) -> Result<Results> {
        if let Some(error) = self.failure.into_inner() {
            return Err(error);
        }
        let record = |(id, place): (RunId, Mutex<Option<Record>>)| {
            place.into_inner().unwrap_or_else(|| Record::unplayed(id))
        };
        let records = runs.into_iter().zip(self.records).map(record).collect();
        let nothing = || vec![None; self.experiment.variants().len()];
        let mut times = self.timing.map_or_else(nothing, |timing| timing.means());
        if times.iter().all(Option::is_none)
            && let Some(dir) = dir
        {
            times = stored_times(self.experiment, dir)?;
        }
        Ok(Results { experiment: self.experiment.clone(), records, times })
    }
}

/// A finished run without a task.
fn of(id: RunId, SelectionResult { rounds, load }: SelectionResult) -> Record {
    Record { id, finished: true, rounds, load: Some(load), training: None }
}
