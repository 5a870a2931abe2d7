//! The scripts of a release refuse what cannot be released, and say what they would build.

use crate::common::{Outcome, folder, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a command answers: its exit code, and standard output with standard error behind it.
fn answer(command: &mut Command) -> Outcome<(Option<i32>, String)> {
    let output = command.output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8(said)?))
}

fn git(place: &Path, words: &[&str]) -> Outcome {
    let identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"];
    let (code, said) = answer(
        Command::new("git")
            .args(identity)
            .args(["-c", "commit.gpgSign=false", "-c", "tag.gpgSign=false"])
            .args(words)
            .current_dir(place)
            // This repository may be one that git is working on.
            .env_remove("GIT_DIR")
            .env_remove("GIT_INDEX_FILE")
            .env_remove("GIT_WORK_TREE"),
    )?;
    assert_eq!(code, Some(0), "git {words:?}: {said}");
    Ok(())
}

fn build(place: &Path, words: &[&str]) -> Outcome<(Option<i32>, String)> {
    answer(
        Command::new("bash")
            .arg("release/build")
            .args(words)
            .current_dir(place)
            .env_remove("GIT_DIR")
            .env_remove("GIT_INDEX_FILE")
            .env_remove("GIT_WORK_TREE"),
    )
}

/// A repository with the scripts, a manifest and a changelog: all that a dry run reads.
fn repository(name: &str, heading: &str) -> Outcome<PathBuf> {
    let place = folder(name)?;
    fs::create_dir(place.join("release"))?;
    for script in ["build", "notes"] {
        fs::copy(root().join("release").join(script), place.join("release").join(script))?;
    }
    fs::write(place.join("Cargo.toml"), "[workspace.package]\nversion = \"1.2.3\"\n")?;
    let changes =
        "# Changelog\n\n## 1.3.0\n\nTo come.\n\nHEADING\n\n- A.\n- B.\n\n## 1.2.2\n\nOld.\n";
    fs::write(place.join("CHANGELOG.md"), changes.replace("HEADING", heading))?;
    git(&place, &["init", "--quiet"])?;
    git(&place, &["add", "."])?;
    git(&place, &["commit", "--quiet", "--message", "A release"])?;
    git(&place, &["tag", "v1.2.3"])?;
    git(&place, &["tag", "v1.2.4"])?;
    Ok(place)
}

#[test]
fn a_dry_run_says_what_would_be_built_and_builds_nothing() -> Outcome {
    let place = repository("release-plan", "## 1.2.3, 2030-01-31")?;
    let (code, said) = build(&place, &["v1.2.3", "--dry-run"])?;
    assert_eq!(code, Some(0), "{said}");
    for expected in [
        "agewise 1.2.3 from v1.2.3",
        "crates/*.crate",
        "agewise-1.2.3.tar.gz",
        "agewise-1.2.3-cp311-abi3-manylinux_2_17_x86_64",
        "agewise-1.2.3-cp311-abi3-musllinux_1_2_x86_64.whl",
        "agewise-1.2.3-x86_64-unknown-linux-musl.tar.gz",
        // The heading, two lines, and the empty one between.
        "release-notes.md: 4 lines",
        "SHA256SUMS",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!place.join("target").exists(), "{said}");
    let (code, said) = build(&place, &["v1.2.3", "--dry-run", "--only", "sdist,binary"])?;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("agewise-1.2.3.tar.gz") && !said.contains("manylinux"), "{said}");
    Ok(())
}

#[test]
fn what_cannot_be_released_is_refused() -> Outcome {
    let place = repository("release-refused", "## 1.2.3, not released yet")?;
    for (words, expected) in [
        (&["1.2.3"][..], "TAG = 1.2.3: expected vMAJOR.MINOR.PATCH"),
        (&["v9.9.9"], "TAG = v9.9.9: expected a tag of this repository"),
        (&["v1.2.4"], "TAG = v1.2.4: expected v1.2.3"),
        (&["v1.2.3"], "TAG = v1.2.3: expected a date in CHANGELOG.md there"),
        (&["v1.2.3", "v1.2.4"], "TAG = v1.2.4: expected one tag"),
        (&["--only", "wheel"], "--only = wheel: expected some of"),
        (&["--out", ""], "--out: expected a value"),
        (&["--force"], "--force: expected --dry-run"),
    ] {
        // With and without a dry run: nothing is begun before this is checked.
        for dry in [&["--dry-run"][..], &[]] {
            let (code, said) = build(&place, &[words, dry].concat())?;
            assert_eq!(code, Some(2), "{words:?}: {said}");
            assert!(said.contains(expected), "{words:?}: {said}");
        }
    }
    assert!(!place.join("target").exists());
    Ok(())
}

#[test]
fn notes_are_the_section_of_a_version() -> Outcome {
    let place = repository("release-notes", "## 1.2.3, not released yet")?;
    let notes = |version: &str| {
        answer(Command::new("bash").args(["release/notes", version]).current_dir(&place))
    };
    let (code, said) = notes("1.2.3")?;
    assert_eq!((code, &*said), (Some(0), "## 1.2.3, not released yet\n\n- A.\n- B.\n"));
    assert_eq!(notes("1.2.2")?, (Some(0), "## 1.2.2\n\nOld.\n".to_string()));
    let (code, said) = notes("1.2")?;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("VERSION = 1.2: expected"), "{said}");
    Ok(())
}

/// The version that is in work has notes.
#[test]
fn this_version_is_in_the_changelog() -> Outcome {
    let version = env!("CARGO_PKG_VERSION");
    let (code, said) = answer(Command::new("bash").arg(root().join("release/notes")).arg(version))?;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with(&format!("## {version}")) && said.contains("### Added"), "{said}");
    Ok(())
}
