//! `agewise simulate` from the outside: its folder, its figures, its resuming, and how it fails.

use crate::common::{Outcome, files, folder};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agewise"));
    command.arg("simulate").args(args).current_dir(folder);
    command
}

fn simulate(folder: &Path, args: &[&str]) -> Outcome<Output> {
    Ok(command(folder, args).output()?)
}

fn succeeds(folder: &Path, args: &[&str]) -> Outcome<String> {
    let output = simulate(folder, args)?;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn the_run_folder_is_complete() -> Outcome {
    let here = folder("simulate-complete")?;
    let text = succeeds(&here, &["--rounds", "200", "--sizes", "zipf:2.0", "--seeds", "3"])?;
    assert!(text.contains("markov-optimal") && text.contains("±"), "{text}");
    assert!(text.contains("runs/simulate-001/report.html"), "{text}");
    let files = files(&here.join("runs/simulate-001"))?;
    let names: Vec<String> = files.keys().map(|path| path.to_string_lossy().into_owned()).collect();
    for name in
        ["config.toml", "intervals.csv", "report.html", "rounds.csv", "summary.json", "windows.csv"]
    {
        assert!(names.iter().any(|found| found == name), "{name} in {names:?}");
    }
    for figure in ["load", "intervals", "cohorts", "windows", "sigma", "ages"] {
        assert!(names.contains(&format!("figures/{figure}.svg")), "{figure} in {names:?}");
        assert!(files[Path::new(&format!("figures/{figure}.png"))].starts_with(b"\x89PNG"));
    }
    let report = String::from_utf8(files[Path::new("report.html")].clone())?;
    assert_eq!(report.matches("<svg").count(), 6);
    assert!(!report.contains("http://") || report.contains("http://www.w3.org/2000/svg"));
    assert!(!report.contains("https://"));
    assert_eq!(report.matches("<script").count(), 3);
    let logs = names.iter().filter(|name| name.starts_with("log/")).count();
    assert_eq!((names.len(), logs), (37, 18), "{names:?}");
    // A second one gets a folder of its own.
    succeeds(&here, &["--rounds", "5"])?;
    assert!(here.join("runs/simulate-002/summary.json").is_file());
    Ok(())
}

#[test]
fn the_summary_is_one_document_with_every_field() -> Outcome {
    let here = folder("simulate-json")?;
    let document: Value = serde_json::from_str(&succeeds(&here, &["--json", "--rounds", "300"])?)?;
    for (field, value) in [("clients", 100), ("cohort", 15), ("max_age", 10), ("rounds", 300)] {
        assert_eq!(document[field], value, "{field}");
    }
    let policies = document["policies"].as_array().ok_or("no policies")?;
    assert_eq!(policies.len(), 6);
    for policy in policies {
        for field in ["policy", "theory", "cohort_min", "cohort_max", "longest_wait"] {
            assert!(!policy[field].is_null(), "{field} of {policy}");
        }
        let means = ["sigma", "mean_interval", "var_interval", "cohort_mean", "cohort_sd", "jain"];
        for name in means.into_iter().chain(["never_reached", "selected", "reported"]) {
            assert!(policy["means"][name]["mean"].is_f64(), "{name} of {policy}");
        }
        assert!(policy["window_sd"]["10"]["mean"].is_f64(), "{policy}");
    }
    let stored = fs::read_to_string(here.join("runs/simulate-001/summary.json"))?;
    assert_eq!(serde_json::from_str::<Value>(&stored)?, document);
    Ok(())
}

/// 100 clients, 5 per round, one that is there and never reports: the share of the places that it costs.
#[test]
fn a_client_that_never_reports_costs_few_places() -> Outcome {
    let here = folder("simulate-failing")?;
    let lost = |switch: &str| -> Outcome<Vec<f64>> {
        let flags = "--clients 100 --cohort 5 --max-age 30 --rounds 400 --failing 0.01 --seed 1 \
                     --policy random,oldest-first,markov-optimal --json --backoff";
        let flags: Vec<&str> = flags.split_whitespace().chain([switch]).collect();
        let document: Value = serde_json::from_str(&succeeds(&here, &flags)?)?;
        let policies = document["policies"].as_array().ok_or("no policies")?;
        let lost = policies.iter().map(|policy| policy["means"]["places_lost"]["mean"].as_f64());
        Ok(lost.flatten().collect())
    };
    let (with, without) = (lost("on")?, lost("off")?);
    assert_eq!(with[0], without[0], "random choice stays as it is");
    // Of 20 asks on average by random choice; a dead client is asked 14 times in 400 rounds.
    assert!(with[1..].iter().all(|lost| (12.0..=14.0).contains(lost)), "{with:?}");
    assert!(without[1..].iter().all(|&lost| lost > 350.0), "{without:?}");
    let shown = succeeds(&here, &["--rounds", "50", "--failing", "0.01"])?;
    assert!(shown.contains("failing 0.01") && shown.contains("lost"), "{shown}");
    Ok(())
}

#[test]
fn the_stored_configuration_gives_the_same_bytes() -> Outcome {
    let here = folder("simulate-again")?;
    let restless = [
        "--clients",
        "300",
        "--cohort",
        "40",
        "--rounds",
        "60",
        "--seeds",
        "2",
        "--start",
        "cold",
        "--policy",
        "random,markov-optimal,phased(reshuffle=0.1),probabilistic",
        "--sizes",
        "lognormal:1",
        "--availability",
        "on-off:10,3",
        "--dropout",
        "0.1",
        "--failing",
        "0.05",
        "--churn",
        "0.02,0.01",
        "--calibrate",
        "--warmup",
        "5",
        "--seed",
        "9",
        "--out",
        "first",
        "--threads",
        "1",
    ];
    succeeds(&here, &restless)?;
    let again = ["first/config.toml", "--out", "second", "--threads", "3"];
    succeeds(&here, &again)?;
    assert!(files(&here.join("first"))? == files(&here.join("second"))?);
    // As it was written until version 0.1.
    succeeds(&here, &["--config", "first/config.toml", "--out", "third"])?;
    assert!(files(&here.join("first"))? == files(&here.join("third"))?);
    Ok(())
}

/// Kills a simulation at several moments and resumes it; the folder must be that of an unbroken one.
#[test]
fn a_killed_simulation_can_be_resumed() -> Outcome {
    let here = folder("simulate-resume")?;
    let what = ["--rounds", "4000", "--clients", "2000", "--cohort", "300", "--seeds", "4"];
    succeeds(&here, &[&what[..], &["--out", "unbroken"]].concat())?;
    let unbroken = files(&here.join("unbroken"))?;
    for (attempt, milliseconds) in [30u64, 120, 400].into_iter().enumerate() {
        let out = format!("killed-{attempt}");
        let mut child = command(&here, &[&what[..], &["--out", &out]].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        child.kill()?;
        child.wait()?;
        if !here.join(&out).join("config.toml").is_file() {
            continue; // Killed before anything was written: there is nothing to resume.
        }
        succeeds(&here, &["--resume", &out])?;
        assert!(files(&here.join(&out))? == unbroken, "killed after {milliseconds} ms");
    }
    Ok(())
}

#[test]
fn a_complete_run_is_drawn_again() -> Outcome {
    let here = folder("simulate-complete-again")?;
    succeeds(&here, &["--rounds", "20", "--out", "run"])?;
    let before = files(&here.join("run"))?;
    fs::write(here.join("run/summary.json"), "my notes")?;
    fs::remove_file(here.join("run/report.html"))?;
    succeeds(&here, &["--resume", "run"])?;
    assert!(files(&here.join("run"))? == before);
    Ok(())
}

/// Runs that were stored under another configuration are not taken over.
#[test]
fn stored_runs_belong_to_their_configuration() -> Outcome {
    let here = folder("simulate-fingerprint")?;
    let what = ["--rounds", "50", "--policy", "random"];
    succeeds(&here, &[&what[..], &["--out", "run"]].concat())?;
    let config = fs::read_to_string(here.join("run/config.toml"))?;
    fs::write(here.join("run/config.toml"), config.replace("cohort = 15", "cohort = 16"))?;
    let output = simulate(&here, &["--resume", "run"])?;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr)?.contains("another configuration"));
    Ok(())
}

