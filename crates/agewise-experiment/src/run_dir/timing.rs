//! How long rounds of training took on this machine: `timing.csv`, which differs from run to run.

use super::{RunDir, RunDirError, TIMING};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;

const COLUMNS: [&str; 6] =
    ["policy", "seed", "round", "seconds", "checkpoint_seconds", "selection_seconds"];

/// The times of one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundTimes {
    /// All of it but the checkpoint.
    pub(super) round: Duration,
    pub(super) checkpoint: Duration,
    /// The policy's choice, which is part of the round.
    pub(super) selection: Duration,
}

/// The file while it is written, and what was measured by this process.
pub(crate) struct Timing(Mutex<(csv::Writer<File>, Vec<Sums>)>);

/// Rounds of a variant, and the seconds of all of them and of their choices.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    rounds: u64,
    seconds: f64,
    choices: f64,
}

impl Sums {
    fn add(&mut self, seconds: f64, choice: f64) {
        self.rounds += 1;
        self.seconds += seconds;
        self.choices += choice;
    }

    fn means(&self) -> Option<MeanTimes> {
        let rounds = self.rounds as f64;
        let (seconds_per_round, seconds_per_choice) =
            (self.seconds / rounds, self.choices / rounds);
        (self.rounds > 0).then_some(MeanTimes { seconds_per_round, seconds_per_choice })
    }
}

impl Timing {
    /// Opens the file of a directory for so many variants, or begins it.
    pub(crate) fn open(dir: &RunDir, variants: usize) -> Result<Self, RunDirError> {
        let known = dir.read(TIMING)?.is_some_and(|text| !text.is_empty());
        let mut file = csv::Writer::from_writer(dir.append(TIMING)?);
        if !known {
            file.write_record(COLUMNS).map_err(|error| dir.failed(TIMING, error.into()))?;
        }
        Ok(Self(Mutex::new((file, vec![Sums::default(); variants]))))
    }

    /// Writes down the times of a round of a variant, which has a place and a name.
    pub(super) fn note(
        &self,
        (place, name): (usize, &str),
        seed: u64,
        round: u64,
        times: RoundTimes,
    ) -> std::io::Result<()> {
        let [whole, checkpoint, selection] =
            [times.round, times.checkpoint, times.selection].map(|time| time.as_secs_f64());
        // Most choices take microseconds.
        let numbers = [seed, round].map(|number| number.to_string());
        let seconds =
            [format!("{whole:.6}"), format!("{checkpoint:.6}"), format!("{selection:.9}")];
        let mut inner = self.0.lock();
        if let Some(sums) = inner.1.get_mut(place) {
            sums.add(whole, selection);
        }
        let cells = numbers.iter().chain(&seconds).map(String::as_str);
        inner.0.write_record(std::iter::once(name).chain(cells))?;
        inner.0.flush()
    }

    /// What this process measured of each variant.
    pub(crate) fn means(&self) -> Vec<Option<MeanTimes>> {
        let inner = self.0.lock();
        inner.1.iter().map(Sums::means).collect()
    }
}

/// What a variant took on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanTimes {
    /// Of a round, without its checkpoint.
    pub seconds_per_round: f64,
    /// Of the choice of a cohort.
    pub seconds_per_choice: f64,
}

/// By seed and round, the seconds of the round and of its choice.
type Rounds = BTreeMap<(u64, u64), (f64, f64)>;

/// For each variant its mean times, as far as they are known from the text of the file.
pub(crate) fn mean_times<'a>(
    text: &str,
    variants: impl Iterator<Item = &'a str>,
) -> Vec<Option<MeanTimes>> {
    let mut rounds: BTreeMap<String, Rounds> = BTreeMap::new();
    // A row that was cut off or damaged is left out.
    for row in csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten() {
        let (policy, seed, round, seconds, _, selection): (String, _, _, _, f64, _) = row;
        // A round that was played again counts once.
        rounds.entry(policy).or_default().insert((seed, round), (seconds, selection));
    }
    let of = |variant: &str| {
        let mut sums = Sums::default();
        for &(seconds, choice) in rounds.get(variant)?.values() {
            sums.add(seconds, choice);
        }
        sums.means()
    };
    variants.map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_rounds_and_over_choices() {
        let text = "policy,seed,round,seconds,checkpoint_seconds,selection_seconds\n\
                    random,0,1,1.0,9,0.5\n\
                    random,0,2,7.0,9,0.5\n\
                    random,0,2,3.0,9,0.2\n\
                    random,1,1,2.0,9,0.2\n\
                    \"clustered(by=2, x=1)\",0,1,4.0,9,0.001\n\
                    random,1,2,1.0";
        let found = mean_times(text, ["random", "clustered(by=2, x=1)", "phased"].into_iter());
        // Round 2 of seed 0 was played twice and counts as it was the last time; a line that was cut off is none.
        let random = found[0].unwrap();
        assert!((random.seconds_per_round - 2.0).abs() < 1e-12);
        assert!((random.seconds_per_choice - 0.3).abs() < 1e-12);
        let clustered = MeanTimes { seconds_per_round: 4.0, seconds_per_choice: 0.001 };
        assert_eq!(&found[1..], [Some(clustered), None]);
        assert_eq!(mean_times("", ["random"].into_iter()), [None]);
    }
}
