//! The bits of whole runs, on every path of this machine, and how a path is chosen.

use crate::common::compare::command;
use crate::common::{Outcome, files, folder};
use sha2::{Digest, Sha256};
use std::path::Path;

const TABLE: &str = include_str!("../../../../golden-hashes.txt");

/// What every comparison has in common.
const SMALL: [&str; 22] = [
    "compare",
    "--model",
    "softmax",
    "--clients",
    "20",
    "--cohort",
    "4",
    "--rounds",
    "5",
    "--seeds",
    "2",
    "--batch",
    "10",
    "--steps",
    "2",
    "--partition",
    "dirichlet:0.5",
    "--sizes",
    "zipf:2.0",
    "--target",
    "0.3",
    "--quiet",
];

/// Rules of aggregation, in a world of clients that come and go, drop out and are late.
const CHANGING: [&str; 14] = [
    "--policy",
    "random+median,oldest-first+trimmed-mean(trim=0.3),age-herding+median(clip_norm=1)+momentum,oort/deadline:0.8",
    "--availability",
    "on-off:6,3",
    "--dropout",
    "0.1",
    "--join",
    "0.2",
    "--leave",
    "0.02",
    "--speeds",
    "phones",
    "--links",
    "phones",
];

/// Without rounds.
const BUFFERED: [&str; 8] = [
    "--policy",
    "random/buffered:2,oldest-first+median/buffered:3,age-herding/async,random/over-select:1.3",
    "--dropout",
    "0.1",
    "--speeds",
    "phones",
    "--links",
    "phones",
];

/// The first 64 bits of SHA-256 over the files that follow from the parameters, figures and pages excepted.
fn hash(run: &Path) -> Outcome<String> {
    let mut sum = Sha256::new();
    for (name, bytes) in files(run)? {
        let name = name.to_string_lossy().into_owned();
        let drawn = name.starts_with("figures") || name == "report.html" || name == "lock";
        if !drawn && name != "config.toml" {
            sum.update(name.as_bytes());
            sum.update(&bytes);
        }
    }
    let first =
        sum.finalize()[..8].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    Ok(format!("{first:016x}"))
}

/// The paths that this machine has, by the program's own account.
fn paths(here: &Path) -> Outcome<Vec<String>> {
    let output = command(here, &["doctor", "--json"]).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let paths: Vec<String> = serde_json::from_value(findings["all_kernels"].clone())?;
    assert!(paths.iter().any(|path| path == "portable"), "{paths:?}");
    Ok(paths)
}

/// Plays a comparison on every path, each with another number of threads, and looks its bits up in the table.
fn compare_with_table(here: &Path, name: &str, args: &[&str]) -> Outcome {
    let expected = TABLE.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let mut wrong = Vec::new();
    for (path, threads) in paths(here)?.iter().zip(["3", "2", "1"]) {
        let args = [&SMALL, args, &["--threads", threads, "--out", path]].concat();
        let output = command(here, &args).env("AGEWISE_KERNELS", path).output()?;
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        let provenance = std::fs::read_to_string(here.join(path).join("provenance.json"))?;
        assert!(provenance.contains(&format!("\"kernels\": \"{path}\"")), "{provenance}");
        let found = hash(&here.join(path))?;
        if expected != Some(&found) {
            wrong.push(format!("{name}: {found} ({path})"));
        }
    }
    assert!(wrong.is_empty(), "not in golden-hashes.txt:\n{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn all_policies_have_the_bits_of_the_table_on_every_path() -> Outcome {
    let policies = agewise_core::POLICIES.iter().map(|entry| match entry.name {
        // The one that has no law of its own.
        "markov-custom" => "markov-custom(p=[0, 0.1, 0.5, 1])",
        name => name,
    });
    let policies = policies.collect::<Vec<_>>().join(",");
    let args = ["--policy", &policies, "--speeds", "lognormal:1"];
    compare_with_table(&folder("golden")?, "compare, all policies", &args)
}

#[test]
fn a_world_of_late_and_lost_clients_has_the_bits_of_the_table_on_every_path() -> Outcome {
    compare_with_table(&folder("golden-changing")?, "compare, changing clients", &CHANGING)
}

#[test]
fn schedules_without_rounds_have_the_bits_of_the_table_on_every_path() -> Outcome {
    compare_with_table(&folder("golden-buffered")?, "compare, without rounds", &BUFFERED)
}

#[test]
fn a_path_that_there_is_not_is_refused() -> Outcome {
    let here = folder("golden-refused")?;
    let output = command(&here, &["compare"]).env("AGEWISE_KERNELS", "sse9").output()?;
    let said = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("AGEWISE_KERNELS = sse9: expected") && said.contains("portable"),
        "{said}"
    );
    let output = command(&here, &["compare", "--kernels", "sse9"]).output()?;
    let said = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--kernels") && said.contains("portable"), "{said}");
    assert!(std::fs::read_dir(&here)?.next().is_none(), "nothing was begun");
    Ok(())
}