#[test]
fn more_can_be_asked_of_a_run() -> Outcome {
    let here = folder("simulate-extended")?;
    let what = ["--rounds", "80", "--seeds", "3", "--policy", "random,phased"];
    succeeds(&here, &[&what[..], &["--out", "whole"]].concat())?;
    let whole = files(&here.join("whole"))?;
    succeeds(&here, &["--rounds", "50", "--policy", "random", "--out", "run"])?;
    let more = ["--rounds", "80", "--seeds", "3", "--policy", "phased"];
    succeeds(&here, &[&["--extend", "run"][..], &more].concat())?;
    assert!(files(&here.join("run"))? == whole);
    Ok(())
}

/// Ctrl-C and SIGTERM end it with what there is.
#[cfg(unix)]
#[test]
fn interrupted_it_ends_with_what_there_is() -> Outcome {
    let here = folder("simulate-interrupted")?;
    let what = ["--rounds", "3000", "--clients", "2000", "--cohort", "300", "--seeds", "4"];
    for signal in ["INT", "TERM"] {
        let args = [&what[..], &["--out", signal, "--quiet"]].concat();
        let mut child =
            command(&here, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let begin = std::time::Instant::now();
        while crate::common::compare::logged(&here.join(signal)) == 0 && child.try_wait()?.is_none()
        {
            assert!(begin.elapsed().as_secs() < 120, "nothing was logged");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status()?;
        assert!(kill.success());
        let output = child.wait_with_output()?;
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{message}");
        assert!(message.contains(&format!("agewise simulate --resume {signal}")), "{message}");
        assert!(
            fs::read_to_string(here.join(signal).join("report.html"))?.contains("Not finished")
        );
    }
    succeeds(&here, &["--resume", "INT"])?;
    succeeds(&here, &[&what[..], &["--out", "whole"]].concat())?;
    assert!(files(&here.join("INT"))? == files(&here.join("whole"))?);
    Ok(())
}

#[test]
fn what_cannot_fit_into_memory_is_refused() -> Outcome {
    let here = folder("simulate-memory")?;
    for args in [["--clients", "4e9", "--cohort", "15"], ["--rounds", "1e7", "--seeds", "10000"]] {
        let output = simulate(&here, &args)?;
        let stderr = String::from_utf8(output.stderr)?;
        if cfg!(target_os = "linux") {
            assert_eq!(output.status.code(), Some(2), "{stderr}");
            assert!(stderr.contains("GB"), "{stderr}");
        }
    }
    assert!(!here.join("runs").exists());
    Ok(())
}

#[test]
fn nothing_is_overwritten_without_force() -> Outcome {
    let here = folder("simulate-force")?;
    fs::create_dir(here.join("mine"))?;
    fs::write(here.join("mine/notes.txt"), "precious")?;
    let output = simulate(&here, &["--rounds", "5", "--out", "mine"])?;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr)?.contains("out = mine: expected a folder that"));
    assert_eq!(files(&here.join("mine"))?.len(), 1);
    succeeds(&here, &["--rounds", "5", "--out", "mine", "--force"])?;
    assert_eq!(fs::read_to_string(here.join("mine/notes.txt"))?, "precious");
    assert!(here.join("mine/report.html").is_file());
    Ok(())
}

