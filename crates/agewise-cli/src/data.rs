//! `agewise data`: which data sets there are, fetching and checking them, and how clients would share them.

mod show;

use super::progress::{bar, writes_lines};
use super::run_args::parse;
use super::table::table;
use super::{Failure, print, print_json, whole_number};
use agewise_core::{Seed, SizeDistribution};
use agewise_train::data::{
    CATALOGUE, CatalogueEntry, DATA_VARIABLE, DataError, DatasetFiles, FeatureScale, FetchError,
    FetchStep, Fetched, Integrity, Loss, PartitionDistribution, PartitionParams, Split, fetch,
    folders,
};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

const ABOUT: &str = "Data sets: list, fetch and verify them, and show how clients would share them";

const EXAMPLES: &str = "\
Examples:
  agewise data list
  agewise data fetch mnist
  agewise data verify
  agewise data show digits --partition dirichlet:0.3 \\
    --sizes zipf:2 --clients 20 --batch 50
  agewise data show mnist --data-dir ~/data \\
    --partition shards:2 --clients 100
  # The writers of MNIST as clients
  agewise data show mnist --partition clients
  # A file of your own
  agewise data show visits.csv --label bought \\
    --client user";

#[derive(Debug, Args)]
#[command(about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    command: DataCommand,
}

#[derive(Debug, Subcommand)]
enum DataCommand {
    /// Which data sets there are, and which of them are here
    List(ListArgs),
    /// Download a data set and check it
    Fetch(FetchArgs),
    /// Check the checksums of the files that are here
    Verify(VerifyArgs),
    /// Draw samples of a data set or a file, and which labels each client has
    Show(Box<show::ShowArgs>),
}

/// Where data sets are.
#[derive(Debug, Args)]
pub(crate) struct DataDir {
    /// A folder with data sets, looked into before AGEWISE_DATA and the default folder
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl DataDir {
    /// The folders that are looked into.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        folders(self.data_dir.as_deref())
    }
}

/// What is in files of one's own. The fields have the names of the table `[training]`.
#[derive(Debug, Args, Serialize)]
#[command(next_help_heading = "Data of your own")]
pub(crate) struct FileArgs {
    /// The labels: a column of a table, an array of an .npz, an idx file [default: what is called label, class, target or y]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,

    /// Whose each sample is: a column, an array, a file with a line or a byte for each image, or `folder` for pictures in
    /// CLIENT/CLASS/FILE.png
    #[arg(long, value_name = "COLUMN")]
    client: Option<String>,

    /// A file with test samples, of the same format
    #[arg(long, value_name = "FILE")]
    test: Option<String>,

    /// The share of each client's samples that is held out, where there are no test samples [default: 0.2]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    holdout: Option<f64>,

    /// Columns of a .csv that are no features, separated by commas
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore: Option<Vec<String>>,

    /// How features become numbers: standardised by the training samples, or raw [default: standardised]
    #[arg(long, value_name = "SCALE", value_parser = parse::<FeatureScale>)]
    features: Option<FeatureScale>,

    /// What is predicted: classes (cross-entropy) or numbers (squared); auto: numbers if a label has a fraction or the
    /// model is linear [default: auto]
    #[arg(long, value_name = "auto|cross-entropy|squared", value_parser = parse::<Loss>)]
    loss: Option<Loss>,
}

/// How clients share the data.
#[derive(Debug, Args)]
pub(crate) struct PartitionArgs {
    /// How labels are spread over clients: iid, dirichlet:ALPHA or shards:K
    #[arg(long, value_name = "DISTRIBUTION", default_value_t, value_parser = parse::<PartitionDistribution>)]
    partition: PartitionDistribution,

    /// How data sizes are spread over clients: equal, zipf:A or lognormal:S
    #[arg(long, value_name = "DISTRIBUTION", default_value_t, value_parser = parse::<SizeDistribution>)]
    sizes: SizeDistribution,

    /// The seed of the partition
    #[arg(long, default_value_t, value_parser = whole_number::parse, allow_negative_numbers = true)]
    seed: u64,
}

