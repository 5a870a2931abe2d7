//! The main job: policies side by side, trained on data, with a run folder and a report.
//!
//! [`Comparison::play`] plays a [`Study`] into a folder and can be stopped at any moment; [`Comparison::read`] reads a
//! folder again. Everything that is shown is made from the logs in the folder.

mod checkpoint;
mod figures;
mod keeper;
mod overview;
mod page;
pub mod presets;
mod sentences;
mod store;
mod tables;
mod tensorboard;
mod timing;

pub use keeper::View;
pub use overview::Overview;

use crate::core::Error;
use crate::learn::data::DataError;
use crate::report::{DrawError, Page};
use crate::run_folder::{CONFIG, FolderError, RunFolder, fingerprint};
use crate::sim::study::{Record, Study, StudyParams, StudySummary, play_all};
use keeper::Keeper;
use page::Chapter;
use rayon::prelude::*;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use store::{CHECKPOINTS, LOGS, MODELS, Store};
use timing::{MeanTimes, TIMING, mean_times};

/// Keys of a configuration that are not written where they are empty.
#[cfg(feature = "command")]
pub(crate) const KEYS_LEFT_OUT: &[&str] = &["weighting"];

/// The last of the files that are written: where it is, everything else is.
pub(crate) const REPORT: &str = "report.html";
const FIGURES: &str = "figures";
const EVENTS: &str = "tensorboard";