#[test]
fn bad_input_is_named_before_any_work() -> Outcome {
    let here = folder("simulate-bad")?;
    fs::write(here.join("typo.toml"), "rownds = 5\n")?;
    fs::write(here.join("broken.toml"), "rounds = [\n")?;
    fs::write(here.join("wrong.toml"), "rounds = \"many\"\n")?;
    fs::write(here.join("flat.toml"), "availability = \"always\"\n")?;
    fs::write(here.join("training.toml"), "[training]\nbatch = 5\n")?;
    let cases: &[(&[&str], &str)] = &[
        (&["--rounds", "0"], "rounds = 0"),
        (&["--warmup", "1000"], "warmup = 1000"),
        (&["--seeds", "0"], "seeds = 0"),
        (&["--seeds", "5e9"], "seeds = 5000000000"),
        (&["--seed", "18446744073709551615"], "18446744073709551615"),
        (&["--force"], "--out"),
        (&["--dropout", "1.5"], "dropout = 1.5"),
        (&["--dropout", "-1"], "dropout = -1"),
        (&["--failing", "1"], "failing = 1"),
        (&["--backoff", "maybe"], "backoff = maybe"),
        (&["--churn", "0.1"], "churn = 0.1"),
        (&["--churn", "-0.1,0"], "join = -0.1"),
        (&["--availability", "sometimes"], "availability = sometimes"),
        (&["--cohort", "101"], "cohort = 101"),
        (&["--policy", "markov"], "did you mean markov-"),
        (&["--sizes", "nowhere.txt"], "sizes = nowhere.txt"),
        (&["typo.toml"], "line 1: rownds = 5: expected one of"),
        (&["typo.toml"], "did you mean rounds?"),
        (&["flat.toml"], "docs/upgrading.md"),
        (&["training.toml"], "use `agewise compare training.toml`"),
        (&["broken.toml"], "config = broken.toml: line 1"),
        (
            &["wrong.toml"],
            "config = wrong.toml: line 1: rounds = \"many\": expected a whole number",
        ),
        (&["missing.toml"], "config = missing.toml"),
        (&["--policy", "random+median"], "aggregation of random+median = median: expected mean"),
        (&["--resume", "nothing"], "nothing: expected the folder of a run"),
    ];
    for (args, message) in cases {
        let output = simulate(&here, args)?;
        let stderr = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
    assert!(!here.join("runs").exists());
    Ok(())
}

#[test]
fn a_folder_that_cannot_be_written_is_noticed_before_the_work() -> Outcome {
    let here = folder("simulate-unwritable")?;
    fs::write(here.join("file"), "in the way")?;
    // Ten million rounds would take minutes; the error must come at once.
    let output = simulate(&here, &["--rounds", "10000000", "--out", "file/run"])?;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr)?.contains("file/run"));
    Ok(())
}
