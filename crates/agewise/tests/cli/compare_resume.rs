//! `agewise compare` when it is stopped, killed or its files are damaged: it goes on, and nothing is lost.

use crate::common::compare::{
    FIELD, SMALL, assert_same, command, compare, logged, long, small, succeeds, wait_for,
};
use crate::common::{Outcome, folder};
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Plays a comparison that is killed again and again, beside one that is not. Its runs have so many lines in their logs.
pub(crate) fn kill_and_resume(here: &Path, args: &[&str], lines: usize) -> Outcome {
    succeeds(here, &[args, &["--out", "whole"]].concat())?;
    let run = here.join("broken");
    let mut kills = 0;
    let mut next = 3;
    let args = [&["compare"], args, &["--out", "broken", "--quiet"]].concat();
    let mut child = command(here, &args).stdout(Stdio::null()).spawn()?;
    // The distances are those of a fixed random draw.
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
        if next >= lines {
            assert!(command(here, &resume).output()?.status.success());
            break;
        }
        child = command(here, &resume).stdout(Stdio::null()).spawn()?;
    }
    assert!(kills >= 3, "only {kills} kills: the comparison is too short");
    assert_same(&here.join("whole"), &run)
}

#[test]
fn killed_at_any_round_it_resumes_to_the_same_bytes() -> Outcome {
    let here = folder("compare-killed")?;
    // Nine runs with a header and twelve rounds each.
    kill_and_resume(&here, &SMALL, 9 * 13)?;
    // A finished one is only drawn again.
    assert!(compare(&here, &["--resume", "broken", "--quiet"])?.status.success());
    assert_same(&here.join("whole"), &here.join("broken"))
}

/// The kernels of each process that worked on a run.
fn kernels_of_sessions(run: &Path) -> Outcome<Vec<String>> {
    let text = fs::read_to_string(run.join("provenance.json"))?;
    let sessions: Vec<serde_json::Value> = serde_json::from_str(&text)?;
    sessions
        .into_iter()
        .map(|mut session| Ok(serde_json::from_value(session["kernels"].take())?))
        .collect()
}

/// As if a run had been moved to a machine that can do more.
#[test]
fn begun_in_portable_code_it_resumes_with_vector_instructions_to_the_same_bytes() -> Outcome {
    let here = folder("compare-moved")?;
    let mlp = SMALL.map(|arg| if arg == "softmax" { "mlp:32" } else { arg });
    succeeds(&here, &[&mlp, &["--out", "whole"][..]].concat())?;
    let [fastest] = &kernels_of_sessions(&here.join("whole"))?[..] else {
        return Err("expected one process".into());
    };
    let args = [&["compare"], &mlp[..], &["--out", "moved", "--quiet"]].concat();
    let mut command = command(&here, &args);
    let mut child = command.env("AGEWISE_KERNELS", "portable").stdout(Stdio::null()).spawn()?;
    // In the middle of a run: nine have a header and twelve rounds each.
    wait_for(&here.join("moved"), 40, &mut child)?;
    child.kill()?;
    child.wait()?;
    let logged = logged(&here.join("moved"));
    assert!(logged < 9 * 13, "{logged} lines: nothing is left to resume");
    succeeds(&here, &["--resume", "moved"])?;
    assert_eq!(kernels_of_sessions(&here.join("moved"))?, ["portable", fastest.as_str()]);
    assert_same(&here.join("whole"), &here.join("moved"))
}

