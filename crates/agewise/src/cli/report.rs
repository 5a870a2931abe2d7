//! `agewise report`: draws comparisons again, from their folders.

use super::{Failure, config, print};
use crate::compare::{self, Comparison, KEYS_LEFT_OUT, prepare};
use crate::data::folders;
use crate::report::write_atomically;
use crate::run_folder::{CONFIG, RunFolder};
use clap::Args;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const ABOUT: &str = "Draw the report of a comparison again, or put several into one";

const TEACHING: &str = "\
Draw the tables, figures and the report of a comparison again, from the logs in its folder. With --out, write one page \
about one or several comparisons instead and leave their folders alone.";

const EXAMPLES: &str = "\
Examples:
  agewise report runs/compare-001
  agewise report runs/compare-001 runs/compare-002 --out both.html";

#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = TEACHING, after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// The folders of comparisons
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// Write one page about all of them to this file
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,

    /// A folder with data sets, looked into before AGEWISE_DATA and the default folder
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    if args.runs.len() > 1 && args.out.is_none() {
        let message = "out is not given: expected --out FILE.html for a report about several runs";
        return Err(Failure::BadInput(message.to_string()));
    }
    let mut comparisons = Vec::with_capacity(args.runs.len());
    for path in &args.runs {
        let folder = RunFolder::open(path)?;
        let params = config::read(&path.join(CONFIG), KEYS_LEFT_OUT)?;
        let study = prepare(params, &folders(args.data_dir.as_deref()))?;
        let comparison = Comparison::read(study, &folder)?;
        check_logs(&folder, &comparison)?;
        comparisons.push((folder, comparison));
    }
    let Some(out) = &args.out else {
        let mut text = String::new();
        for (folder, comparison) in &comparisons {
            let _lock = folder.lock()?;
            comparison.write(folder, &comparison.summary())?;
            let _ = writeln!(text, "Report: {}", folder.path().join("report.html").display());
        }
        return print(&text);
    };
    let named: Vec<(String, Comparison)> = comparisons
        .into_iter()
        .map(|(folder, comparison)| (name_of(folder.path()), comparison))
        .collect();
    if out.is_dir() {
        let message = format!("out = {}: expected the name of a file, not a folder", out.display());
        return Err(Failure::BadInput(message));
    }
    let page = compare::report(&named)?.to_html();
    write_atomically(out, page.as_bytes()).map_err(|error| {
        let message = format!("out = {}: {error}", out.display());
        match error.kind() {
            std::io::ErrorKind::NotFound => Failure::BadInput(message),
            _ => Failure::Trouble(message),
        }
    })?;
    print(&format!("Report: {}\n", out.display()))
}

/// Refuses to draw less than what was there: logs may have been lost since.
fn check_logs(folder: &RunFolder, comparison: &Comparison) -> Result<(), Failure> {
    let summary = folder.read("summary.json")?.unwrap_or_default();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap_or_default();
    let before = summary["finished_runs"].as_u64().unwrap_or(0);
    let now = comparison.records.iter().filter(|record| record.finished).count() as u64;
    if now >= before {
        return Ok(());
    }
    Err(Failure::BadInput(format!(
        "{}: {now} finished runs: expected the {before} of summary.json; logs are missing or damaged, and `agewise compare \
         --resume` plays them again",
        folder.path().join("log").display()
    )))
}

fn name_of(path: &Path) -> String {
    let name = path
        .canonicalize()
        .ok()
        .and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| path.display().to_string())
}
