//! Tells release builds from which commit they are made; `provenance.json` of a run says it.
//!
//! Development builds do not know: each commit would compile this crate and all that need it once more.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=AGEWISE_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // A variable that is set already comes first: packagers build without a repository.
    if !is_release || std::env::var_os("AGEWISE_COMMIT").is_some() {
        return;
    }
    // Sources that only lie inside a repository of something else are not of its commits.
    if git(&["ls-files", "--error-unmatch", "build.rs"]).is_none() {
        return;
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=AGEWISE_COMMIT={commit}");
    }
    // A line is added to this file whenever the commit changes.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// What git answers in the folder of this crate; nothing if it fails or is not there.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_string())
}