/// Why a comparison could not be finished.
#[derive(Debug)]
pub enum CompareError {
    /// Its parameters.
    Input(Error),
    /// Its data.
    Data(DataError),
    /// Its folder.
    Folder(FolderError),
    /// A figure.
    Draw(DrawError),
    /// A file that this program wrote and cannot use.
    Unreadable(String),
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::Data(error) => error.fmt(f),
            Self::Folder(error) => error.fmt(f),
            Self::Draw(error) => error.fmt(f),
            Self::Unreadable(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for CompareError {}

impl From<Error> for CompareError {
    fn from(error: Error) -> Self {
        Self::Input(error)
    }
}

impl From<DataError> for CompareError {
    fn from(error: DataError) -> Self {
        Self::Data(error)
    }
}

impl From<FolderError> for CompareError {
    fn from(error: FolderError) -> Self {
        Self::Folder(error)
    }
}

impl From<DrawError> for CompareError {
    fn from(error: DrawError) -> Self {
        Self::Draw(error)
    }
}

/// What a comparison is, before anything is run: its data are found and fit its parameters.
pub fn prepare(params: StudyParams, folders: &[PathBuf]) -> Result<Study, CompareError> {
    let dataset = crate::learn::data::load(&params.data, folders)?;
    Ok(Study::new(params, dataset)?)
}

/// A comparison as far as it was played.
pub struct Comparison {
    /// What was asked.
    pub study: Study,
    /// Its runs, by seed and then by policy.
    pub records: Vec<Record>,
}

impl Comparison {
    /// Plays what is left of a study in a folder, whose configuration has been written before.
    pub fn play(
        study: Study,
        folder: &RunFolder,
        threads: usize,
        view: &dyn View,
        stop: &AtomicBool,
    ) -> Result<Self, CompareError> {
        let config = folder.read(CONFIG)?.unwrap_or_default();
        let store = Store::new(&study, folder, fingerprint(&config));
        store.make_folders()?;
        let keeper = Keeper::new(store, folder, view, stop)?;
        let records = play_all(&study, threads, &keeper)?;
        Ok(Self { study, records })
    }

    /// Reads a comparison from its folder, as far as it was played.
    pub fn read(study: Study, folder: &RunFolder) -> Result<Self, CompareError> {
        let config = folder.read(CONFIG)?.unwrap_or_default();
        let store = Store::new(&study, folder, fingerprint(&config));
        let records = study.runs().into_iter().map(|id| {
            let logs = store.logs(id)?;
            Ok(Record::new(&study, id, logs)?)
        });
        let records = records.collect::<Result<Vec<_>, CompareError>>()?;
        Ok(Self { study, records })
    }

    /// For each policy what it took on this machine, as far as it is known.
    fn times(&self, folder: &RunFolder) -> Result<Vec<Option<MeanTimes>>, CompareError> {
        let text = folder.read(TIMING)?.unwrap_or_default();
        let policies = self.study.contenders().iter().map(|contender| contender.label.as_str());
        Ok(mean_times(&text, policies))
    }

    /// The figures over all runs.
    pub fn summary(&self) -> StudySummary {
        StudySummary::new(&self.study, &self.records)
    }

    /// Writes everything that follows from the logs into the folder of the run.
    pub fn write(&self, folder: &RunFolder, summary: &StudySummary) -> Result<(), CompareError> {
        folder.write("summary.json", pretty(summary)?.as_bytes())?;
        folder.write("rounds.csv", self.rounds_csv()?.as_bytes())?;
        folder.write("clients.csv", self.clients_csv().as_bytes())?;
        for (name, file) in self.event_files() {
            folder.write(&format!("{EVENTS}/{name}"), &file)?;
        }
        let figures = self.figures(summary);
        for figure in &figures {
            let svg = figure.figure.to_svg();
            folder.write(&format!("{FIGURES}/{}.svg", figure.name), svg.as_bytes())?;
        }
        let pictures: Vec<_> = figures.par_iter().map(|figure| figure.figure.to_png(2.0)).collect();
        for (figure, picture) in figures.iter().zip(pictures) {
            folder.write(&format!("{FIGURES}/{}.png", figure.name), &picture?)?;
        }
        let chapter = Chapter { name: "", comparison: self, summary, figures: &figures };
        let page = page::single(&chapter)?;
        folder.write(REPORT, page.to_html().as_bytes())?;
        if self.is_finished() {
            folder.remove(CHECKPOINTS)?;
        }
        Ok(())
    }

    /// The questions that the figures answer, each with its figure as SVG, in the order of the report.
    pub fn drawings(&self, summary: &StudySummary) -> Vec<(&'static str, String)> {
        let figures = self.figures(summary);
        figures.iter().map(|figure| (figure.heading, figure.figure.to_svg())).collect()
    }

    /// Whether every run is at its end.
    pub fn is_finished(&self) -> bool {
        self.records.iter().all(|record| record.finished)
    }
}

/// One page about several comparisons, each with its name.
pub fn report(comparisons: &[(String, Comparison)]) -> Result<Page, CompareError> {
    let parts: Vec<_> = comparisons
        .iter()
        .map(|(name, comparison)| {
            let summary = comparison.summary();
            let figures = comparison.figures(&summary);
            (name, comparison, summary, figures)
        })
        .collect();
    let chapters: Vec<Chapter<'_>> = parts
        .iter()
        .map(|(name, comparison, summary, figures)| Chapter { name, comparison, summary, figures })
        .collect();
    page::several(&chapters)
}

/// One JSON document, for people and programs.
pub fn pretty(summary: &StudySummary) -> Result<String, CompareError> {
    let text = serde_json::to_string_pretty(summary);
    let text = text.map_err(|error| CompareError::Unreadable(format!("summary.json: {error}")))?;
    Ok(text + "\n")
}

/// Removes what an earlier run left in the folder, so that its results cannot be taken for the new ones. What is called
/// like a part of a run and is not in the folder of one belongs to someone else: an error, and nothing is removed.
pub fn clear(folder: &RunFolder) -> Result<(), CompareError> {
    let results = ["summary.json", "rounds.csv", "clients.csv", REPORT, FIGURES, EVENTS];
    let names = results.into_iter().chain([LOGS, CHECKPOINTS, MODELS, TIMING]);
    if !folder.path().join(CONFIG).is_file() {
        let mine = |name: &&str| folder.path().join(name).exists();
        return match names.clone().find(mine) {
            Some(name) => Err(FolderError::Foreign(folder.path().join(name)).into()),
            None => Ok(()),
        };
    }
    for name in names.chain(crate::simulate::RESULTS) {
        folder.remove(name)?;
    }
    Ok(())
}

/// Stores the configuration; the first thing that is written, so that a folder that cannot be written to is noticed
/// before the work.
pub fn write_config(params: &StudyParams, folder: &RunFolder) -> Result<(), CompareError> {
    folder.write(CONFIG, config_text(params)?.as_bytes())?;
    Ok(())
}

/// The parameters that [`write_config`] stored.
pub fn read_config(text: &str) -> Result<StudyParams, CompareError> {
    toml::from_str(text).map_err(|error| CompareError::Unreadable(format!("{CONFIG}: {error}")))
}

fn config_text(params: &StudyParams) -> Result<String, CompareError> {
    let text = toml::to_string(params);
    text.map_err(|error| CompareError::Unreadable(format!("cannot write {CONFIG}: {error}")))
}
