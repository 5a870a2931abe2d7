//! `agewise report`: draws experiments again, from their folders.

use super::data::DataDir;
use super::{Failure, live_report, print, web_browser};
use agewise_core::files::write_atomically;
use agewise_experiment::run_dir::{LOGS, REPORT, SUMMARY};
use agewise_experiment::{Experiment, Results, RunDir, read};
use agewise_report::{ReportSection, RunFiles, page};
use clap::Args;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

const ABOUT: &str = "Draw the report of a run again, or put several into one";

const TEACHING: &str = "\
Draw the tables, figures and the report of a run again, from the logs in its folder; of a comparison or a simulation. \
With --out, write one page about one or several runs instead and leave their folders alone. With --serve, show a run \
while it goes on: the page follows it, on this machine only, and nothing is written.";

const EXAMPLES: &str = "\
Examples:
  agewise report runs/compare-001
  agewise report runs/compare-001 --open
  agewise report runs/compare-001 --serve --open
  agewise report runs/compare-001 runs/simulate-001 \\
    --out all.html";

#[derive(Debug, Args)]
#[command(about = ABOUT, long_about = TEACHING, after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// The folders of comparisons and simulations
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// Write one page about all of them to this file
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,

    /// Replace a page that exists
    #[arg(long, requires = "out")]
    force: bool,

    /// Open the page in the browser
    #[arg(long)]
    open: bool,

    /// Show a run while it goes on, until Ctrl-C
    #[arg(long, conflicts_with = "out")]
    serve: bool,

    /// The address of this machine on which the page is shown
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7072", requires = "serve")]
    listen: SocketAddr,

    #[command(flatten)]
    place: DataDir,
}

/// Runs the command.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    if args.runs.len() > 1 && args.out.is_none() && !args.serve {
        let message = "out is not given: expected --out FILE.html for a report about several runs";
        return Err(Failure::BadInput(message.to_string()));
    }
    if let Some(out) = &args.out {
        check_out(out, args.force)?;
    }
    let folders = args.place.folders();
    if args.serve {
        let [path] = &args.runs[..] else {
            return Err(agewise_core::Error::new("serve", args.runs.len(), "one run").into());
        };
        return live_report::serve(
            RunDir::open(path)?,
            folders,
            name_of(path),
            args.listen,
            args.open,
        );
    }
    let mut runs = Vec::with_capacity(args.runs.len());
    // Of what is written to; they are held until the end.
    let mut locks = Vec::new();
    for path in &args.runs {
        let dir = RunDir::open(path)?;
        if args.out.is_none() {
            locks.push(dir.lock()?);
        }
        let experiment = Experiment::new(dir.read_config()?, &folders)?;
        let results = read(&experiment, &dir)?;
        check_logs(&dir, &results)?;
        runs.push((dir, results));
    }
    let section = |(dir, results)| ReportSection::new(name_of(RunDir::path(dir)), results);
    let Some(out) = &args.out else {
        let mut text = String::new();
        for (dir, results) in &runs {
            section((dir, results))?.write(dir)?;
            let _ = writeln!(text, "Report: {}", dir.path().join(REPORT).display());
            text += &unfinished(dir, results);
        }
        print(&text)?;
        let page = runs.first().map(|(dir, _)| dir.path().join(REPORT));
        return page.filter(|_| args.open).map_or(Ok(()), web_browser::open);
    };
    let sections = runs.iter().map(|(dir, results)| {
        let section = section((dir, results))?;
        // Without a way from the page to the folder (another drive) there are no links.
        let files = way(out, dir.path()).map(|way| RunFiles::new(dir.path(), way));
        Ok(files.into_iter().fold(section, ReportSection::with_files))
    });
    let sections = sections.collect::<Result<Vec<_>, Failure>>()?;
    write_atomically(out, page(&sections)?.to_html().as_bytes()).map_err(|error| {
        let message = format!("out = {}: {error}", out.display());
        match error.kind() {
            std::io::ErrorKind::NotFound => Failure::BadInput(message),
            _ => Failure::Io(message),
        }
    })?;
    let unfinished: String = runs.iter().map(|(dir, results)| unfinished(dir, results)).collect();
    print(&format!("Report: {}\n{unfinished}", out.display()))?;
    if args.open { web_browser::open(out) } else { Ok(()) }
}

/// The way from a page to a folder, with slashes.
fn way(page: &Path, folder: &Path) -> Option<String> {
    let parent = page.parent().filter(|parent| !parent.as_os_str().is_empty());
    let from = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
    let to = folder.canonicalize().ok()?;
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    if common == 0 {
        return None;
    }
    let up = from.components().skip(common).map(|_| Some("..".to_string()));
    let down = to.components().skip(common).map(|part| match part {
        Component::Normal(name) => name.to_str().map(str::to_string),
        _ => None,
    });
    let steps: Option<Vec<String>> = up.chain(down).collect();
    steps.map(|steps| steps.join("/"))
}

/// Refuses a name that is not one of a page, and a file that exists unless it is to be replaced.
fn check_out(out: &Path, force: bool) -> Result<(), Failure> {
    let expected = if out.is_dir() {
        "the name of a file, not a folder"
    } else if !out.extension().is_some_and(|end| end.eq_ignore_ascii_case("html")) {
        "a name that ends in .html"
    } else if !force && out.symlink_metadata().is_ok() {
        "a file that does not exist yet, or --force"
    } else {
        return Ok(());
    };
    Err(agewise_core::Error::new("out", out.display(), expected).into())
}

/// A line about a run that has rounds still to be played, and how it goes on; nothing about others.
fn unfinished(dir: &RunDir, results: &Results) -> String {
    if results.is_finished() {
        return String::new();
    }
    let (ended, path) = (finished_runs(results), dir.path().display());
    format!(
        "{path} is unfinished: {ended} of {} runs have ended; go on with `agewise {} --resume {path}`\n",
        results.records.len(),
        results.experiment.command()
    )
}

fn finished_runs(results: &Results) -> usize {
    results.records.iter().filter(|record| record.finished).count()
}

/// Refuses to draw less than what was there: logs may have been lost since.
fn check_logs(dir: &RunDir, results: &Results) -> Result<(), Failure> {
    let summary = dir.read(SUMMARY)?.unwrap_or_default();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap_or_default();
    let before = summary["finished_runs"].as_u64().unwrap_or(0);
    let now = finished_runs(results) as u64;
    if now >= before {
        return Ok(());
    }
    let (command, run) = (results.experiment.command(), dir.path().display());
    Err(Failure::BadInput(format!(
        "{}: {now} finished runs: expected the {before} of {SUMMARY}; logs are missing or damaged, and `agewise {command} \
         --resume {run}` plays them again",
        dir.path().join(LOGS).display()
    )))
}

fn name_of(path: &Path) -> String {
    let name = path
        .canonicalize()
        .ok()
        .and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_goes_up_and_down() {
        let folder = std::env::temp_dir().join(format!("agewise-way-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("pages")).unwrap();
        std::fs::create_dir_all(folder.join("runs/one")).unwrap();
        let found = way(&folder.join("pages/all.html"), &folder.join("runs/one"));
        let beside = way(&folder.join("all.html"), &folder.join("runs"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.as_deref(), Some("../runs/one"));
        assert_eq!(beside.as_deref(), Some("runs"));
    }
}
