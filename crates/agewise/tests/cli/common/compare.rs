//! What tests of `agewise compare` share.

use super::{Outcome, files};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A comparison of a second or so.
pub(crate) const SMALL: [&str; 18] = [
    "--model",
    "softmax",
    "--clients",
    "20",
    "--cohort",
    "4",
    "--rounds",
    "12",
    "--seeds",
    "3",
    "--policy",
    "random,oldest-first,markov-optimal@cold",
    "--target",
    "0.3,0.6",
    "--batch",
    "10",
    "--steps",
    "3",
];

/// One of policies that ask, and that look at sketches, squares and durations, with clients that differ in speed.
pub(crate) const FIELD: [&str; 20] = [
    "--model",
    "softmax",
    "--clients",
    "20",
    "--cohort",
    "4",
    "--rounds",
    "12",
    "--seeds",
    "2",
    "--policy",
    "age-herding,oort,power-of-choice,clustered(by=2),divfl",
    "--target",
    "0.3,0.6",
    "--batch",
    "10",
    "--steps",
    "3",
    "--speeds",
    "lognormal:1",
];

/// The first one with many more rounds: it does not end by itself before it is stopped.
pub(crate) fn long() -> Vec<&'static str> {
    SMALL.map(|arg| if arg == "12" { "400" } else { arg }).to_vec()
}

pub(crate) fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agewise"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}

pub(crate) fn compare(folder: &Path, args: &[&str]) -> Outcome<Output> {
    Ok(command(folder, &[&["compare"], args].concat()).output()?)
}

pub(crate) fn succeeds(folder: &Path, args: &[&str]) -> Outcome<String> {
    let output = compare(folder, args)?;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

pub(crate) fn small(folder: &Path, args: &[&str]) -> Outcome<String> {
    succeeds(folder, &[&SMALL, args].concat())
}

pub(crate) fn assert_same(one: &Path, other: &Path) -> Outcome {
    let (one, other) = (files(one)?, files(other)?);
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    for (name, bytes) in &one {
        assert!(other[name] == *bytes, "{} differs", name.display());
    }
    Ok(())
}

/// The lines of all logs so far.
pub(crate) fn logged(run: &Path) -> usize {
    let Ok(entries) = fs::read_dir(run.join("log")) else {
        return 0;
    };
    let lines = |path: PathBuf| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    entries.flatten().map(|entry| lines(entry.path())).sum()
}

/// Waits until so many lines are logged, or the process has ended.
pub(crate) fn wait_for(run: &Path, lines: usize, child: &mut Child) -> Outcome {
    let begin = Instant::now();
    while logged(run) < lines && child.try_wait()?.is_none() {
        assert!(begin.elapsed() < Duration::from_secs(600), "{lines} lines never came");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
