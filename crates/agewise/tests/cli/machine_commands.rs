//! `agewise doctor`, `config`, `completions` and `man` from the outside.

use crate::common::{Outcome, folder};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn agewise(here: &Path, args: &[&str]) -> Outcome<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_agewise")).current_dir(here).args(args).output()?)
}

fn text(here: &Path, args: &[&str]) -> Outcome<String> {
    let output = agewise(here, args)?;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn the_doctor_says_what_is_there_and_what_is_missing() -> Outcome {
    let here = folder("doctor")?;
    let found = text(&here, &["doctor"])?;
    for words in [env!("CARGO_PKG_VERSION"), "kernels:", "threads:", "digits", "inside the program"]
    {
        assert!(found.contains(words), "{words}: {found}");
    }
    let nowhere = Command::new(env!("CARGO_BIN_EXE_agewise"))
        .current_dir(&here)
        .args(["doctor", "--json"])
        .env("PATH", "")
        .env("AGEWISE_KERNELS", "portable")
        .env("AGEWISE_DATA", here.join("data"))
        .output()?;
    assert!(nowhere.status.success());
    let found: Value = serde_json::from_slice(&nowhere.stdout)?;
    assert_eq!(found["kernels"], "portable");
    assert!(found["threads"].as_u64() > Some(0));
    assert_eq!(found["python"], Value::Null, "there is none on an empty path");
    let missing = found["missing"].to_string();
    assert!(missing.contains("report --open"), "{missing}");
    assert!(found["data_folders"][0]["path"].as_str().is_some_and(|path| path.ends_with("data")));
    // A program that answers as Python does.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let programs = folder("doctor-programs")?;
        let python = programs.join("python3");
        fs::write(&python, "#!/bin/sh\nprintf '3.12.1\\n0.2.0\\n\\n'\n")?;
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755))?;
        let found = Command::new(env!("CARGO_BIN_EXE_agewise"))
            .current_dir(&here)
            .arg("doctor")
            .env("PATH", &programs)
            .output()?;
        let found = String::from_utf8(found.stdout)?;
        assert!(found.contains("3.12.1, with agewise 0.2.0 and no Flower"), "{found}");
    }
    // It looks and changes nothing.
    assert_eq!(fs::read_dir(&here)?.count(), 0);
    Ok(())
}

#[test]
fn the_example_can_be_played_and_mistakes_are_named() -> Outcome {
    let here = folder("config-command")?;
    for (kind, words) in [("compare", "a comparison of 6"), ("simulate", "a simulation of 6")] {
        fs::write(here.join("study.toml"), text(&here, &["config", "example", kind])?)?;
        let checked = text(&here, &["config", "check", "study.toml"])?;
        assert!(checked.contains(words), "{checked}");
    }
    for (line, words) in [
        ("cohort = 1000", "cohort = 1000"),
        ("rownds = 5", "did you mean rounds?"),
        ("policies = [\"rondom\"]", "did you mean random?"),
        ("rounds = \"many\"", "line 1: rounds"),
    ] {
        fs::write(here.join("wrong.toml"), line)?;
        let output = agewise(&here, &["config", "check", "wrong.toml"])?;
        assert_eq!(output.status.code(), Some(2), "{line}");
        let said = String::from_utf8(output.stderr)?;
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(agewise(&here, &["config", "check", "nowhere.toml"])?.status.code(), Some(2));
    let schema: Value = serde_json::from_str(&text(&here, &["config", "schema"])?)?;
    assert_eq!(schema["properties"]["clients"]["type"], "integer");
    assert_eq!(schema["properties"]["clock"]["properties"]["power"]["type"], "number");
    let schema = text(&here, &["config", "schema", "coordinator"])?;
    let schema: Value = serde_json::from_str(&schema)?;
    assert_eq!(schema["properties"]["round"]["properties"]["cohort"]["type"], "integer");
    Ok(())
}

#[test]
fn a_deployment_is_checked_as_one() -> Outcome {
    let here = folder("config-deployment")?;
    text(&here, &["coordinator", "init", "run"])?;
    let example = text(&here, &["config", "example", "coordinator"])?;
    assert_eq!(example, fs::read_to_string(here.join("run/coordinator.toml"))?);
    let checked = text(&here, &["config", "check", "run/coordinator.toml"])?;
    assert!(checked.contains("a deployment"), "{checked}");
    Ok(())
}

#[test]
fn shells_and_man_know_every_command() -> Outcome {
    let here = folder("shells")?;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&here, &["completions", shell])?;
        for command in ["compare", "simulate", "report", "doctor"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    text(&here, &["man", "--out", "pages"])?;
    for page in ["agewise.1", "agewise-compare.1", "agewise-config-check.1"] {
        assert!(fs::read_to_string(here.join("pages").join(page))?.contains(".TH"), "{page}");
    }
    let again = agewise(&here, &["man", "--out", "pages"])?;
    assert_eq!(again.status.code(), Some(2), "pages are not replaced");
    text(&here, &["man", "--out", "pages", "--force"])?;
    assert!(text(&here, &["man"])?.contains(".SH SYNOPSIS"));
    Ok(())
}
