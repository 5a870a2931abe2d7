//! How long rounds took on this machine: `timing.csv`, the only file of a run folder that differs from run to run.
//!
//! A folder that an earlier version began has no times of selection. It goes on without them, so that all lines of a
//! file have the same columns.

use crate::csv::quoted;
use crate::run_folder::{FolderError, RunFolder};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The name of the file.
pub(super) const TIMING: &str = "timing.csv";

const COLUMNS: &str = "policy,seed,round,seconds,checkpoint_seconds";
const SELECTION: &str = ",selection_seconds";

/// The times of one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundTimes {
    /// All of it but the checkpoint.
    pub(super) round: Duration,
    pub(super) checkpoint: Duration,
    /// The policy's choice, which is part of the round.
    pub(super) selection: Duration,
}

/// The file while it is written.
pub(super) struct Timing {
    file: Mutex<File>,
    with_selection: bool,
}

impl Timing {
    /// Opens the file of a folder, or begins it.
    pub(super) fn open(folder: &RunFolder) -> Result<Self, FolderError> {
        let known = folder.read(TIMING)?.filter(|text| !text.is_empty());
        let header = known.as_deref().and_then(|text| text.lines().next());
        let with_selection = header.is_none_or(|header| header.ends_with(SELECTION));
        let mut file = folder.append(TIMING)?;
        if header.is_none() {
            let written = writeln!(file, "{COLUMNS}{SELECTION}");
            written.map_err(|error| folder.trouble(TIMING, error))?;
        }
        Ok(Self { file: Mutex::new(file), with_selection })
    }

    /// Writes down the times of a round.
    pub(super) fn note(
        &self,
        policy: &str,
        seed: u64,
        round: usize,
        times: RoundTimes,
    ) -> std::io::Result<()> {
        let policy = quoted(policy);
        let [whole, checkpoint, selection] =
            [times.round, times.checkpoint, times.selection].map(|time| time.as_secs_f64());
        // Most choices take microseconds.
        let selection =
            if self.with_selection { format!(",{selection:.9}") } else { String::new() };
        let line = format!("{policy},{seed},{round},{whole:.6},{checkpoint:.6}{selection}\n");
        // Whoever panicked had written nothing or a line.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())
    }
}

/// What a policy took on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MeanTimes {
    /// Of a run, without its checkpoints.
    pub(super) seconds_per_run: f64,
    /// Of the choice of a cohort, where it was measured.
    pub(super) seconds_per_choice: Option<f64>,
}

/// By seed and round, the seconds of the round and of its choice.
type Rounds<'a> = BTreeMap<(&'a str, &'a str), (f64, Option<f64>)>;

/// For each policy its mean times, as far as they are known from the text of the file.
pub(super) fn mean_times<'a>(
    text: &str,
    policies: impl Iterator<Item = &'a str>,
) -> Vec<Option<MeanTimes>> {
    let header = text.lines().next().unwrap_or_default();
    let columns = header.split(',').count();
    let with_selection = header.ends_with(SELECTION);
    let mut rounds: BTreeMap<&str, Rounds<'_>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        // From the right: a policy's name may contain commas.
        let mut cells = line.rsplitn(columns, ',');
        let selection = if with_selection { cells.next() } else { None };
        let selection = selection.and_then(|cell| cell.parse().ok());
        let seconds = cells.nth(1).and_then(|cell| cell.parse().ok());
        let (round, seed, policy) = (cells.next(), cells.next(), cells.next());
        if let (Some(seconds), Some(round), Some(seed), Some(policy)) =
            (seconds, round, seed, policy)
        {
            // A round that was played again counts once.
            rounds.entry(policy).or_default().insert((seed, round), (seconds, selection));
        }
    }
    let of = |policy: &str| {
        let mine = rounds.get(quoted(policy).as_str())?;
        let seeds: BTreeSet<&str> = mine.keys().map(|(seed, _)| *seed).collect();
        let seconds: f64 = mine.values().map(|(seconds, _)| seconds).sum();
        let choices: Vec<f64> = mine.values().filter_map(|(_, selection)| *selection).collect();
        let per_choice = choices.iter().sum::<f64>() / choices.len() as f64;
        Some(MeanTimes {
            seconds_per_run: seconds / seeds.len() as f64,
            seconds_per_choice: (!choices.is_empty()).then_some(per_choice),
        })
    };
    policies.map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(text: &str, policies: &[&str]) -> Vec<Option<MeanTimes>> {
        mean_times(text, policies.iter().copied())
    }

    #[test]
    fn means_are_over_runs_and_over_choices() {
        let text = "policy,seed,round,seconds,checkpoint_seconds,selection_seconds\n\
                    random,0,1,1.0,9,0.5\n\
                    random,0,2,7.0,9,0.5\n\
                    random,0,2,3.0,9,0.2\n\
                    random,1,1,2.0,9,0.2\n\
                    \"clustered(by=2, x=1)\",0,1,4.0,9,0.001\n\
                    random,1,2,1.0";
        let found = means(text, &["random", "clustered(by=2, x=1)", "phased"]);
        // Round 2 of seed 0 was played twice and counts as it was the last time; a line that was cut off is none.
        let random = found[0].unwrap();
        assert!((random.seconds_per_run - 3.0).abs() < 1e-12);
        assert!((random.seconds_per_choice.unwrap() - 0.3).abs() < 1e-12);
        let clustered = MeanTimes { seconds_per_run: 4.0, seconds_per_choice: Some(0.001) };
        assert_eq!(&found[1..], [Some(clustered), None]);
    }

    #[test]
    fn files_of_earlier_versions_have_no_times_of_choices() {
        let text = "policy,seed,round,seconds,checkpoint_seconds\nrandom,0,1,1.0,9\n";
        let times = MeanTimes { seconds_per_run: 1.0, seconds_per_choice: None };
        assert_eq!(means(text, &["random"]), [Some(times)]);
        assert_eq!(means("", &["random"]), [None]);
    }
}
