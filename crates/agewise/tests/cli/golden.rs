//! The bits of whole runs, on every path of this machine, and how a path is chosen.

use crate::common::compare::command;
use crate::common::{Outcome, files, folder};
use sha2::{Digest, Sha256};
use std::path::Path;

const TABLE: &str = include_str!("../../../../golden-hashes.txt");

const PATHS: [&str; 3] = ["portable", "avx2", "avx512"];

/// A comparison of all policies.
const ALL: [&str; 27] = [
    "compare",
    "--policy",
    "POLICIES",
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
    "--speeds",
    "lognormal:1",
    "--target",
    "0.3",
    "--quiet",
    "--json",
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

#[test]
fn all_policies_have_the_bits_of_the_table_on_every_path() -> Outcome {
    let here = folder("golden")?;
    let policies = agewise_core::POLICIES.iter().map(|entry| match entry.name {
        // The one that has no law of its own.
        "markov-custom" => "markov-custom(p=[0, 0.1, 0.5, 1])",
        name => name,
    });
    let policies = policies.collect::<Vec<_>>().join(",");
    let mut found = Vec::new();
    for path in PATHS {
        let args = ALL.map(|arg| if arg == "POLICIES" { &policies } else { arg });
        let args = [&args[..], &["--out", path]].concat();
        let output = command(&here, &args).env("AGEWISE_KERNELS", path).output()?;
        if output.status.code() == Some(2) && path != "portable" {
            continue;
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let provenance = std::fs::read_to_string(here.join(path).join("provenance.json"))?;
        assert!(provenance.contains(&format!("\"kernels\": \"{path}\"")), "{provenance}");
        found.push((path, hash(&here.join(path))?));
    }
    let expected = TABLE.lines().find_map(|line| line.strip_prefix("compare, all policies: "));
    for (path, hash) in &found {
        assert_eq!(Some(hash.as_str()), expected, "compare, all policies, on {path}");
    }
    Ok(())
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
