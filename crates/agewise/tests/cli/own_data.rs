//! Data of one's own from the outside: `agewise compare --data FILE` and `agewise data show FILE`.

use crate::common::compare::{assert_same, command, compare, succeeds};
use crate::common::{Outcome, files, folder};
use crate::compare_resume::kill_and_resume;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A table of ten clients whose classes depend on the features; made up without a library of random numbers.
fn table(rows: u32) -> Result<String, std::fmt::Error> {
    let mut text = "who,a,b,kind,price\n".to_string();
    for row in 0..rows {
        let noise = f64::from(row.wrapping_mul(2_654_435_761) >> 20) / 4096.0;
        let class = row % 3;
        let (a, b) = (f64::from(class) + noise, f64::from(row % 7));
        let price = 100.0 + 3.0 * a - b + noise / 2.0;
        writeln!(
            text,
            "client {},{a:.3},{b},{},{price:.2}",
            row * row % 10,
            ["x", "y", "z"][class as usize]
        )?;
    }
    Ok(text)
}

/// A folder with such a table.
fn prepared(name: &str) -> Outcome<std::path::PathBuf> {
    let here = folder(name)?;
    fs::write(here.join("data.csv"), table(300)?)?;
    Ok(here)
}

// So much local work that a run can be killed several times before it ends.
const CLASSES: [&str; 18] = [
    "--data",
    "data.csv",
    "--label",
    "kind",
    "--client",
    "who",
    "--ignore",
    "price",
    "--model",
    "mlp:8",
    "--rounds",
    "12",
    "--policy",
    "random,oldest-first,age-herding",
    "--seeds",
    "3",
    "--steps",
    "2000",
];

const NUMBERS: [&str; 16] = [
    "--data",
    "data.csv",
    "--label",
    "price",
    "--client",
    "who",
    "--ignore",
    "kind",
    "--model",
    "linear",
    "--rounds",
    "5",
    "--policy",
    "random,oldest-first",
    "--seeds",
    "2",
];

#[test]
fn a_table_is_compared_by_its_clients_and_resumes_to_the_same_bytes() -> Outcome {
    let here = prepared("own-classes")?;
    kill_and_resume(&here, &CLASSES, 9 * 13)?;
    let config = fs::read_to_string(here.join("whole/config.toml"))?;
    // The squares of 0 to 9 end with six digits.
    for line in ["clients = 6\n", "cohort = 1\n", "partition = \"clients\"", "client = \"who\""] {
        assert!(config.contains(line), "{line}: {config}");
    }
    // The same from a file, and drawn again.
    let text = "rounds = 12\nseeds = 3\npolicies = [\"random\", \"oldest-first\", \"age-herding\"]\n[training]\n\
                data = \"data.csv\"\nlabel = \"kind\"\nignore = [\"price\"]\npartition = \"clients:who\"\n\
                model = \"mlp:8\"\nlocal_work = \"2000 steps\"\n";
    fs::write(here.join("study.toml"), text)?;
    succeeds(&here, &["study.toml", "--out", "file"])?;
    assert_same(&here.join("whole"), &here.join("file"))?;
    fs::remove_file(here.join("file/report.html"))?;
    assert!(command(&here, &["report", "file"]).output()?.status.success());
    assert_same(&here.join("whole"), &here.join("file"))
}

#[test]
fn numbers_are_predicted_with_the_squared_loss() -> Outcome {
    let here = prepared("own-numbers")?;
    let text = succeeds(&here, &[&NUMBERS[..], &["--out", "run"]].concat())?;
    assert!(text.contains("linear (2 > 1; 3 parameters)") && text.contains("final loss"), "{text}");
    let threads = ["--threads", "3", "--out", "other"];
    succeeds(&here, &[&NUMBERS[..], &threads].concat())?;
    assert_same(&here.join("run"), &here.join("other"))?;
    let text =
        succeeds(&here, &[&NUMBERS[..], &["--target", "0.5,0.1", "--out", "targets"]].concat())?;
    assert!(text.contains("rounds to"), "{text}");
    Ok(())
}

#[test]
fn changed_data_are_noticed_and_moved_data_are_not_missed() -> Outcome {
    let here = prepared("own-changed")?;
    succeeds(&here, &[&NUMBERS[..], &["--out", "run"]].concat())?;
    let before = files(&here.join("run"))?;
    fs::rename(here.join("data.csv"), here.join("moved.csv"))?;
    let missing = compare(&here, &["--resume", "run"])?;
    assert_eq!(missing.status.code(), Some(2));
    let found = ["--extend", "run", "--data", "moved.csv", "--seeds", "3", "--quiet"];
    assert!(compare(&here, &["--resume", "run", "--data", "moved.csv"])?.status.success());
    fs::write(here.join("moved.csv"), table(300)?.replace("client 4", "client 5"))?;
    for args in [&["--resume", "run", "--data", "moved.csv"][..], &found] {
        let output = compare(&here, args)?;
        let error = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("moved.csv") && error.contains("have changed since"), "{error}");
    }
    assert_eq!(files(&here.join("run"))?.len(), before.len());
    fs::write(here.join("moved.csv"), table(300)?)?;
    succeeds(&here, &found)?;
    // Another run may have other data.
    fs::copy(here.join("run/config.toml"), here.join("again.toml"))?;
    fs::write(here.join("data.csv"), table(200)?)?;
    succeeds(&here, &["again.toml", "--data", "data.csv", "--out", "other"])?;
    Ok(())
}

