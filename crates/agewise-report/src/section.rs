//! One experiment in a report, and the files that are drawn of it.

use crate::figures::ReportFigure;
use crate::files::RunFiles;
use crate::page::page_of;
use crate::series_style::slots;
use agewise_core::Result;
use agewise_experiment::run_dir::{FIGURES, REPORT};
use agewise_experiment::{
    Experiment, ExperimentError, Pair, Record, Results, RunDir, RunDirError, Summary,
    VariantSummary,
};
use agewise_plot::DrawError;
use rayon::prelude::*;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The experiment.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A figure.
    #[error(transparent)]
    Draw(#[from] DrawError),
}

impl From<agewise_core::Error> for ReportError {
    fn from(error: agewise_core::Error) -> Self {
        Self::Experiment(error.into())
    }
}

impl From<RunDirError> for ReportError {
    fn from(error: RunDirError) -> Self {
        Self::Experiment(error.into())
    }
}

/// An experiment in a report: what came of it, and its figures over all runs.
pub struct ReportSection<'a> {
    /// What it is called where it stands beside others.
    pub name: String,
    /// What came of it.
    pub results: &'a Results,
    /// The figures over all runs.
    pub summary: Summary,
    /// Where its files are; a page without that has no links to them.
    pub files: Option<RunFiles>,
}

impl<'a> ReportSection<'a> {
    /// Sums up an experiment.
    pub fn new(name: impl Into<String>, results: &'a Results) -> Result<Self> {
        Ok(Self { name: name.into(), results, summary: results.summary()?, files: None })
    }

    /// Says where the files of the run are.
    #[must_use]
    pub fn with_files(self, files: RunFiles) -> Self {
        Self { files: Some(files), ..self }
    }

    /// Writes everything that follows from the records into the directory of the run: tables, figures, and the page,
    /// which is last.
    pub fn write(&self, dir: &RunDir) -> std::result::Result<(), ReportError> {
        self.results.write_tables(dir, &self.summary)?;
        let figures = self.figures()?;
        // Figures of an earlier report that this one does not have would be taken for its own.
        dir.remove(FIGURES)?;
        let drawn: Vec<_> = figures.par_iter().map(ReportFigure::files).collect();
        for (figure, files) in figures.iter().zip(drawn) {
            let (svg, png) = files?;
            dir.write(&format!("{FIGURES}/{}.svg", figure.name), svg.as_bytes())?;
            dir.write(&format!("{FIGURES}/{}.png", figure.name), &png)?;
        }
        let here = Self {
            name: self.name.clone(),
            results: self.results,
            summary: self.summary.clone(),
            files: Some(RunFiles::new(dir.path(), "")),
        };
        let page = page_of(&here, &figures)?;
        dir.write(REPORT, page.to_html().as_bytes())?;
        Ok(())
    }

    pub(crate) fn experiment(&self) -> &'a Experiment {
        &self.results.experiment
    }

    /// Whether anything is trained.
    pub(crate) fn trains(&self) -> bool {
        self.experiment().task().is_some()
    }

    /// Whether runs went on to the last round, so that their last models can be compared.
    pub(crate) fn runs_to_the_end(&self) -> bool {
        let stops = self.experiment().training().is_none_or(|training| training.stop_at_target);
        let has_last = |policy: &VariantSummary| policy.means.contains_key("final_loss");
        !stops || self.summary.policies.iter().any(has_last)
    }

    /// The runs of a variant that have anything to show.
    pub(crate) fn runs_of(&self, place: usize) -> impl Iterator<Item = &'a Record> + Clone {
        let of = move |record: &&Record| record.id.variant == place && !record.rounds.is_empty();
        self.results.records.iter().filter(of)
    }

    /// How many rounds a step of the server is, in the runs of a variant.
    pub(crate) fn rounds_per_step(&self, place: usize) -> f64 {
        let variant = self.experiment().variants().get(place);
        variant.map_or(1.0, |variant| self.experiment().rounds_per_step(variant))
    }

    /// The name of each variant, and its slot in the styles of series.
    pub(crate) fn styles(&self) -> Vec<(&'a str, usize)> {
        let variants = self.experiment().variants();
        let names = |variant: &'a agewise_experiment::Variant| {
            let spec = variant.policy().spec();
            (variant.name(), spec.map_or(variant.name(), |spec| spec.name()))
        };
        let names: Vec<(&str, &str)> = variants.iter().map(names).collect();
        variants.iter().map(agewise_experiment::Variant::name).zip(slots(&names)).collect()
    }

    /// The pairs with the baseline.
    pub(crate) fn with_baseline(&self) -> impl Iterator<Item = &Pair> + Clone {
        self.summary.pairs.iter().filter(|pair| pair.other == self.summary.baseline)
    }
}
