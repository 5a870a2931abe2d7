//! `agewise compare` under real conditions: any interruption gives the same bytes, and bad settings end it early.

use crate::common::compare::{command, succeeds};
use crate::common::{Outcome, folder};
use crate::compare_resume::kill_and_resume;
use std::fs;

/// Schedules beside each other, on devices and links that differ.
const CLOCK: [&str; 28] = [
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
    "oort,age-herding/over-select:1.5,random/deadline:0.7,oldest-first/deadline:20s,oldest-first/buffered:3,random/async",
    "--target",
    "0.3,0.6",
    "--batch",
    "10",
    "--steps",
    "3",
    "--speeds",
    "phones@20",
    "--links",
    "phones@0.5,0.2",
    "--dropout",
    "0.1",
    "--power",
    "4",
    "--unit",
    "seconds",
];

#[test]
fn killed_at_any_round_it_resumes_to_the_same_bytes() -> Outcome {
    let here = folder("clock-killed")?;
    kill_and_resume(&here, &CLOCK, 12 * 13)?;
    let rounds = fs::read_to_string(here.join("broken/rounds.csv"))?;
    let header = rounds.lines().next().ok_or("no lines")?;
    assert!(header.ends_with("bytes_down,bytes_up,joules"), "{header}");
    let summary = fs::read_to_string(here.join("broken/summary.json"))?;
    for word in ["\"unit\": \"seconds\"", "\"cost_to\"", "\"share_wasted\"", "\"deadline:20s\""] {
        assert!(summary.contains(word), "{word}");
    }
    let report = fs::read_to_string(here.join("broken/report.html"))?;
    assert!(report.contains("What does a score cost?") && report.contains("Jain of work"));
    Ok(())
}

#[test]
fn the_chosen_unit_leads() -> Outcome {
    let here = folder("clock-unit")?;
    let table = succeeds(&here, &CLOCK)?;
    assert!(table.contains("seconds to 60%") && !table.contains("rounds to 60%"), "{table}");
    // The sentence may be wrapped anywhere.
    let words: Vec<&str> = table.split_whitespace().collect();
    assert!(words.join(" ").contains("Measured by seconds to 60%"), "{table}");
    Ok(())
}

#[test]
fn conditions_that_cannot_be_are_refused_before_the_run() -> Outcome {
    let here = folder("clock-refused")?;
    let cases: &[(&[&str], &[&str])] = &[
        (&["--schedule", "deadline:0.001s"], &["schedule = deadline:0.001s", "the fastest of the"]),
        (&["--schedule", "over-select:8"], &["schedule = over-select:8", "at most 100"]),
        (&["--schedule", "soon"], &["schedule = soon", "deadline:QUANTILE"]),
        (&["--policy", "random/soon"], &["schedule = soon"]),
        (&["--policy", "random/buffered:90"], &["schedule = buffered:90", "at most 85"]),
        (&["--policy", "markov-optimal/async"], &["policy = markov-optimal", "fills free places"]),
        (&["--links", "lognormal"], &["links = lognormal", "DOWN,UP"]),
        (&["--speeds", "nowhere.csv:speed"], &["speeds = nowhere.csv:speed", "can be read"]),
        (&["--unit", "hours"], &["unit = hours", "seconds"]),
        (&["--unit", "joules"], &["unit = joules", "power"]),
        (&["--link-power", "1"], &["link_power = 1", "power"]),
    ];
    for (args, words) in cases {
        let output = command(&here, &[&["compare", "--out", "run"], *args].concat()).output()?;
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(words.iter().all(|word| message.contains(word)), "{args:?}: {message}");
        assert!(!here.join("run").exists(), "{args:?}");
    }
    Ok(())
}
