//! `agewise compare` from the outside: its folder, its report, its resuming, and how it fails.

mod common;

use common::{Outcome, files, folder};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A comparison of a second or so.
const SMALL: [&str; 18] = [
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

/// The same with many more rounds: it does not end by itself before it is stopped.
fn long() -> Vec<&'static str> {
    SMALL.map(|arg| if arg == "12" { "400" } else { arg }).to_vec()
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agewise"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}

fn compare(folder: &Path, args: &[&str]) -> Outcome<Output> {
    Ok(command(folder, &[&["compare"], args].concat()).output()?)
}

fn succeeds(folder: &Path, args: &[&str]) -> Outcome<String> {
    let output = compare(folder, args)?;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn small(folder: &Path, args: &[&str]) -> Outcome<String> {
    succeeds(folder, &[&SMALL, args].concat())
}

fn assert_same(one: &Path, other: &Path) -> Outcome {
    let (one, other) = (files(one)?, files(other)?);
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    for (name, bytes) in &one {
        assert!(other[name] == *bytes, "{} differs", name.display());
    }
    Ok(())
}

#[test]
fn the_run_folder_is_complete() -> Outcome {
    let here = folder("compare-complete")?;
    let text = small(&here, &[])?;
    assert!(text.contains("markov-optimal@cold") && text.contains("rounds to 60%"), "{text}");
    assert!(text.contains("runs/compare-001/report.html"), "{text}");
    let run = here.join("runs/compare-001");
    let found = files(&run)?;
    let names: Vec<String> = found.keys().map(|path| path.to_string_lossy().into_owned()).collect();
    for name in [
        "config.toml",
        "rounds.csv",
        "clients.csv",
        "summary.json",
        "report.html",
        "models/random.safetensors",
        "models/markov-optimal_cold.safetensors",
        "tensorboard/random/seed-0/events.out.tfevents.0.agewise",
        "tensorboard/oldest-first/seed-2/events.out.tfevents.0.agewise",
        "log/000-00000.jsonl",
    ] {
        assert!(names.iter().any(|found| found == name), "{name} in {names:?}");
    }
    assert!(!run.join("checkpoints").exists());
    let figures = ["learning", "rounds-to-target", "differences", "advantage", "clients", "load"];
    for figure in figures {
        assert!(names.contains(&format!("figures/{figure}.svg")), "{figure} in {names:?}");
        assert!(found[Path::new(&format!("figures/{figure}.png"))].starts_with(b"\x89PNG"));
    }
    let report = String::from_utf8(found[Path::new("report.html")].clone())?;
    assert_eq!(report.matches("<svg").count(), figures.len());
    assert!(!report.contains("https://") && !report.contains("<script"));
    assert!(report.contains("The data"), "sentences");
    let rounds = String::from_utf8(found[Path::new("rounds.csv")].clone())?;
    assert_eq!(rounds.lines().count(), 1 + 3 * 3 * 12);
    let clients = String::from_utf8(found[Path::new("clients.csv")].clone())?;
    assert_eq!(clients.lines().count(), 1 + 3 * 3 * 20);
    Ok(())
}

#[test]
fn the_summary_is_one_document_with_every_field() -> Outcome {
    let here = folder("compare-json")?;
    let document: Value = serde_json::from_str(&small(&here, &["--json", "--quiet"])?)?;
    let stored = fs::read_to_string(here.join("runs/compare-001/summary.json"))?;
    assert_eq!(serde_json::from_str::<Value>(&stored)?, document);
    assert_eq!((&document["runs"], &document["finished_runs"]), (&9.into(), &9.into()));
    for policy in document["policies"].as_array().ok_or("no policies")? {
        for name in
            ["final_accuracy", "area", "worst_tenth", "sigma", "var_interval", "bytes_moved"]
        {
            assert!(policy["means"][name]["mean"].is_f64(), "{name} of {policy}");
        }
        for to in policy["rounds_to"].as_array().ok_or("no targets")? {
            assert_eq!(to["runs"], 3, "{to}");
            assert!(to["reached"].is_u64() && to["target"].is_f64());
        }
    }
    // Three pairs of policies, two targets and three measures of accuracy.
    assert_eq!(document["pairs"].as_array().ok_or("no pairs")?.len(), 3 * 5);
    Ok(())
}

#[test]
fn threads_and_the_stored_configuration_give_the_same_bytes() -> Outcome {
    let here = folder("compare-threads")?;
    for threads in ["1", "2", "5"] {
        small(&here, &["--threads", threads, "--out", threads])?;
    }
    assert_same(&here.join("1"), &here.join("2"))?;
    assert_same(&here.join("1"), &here.join("5"))?;
    succeeds(&here, &["1/config.toml", "--out", "again"])?;
    assert_same(&here.join("1"), &here.join("again"))?;
    // Drawn once more, from the logs.
    fs::remove_file(here.join("again/report.html"))?;
    let output = command(&here, &["report", "again"]).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_same(&here.join("1"), &here.join("again"))
}

/// The lines of all logs so far.
fn logged(run: &Path) -> usize {
    let Ok(entries) = fs::read_dir(run.join("log")) else {
        return 0;
    };
    let lines = |path: PathBuf| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    entries.flatten().map(|entry| lines(entry.path())).sum()
}

/// Waits until so many lines are logged, or the process has ended.
fn wait_for(run: &Path, lines: usize, child: &mut Child) -> Outcome {
    let begin = Instant::now();
    while logged(run) < lines && child.try_wait()?.is_none() {
        assert!(begin.elapsed() < Duration::from_secs(120), "{lines} lines never came");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[test]
fn killed_at_any_round_it_resumes_to_the_same_bytes() -> Outcome {
    let here = folder("compare-killed")?;
    small(&here, &["--out", "whole"])?;
    let run = here.join("broken");
    // Nine runs with a header and twelve rounds each; the distances are those of a fixed random draw.
    let all = 9 * 13;
    let mut kills = 0;
    let mut next = 3;
    let args = [&["compare"], &SMALL[..], &["--out", "broken", "--quiet"]].concat();
    let mut child = command(&here, &args).stdout(Stdio::null()).spawn()?;
    for distance in [7, 1, 19, 4, 11, 2, 26, 9].into_iter().cycle() {
        wait_for(&run, next, &mut child)?;
        let ended = child.try_wait()?.is_some();
        child.kill()?;
        child.wait()?;
        if ended {
            break;
        }
        kills += 1;
        next = logged(&run) + distance;
        let resume = ["compare", "--resume", "broken", "--quiet"];
        if next >= all {
            assert!(command(&here, &resume).output()?.status.success());
            break;
        }
        child = command(&here, &resume).stdout(Stdio::null()).spawn()?;
    }
    assert!(kills >= 3, "only {kills} kills: the comparison is too short");
    assert_same(&here.join("whole"), &run)?;
    // A finished one is only drawn again.
    assert!(compare(&here, &["--resume", "broken", "--quiet"])?.status.success());
    assert_same(&here.join("whole"), &run)
}

#[test]
fn damaged_files_cost_time_and_nothing_else() -> Outcome {
    let here = folder("compare-damaged")?;
    small(&here, &["--out", "whole"])?;
    let run = here.join("damaged");
    let args = [&["compare"], &SMALL[..], &["--out", "damaged", "--quiet"]].concat();
    let mut child = command(&here, &args).stdout(Stdio::null()).spawn()?;
    wait_for(&run, 40, &mut child)?;
    child.kill()?;
    child.wait()?;
    // The last line of every log is cut off, and every model has a wrong byte.
    for entry in fs::read_dir(run.join("log"))? {
        let path = entry?.path();
        let bytes = fs::read(&path)?;
        fs::write(&path, &bytes[..bytes.len().saturating_sub(5)])?;
    }
    for entry in fs::read_dir(run.join("checkpoints"))? {
        let path = entry?.path();
        let mut bytes = fs::read(&path)?;
        if let Some(byte) = bytes.get_mut(100) {
            *byte ^= 0x40;
        }
        fs::write(&path, bytes)?;
    }
    succeeds(&here, &["--resume", "damaged"])?;
    assert_same(&here.join("whole"), &run)?;
    // A log of another configuration is not taken over.
    let config = fs::read_to_string(run.join("config.toml"))?;
    fs::write(run.join("config.toml"), config.replace("batch = 10", "batch = 11"))?;
    let output = compare(&here, &["--resume", "damaged"])?;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another configuration"));
    Ok(())
}

#[cfg(unix)]
#[test]
fn interrupted_it_ends_with_what_there_is() -> Outcome {
    let here = folder("compare-interrupted")?;
    let long = long();
    let args = [&["compare"], &long[..], &["--out", "run", "--quiet"]].concat();
    let mut child = command(&here, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    wait_for(&here.join("run"), 30, &mut child)?;
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status()?.success());
    let output = child.wait_with_output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.contains("agewise compare --resume run"), "{message}");
    let report = fs::read_to_string(here.join("run/report.html"))?;
    assert!(report.contains("Not finished"));
    assert!(here.join("run/summary.json").is_file());
    succeeds(&here, &["--resume", "run"])?;
    succeeds(&here, &[&long[..], &["--out", "whole"]].concat())?;
    assert_same(&here.join("whole"), &here.join("run"))
}

/// A limit on the size of files stands for a disk that is full.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing() -> Outcome {
    let here = folder("compare-full")?;
    let line = format!(
        "trap '' XFSZ; ulimit -f 4; exec {} compare {} --out run --quiet",
        env!("CARGO_BIN_EXE_agewise"),
        SMALL.join(" ")
    );
    let output = Command::new("sh").args(["-c", &line]).current_dir(&here).output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("Nothing that was written is lost"), "{message}");
    succeeds(&here, &["--resume", "run"])?;
    small(&here, &["--out", "whole"])?;
    assert_same(&here.join("whole"), &here.join("run"))
}

#[test]
fn runs_end_at_the_target_if_asked() -> Outcome {
    let here = folder("compare-stop")?;
    let text = small(&here, &["--stop-at-target", "--json"])?;
    let document: Value = serde_json::from_str(&text)?;
    for policy in document["policies"].as_array().ok_or("no policies")? {
        let to = &policy["rounds_to"][1];
        if to["reached"] == 3 {
            assert!(policy["means"]["rounds"]["mean"].as_f64() < Some(12.0), "{policy}");
        }
        // What runs of different lengths cannot tell is not said.
        assert!(policy["means"]["final_accuracy"].is_null());
    }
    Ok(())
}

#[test]
fn evaluations_can_be_rare_and_begin_late() -> Outcome {
    let here = folder("compare-rare")?;
    small(&here, &["--eval-every", "3", "--eval-from", "5", "--out", "run"])?;
    let rounds = fs::read_to_string(here.join("run/rounds.csv"))?;
    let evaluated: Vec<&str> = rounds
        .lines()
        .skip(1)
        .take(12)
        .filter(|line| line.split(',').nth(7).is_some_and(|cell| !cell.is_empty()))
        .filter_map(|line| line.split(',').nth(2))
        .collect();
    assert_eq!(evaluated, ["5", "8", "11", "12"]);
    Ok(())
}

#[test]
fn several_runs_fit_into_one_report() -> Outcome {
    let here = folder("compare-several")?;
    small(&here, &["--out", "one"])?;
    small(&here, &["--out", "two", "--partition", "iid"])?;
    let output = command(&here, &["report", "one", "two"]).output()?;
    assert_eq!(output.status.code(), Some(2), "a report about two runs needs --out");
    let output = command(&here, &["report", "one", "two", "--out", "both.html"]).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(here.join("both.html"))?;
    assert_eq!(page.matches("<svg").count(), 12);
    assert!(page.contains(">one<") && page.contains(">two<"));
    let output = command(&here, &["report", "nowhere"]).output()?;
    assert_eq!(output.status.code(), Some(2));
    Ok(())
}

#[test]
fn presets_are_listed_with_their_cost() -> Outcome {
    let here = folder("compare-presets")?;
    let output = command(&here, &["presets", "--json"]).output()?;
    let list: Value = serde_json::from_slice(&output.stdout)?;
    let list = list.as_array().ok_or("no list")?;
    assert_eq!(list.len(), 13);
    for preset in list {
        assert!(preset["seconds_per_round"].as_f64() > Some(0.0), "{preset}");
    }
    Ok(())
}

#[test]
fn what_is_wrong_is_named_and_nothing_is_written() -> Outcome {
    let here = folder("compare-wrong")?;
    fs::write(here.join("typo.toml"), "polices = [\"random\"]\n")?;
    fs::write(here.join("nonsense.toml"), "rounds = \"many\"\n")?;
    fs::write(here.join("inner.toml"), "[server]\nrule = \"average\"\nbeta = 3\n")?;
    let cases: [(&[&str], &[&str]); 24] = [
        (&["inner.toml"], &["server: beta = 3", "expected one of rule"]),
        (&["--bound", "--learning-rate", "5"], &["--learning-rate"]),
        (&["typo.toml"], &["polices", "did you mean policies?"]),
        (&["nonsense.toml"], &["nonsense.toml", "rounds"]),
        (&["missing.toml"], &["missing.toml"]),
        (&["--policy", "rnadom"], &["policy = rnadom", "did you mean random?"]),
        (&["--policy", "random@warm"], &["start = warm", "cold"]),
        (&["--policy", "random,random"], &["policies = random", "each policy once"]),
        (&["--baseline", "phased"], &["baseline = phased"]),
        (&["--preset", "paper-mnist"], &["preset = paper-mnist", "did you mean"]),
        (&["--data", "minst"], &["minst", "did you mean mnist?"]),
        (&["--data", "mnist", "--data-dir", "."], &["mnist"]),
        (&["--model", "cn"], &["model = cn", "did you mean cnn?"]),
        (&["--partition", "dirichlet:0"], &["partition = dirichlet:0"]),
        (&["--rounds", "0"], &["rounds = 0"]),
        (&["--eval-every", "0"], &["eval_every = 0"]),
        (&["--seeds", "0"], &["seeds = 0"]),
        (&["--target", "1.5"], &["targets = 1.5"]),
        (&["--target", "0.9,0.8"], &["targets = [0.9, 0.8]", "increasing"]),
        (&["--target", "x"], &["target = x"]),
        (&["--batch", "0"], &["batch = 0"]),
        (&["--cohort", "101"], &["cohort = 101"]),
        (&["--clients", "7000"], &["clients = 7000", "6000 images"]),
        (&["--resume", "nowhere"], &["nowhere", "config.toml"]),
    ];
    for (args, words) in cases {
        let output = compare(&here, args)?;
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        for word in words {
            assert!(message.contains(word), "{args:?}: {word:?} in {message}");
        }
    }
    assert!(!here.join("runs").exists());
    // A folder with something in it is left alone.
    fs::create_dir(here.join("mine"))?;
    fs::write(here.join("mine/thesis.txt"), "all of it")?;
    assert_eq!(compare(&here, &["--out", "mine"])?.status.code(), Some(2));
    assert_eq!(fs::read_to_string(here.join("mine/thesis.txt"))?, "all of it");
    Ok(())
}

#[test]
fn what_belongs_to_others_is_left_alone() -> Outcome {
    let here = folder("compare-foreign")?;
    fs::create_dir_all(here.join("mine/models"))?;
    fs::write(here.join("mine/models/thesis.safetensors"), "all of it")?;
    let output = compare(&here, &[&SMALL[..], &["--out", "mine", "--force"]].concat())?;
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("mine/models"), "{message}");
    assert_eq!(fs::read_to_string(here.join("mine/models/thesis.safetensors"))?, "all of it");
    for out in ["mine/models/thesis.safetensors/run", "/proc/run"] {
        let output = compare(&here, &[&SMALL[..], &["--out", out]].concat())?;
        assert_eq!(output.status.code(), Some(2), "{out}");
    }
    Ok(())
}