#[test]
fn a_model_is_written_layer_by_layer() -> Outcome {
    let here = prepared("own-layers")?;
    let study = |layers: &str| {
        format!(
            "rounds = 3\nseeds = 1\npolicies = [\"random\"]\n[training]\ndata = \"data.csv\"\nlabel = \"kind\"\n\
             client = \"who\"\nignore = [\"price\"]\n{layers}"
        )
    };
    let layers = "[[model.layer]]\nkind = \"dense\"\nunits = 5\n[[model.layer]]\nkind = \"relu\"\n\
                  [[model.layer]]\nkind = \"dense\"\n";
    fs::write(here.join("study.toml"), study(layers))?;
    let text = succeeds(&here, &["study.toml", "--out", "run"])?;
    assert!(text.contains("layers (2 > 5 > 3; 33 parameters)"), "{text}");
    assert!(compare(&here, &["--resume", "run", "--quiet"])?.status.success());
    let bad = [
        ("[[model.layer]]\nkind = \"dense\"\nunits = 5\n", "model.layer[0].units = 5: expected 3"),
        ("[[model.layer]]\nkind = \"max-pool\"\nsize = 2\n", "model.layer"),
        ("[[model.layer]]\nkind = \"dens\"\n", "dense"),
    ];
    for (layers, words) in bad {
        fs::write(here.join("study.toml"), study(layers))?;
        let output = compare(&here, &["study.toml", "--out", "bad"])?;
        let error = String::from_utf8(output.stderr)?;
        assert!(output.status.code() == Some(2) && error.contains(words), "{error}");
    }
    assert!(!here.join("bad").exists());
    Ok(())
}

#[test]
fn what_cannot_be_is_named_and_nothing_is_written() -> Outcome {
    let here = prepared("own-bad")?;
    let base = ["--data", "data.csv", "--label", "kind", "--ignore", "price"];
    let cases: &[(&[&str], &str)] = &[
        (&["--client", "whom"], "did you mean who?"),
        (&[], "column who: \"client 0\""),
        (&["--client", "who", "--clients", "7"], "from 1 to 6, the clients of the data"),
        (&["--client", "who", "--sizes", "zipf:2"], "sizes = zipf:2: expected equal"),
        (
            &["--client", "who", "--model", "linear", "--loss", "cross-entropy"],
            "expected softmax or mlp",
        ),
        (&["--client", "who", "--holdout", "1"], "holdout = 1"),
        (&["--client", "who", "--test", "nowhere.csv"], "nowhere.csv: found no such file"),
        (&["--client", "who", "--bound", "--model", "mlp:3"], "model = mlp:3: expected softmax"),
    ];
    for (args, words) in cases {
        let output = compare(&here, &[&base[..], args, &["--out", "bad"]].concat())?;
        let error = String::from_utf8(output.stderr)?;
        assert!(output.status.code() == Some(2) && error.contains(words), "{args:?}: {error}");
    }
    let others: &[(&[&str], &str)] = &[
        (&["--partition", "clients"], "the data do not say whose the samples are"),
        (&["--label", "x"], "label = x: expected none, as digits"),
        (&["--holdout", "0.1"], "holdout = 0.1"),
        (&["--model", "linear"], "model = linear: expected softmax"),
    ];
    for (args, words) in others {
        let output = compare(&here, &[args, &["--out", "bad"][..]].concat())?;
        let error = String::from_utf8(output.stderr)?;
        assert!(output.status.code() == Some(2) && error.contains(words), "{args:?}: {error}");
    }
    assert!(!here.join("bad").exists());
    Ok(())
}

fn show(here: &Path, args: &[&str]) -> Outcome<String> {
    let output =
        command(here, &[&["data", "show"], args].concat()).env("COLUMNS", "60").output()?;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn show_draws_what_is_in_a_file() -> Outcome {
    let here = prepared("own-show")?;
    let classes =
        ["data.csv", "--label", "kind", "--client", "who", "--ignore", "price", "--out", "a"];
    let text = show(&here, &classes)?;
    for words in
        ["240 training and 60 test samples", "6 clients", "Fewest: client client 0 with 24"]
    {
        assert!(text.replace('\n', " ").contains(words), "{words}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    let text =
        show(&here, &["data.csv", "--label", "price", "--ignore", "kind,who", "--out", "b"])?;
    assert!(text.contains("labels that are") && text.contains("20 clients"), "{text}");
    for file in ["a/labels.svg", "a/samples.png", "b/labels.png", "b/samples.svg", "b/summary.json"]
    {
        assert!(here.join(file).is_file(), "{file}");
    }
    Ok(())
}
