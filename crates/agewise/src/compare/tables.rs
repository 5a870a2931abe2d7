//! The tables of a run folder, as CSV, and its TensorBoard event files.

use super::store::slug;
use super::tensorboard::{EventFile, FILE_NAME};
use super::{CompareError, Comparison};
use crate::csv::{optional, quoted};
use crate::sim::study::{Record, RoundLog, SpeedLaw};
use std::fmt::Write as _;

impl Comparison {
    fn label(&self, record: &Record) -> &str {
        &self.study.contenders()[record.id.contender].label
    }

    fn seed(&self, record: &Record) -> u64 {
        self.study.seed(record.id.seed).0
    }

    /// Every round of every run; the simulated time so far only where some clients are faster than others.
    pub(super) fn rounds_csv(&self) -> Result<String, CompareError> {
        let timed = self.study.speeds() != SpeedLaw::Equal;
        let mut csv = String::from(
            "policy,seed,round,cohort,forced,rejected,training_loss,accuracy,loss,bytes_moved",
        );
        csv += if timed { ",simulated_seconds\n" } else { "\n" };
        let counts = self.study.test_counts();
        for record in &self.records {
            let scene = self.study.scene(record.id.seed)?;
            let (policy, seed) = (quoted(self.label(record)), self.seed(record));
            let (mut clients, mut asked, mut seconds) = (0, 0, 0.0);
            for log in &record.logs {
                clients += log.clients.len() as u64;
                asked += u64::from(log.asked);
                seconds += scene.seconds(log);
                let accuracy = log.test.as_ref().and_then(|test| test.accuracy(&counts));
                let _ = write!(
                    csv,
                    "{policy},{seed},{},{},{},{},{},{},{},{}",
                    log.round + 1,
                    log.clients.len(),
                    u8::from(log.forced),
                    log.losses.iter().filter(|loss| loss.is_none()).count(),
                    optional(training_loss(log)),
                    optional(accuracy),
                    optional(log.test.as_ref().and_then(|test| test.loss)),
                    self.study.bytes_moved(clients, asked)
                );
                if timed {
                    let _ = write!(csv, ",{seconds:.3}");
                }
                csv.push('\n');
            }
        }
        Ok(csv)
    }

    /// Every client of every run.
    pub(super) fn clients_csv(&self) -> String {
        let mut csv = String::from("policy,seed,client,samples,selections,age,accuracy\n");
        for record in self.records.iter().filter(|record| !record.logs.is_empty()) {
            let (policy, seed) = (quoted(self.label(record)), self.seed(record));
            for (number, client) in record.clients.iter().enumerate() {
                let _ = writeln!(
                    csv,
                    "{policy},{seed},{number},{},{},{},{}",
                    client.samples,
                    client.selections,
                    client.age,
                    optional(client.accuracy)
                );
            }
        }
        csv
    }

    /// For each run the name of its event file, and the file.
    pub(super) fn event_files(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        let counts = self.study.test_counts();
        self.records.iter().filter(|record| !record.logs.is_empty()).map(move |record| {
            let policy = slug(&self.study, record.id.contender);
            let name = format!("{policy}/seed-{}/{FILE_NAME}", self.seed(record));
            let mut file = EventFile::new();
            for log in &record.logs {
                let test = log.test.as_ref();
                let scalars = [
                    ("test/accuracy", test.and_then(|test| test.accuracy(&counts))),
                    ("test/loss", test.and_then(|test| test.loss)),
                    ("training/loss", training_loss(log).map(f64::from)),
                    ("round/cohort", Some(log.clients.len() as f64)),
                ];
                for (tag, value) in scalars {
                    if let Some(value) = value {
                        file.scalar(tag, log.round + 1, value as f32);
                    }
                }
            }
            (name, file.into_bytes())
        })
    }
}

/// The mean training loss of the updates that were taken.
fn training_loss(log: &RoundLog) -> Option<f32> {
    let taken: Vec<f32> = log.losses.iter().flatten().copied().collect();
    (!taken.is_empty()).then(|| taken.iter().sum::<f32>() / taken.len() as f32)
}
