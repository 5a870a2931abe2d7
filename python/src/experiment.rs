//! Experiments: [`Job`] can be played, [`JobResults`] is the result.

use crate::data::warn_of_altered;
use crate::errors::{bad_input, experiment as failed, in_python, read_params};
use crate::interrupt::interruptible;
use crate::listener::Listener;
use crate::own::{Given, Own};
use agewise::experiment::presets::{Preset, presets as all_presets};
use agewise::experiment::{
    Experiment, ExperimentError, ExperimentParams, Record, Results, RoundRecord, RunDir, play,
    read, run_dir,
};
use agewise::report::{ReportError, ReportSection};
use agewise::selection::Error;
use agewise::train::data::folders;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// The tables of parameters whose keys are arguments in Python, without the name of the table.
pub(crate) const TABLES: [&str; 4] = ["world", "training", "aggregation", "clock"];

/// The names of all presets, each with its description and its parameters as JSON, flat as [`Job::new`] takes them.
#[pyfunction]
pub(crate) fn presets() -> PyResult<Vec<(String, String, String)>> {
    let row = |preset: Preset| {
        let params = serde_json::to_value(&preset.params).map_err(bad_input)?;
        Ok((preset.name, preset.about, flat(params).to_string()))
    };
    all_presets().into_iter().map(row).collect()
}

/// Parameters without tables.
fn flat(params: Value) -> Value {
    let mut keys = Map::new();
    let Value::Object(params) = params else {
        return params;
    };
    for (key, value) in params {
        match value {
            Value::Object(inner) if TABLES.contains(&key.as_str()) => keys.extend(inner),
            value => {
                keys.insert(key, value);
            }
        }
    }
    Value::Object(keys)
}

/// A prepared experiment: its data are found, and its directory exists if it has one.
#[pyclass(module = "agewise._agewise", frozen)]
pub(crate) struct Job {
    dir: Option<RunDir>,
    /// The lock on the directory, from its creation or change until the experiment is played.
    lock: Mutex<Option<File>>,
    params: ExperimentParams,
    data_folders: Vec<PathBuf>,
    own: Own,
}

#[pymethods]
impl Job {
    /// Prepares a new experiment, with training or without; with a directory, or for memory only.
    #[new]
    #[pyo3(signature = (params, trains, keep, out, force, data_folder, own=None))]
    fn new(
        params: &str,
        trains: bool,
        keep: bool,
        out: Option<PathBuf>,
        force: bool,
        data_folder: Option<PathBuf>,
        own: Option<Given<'_>>,
    ) -> PyResult<Self> {
        let own = Own::new(own)?;
        let defaults =
            if trains { ExperimentParams::comparison() } else { ExperimentParams::default() };
        let params = read_params(params, &defaults)?;
        let data_folders = folders(data_folder.as_deref());
        // All errors in parameters are found before a directory is created.
        let experiment = own.experiment(params, &data_folders)?;
        let params = experiment.params().clone();
        let name = if trains { "compare" } else { "simulate" };
        let begin = || RunDir::begin(out.as_deref(), name, force, &params).map_err(failed);
        let (dir, lock) = keep.then(begin).transpose()?.unzip();
        Ok(Self { dir, lock: Mutex::new(lock), params, data_folders, own })
    }

    /// The experiment of an existing directory.
    #[staticmethod]
    #[pyo3(signature = (path, data_folder, own=None))]
    fn open(path: PathBuf, data_folder: Option<PathBuf>, own: Option<Given<'_>>) -> PyResult<Self> {
        let dir = RunDir::open(&path).map_err(failed)?;
        Self::of(dir, None, data_folder, own)
    }

    /// Extends the run in a directory by seeds, rounds or policies.
    #[staticmethod]
    #[pyo3(signature = (path, changes, data_folder, own=None))]
    fn extend(
        path: PathBuf,
        changes: &str,
        data_folder: Option<PathBuf>,
        own: Option<Given<'_>>,
    ) -> PyResult<Self> {
        let dir = RunDir::open(&path).map_err(failed)?;
        let lock = dir.lock().map_err(failed)?;
        let begun = Self::of(dir, Some(lock), data_folder, own)?;
        let mut params = read_params(changes, &begun.params)?;
        let more = std::mem::replace(&mut params.policies, begun.params.policies.clone());
        let params = params.with_more_policies(more);
        let experiment = begun.own.experiment(params, &begun.data_folders)?;
        if let Some(dir) = &begun.dir {
            run_dir::extend(dir, experiment.params()).map_err(failed)?;
        }
        Ok(Self { params: experiment.params().clone(), ..begun })
    }

