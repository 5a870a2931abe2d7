//! An experiment with what came of it.

use crate::error::ExperimentError;
use crate::experiment::Experiment;
use crate::record::Record;
use crate::run_dir::{EVENTS, MeanTimes, RunDir, SUMMARY};
use crate::summary::Summary;
use agewise_core::Result;

/// An experiment as far as it was played.
#[derive(Clone)]
pub struct Results {
    /// What was asked.
    pub experiment: Experiment,
    /// Its runs, by seed and then by variant.
    pub records: Vec<Record>,
    /// For each variant what a round took on this machine, where that was measured: by this process, or by an earlier one
    /// that played in the same directory.
    pub times: Vec<Option<MeanTimes>>,
}

impl Results {
    /// The figures over all runs.
    pub fn summary(&self) -> Result<Summary> {
        Summary::new(&self.experiment, &self.records)
    }

    /// Whether every run is at its end.
    pub fn is_finished(&self) -> bool {
        self.records.iter().all(|record| record.finished)
    }

    /// Writes the tables that follow from the records: `summary.json`, CSV files, and TensorBoard event files of
    /// training runs.
    pub fn write_tables(
        &self,
        dir: &RunDir,
        summary: &Summary,
    ) -> std::result::Result<(), ExperimentError> {
        dir.write(SUMMARY, summary.to_json()?.as_bytes())?;
        for (name, table) in self.tables(summary)? {
            dir.write(name, table.as_bytes())?;
        }
        for (name, events) in self.event_files() {
            dir.write(&format!("{EVENTS}/{name}"), &events)?;
        }
        Ok(())
    }
}