impl PartitionArgs {
    /// The partition among so many clients, each of which has at least so many images.
    pub(crate) fn params(&self, clients: u64, least: u64) -> PartitionParams {
        let (distribution, sizes, seed) = (self.partition, self.sizes, Seed(self.seed));
        PartitionParams { distribution, sizes, clients, least, seed }
    }
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    place: DataDir,

    /// Print one JSON document instead of the table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct FetchArgs {
    /// The data set: mnist, fashion-mnist, cifar-10 or cifar-100
    name: String,

    /// The folder that gets a subfolder with the files [default: AGEWISE_DATA, or the system's data folder]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Download from this address, to which the names of the files are added, and from no other
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,

    /// No progress
    #[arg(long)]
    quiet: bool,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// The data set [default: all that are here]
    name: Option<String>,

    #[command(flatten)]
    place: DataDir,
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        match error {
            DataError::Io { .. } => Self::Io(error.to_string()),
            _ => Self::BadInput(error.to_string()),
        }
    }
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Embedded(_) | FetchError::NotPublished(_) => {
                Self::BadInput(error.to_string())
            }
            FetchError::Data(error) => error.into(),
            FetchError::Io(..) | FetchError::Unavailable(..) => Self::Io(error.to_string()),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &DataArgs) -> Result<(), Failure> {
    match &args.command {
        DataCommand::List(args) => run_list(args),
        DataCommand::Fetch(args) => run_fetch(args),
        DataCommand::Verify(args) => run_verify(args),
        DataCommand::Show(args) => show::run(args),
    }
}

/// One data set in the list.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    train: u32,
    test: u32,
    classes: u32,
    shape: String,
    licence: &'static str,
    source: &'static str,
    place: Option<String>,
    #[serde(skip)]
    can_be_fetched: bool,
}

impl Listed {
    fn new(entry: &CatalogueEntry, folders: &[PathBuf]) -> Self {
        let place = entry.find_in(folders).ok().map(|found| match found.place() {
            None => "inside the program".to_string(),
            Some(path) => path.display().to_string(),
        });
        Self {
            name: entry.name,
            train: entry.images(Split::Train),
            test: entry.images(Split::Test),
            classes: entry.classes,
            shape: entry.shape.to_string(),
            licence: entry.licence,
            source: entry.source,
            place,
            can_be_fetched: !entry.mirrors.is_empty(),
        }
    }
}

fn run_list(args: &ListArgs) -> Result<(), Failure> {
    let folders = args.place.folders();
    let listed: Vec<Listed> = CATALOGUE.iter().map(|entry| Listed::new(entry, &folders)).collect();
    if args.json {
        return print_json(&listed);
    }
    let rows = listed.iter().map(|set| {
        [
            set.name.to_string(),
            set.train.to_string(),
            set.test.to_string(),
            set.classes.to_string(),
            set.shape.clone(),
            set.licence.to_string(),
            set.place.clone().unwrap_or_else(|| {
                if set.can_be_fetched {
                    format!("agewise data fetch {}", set.name)
                } else {
                    "not here, see docs/data.md".to_string()
                }
            }),
        ]
    });
    let columns = ["name", "train", "test", "classes", "shape", "licence", "where"];
    let mut text = format!("{}\n", table(columns, 1..=3, rows));
    text += "Folders, in this order:\n";
    for folder in &folders {
        let _ = writeln!(text, "  {}", folder.display());
    }
    print(&text)
}

fn run_fetch(args: &FetchArgs) -> Result<(), Failure> {
    let entry = CatalogueEntry::named(&args.name)?;
    let folder = match folders(args.data_dir.as_deref()).first() {
        Some(folder) => folder.join(entry.name),
        None => {
            return Err(Failure::BadInput(format!(
                "data_dir is not given: expected --data-dir DIR or {DATA_VARIABLE}, as this system has no data folder"
            )));
        }
    };
    if let Some(mirror) = &args.mirror
        && !["http://", "https://"].iter().any(|scheme| mirror.starts_with(scheme))
    {
        let expected = "an address that begins with http:// or https://";
        return Err(agewise_core::Error::new("mirror", mirror, expected).into());
    }
    let mirrors = match &args.mirror {
        Some(mirror) => vec![mirror.as_str()],
        None => entry.mirrors.to_vec(),
    };
    let progress = FetchProgress::new(args.quiet);
    let fetched = fetch(entry, &folder, &mirrors, &|step| progress.show(step));
    progress.bar.finish_and_clear();
    let mut text = String::new();
    for (path, fetched) in fetched? {
        let what = match fetched {
            Fetched::AlreadyHere => "was here already",
            Fetched::Downloaded => "downloaded",
            Fetched::Replaced => "downloaded, in place of a file with another checksum",
        };
        let _ = writeln!(text, "{}: {what}", path.display());
    }
    let _ = writeln!(text, "{}; licence: {}", entry.source, entry.licence);
    print(&text)
}