    /// The directory, if there is one.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.dir.as_ref().map(|dir| dir.path().to_path_buf())
    }

    /// The parameters as JSON, without tables.
    #[getter]
    fn params(&self) -> PyResult<String> {
        Ok(flat(serde_json::to_value(&self.params).map_err(bad_input)?).to_string())
    }

    /// What is trained, with how many clients: the first words of a report.
    #[getter]
    fn title(&self) -> String {
        let training = self.params.training.as_ref();
        let what = training.map_or_else(String::new, |t| format!("{}, {}, ", t.data, t.model));
        format!("{what}{} clients, {} per round", self.params.clients, self.params.cohort)
    }

    /// What the largest age costs policies, in sentences.
    fn max_age_costs(&self) -> PyResult<Vec<String>> {
        let experiment = self.experiment()?;
        let costs = experiment.max_age_costs().map_err(bad_input)?;
        Ok(costs.into_iter().map(|(name, cost)| format!("{name}: {cost}")).collect())
    }

    /// Plays the remaining rounds, and writes the results if there is a directory.
    #[pyo3(signature = (threads, listener=None))]
    fn play(
        &self,
        py: Python<'_>,
        threads: Option<usize>,
        listener: Option<Py<PyAny>>,
    ) -> PyResult<JobResults> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or_else(cores).max(1);
        let raised = &self.own.raised;
        let stop = &raised.stop;
        let experiment = py.detach(|| self.experiment())?;
        // The caller of the function that calls the function that plays.
        warn_of_altered(py, experiment.altered_data(), 3)?;
        let listener = Listener::new(&experiment, listener, stop);
        let played = interruptible(py, stop, || {
            let _lock = self.locked()?;
            let results = play(&experiment, self.dir.as_ref(), threads, &listener, stop)?;
            if let Some(dir) = &self.dir {
                ReportSection::new("", &results)?.write(dir)?;
            }
            JobResults::new(results)
        })?;
        if let Some(error) = listener.raised() {
            return Err(error);
        }
        raised.check()?;
        played.map_err(failed)
    }

    /// Reads an experiment, which may be unfinished.
    fn read(&self, py: Python<'_>) -> PyResult<JobResults> {
        let stop = AtomicBool::new(false);
        let experiment = self.experiment()?;
        let reading = || {
            let dir = self.dir.as_ref();
            let path = dir.map_or(std::path::Path::new(""), RunDir::path);
            let dir = dir.map_or_else(|| RunDir::open(path), |dir| Ok(dir.clone()))?;
            JobResults::new(read(&experiment, &dir)?)
        };
        let outcome = interruptible(py, &stop, reading)?;
        self.own.raised.check()?;
        outcome.map_err(failed)
    }
}

impl Job {
    /// The experiment in a directory.
    fn of(
        dir: RunDir,
        lock: Option<File>,
        data_folder: Option<PathBuf>,
        own: Option<Given<'_>>,
    ) -> PyResult<Self> {
        let params = dir.read_config().map_err(failed)?;
        let data_folders = folders(data_folder.as_deref());
        Ok(Self {
            dir: Some(dir),
            lock: Mutex::new(lock),
            params,
            data_folders,
            own: Own::new(own)?,
        })
    }

    /// The lock on the directory, if there is one: that of this job, or a new one if the run has not changed since.
    fn locked(&self) -> Result<Option<File>, ReportError> {
        let own = self.lock.lock().ok().and_then(|mut lock| lock.take());
        let Some(dir) = self.dir.as_ref().filter(|_| own.is_none()) else {
            return Ok(own);
        };
        let lock = dir.lock().map_err(ExperimentError::from)?;
        if dir.read_config()? != self.params {
            let expected =
                "the folder of a run that no other process has changed since it was opened";
            return Err(Error::new("folder", dir.path().display(), expected).into());
        }
        Ok(Some(lock))
    }

    fn experiment(&self) -> PyResult<Experiment> {
        self.own.experiment(self.params.clone(), &self.data_folders)
    }
}

/// The results of an experiment.
#[pyclass(module = "agewise._agewise", frozen)]
pub(crate) struct JobResults {
    results: Results,
    /// summary.json.
    #[pyo3(get)]
    summary: String,
    /// The table of the terminal, as JSON.
    #[pyo3(get)]
    table: String,
}

/// Arrays of one variant: cohort sizes and reports by seed and round, and values of X with their counts.
type Arrays<'py> = (
    Bound<'py, PyArray2<u64>>,
    Bound<'py, PyArray2<u64>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
);

impl JobResults {
    fn new(results: Results) -> Result<Self, ReportError> {
        let section = ReportSection::new("", &results)?;
        let table = serde_json::to_string(&section.summary_table());
        let table = table.map_err(|error| Error::new("table", error, "texts that JSON holds"))?;
        Ok(Self { summary: section.summary.to_json()?, table: in_python(&table), results })
    }
}

#[pymethods]
impl JobResults {
    /// Whether all runs are finished.
    #[getter]
    fn finished(&self) -> bool {
        self.results.is_finished()
    }

    /// The questions that the figures answer, each with its figure as SVG.
    fn figures(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let stop = AtomicBool::new(false);
        let draw = || {
            let figures = ReportSection::new("", &self.results)?.figures()?;
            Ok::<_, Error>(
                figures.iter().map(|f| (f.heading.to_string(), f.figure.to_svg())).collect(),
            )
        };
        interruptible(py, &stop, draw)?.map_err(bad_input)
    }

    /// The arrays of a variant; rounds after the end of a run are 0.
    fn arrays<'py>(&self, py: Python<'py>, variant: usize) -> PyResult<Arrays<'py>> {
        let of = |record: &&Record| record.id.variant == variant;
        let runs: Vec<&Record> = self.results.records.iter().filter(of).collect();
        let rounds = runs.iter().map(|run| run.rounds.len()).max().unwrap_or(0);
        let table = |value: fn(&RoundRecord) -> u64| {
            let row = |run: &&Record| {
                let played = run.rounds.iter().map(value).collect::<Vec<_>>();
                played.into_iter().chain(std::iter::repeat(0)).take(rounds).collect::<Vec<_>>()
            };
            let cells: Vec<u64> = runs.iter().flat_map(row).collect();
            cells.into_pyarray(py).reshape([runs.len(), rounds])
        };
        let mut counts = BTreeMap::new();
        let loads = runs.iter().filter_map(|run| run.load.as_ref());
        for &(interval, count) in loads.flat_map(|load| &load.intervals) {
            *counts.entry(interval).or_insert(0u64) += count;
        }
        let (x, seen): (Vec<u64>, Vec<u64>) = counts.into_iter().unzip();
        Ok((
            table(|row| row.selected)?,
            table(|row| row.reported)?,
            x.into_pyarray(py),
            seen.into_pyarray(py),
        ))
    }
}
