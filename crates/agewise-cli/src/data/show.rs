//! `agewise data show`: what is in a data set or in files of one's own, and how clients share it.

use super::super::run_args::{parse, set, table_of};
use super::super::table::{prose, table};
use super::super::{Failure, print, whole_number};
use super::{DataDir, FileArgs};
use agewise_core::{Seed, SizeDistribution};
use agewise_experiment::{ExperimentParams, RunDir, TrainingParams, load_data, split_partition};
use agewise_report::data::{Shown, show};
use agewise_report::format::number;
use agewise_train::data::{FeatureScale, MinMedianMax, PartitionParams, is_known};
use clap::Args;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The clients that share data without clients of their own.
const CLIENTS: u64 = 20;
/// The samples that each of them has at least, of a data set that is known: one batch.
const LEAST: u64 = 50;

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The data set, or a file or a folder of your own
    #[arg(default_value = "digits", value_name = "NAME|FILE")]
    name: String,

    #[command(flatten)]
    place: DataDir,

    /// How labels are spread over clients: iid, dirichlet:ALPHA or shards:K; or clients[:COLUMN], the clients of the data
    /// [default: clients with --client, iid without]
    #[arg(long, value_name = "DISTRIBUTION")]
    partition: Option<String>,

    /// How data sizes are spread over clients: equal, zipf:A or lognormal:S
    #[arg(long, value_name = "DISTRIBUTION", default_value_t, value_parser = parse::<SizeDistribution>)]
    sizes: SizeDistribution,

    /// The seed of the partition, and of the samples that are held out
    #[arg(long, default_value_t, value_parser = whole_number::parse, allow_negative_numbers = true)]
    seed: u64,

    /// n: clients [default: 20, or all clients of the data]
    #[arg(long, value_name = "N", value_parser = whole_number::parse, allow_negative_numbers = true)]
    clients: Option<u64>,

    /// The samples that each client has at least [default: 50, or 1 for data of your own]
    #[arg(long, value_name = "SAMPLES", value_parser = whole_number::parse, allow_negative_numbers = true)]
    batch: Option<u64>,

    /// The folder for the pictures [default: a new one under runs/]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Write into a folder that is not empty
    #[arg(long, requires = "out")]
    force: bool,

    /// Print the summary as one JSON document instead of the table
    #[arg(long)]
    json: bool,

    // At the end, because its heading stays for what follows.
    #[command(flatten)]
    files: FileArgs,
}

impl ShowArgs {
    /// The flags as parameters of training.
    fn training(&self) -> Result<TrainingParams, Failure> {
        let mut changes = Table::new();
        changes.insert("training".to_string(), Value::Table(table_of(&self.files)?));
        set(&mut changes, "training", "data", self.name.clone());
        if let Some(partition) = &self.partition {
            set(&mut changes, "training", "partition", partition.clone());
        } else if self.files.client.is_none() {
            set(&mut changes, "training", "partition", "iid");
        }
        let params = ExperimentParams::comparison().with(&changes)?;
        Ok(params.training.unwrap_or_default())
    }
}

/// Runs the command.
pub(super) fn run(args: &ShowArgs) -> Result<(), Failure> {
    let mut training = args.training()?;
    let (distribution, seed) = (split_partition(&training.partition).0.parse()?, Seed(args.seed));
    // What is shown is what is in the file.
    training.features.get_or_insert(FeatureScale::Raw);
    let data = load_data(&mut training, seed, &args.place.folders())?;
    let natural = data.clients.as_ref().map(|clients| clients.len() as u64);
    let natural = natural.filter(|_| training.partition == "clients");
    let params = PartitionParams {
        distribution,
        sizes: args.sizes,
        clients: args.clients.or(natural).unwrap_or(CLIENTS),
        least: args.batch.unwrap_or(if is_known(&args.name) { LEAST } else { 1 }),
        seed,
    };
    let partition = params.check(&data)?.split();
    let shown = show(&data, &params, &partition);
    let dir = RunDir::create(args.out.as_deref(), "data", args.force)?;
    shown.write(&dir)?;
    if args.json { print(&shown.json()?) } else { print(&text(&shown, dir.path())) }
}

fn text(shown: &Shown, folder: &Path) -> String {
    let summary = &shown.summary;
    let out = &summary.summary;
    let row = |name: &str, spread: MinMedianMax| {
        [name.to_string(), number(spread.min), number(spread.median), number(spread.max)]
    };
    let mut rows = vec![row("samples", out.sizes)];
    if !summary.classes.is_empty() {
        rows.push(row("classes", out.classes));
    }
    let mut text = String::new();
    let mut say = |line: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", prose(line));
    };
    say(&summary.contents());
    let least = if summary.partition == "clients" {
        String::new()
    } else {
        format!(", sizes {}, at least {} each", summary.sizes, summary.batch)
    };
    say(&format!(
        "{} training samples among {} clients, partition {}{least}, seed {}",
        out.images, out.clients, summary.partition, summary.seed
    ));
    let _ = writeln!(text, "{}", table(["per client", "min", "median", "max"], 1..=3, rows));
    if let Some(names) = summary.extreme_clients() {
        let _ = writeln!(text, "{}", prose(&names));
    }
    if !summary.classes.is_empty() {
        let rows = summary
            .classes
            .iter()
            .map(|class| [class.name.clone(), class.train.to_string(), class.test.to_string()]);
        // Many classes are in summary.json.
        if summary.classes.len() <= 20 {
            let _ = writeln!(text, "{}", table(["class", "training", "test"], 1..=2, rows));
        }
        let distance = format!(
            "Mean total variation distance between the labels of a client and all labels: {}",
            number(out.mean_distance)
        );
        let _ = writeln!(text, "{}", prose(&distance));
    }
    let _ = writeln!(text, "\nPictures: {}", folder.join("labels.png").display());
    let _ = writeln!(text, "          {}", folder.join("samples.png").display());
    text
}
