//! The tables of a run directory, as CSV, and its TensorBoard event files.

use super::tensorboard::{EventFile, FILE_NAME};
use crate::experiment::Experiment;
use crate::log::{RoundLog, TestScore};
use crate::record::{Record, RoundRow};
use crate::results::Results;
use crate::speeds::SpeedDistribution;
use crate::summary::Summary;
use agewise_core::Result;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

/// A text that may contain commas.
pub(super) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

/// A value, or an empty cell.
fn optional(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

impl Experiment {
    /// A variant's name as the name of a file: unlike all others.
    pub(super) fn slug(&self, variant: usize) -> String {
        let plain = |name: &str| {
            let keep = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
            name.chars().map(keep).collect::<String>().trim_matches('_').to_string()
        };
        let names: Vec<String> = self.variants().iter().map(|v| plain(v.name())).collect();
        let name = &names[variant];
        let same = names[..variant].iter().filter(|other| *other == name).count();
        if same == 0 { name.clone() } else { format!("{name}-{}", same + 1) }
    }
}

impl Results {
    /// The tables by the names of their files.
    pub(crate) fn tables(&self, summary: &Summary) -> Result<Vec<(&'static str, String)>> {
        let mut tables = vec![
            ("rounds.csv", self.rounds_csv()?),
            ("intervals.csv", self.intervals_csv()?),
            ("windows.csv", windows_csv(summary)),
        ];
        if self.experiment.task().is_some() {
            tables.push(("clients.csv", self.clients_csv()));
        }
        Ok(tables)
    }

    /// The first two cells of a run's lines.
    fn cells(&self, record: &Record) -> String {
        let policy = quoted(self.experiment.variants()[record.id.variant].name());
        format!("{policy},{}", self.experiment.seed(record.id.seed).0)
    }

    /// Every round of every run.
    fn rounds_csv(&self) -> Result<String> {
        let mut csv = String::from("policy,seed,round,");
        csv += "available,selected,reported,forced,target_interval,sigma_so_far";
        let trains = self.experiment.task().is_some();
        // The simulated time only where some clients are faster than others.
        let timed = self.experiment.speeds() != SpeedDistribution::Equal;
        csv += if trains { ",rejected,training_loss,accuracy,loss,bytes_moved" } else { "" };
        csv += if timed { ",simulated_seconds\n" } else { "\n" };
        for record in &self.records {
            let cells = self.cells(record);
            let logs = record.training.iter().flat_map(|training| &training.logs);
            let mut logs = logs.map(Some).chain(std::iter::repeat(None));
            let (mut bytes, mut seconds) = (0, 0.0);
            for (round, (row, log)) in (1u64..).zip(record.rounds.iter().zip(&mut logs)) {
                let _ = write!(csv, "{cells},{round},{}", round_cells(row));
                if let Some(log) = log {
                    bytes += self.experiment.bytes_of(log);
                    let _ = write!(csv, ",{},{bytes}", training_cells(log));
                }
                if let Some(log) = log.filter(|_| timed) {
                    seconds += self.experiment.context(record.id.seed)?.seconds(log);
                    let _ = write!(csv, ",{seconds:.3}");
                }
                csv.push('\n');
            }
        }
        Ok(csv)
    }

    /// Every client of every training run.
    fn clients_csv(&self) -> String {
        let mut csv = String::from("policy,seed,client,samples,selections,age,accuracy\n");
        for record in self.records.iter().filter(|record| !record.rounds.is_empty()) {
            let cells = self.cells(record);
            let clients = record.training.iter().flat_map(|training| &training.clients);
            for (number, client) in clients.enumerate() {
                let (samples, selections, age) = (client.samples, client.selections, client.age);
                let accuracy = optional(client.accuracy);
                let _ = writeln!(csv, "{cells},{number},{samples},{selections},{age},{accuracy}");
            }
        }
        csv
    }

    /// Every X, over all seeds, beside its probability.
    fn intervals_csv(&self) -> Result<String> {
        let mut csv = String::from("policy,interval,count,share,theory\n");
        for (place, variant) in self.experiment.variants().iter().enumerate() {
            let counts = self.interval_counts(place);
            let total: u64 = counts.values().sum();
            let theory = self.experiment.theory(place)?;
            let theory: BTreeMap<u64, f64> =
                theory.into_iter().flat_map(|theory| theory.interval_distribution).collect();
            let name = quoted(variant.name());
            for (interval, count) in counts {
                let share = count as f64 / total as f64;
                let expected = optional(theory.get(&interval));
                let _ = writeln!(csv, "{name},{interval},{count},{share},{expected}");
            }
        }
        Ok(csv)
    }

    /// How often each X was seen by a variant, over all seeds.
    pub fn interval_counts(&self, variant: usize) -> BTreeMap<u64, u64> {
        let mine = self.records.iter().filter(|record| record.id.variant == variant);
        let mut counts = BTreeMap::new();
        for &(interval, count) in
            mine.filter_map(|run| run.load.as_ref()).flat_map(|l| &l.intervals)
        {
            let sum: &mut u64 = counts.entry(interval).or_default();
            *sum = sum.saturating_add(count);
        }
        counts
    }

    /// For each training run the name of its event file, and the file.
    pub(crate) fn event_files(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        self.records.iter().filter_map(|record| {
            let logs = &record.training.as_ref().filter(|training| !training.logs.is_empty())?.logs;
            let slug = self.experiment.slug(record.id.variant);
            let seed = self.experiment.seed(record.id.seed).0;
            let name = format!("{slug}/seed-{seed}/{FILE_NAME}");
            let mut file = EventFile::new();
            for log in logs {
                let test = log.test.as_ref();
                let scalars = [
                    ("test/accuracy", test.and_then(TestScore::accuracy)),
                    ("test/loss", test.and_then(|test| test.loss)),
                    ("training/loss", log.training_loss().map(f64::from)),
                    ("round/cohort", Some(log.clients.len() as f64)),
                ];
                for (tag, value) in scalars {
                    if let Some(value) = value {
                        file.scalar(tag, log.round + 1, value as f32);
                    }
                }
            }
            Some((name, file.into_bytes()))
        })
    }
}

fn round_cells(row: &RoundRow) -> String {
    let &RoundRow { available, selected, reported, forced, interval, sigma } = row;
    let (available, forced, sigma) = (optional(available), u8::from(forced), optional(sigma));
    format!("{available},{selected},{reported},{forced},{interval},{sigma}")
}

fn training_cells(log: &RoundLog) -> String {
    let test = log.test.as_ref();
    let accuracy = optional(test.and_then(TestScore::accuracy));
    let loss = optional(test.and_then(|test| test.loss));
    format!("{},{},{accuracy},{loss}", log.rejected(), optional(log.training_loss()))
}

/// sqrt(Var Y)/T for every T.
fn windows_csv(summary: &Summary) -> String {
    let mut csv = String::from("policy,window,sd_over_window,half_width_95,theory\n");
    for variant in &summary.policies {
        let name = quoted(&variant.policy);
        for (window, sd) in &variant.window_sd {
            let theory = variant.theory.as_ref().and_then(|theory| theory.window_sd.get(window));
            let (half, theory) = (optional(sd.half_width), optional(theory));
            let _ = writeln!(csv, "{name},{window},{},{half},{theory}", sd.mean);
        }
    }
    csv
}
