//! The real binary, from the outside: what it prints, what it writes, how it fails.

use crate::common::{Outcome, folder};
use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

fn theory(args: &[&str]) -> Outcome<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_agewise")).arg("theory").args(args).output()?)
}

fn json(args: &[&str]) -> Outcome<Value> {
    let output = theory(&[args, &["--json"]].concat())?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn policy<'a>(document: &'a Value, name: &str) -> &'a Value {
    let policies = document["policies"].as_array().into_iter().flatten();
    policies.into_iter().find(|policy| policy["policy"] == name).unwrap_or(&Value::Null)
}

fn close(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap_or(f64::NAN);
    assert!((value - expected).abs() < 1e-12 * expected.abs().max(1.0), "{value} not {expected}");
}

#[test]
fn the_table_shows_every_policy_with_an_explanation() -> Outcome {
    let output = theory(&["--clients", "100", "--cohort", "15", "--max-age", "10"])?;
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout)?;
    for name in ["random", "probabilistic", "markov-optimal", "oldest-first", "phased"] {
        assert!(text.lines().filter(|line| line.contains(name)).count() >= 2, "{name}\n{text}");
    }
    for figure in ["37.78", "0.2222", "0.06103", "0.05667", "3.571", "no bound"] {
        assert!(text.contains(figure), "{figure}\n{text}");
    }
    assert!(output.stderr.is_empty());
    Ok(())
}

#[test]
fn the_document_has_full_precision() -> Outcome {
    let document = json(&[])?;
    assert_eq!((&document["clients"], &document["cohort"]), (&100.into(), &15.into()));
    assert_eq!(document["max_age"], 10);
    let optimal = policy(&document, "markov-optimal");
    close(&optimal["mean_interval"], 100.0 / 15.0);
    close(&optimal["var_interval"], 2.0 / 9.0);
    close(&optimal["probabilities"][5], 1.0 / 3.0);
    close(&optimal["steady_state"][0], 0.15);
    close(&optimal["cohort_mean"], 15.0);
    close(&optimal["cohort_sd"], (15.0f64 * 0.85).sqrt());
    assert_eq!(optimal["longest_wait"], 7);
    let random = policy(&document, "random");
    close(&random["var_interval"], 100.0 * 85.0 / 225.0);
    close(&random["sigma"], 1.0 / 15.0 - 0.01);
    assert!(random["probabilities"].is_null() && random["steady_state"].is_null());
    assert!(random["longest_wait"].is_null());
    close(&policy(&document, "probabilistic")["sigma"], 0.99 / 15.0);
    Ok(())
}

#[test]
fn sizes_come_from_a_law_or_a_file() -> Outcome {
    let zipf = json(&["--sizes", "zipf:2.0", "--policy", "random", "--seed", "3"])?;
    let sigma = policy(&zipf, "random")["sigma"].as_f64().unwrap_or(0.0);
    assert!((0.06..0.6).contains(&sigma), "{sigma}");
    assert_eq!(zipf, json(&["--sizes", "zipf:2.0", "--policy", "random", "--seed", "3"])?);

    let file = folder("sizes")?.join("sizes.txt");
    fs::write(&file, "3, 1 # the first two\n2\n")?;
    let name = file.to_string_lossy();
    let args = ["--clients", "3", "--cohort", "1", "--policy", "probabilistic", "--sizes", &name];
    let document = json(&args)?;
    close(&policy(&document, "probabilistic")["sigma"], 0.25 + 5.0 / 36.0 + 2.0 / 9.0);
    assert_eq!(document["sizes"], "sizes.txt");
    Ok(())
}

#[test]
fn a_billion_clients_are_answered() -> Outcome {
    let document = json(&["--clients", "1e9", "--cohort", "1_000_000", "--max-age", "5000"])?;
    let optimal = policy(&document, "markov-optimal");
    assert_eq!(optimal["probabilities"].as_array().map(Vec::len), Some(5_001));
    close(&optimal["mean_interval"], 1_000.0);
    let sigma = policy(&document, "phased")["sigma"].as_f64().unwrap_or(0.0);
    assert!((sigma / (1e-6 - 1e-9) - 1.0).abs() < 1e-6, "{sigma}");
    Ok(())
}

