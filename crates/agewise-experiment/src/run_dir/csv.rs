//! The tables of a run directory, as CSV, and its TensorBoard event files.

use super::tensorboard::{EventFile, FILE_NAME};
use crate::clock::RoundCosts;
use crate::experiment::Experiment;
use crate::log::{RoundLog, TestScore};
use crate::record::{Record, RoundRecord};
use crate::results::Results;
use crate::summary::Summary;
use agewise_core::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Display;

/// A table with a header, in memory.
pub(super) struct CsvTable(csv::Writer<Vec<u8>>);

impl CsvTable {
    pub(super) fn new(columns: &[&str]) -> Result<Self> {
        let mut table = Self(csv::Writer::from_writer(Vec::new()));
        table.row(columns.iter().copied())?;
        Ok(table)
    }

    /// One more row, with as many cells as there are columns.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<()> {
        self.0.write_record(cells).map_err(|error| failed(&error))
    }

    /// The text of the file.
    pub(super) fn finish(self) -> Result<String> {
        let bytes = self.0.into_inner().map_err(|error| failed(error.error()))?;
        String::from_utf8(bytes).map_err(|error| failed(&error))
    }
}

fn failed(error: &dyn Display) -> Error {
    Error::new("table", error, "rows of text with a cell for each column")
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
            ("windows.csv", windows_csv(summary)?),
        ];
        if self.experiment.task().is_some() {
            tables.push(("clients.csv", self.clients_csv()?));
        }
        Ok(tables)
    }

    /// The first two cells of a run's rows.
    fn cells(&self, record: &Record) -> [String; 2] {
        let policy = self.experiment.variants()[record.id.variant].name();
        [policy.to_string(), self.experiment.seed(record.id.seed).0.to_string()]
    }

    /// Every round of every run.
    fn rounds_csv(&self) -> Result<String> {
        let mut columns = vec!["policy", "seed", "round"];
        columns.extend([
            "available",
            "selected",
            "reported",
            "forced",
            "target_interval",
            "sigma_so_far",
        ]);
        if self.experiment.task().is_some() {
            columns.extend(["rejected", "training_loss", "accuracy", "loss", "bytes_moved"]);
        }
        // The simulated time only where some clients are faster than others.
        let has_clock = self.experiment.has_clock();
        let timed = !self.experiment.speeds().is_usual() && !has_clock;
        columns.extend(timed.then_some("simulated_seconds"));
        columns.extend(if has_clock { &CLOCK_COLUMNS[..] } else { &[] });
        let mut table = CsvTable::new(&columns)?;
        for record in &self.records {
            let logs = record.training.iter().flat_map(|training| &training.logs);
            let mut logs = logs.map(Some).chain(std::iter::repeat(None));
            let (mut bytes, mut seconds, mut costs) = (0, 0.0, RoundCosts::default());
            for (round, (row, log)) in (1u64..).zip(record.rounds.iter().zip(&mut logs)) {
                let mut cells = self.cells(record).to_vec();
                cells.push(round.to_string());
                cells.extend(round_cells(row));
                if let Some(log) = log {
                    bytes += self.experiment.bytes_of(log);
                    cells.extend(training_cells(log));
                    cells.push(bytes.to_string());
                }
                if let Some(log) = log.filter(|_| timed) {
                    seconds += self.experiment.context(record.id.seed)?.seconds(log);
                    cells.push(format!("{seconds:.3}"));
                }
                if let Some(log) = log.filter(|_| has_clock) {
                    costs.add(&log.clock.as_ref().map_or(RoundCosts::default(), |it| it.costs));
                    cells.extend(clock_cells(log, &costs));
                }
                table.row(cells)?;
            }
        }
        table.finish()
    }

    /// Every client of every training run.
    fn clients_csv(&self) -> Result<String> {
        let columns = ["policy", "seed", "client", "samples", "selections", "age", "accuracy"];
        let mut table = CsvTable::new(&columns)?;
        for record in self.records.iter().filter(|record| !record.rounds.is_empty()) {
            let [policy, seed] = self.cells(record);
            let clients = record.training.iter().flat_map(|training| &training.clients);
            for (number, client) in clients.enumerate() {
                let counts = [number as u64, client.samples, client.selections.into(), client.age];
                let [number, samples, selections, age] = counts.map(|count| count.to_string());
                let accuracy = optional(client.accuracy);
                table.row([&policy, &seed, &number, &samples, &selections, &age, &accuracy])?;
            }
        }
        table.finish()
    }

    /// Every X, over all seeds, beside its probability.
    fn intervals_csv(&self) -> Result<String> {
        let mut table = CsvTable::new(&["policy", "interval", "count", "share", "theory"])?;
        for (place, variant) in self.experiment.variants().iter().enumerate() {
            let counts = self.interval_counts(place);
            let total: u64 = counts.values().sum();
            let theory = self.experiment.theory(place)?;
            let theory: BTreeMap<u64, f64> =
                theory.into_iter().flat_map(|theory| theory.interval_distribution).collect();
            for (interval, count) in counts {
                let share = (count as f64 / total as f64).to_string();
                let expected = optional(theory.get(&interval));
                let [interval, count] = [interval, count].map(|number| number.to_string());
                table.row([variant.name(), &interval, &count, &share, &expected])?;
            }
        }
        table.finish()
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

fn round_cells(row: &RoundRecord) -> [String; 6] {
    let &RoundRecord { available, selected, reported, forced, interval, sigma } = row;
    [
        optional(available),
        selected.to_string(),
        reported.to_string(),
        u8::from(forced).to_string(),
        interval.to_string(),
        optional(sigma),
    ]
}

/// What a clock adds to each round: late clients, the mean staleness where there are no rounds, and sums over the rounds so
/// far.
const CLOCK_COLUMNS: [&str; 8] = [
    "late",
    "staleness",
    "simulated_seconds",
    "client_seconds",
    "wasted_client_seconds",
    "bytes_down",
    "bytes_up",
    "joules",
];

fn clock_cells(log: &RoundLog, so_far: &RoundCosts) -> [String; 8] {
    let staleness = log.staleness.iter().sum::<u64>() as f64 / log.staleness.len() as f64;
    let seconds = |seconds: f64| format!("{seconds:.3}");
    [
        log.late.len().to_string(),
        optional((!log.staleness.is_empty()).then_some(staleness)),
        seconds(so_far.seconds),
        seconds(so_far.client_seconds),
        seconds(so_far.wasted_seconds),
        so_far.bytes_down.to_string(),
        so_far.bytes_up.to_string(),
        optional(so_far.joules.map(seconds)),
    ]
}

fn training_cells(log: &RoundLog) -> [String; 4] {
    let test = log.test.as_ref();
    [
        log.rejected().to_string(),
        optional(log.training_loss()),
        optional(test.and_then(TestScore::accuracy)),
        optional(test.and_then(|test| test.loss)),
    ]
}

/// sqrt(Var Y)/T for every T.
fn windows_csv(summary: &Summary) -> Result<String> {
    let columns = ["policy", "window", "sd_over_window", "half_width_95", "theory"];
    let mut table = CsvTable::new(&columns)?;
    for variant in &summary.policies {
        for (window, sd) in &variant.window_sd {
            let theory = variant.theory.as_ref().and_then(|theory| theory.window_sd.get(window));
            let [window, mean] = [window.to_string(), sd.mean.to_string()];
            let (half, theory) = (optional(sd.half_width), optional(theory));
            table.row([&variant.policy, &window, &mean, &half, &theory])?;
        }
    }
    table.finish()
}