/// The progress of downloads: a bar in a terminal, a line for each file elsewhere.
struct FetchProgress {
    bar: ProgressBar,
    lines: bool,
}

impl FetchProgress {
    fn new(quiet: bool) -> Self {
        let template =
            "{msg} {wide_bar:.cyan/black} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        Self { bar: bar(0, template, quiet), lines: writes_lines(quiet) }
    }

    fn show(&self, step: FetchStep<'_>) {
        match step {
            FetchStep::Begin { url, bytes, resumed } => {
                self.bar.set_length(bytes);
                self.bar.reset();
                self.bar.set_position(resumed);
                self.bar.set_message(url.rsplit('/').next().unwrap_or(url).to_string());
                let from =
                    if resumed > 0 { format!(", from byte {resumed} on") } else { String::new() };
                self.line(&format!("{url}, {bytes} bytes{from}"));
            }
            FetchStep::Bytes(count) => self.bar.inc(count),
            FetchStep::Failed(reason) => {
                self.bar.suspend(|| self.line(&format!("  download failed: {reason}")));
            }
            FetchStep::Done => {}
        }
    }

    fn line(&self, text: &str) {
        if self.lines {
            // If nothing can be printed, the download matters more.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }
}

/// The data sets that are complete somewhere. What others lack is added to `wrong`.
fn complete_sets(
    folders: &[PathBuf],
    wrong: &mut Vec<String>,
) -> Result<Vec<(&'static CatalogueEntry, DatasetFiles)>, Failure> {
    let mut complete = Vec::new();
    for entry in CATALOGUE {
        match entry.find_in(folders) {
            Ok(found) => complete.push((entry, found)),
            Err(DataError::Missing { looked, .. }) => {
                // Two data sets have the same file names; what is missing is said once.
                for file in looked.into_iter().filter_map(|(_, lacks)| lacks) {
                    let missing =
                        format!("{file}: missing (other files of the data set are there)");
                    if !wrong.contains(&missing) {
                        wrong.push(missing);
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(complete)
}

fn run_verify(args: &VerifyArgs) -> Result<(), Failure> {
    if let Some(folder) = args.place.data_dir.as_deref().filter(|folder| !folder.is_dir()) {
        let value = folder.display();
        return Err(agewise_core::Error::new("data-dir", value, "an existing folder").into());
    }
    let mut wrong = Vec::new();
    let folders = args.place.folders();
    let found: Vec<(&CatalogueEntry, DatasetFiles)> = match &args.name {
        Some(name) => {
            let entry = CatalogueEntry::named(name)?;
            vec![(entry, entry.find_in(&folders)?)]
        }
        None => complete_sets(&folders, &mut wrong)?,
    };
    let mut rows = Vec::new();
    for (entry, found) in found {
        for (path, verdict) in entry.verify(&found)? {
            let path = path.display().to_string();
            let says = match verdict {
                Integrity::Published => "verified: the published file",
                Integrity::SameContents => "verified: the same contents",
                Integrity::Unknown => "no checksum is known for this form of the file",
                Integrity::Wrong { found, expected } => {
                    wrong.push(format!("{path}: SHA-256 {found}; expected {expected}"));
                    "WRONG"
                }
            };
            rows.push([entry.name.to_string(), path, says.to_string()]);
        }
    }
    print(&format!("{}\n", table(["data set", "file", "checksum"], [], rows)))?;
    if wrong.is_empty() { Ok(()) } else { Err(Failure::BadInput(wrong.join("\n"))) }
}