#[test]
fn figures_are_drawn_in_both_formats() -> Outcome {
    let folder = folder("figures")?;
    for (name, start) in [("law.svg", &b"<svg"[..]), ("law.PNG", &b"\x89PNG"[..])] {
        let path = folder.join(name);
        let output = theory(&["--figure", &path.to_string_lossy(), "--cold-start", "20"])?;
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout)?.contains("from a cold start"));
        assert!(fs::read(&path)?.starts_with(start), "{name}");
    }
    // A figure that exists is replaced only on purpose.
    let path = folder.join("law.svg");
    let again = theory(&["--figure", &path.to_string_lossy(), "--policy", "random"])?;
    assert_eq!(again.status.code(), Some(2));
    let forced = theory(&["--figure", &folder.join("law.PNG").to_string_lossy(), "--force"])?;
    assert!(forced.status.success());
    let svg = fs::read_to_string(path)?;
    for text in ["markov-optimal", "Rounds between two selections", "From a cold start"] {
        assert!(svg.contains(text), "{text}");
    }
    Ok(())
}

#[test]
fn bad_input_is_named_and_nothing_is_touched() -> Outcome {
    let folder = folder("bad_input")?;
    let kept = folder.join("kept.png");
    fs::write(&kept, "precious")?;
    let nan = folder.join("nan.txt");
    fs::write(&nan, "1 NaN")?;
    let gif = folder.join("picture.gif");
    let (kept_name, nan_name, gif_name) =
        (kept.to_string_lossy(), nan.to_string_lossy(), gif.to_string_lossy());
    let cases: &[(&[&str], &str)] = &[
        (&["--clients", "0"], "clients = 0"),
        (&["--clients", "4294967296"], "clients = 4294967296"),
        (&["--clients", "1.5"], "1.5"),
        (&["--clients", "-3"], "-3"),
        (&["--cohort", "0"], "cohort = 0"),
        (&["--cohort", "101"], "cohort = 101: expected a whole number from 1 to"),
        (&["--max-age", "0"], "max_age = 0"),
        (&["--sizes", "zipf:1"], "sizes = zipf:1"),
        (&["--sizes", "no such file"], "sizes = no such file"),
        (&["--sizes", &nan_name, "--clients", "2", "--cohort", "1"], "sizes[1] = NaN"),
        (&["--sizes", &nan_name], "sizes[1] = NaN"),
        (&["--policy", "oldest"], "did you mean oldest-first?"),
        (&["--policy", ""], "policy = \"\""),
        (&["--policy", "markov-custom(p=[0, 1.5])"], "probabilities[1] = 1.5"),
        (&["--policy", "markov-custom(p=[1, 0])"], "probabilities[1] = 0"),
        (&["--policy", "phased(reshuffle=2)"], "phased(reshuffle) = 2"),
        (&["--weighting", "size"], "weighting = size"),
        (&["--figure", &gif_name], ".gif"),
        (&["--figure", "no/such/folder/x.png"], "no/such/folder/x.png"),
    ];
    for (args, message) in cases {
        let with_figure = [&["--force", "--figure", &kept_name], *args].concat();
        let args = if args[0] == "--figure" { args.to_vec() } else { with_figure };
        let output = theory(&args)?;
        let stderr = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert_eq!(fs::read_to_string(&kept)?, "precious", "{args:?}");
    }
    assert_eq!(fs::read_dir(&folder)?.count(), 2);
    Ok(())
}

#[test]
fn a_reader_that_leaves_early_is_no_error() -> Outcome {
    let mut child = Command::new(env!("CARGO_BIN_EXE_agewise"))
        .args(["theory", "--clients", "1e9", "--cohort", "1e6", "--max-age", "100000", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    drop(child.stdout.take());
    let output = child.wait_with_output()?;
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[test]
fn help_teaches() -> Outcome {
    let output = theory(&["--help"])?;
    let text = String::from_utf8(output.stdout)?;
    for words in ["Var[X]", "Sigma", "longest wait", "zipf:A", "Examples:"] {
        assert!(text.contains(words), "{words}");
    }
    Ok(())
}
