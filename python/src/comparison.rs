//! The main job: [`Job`] is a comparison in its folder.

use crate::errors::{bad_input, comparison, read};
use crate::interrupt::interruptible;
use agewise::compare::{self, Comparison, View, pretty};
use agewise::core::Error;
use agewise::data::folders;
use agewise::run_folder::{CONFIG, RunFolder};
use agewise::sim::study::{RoundLog, RunId, Study, StudyParams};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The names of all presets, each with what it is and its parameters as JSON.
#[pyfunction]
pub(crate) fn presets() -> PyResult<Vec<(String, String, String)>> {
    let row = |preset: compare::presets::Preset| {
        let params = serde_json::to_string(&preset.params).map_err(bad_input)?;
        Ok((preset.name, preset.about, params))
    };
    compare::presets::presets().into_iter().map(row).collect()
}

/// A comparison that was prepared: its data are found and its folder is made.
#[pyclass(module = "agewise._agewise", frozen)]
pub(crate) struct Job {
    folder: RunFolder,
    params: StudyParams,
    data_folders: Vec<PathBuf>,
}

/// Tells Python what happens, and stops when Python raises an exception.
struct Telling<'a> {
    progress: Option<Py<PyAny>>,
    test_counts: Vec<u32>,
    stop: &'a AtomicBool,
    raised: Mutex<Option<PyErr>>,
}

impl Telling<'_> {
    fn tell(&self, id: RunId, rounds: usize, accuracy: Option<f64>) {
        Python::attach(|py| {
            // Ctrl-C is heard between rounds.
            let heard = py.check_signals().and_then(|()| match &self.progress {
                Some(call) => call.call1(py, (id.contender, id.seed, rounds, accuracy)).map(|_| ()),
                None => Ok(()),
            });
            if let Err(error) = heard {
                self.stop.store(true, Ordering::Relaxed);
                if let Ok(mut raised) = self.raised.lock() {
                    raised.get_or_insert(error);
                }
            }
        });
    }
}

impl View for Telling<'_> {
    fn begun(&self, id: RunId, logs: &[RoundLog]) {
        self.tell(id, logs.len(), None);
    }

    fn round(&self, id: RunId, logs: &[RoundLog]) {
        let score = logs.last().and_then(|log| log.test.as_ref());
        let accuracy = score.and_then(|score| score.accuracy(&self.test_counts));
        self.tell(id, logs.len(), accuracy);
    }

    fn finished(&self, _: RunId) {}
}

/// What is shown of a comparison.
type Shown = (bool, String, String, Vec<(String, String)>);

#[pymethods]
impl Job {
    /// Prepares a new comparison, or one that was begun in a folder before.
    #[new]
    #[pyo3(signature = (params, out, force, data_folder))]
    fn new(
        params: &str,
        out: Option<PathBuf>,
        force: bool,
        data_folder: Option<PathBuf>,
    ) -> PyResult<Self> {
        let params: StudyParams = read("compare", params)?;
        let data_folders = folders(data_folder.as_deref());
        // Everything that can be wrong is found before a folder is made.
        let study = compare::prepare(params, &data_folders).map_err(comparison)?;
        let folder = RunFolder::create(out.as_deref(), "compare", force)
            .map_err(|error| comparison(error.into()))?;
        let job = Self { folder, params: study.params().clone(), data_folders };
        let begun = || {
            // With `force` there may be a run in it, and someone may be working on that.
            let used = job.folder.path().join(CONFIG).exists();
            let _lock = if used { Some(job.folder.lock()?) } else { None };
            compare::clear(&job.folder)?;
            compare::write_config(&job.params, &job.folder)
        };
        begun().map_err(comparison)?;
        Ok(job)
    }

    /// A comparison that was begun in a folder before.
    #[staticmethod]
    fn open(path: PathBuf, data_folder: Option<PathBuf>) -> PyResult<Self> {
        let opened = || {
            let folder = RunFolder::open(&path)?;
            let config = folder.read(CONFIG)?;
            Ok((folder, config))
        };
        let (folder, config) = opened().map_err(comparison)?;
        let missing = || Error::new("folder", path.display(), "the folder of a comparison");
        let config = config.ok_or_else(|| bad_input(missing()))?;
        let params = compare::read_config(&config).map_err(comparison)?;
        Ok(Self { folder, params, data_folders: folders(data_folder.as_deref()) })
    }

    /// The folder.
    #[getter]
    fn path(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    /// The parameters, as JSON.
    #[getter]
    fn params(&self) -> PyResult<String> {
        serde_json::to_string(&self.params).map_err(bad_input)
    }

    /// Plays what is left, writes everything that follows, and shows it.
    #[pyo3(signature = (threads, progress=None))]
    fn play(
        &self,
        py: Python<'_>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Shown> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or_else(cores).max(1);
        let stop = AtomicBool::new(false);
        let study = py.detach(|| self.study()).map_err(comparison)?;
        let test_counts = study.test_counts();
        let view = Telling { progress, test_counts, stop: &stop, raised: Mutex::default() };
        let played = interruptible(py, &stop, || {
            let _lock = self.folder.lock()?;
            let played = Comparison::play(study, &self.folder, threads, &view, &stop)?;
            let summary = played.summary();
            played.write(&self.folder, &summary)?;
            self.show(&played)
        })?;
        if let Ok(Some(error)) = view.raised.into_inner() {
            return Err(error);
        }
        played.map_err(comparison)
    }

    /// Shows a comparison as far as it was played.
    fn read(&self, py: Python<'_>) -> PyResult<Shown> {
        let stop = AtomicBool::new(false);
        let show = || self.show(&Comparison::read(self.study()?, &self.folder)?);
        interruptible(py, &stop, show)?.map_err(comparison)
    }
}

impl Job {
    fn study(&self) -> Result<Study, compare::CompareError> {
        compare::prepare(self.params.clone(), &self.data_folders)
    }

    /// Whether it is finished, summary.json, the table as JSON, and the figures.
    fn show(&self, played: &Comparison) -> Result<Shown, compare::CompareError> {
        let summary = played.summary();
        let overview = played.overview(&summary, &self.folder)?;
        let overview = serde_json::to_string(&overview)
            .map_err(|error| compare::CompareError::Unreadable(error.to_string()))?;
        let figures = played.drawings(&summary).into_iter();
        let figures = figures.map(|(question, svg)| (question.to_string(), svg)).collect();
        Ok((played.is_finished(), pretty(&summary)?, overview, figures))
    }
}