#[test]
fn logs_that_were_changed_or_lost_are_noticed() -> Outcome {
    let here = folder("compare-changed")?;
    small(&here, &["--out", "whole"])?;
    small(&here, &["--out", "changed"])?;
    let log = here.join("changed/log/001-00001.jsonl");
    let text = fs::read_to_string(&log)?;
    // One recognised image more in the second round.
    let (head, tail) = text.split_once("\"round\":1,").ok_or("no second round")?;
    let (before, after) = tail.split_once("\"correct\":[").ok_or("no score")?;
    let count: u64 = after.split(',').next().ok_or("no count")?.parse()?;
    let after = after.replacen(&count.to_string(), &(count + 1).to_string(), 1);
    fs::write(&log, format!("{head}\"round\":1,{before}\"correct\":[{after}"))?;
    let report = |run: &str| command(&here, &["report", run]).output();
    let output = report("changed")?;
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("expected the 9 of summary.json"), "{message}");
    succeeds(&here, &["--resume", "changed"])?;
    assert_same(&here.join("whole"), &here.join("changed"))?;
    fs::remove_dir_all(here.join("changed/log"))?;
    assert_eq!(report("changed")?.status.code(), Some(2));
    Ok(())
}

#[test]
fn training_that_diverges_says_so() -> Outcome {
    let here = folder("compare-diverged")?;
    // A single layer only scales; two of them overflow.
    let deep = SMALL.map(|arg| if arg == "softmax" { "2nn" } else { arg });
    let text = succeeds(&here, &[&deep[..], &["--learning-rate", "1e10"]].concat())?;
    assert!(text.contains("Training diverged"), "{text}");
    assert!(fs::read_to_string(here.join("runs/compare-001/report.html"))?.contains("diverged"));
    let text = small(&here, &["--learning-rate", "0"])?;
    assert!(text.contains("nothing can be said"), "{text}");
    Ok(())
}

#[test]
fn two_processes_do_not_work_in_one_folder() -> Outcome {
    let here = folder("compare-busy")?;
    let args = [&["compare"], &long()[..], &["--out", "run", "--quiet"]].concat();
    let mut child = command(&here, &args).stdout(Stdio::null()).spawn()?;
    wait_for(&here.join("run"), 10, &mut child)?;
    let resumed = compare(&here, &["--resume", "run"])?;
    let forced = compare(&here, &[&SMALL[..], &["--out", "run", "--force"]].concat())?;
    assert!(here.join("run/log/000-00000.jsonl").is_file(), "nothing is cleared");
    child.kill()?;
    child.wait()?;
    for output in [resumed, forced] {
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("no other process"), "{message}");
    }
    Ok(())
}
