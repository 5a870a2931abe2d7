//! `agewise doctor`: what this machine has for agewise, and what is missing.

use super::data::DataDir;
use super::web_browser::opener;
use super::{Failure, print, print_json};
use agewise_experiment::run_dir::processor;
use agewise_train::data::{CATALOGUE, CatalogueEntry, DATA_VARIABLE};
use clap::Args;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

#[derive(Debug, Args)]
#[command(
    about = "Say what this machine has for agewise, and what is missing",
    long_about = "Say which version this is, which kernels train, how many threads there are, where data sets are looked \
for and which are there, and what is missing for a command to work. Nothing is changed."
)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    place: DataDir,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Findings {
    version: &'static str,
    commit: Option<&'static str>,
    system: String,
    processor: Option<String>,
    kernels: &'static str,
    all_kernels: Vec<&'static str>,
    threads: usize,
    data_folders: Vec<Folder>,
    data_sets: Vec<DataSet>,
    runs_folder: Folder,
    opens_pages_with: Option<String>,
    python: Option<Python>,
    missing: Vec<String>,
}

/// Asks for versions without importing what they belong to, which would take seconds.
const PYTHON_SCRIPT: &str = "import importlib.metadata as m, platform
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return ''
print(platform.python_version(), version('agewise'), version('flwr'), sep='\\n')";

/// The Python that comes first on the path, and what of ours it has.
#[derive(Debug, Serialize)]
struct Python {
    version: String,
    agewise: Option<String>,
    flower: Option<String>,
}

impl Python {
    fn look() -> Option<Self> {
        let output = Command::new("python3").args(["-c", PYTHON_SCRIPT]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        let mut lines =
            text.lines().map(|line| Some(line.to_string()).filter(|line| !line.is_empty()));
        let version = lines.next()??;
        Some(Self { version, agewise: lines.next()?, flower: lines.next()? })
    }

    fn words(&self) -> String {
        let package = |name: &str, version: &Option<String>| match version {
            Some(version) => format!("{name} {version}"),
            None => format!("no {name}"),
        };
        let (agewise, flower) =
            (package("agewise", &self.agewise), package("Flower", &self.flower));
        format!("{}, with {agewise} and {flower}", self.version)
    }
}

/// A folder, and whether it is there and can be written to.
#[derive(Debug, Serialize)]
struct Folder {
    path: PathBuf,
    exists: bool,
    writable: bool,
}

impl Folder {
    fn look(path: PathBuf) -> Self {
        let exists = path.is_dir();
        // What is not there is made in the next folder above it that is.
        let parent = path.ancestors().find(|path| path.is_dir() || path.as_os_str().is_empty());
        let parent = match parent {
            Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
            Some(parent) => parent.to_path_buf(),
            None => path.clone(),
        };
        let writable = is_writable(&parent);
        Self { path, exists, writable }
    }

    fn words(&self) -> &'static str {
        match (self.exists, self.writable) {
            (true, true) => "there",
            (true, false) => "there, cannot be written to",
            (false, true) => "not there, can be made",
            (false, false) => "not there, cannot be made",
        }
    }
}

/// Whether a file can be made there: permissions alone do not say it of a full or a read-only disk.
fn is_writable(folder: &std::path::Path) -> bool {
    let probe = folder.join(format!(".agewise-doctor-{}", std::process::id()));
    let made = std::fs::OpenOptions::new().write(true).create_new(true).open(&probe).is_ok();
    if made {
        let _ = std::fs::remove_file(&probe);
    }
    made
}

/// A data set of the catalogue.
#[derive(Debug, Serialize)]
struct DataSet {
    name: &'static str,
    /// Where it is, or how one gets it.
    place: Result<String, String>,
}

impl DataSet {
    fn look(entry: &CatalogueEntry, folders: &[PathBuf]) -> Self {
        let place = match entry.find_in(folders) {
            Ok(files) => Ok(files
                .place()
                .map_or("inside the program".to_string(), |path| path.display().to_string())),
            Err(_) if entry.mirrors.is_empty() => {
                Err("not here; it cannot be downloaded, see docs/data.md".to_string())
            }
            Err(_) => Err(format!("not here; `agewise data fetch {}` downloads it", entry.name)),
        };
        Self { name: entry.name, place }
    }
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let findings = Findings::look(&args.place.folders())?;
    if args.json { print_json(&findings) } else { print(&findings.text()) }
}

impl Findings {
    fn look(folders: &[PathBuf]) -> Result<Self, Failure> {
        let kernels = agewise_train::selected_backend()?.name();
        let all_kernels =
            agewise_train::Backend::available().into_iter().map(agewise_train::Backend::name);
        let all_kernels: Vec<&str> = all_kernels.collect();
        let data_sets: Vec<DataSet> =
            CATALOGUE.iter().map(|entry| DataSet::look(entry, folders)).collect();
        let runs_folder = Folder::look(PathBuf::from("runs"));
        let opens_pages_with = opener();
        let mut missing = Vec::new();
        if all_kernels.first() != Some(&kernels) {
            missing.push(format!(
                "speed: this machine could train with {}, and AGEWISE_KERNELS says {kernels}",
                all_kernels[0]
            ));
        }
        if !runs_folder.writable {
            missing.push(
                "a folder for runs: this one cannot be written to, so give --out".to_string(),
            );
        }
        if folders.is_empty() {
            missing.push(format!("a folder for data sets: set {DATA_VARIABLE} or give --data-dir"));
        }
        if opens_pages_with.is_none() {
            missing.push("a program that opens pages: `report --open` needs one".to_string());
        }
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("AGEWISE_COMMIT"),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            processor: processor(),
            kernels,
            all_kernels,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            data_folders: folders.iter().cloned().map(Folder::look).collect(),
            data_sets,
            runs_folder,
            opens_pages_with,
            python: Python::look(),
            missing,
        })
    }

    fn text(&self) -> String {
        let mut text = format!("agewise {}", self.version);
        let commit = self.commit.map_or(String::new(), |commit| format!(" ({commit})"));
        let processor = self.processor.as_deref().unwrap_or("unknown processor");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{commit} on {}, {processor}", self.system);
        let _ = writeln!(
            text,
            "kernels:   {} (of {}; all give the same bits)",
            self.kernels,
            self.all_kernels.join(", ")
        );
        let _ = writeln!(text, "threads:   {}", self.threads);
        let _ = writeln!(
            text,
            "runs:      {} ({})",
            self.runs_folder.path.display(),
            self.runs_folder.words()
        );
        let opener = self.opens_pages_with.as_deref().unwrap_or("nothing found");
        let _ = writeln!(text, "pages:     opened with {opener}");
        let python = self.python.as_ref().map_or("not found".to_string(), Python::words);
        let _ = writeln!(text, "python:    {python}");
        text += "data folders, in this order:\n";
        for folder in &self.data_folders {
            let _ = writeln!(text, "  {} ({})", folder.path.display(), folder.words());
        }
        text += "data sets:\n";
        for DataSet { name, place } in &self.data_sets {
            let place = place.as_ref().unwrap_or_else(|how| how);
            let _ = writeln!(text, "  {name:<14} {place}");
        }
        if self.missing.is_empty() {
            text += "Nothing is missing: `agewise compare` works offline.\n";
        } else {
            text += "missing:\n";
            for what in &self.missing {
                let _ = writeln!(text, "  {what}");
            }
        }
        text
    }
}