#[test]
fn policies_that_remember_updates_resume_to_the_same_bytes() -> Outcome {
    let here = folder("compare-killed-field")?;
    kill_and_resume(&here, &FIELD, 10 * 13)?;
    let rounds = fs::read_to_string(here.join("broken/rounds.csv"))?;
    let (header, lines) = rounds.split_once('\n').ok_or("no lines")?;
    assert!(header.ends_with(",bytes_moved,simulated_seconds"), "{header}");
    // Under the first policy's first seed everyone is asked first: 16 models to those who are not chosen, and 2 for each of
    // the 4 clients.
    let moved = |line: &str| line.rsplit(',').nth(1).and_then(|cell| cell.parse::<u64>().ok());
    let moved: Vec<u64> = lines.lines().take(2).filter_map(moved).collect();
    assert_eq!(moved, [24 * 4 * 7_850, 32 * 4 * 7_850]);
    let seconds = |line: &str| line.rsplit(',').next().and_then(|cell| cell.parse::<f64>().ok());
    let seconds: Vec<f64> = lines.lines().take(12).filter_map(seconds).collect();
    assert!(seconds.len() == 12 && seconds.is_sorted_by(|a, b| a < b), "{seconds:?}");
    Ok(())
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

/// A wrong byte in the sketches, at the end of a checkpoint, and one that is cut off among them.
#[test]
fn damaged_sketches_cost_time_and_nothing_else() -> Outcome {
    let here = folder("compare-damaged-field")?;
    succeeds(&here, &[&FIELD[..], &["--out", "whole"]].concat())?;
    let run = here.join("damaged");
    let args = [&["compare"], &FIELD[..], &["--out", "damaged", "--quiet"]].concat();
    let mut child = command(&here, &args).stdout(Stdio::null()).spawn()?;
    let mut damaged = 0;
    for (turn, lines) in [30, 60].into_iter().enumerate() {
        wait_for(&run, lines, &mut child)?;
        child.kill()?;
        child.wait()?;
        for entry in fs::read_dir(run.join("checkpoints"))? {
            let path = entry?.path();
            let mut bytes = fs::read(&path)?;
            let Some(end) = bytes.len().checked_sub(12) else { continue };
            if turn == 0 {
                bytes[end] ^= 0x40;
            } else {
                bytes.truncate(end);
            }
            fs::write(&path, bytes)?;
            damaged += 1;
        }
        child = command(&here, &["compare", "--resume", "damaged", "--quiet"])
            .stdout(Stdio::null())
            .spawn()?;
    }
    assert!(damaged >= 4, "only {damaged} checkpoints were damaged");
    assert!(child.wait()?.success());
    assert_same(&here.join("whole"), &run)
}

#[cfg(unix)]
#[test]
fn interrupted_it_ends_with_what_there_is() -> Outcome {
    let here = folder("compare-interrupted")?;
    let long = long();
    let simulation = ["--clients", "2000", "--rounds", "3000", "--seeds", "400", "--cohort", "100"];
    for signal in ["-INT", "-TERM"] {
        for (kind, args, lines) in [("simulate", &simulation[..], 2), ("compare", &long[..], 30)] {
            // Lines of an earlier run must not count as those of this one.
            fs::remove_dir_all(here.join("run")).ok();
            let args = [&[kind], args, &["--out", "run", "--quiet"]].concat();
            let mut command = command(&here, &args);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
            wait_for(&here.join("run"), lines, &mut child)?;
            let kill = ["kill", signal, &child.id().to_string()].join(" ");
            assert!(std::process::Command::new("sh").args(["-c", &kill]).status()?.success());
            let output = child.wait_with_output()?;
            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(130), "{kind} {signal}: {message}");
            assert!(message.contains(&format!("agewise {kind} --resume run")), "{message}");
            let report = fs::read_to_string(here.join("run/report.html"))?;
            assert!(report.contains("Not finished"), "{kind} {signal}");
            assert!(here.join("run/summary.json").is_file());
            assert!(String::from_utf8(output.stdout)?.contains("Report: run/report.html"));
        }
    }
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
    let output =
        std::process::Command::new("sh").args(["-c", &line]).current_dir(&here).output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("Nothing that was written is lost"), "{message}");
    succeeds(&here, &["--resume", "run"])?;
    small(&here, &["--out", "whole"])?;
    assert_same(&here.join("whole"), &here.join("run"))
}

/// What is asked for later is as if it had been asked for at once.
#[test]
fn more_can_be_asked_of_a_run() -> Outcome {
    let here = folder("compare-extended")?;
    let less = |from: &str, to: &'static str| SMALL.map(|arg| if arg == from { to } else { arg });
    small(&here, &["--out", "whole"])?;
    let (whole, run) = (here.join("whole"), here.join("run"));
    let policies = "random,oldest-first,markov-optimal@cold";
    for (begun, more) in [
        (less("3", "2"), ["--seeds", "3"]),
        (less("12", "5"), ["--rounds", "12"]),
        (less(policies, "random"), ["--policy", "oldest-first,markov-optimal@cold"]),
    ] {
        // `--steps 3` is not about seeds.
        let mut begun = begun.to_vec();
        if let Some(steps) = begun.iter().position(|arg| *arg == "--steps") {
            begun[steps + 1] = "3";
        }
        succeeds(&here, &[&begun[..], &["--out", "run", "--force"]].concat())?;
        succeeds(&here, &[&["--extend", "run"][..], &more].concat())?;
        assert_same(&whole, &run)?;
    }
    // Nothing but more.
    for (command, wrong, words) in [
        ("--extend", ["--seeds", "1"], "seeds = 1: expected at least the 3"),
        ("--extend", ["--rounds", "3"], "rounds = 3: expected at least the 12"),
        ("--extend", ["--batch", "11"], "training.batch = 11: expected 10, as in the run"),
        ("--resume", ["--batch", "11"], "training.batch = 11: expected 10"),
    ] {
        let output = compare(&here, &[&[command, "run"][..], &wrong].concat())?;
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(message.contains(words), "{message}");
        assert_same(&whole, &run)?;
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
    let (before, after) = tail.split_once("\"class_correct\":[").ok_or("no score")?;
    let count: u64 = after.split(',').next().ok_or("no count")?.parse()?;
    let after = after.replacen(&count.to_string(), &(count + 1).to_string(), 1);
    fs::write(&log, format!("{head}\"round\":1,{before}\"class_correct\":[{after}"))?;
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

#[test]
fn threads_leave_no_trace_in_what_policies_remember() -> Outcome {
    let here = folder("compare-threads-field")?;
    for threads in ["1", "3"] {
        let args = [&FIELD[..], &["--threads", threads, "--out", threads]].concat();
        succeeds(&here, &args)?;
    }
    assert_same(&here.join("1"), &here.join("3"))
}
