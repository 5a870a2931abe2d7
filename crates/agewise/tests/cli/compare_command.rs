//! `agewise compare` from the outside: its folder, its report, its options, and how it fails.

use crate::common::compare::{SMALL, assert_same, command, compare, small, succeeds};
use crate::common::{Outcome, files, folder};
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn the_run_folder_is_complete() -> Outcome {
    let here = folder("compare-complete")?;
    let text = small(&here, &[])?;
    assert!(text.contains("markov-optimal@cold"), "{text}");
    let headers: String = text.lines().filter(|line| line.contains(" policy ")).collect();
    let of_30 = ["rounds to 30%", "to 30%, against random"];
    let of_60 = ["rounds to 60%", "to 60%, against random"];
    for column in of_30.into_iter().chain(of_60).chain(["worst 10% %", "ms per choice"]) {
        assert_eq!(headers.matches(column).count(), 1, "{column} in {text}");
    }
    assert!(text.contains("runs/compare-001/report.html"), "{text}");
    let run = here.join("runs/compare-001");
    let found = files(&run)?;
    let names: Vec<String> = found.keys().map(|path| path.to_string_lossy().into_owned()).collect();
    for name in [
        "config.toml",
        "rounds.csv",
        "clients.csv",
        "intervals.csv",
        "windows.csv",
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
    let learning = ["learning", "rounds-to-target", "differences", "clients"];
    let load = ["load", "intervals", "cohorts", "windows", "sigma", "ages"];
    for figure in learning.into_iter().chain(load) {
        assert!(names.contains(&format!("figures/{figure}.svg")), "{figure} in {names:?}");
        assert!(found[Path::new(&format!("figures/{figure}.png"))].starts_with(b"\x89PNG"));
    }
    let report = String::from_utf8(found[Path::new("report.html")].clone())?;
    assert_eq!(report.matches("<svg").count(), learning.len() + load.len());
    assert!(!report.contains("https://"));
    // The script of the page, and what it has to know.
    assert_eq!(report.matches("<script>").count(), 1);
    assert_eq!(report.matches("<script").count(), 3);
    assert!(report.contains("ignificant"), "sentences");
    assert!(report.contains("rounds to 30%") && report.contains("rounds to 60%"));
    // Times are of this machine, so they are where nothing else is.
    let timing = fs::read_to_string(run.join("timing.csv"))?;
    let (header, lines) = timing.split_once('\n').ok_or("no lines")?;
    assert_eq!(header, "policy,seed,round,seconds,checkpoint_seconds,selection_seconds");
    for line in lines.lines() {
        let cells: Vec<f64> = line.rsplit(',').take(3).map(str::parse).collect::<Result<_, _>>()?;
        let [selection, _, round] = cells[..] else { return Err("no times".into()) };
        assert!(selection > 0.0 && selection < round, "{line}");
    }
    for (name, bytes) in &found {
        let text = String::from_utf8_lossy(bytes);
        assert!(!text.contains("selection_seconds") && !text.contains("ms per choice"), "{name:?}");
    }
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
        .filter(|line| line.split(',').nth(11).is_some_and(|cell| !cell.is_empty()))
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
    let args = ["simulate", "--rounds", "50", "--out", "three", "--quiet"];
    assert!(command(&here, &args).output()?.status.success());
    let output = command(&here, &["report", "one", "two"]).output()?;
    assert_eq!(output.status.code(), Some(2), "a report about two runs needs --out");
    let before = [files(&here.join("one"))?, files(&here.join("three"))?];
    for (runs, figures) in [(&["one", "two"][..], 23), (&["one", "three"], 17), (&["three"], 6)] {
        let args = [&["report"], runs, &["--out", "page.html", "--force"]].concat();
        let output = command(&here, &args).output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let page = fs::read_to_string(here.join("page.html"))?;
        assert_eq!(page.matches("<svg").count(), figures, "{runs:?}");
        let is_named = |run: &&str| page.contains(&format!(">{run}<"));
        assert!(runs.len() == 1 || runs.iter().all(is_named), "{runs:?}");
        // Readers jump from one region to another by their labels.
        let labels = page.split("aria-label=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let labels: Vec<&str> = labels.collect();
        let different: std::collections::BTreeSet<&&str> = labels.iter().collect();
        assert_eq!(different.len(), labels.len(), "{labels:?}");
    }
    // A simulation is drawn again from its logs too.
    fs::remove_dir_all(here.join("three/figures"))?;
    assert!(command(&here, &["report", "three"]).output()?.status.success());
    assert_eq!(before, [files(&here.join("one"))?, files(&here.join("three"))?]);
    let output = command(&here, &["report", "nowhere"]).output()?;
    assert_eq!(output.status.code(), Some(2));
    Ok(())
}

/// Clients that are offline, drop out, join and leave while they train.
#[test]
fn training_meets_the_world_of_the_simulator() -> Outcome {
    let here = folder("compare-world")?;
    let world = "--availability on-off:6,3 --dropout 0.2 --join 0.05 --leave 0.02 --calibrate";
    let world: Vec<&str> = world.split(' ').collect();
    let text = small(&here, &[&world[..], &["--out", "one", "--threads", "1"]].concat())?;
    assert!(text.contains("never reached") && text.contains("on-off:6,3"), "{text}");
    small(&here, &[&world[..], &["--out", "other", "--threads", "3"]].concat())?;
    assert_same(&here.join("one"), &here.join("other"))?;
    let churn = "--availability on-off:6,3 --dropout 0.2 --churn 0.05,0.02 --calibrate --out churn";
    small(&here, &churn.split(' ').collect::<Vec<_>>())?;
    assert_same(&here.join("one"), &here.join("churn"))?;
    let summary: Value = serde_json::from_slice(&fs::read(here.join("one/summary.json"))?)?;
    for policy in summary["policies"].as_array().ok_or("no policies")? {
        let mean = |name: &str| policy["means"][name]["mean"].as_f64().unwrap_or(f64::NAN);
        assert!(mean("available") < 20.0 && mean("reported") < mean("selected"), "{policy}");
        assert!(mean("never_reached").is_finite());
    }
    let report = fs::read_to_string(here.join("one/report.html"))?;
    assert!(report.contains("Who is reached?") && here.join("one/figures/world.svg").is_file());
    // The newcomers of twelve rounds have data of their own.
    let clients = fs::read_to_string(here.join("one/clients.csv"))?;
    assert_eq!(clients.lines().count(), 1 + 3 * 3 * 32);
    Ok(())
}

#[test]
fn rules_of_aggregation_are_compared_like_policies() -> Outcome {
    let here = folder("compare-aggregation")?;
    let args = SMALL.map(|arg| {
        if arg.contains("oldest") {
            "random,random+median,random+trimmed-mean(trim=0.3)"
        } else {
            arg
        }
    });
    let text = succeeds(&here, &[&args[..], &["--out", "run"]].concat())?;
    assert!(text.contains("random+median") && text.contains("random+trimmed-mean(trim=0.3)"));
    let summary: Value = serde_json::from_slice(&fs::read(here.join("run/summary.json"))?)?;
    let rules: Vec<&str> = summary["policies"]
        .as_array()
        .ok_or("no policies")?
        .iter()
        .filter_map(|policy| policy["aggregation"].as_str())
        .collect();
    assert_eq!(rules, ["mean", "median", "trimmed-mean(trim=0.3)"]);
    let rule = "median(clip_norm=5)+momentum(beta=0.5)";
    small(&here, &["--aggregate", rule, "--out", "all"])?;
    let report = fs::read_to_string(here.join("all/report.html"))?;
    assert!(report.contains("Rules of aggregation"), "{rule}");
    succeeds(&here, &["all/config.toml", "--out", "again"])?;
    assert_same(&here.join("all"), &here.join("again"))
}

#[test]
fn presets_are_listed_with_their_cost() -> Outcome {
    let here = folder("compare-presets")?;
    let output = command(&here, &["presets", "--json"]).output()?;
    let list: Value = serde_json::from_slice(&output.stdout)?;
    let list = list.as_array().ok_or("no list")?;
    assert!(list.len() >= 13, "{} presets", list.len());
    for preset in list {
        assert!(preset["seconds_per_round"].as_f64() > Some(0.0), "{preset}");
    }
    Ok(())
}

#[test]
fn policies_and_their_options_are_listed() -> Outcome {
    let here = folder("compare-policies")?;
    let output = command(&here, &["policies", "--json"]).output()?;
    let list: Value = serde_json::from_slice(&output.stdout)?;
    let names: Vec<&str> = list
        .as_array()
        .ok_or("no list")?
        .iter()
        .filter_map(|policy| policy["name"].as_str())
        .collect();
    assert!(names.starts_with(&["random"]) && names.contains(&"age-herding"), "{names:?}");
    let output = command(&here, &["policies", "oort"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    for words in ["epsilon", "0.9", "data-size"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let output = command(&here, &["policies", "ort"]).output()?;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr)?.contains("did you mean oort?"));
    Ok(())
}

/// A policy that trains the same few for ever does so at even intervals; that is no even load.
#[test]
fn calling_the_same_few_is_not_called_even() -> Outcome {
    let here = folder("compare-uneven")?;
    let policies = "random,oort(epsilon=0)";
    let args = ["compare", "--quiet", "--out", "run", "--policy", policies, "--model", "softmax"];
    let numbers =
        ["--clients", "40", "--cohort", "4", "--rounds", "30", "--seeds", "1", "--target", "0.99"];
    let output = command(&here, &[&args[..], &numbers].concat()).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = command(&here, &["report", "run"]).output()?;
    assert!(output.status.success());
    let page = fs::read_to_string(here.join("run/report.html"))?;
    assert!(page.contains("never (0 of 1)") && page.contains("The most even load: random"));
    Ok(())
}

#[test]
fn what_is_wrong_is_named_and_nothing_is_written() -> Outcome {
    let here = folder("compare-wrong")?;
    fs::write(here.join("typo.toml"), "polices = [\"random\"]\n")?;
    fs::write(here.join("nonsense.toml"), "rounds = \"many\"\n")?;
    fs::write(here.join("inner.toml"), "[aggregation.server]\nrule = \"average\"\nbeta = 3\n")?;
    fs::write(here.join("flat.toml"), "data = \"digits\"\n")?;
    fs::write(here.join("world.toml"), "clients = 1e2\n[world]\ndropout = 0.1\n")?;
    fs::write(here.join("type.toml"), "rounds = 5\n[training]\nbatch = \"ten\"\n")?;
    fs::write(here.join("coordinator.toml"), "listen = \"127.0.0.1:0\"\n[round]\nclients = 5\n")?;
    let simulated = command(&here, &["simulate", "--rounds", "5", "--out", "simulated", "--quiet"]);
    assert!({ simulated }.output()?.status.success());
    let cases: &[(&[&str], &[&str])] = &[
        (&["--policy", "random,age-herding(slack=3)"], &["slack", "3", "with ahead=1 only"]),
        (
            &["--policy", "random,age-herding(ahead=1, punctual=1)"],
            &["punctual", "ahead=2 or more"],
        ),
        (&["--policy", "random,age-herding(ahead=64)"], &["ahead", "64", "from 1 to 32"]),
        (
            &["--policy", "random,age-herding(bound=6)"],
            &["bound", "at least 7 (n/m rounded up) and at most 1e15"],
        ),
        (&["inner.toml"], &["aggregation.server.beta = 3", "expected one of rule"]),
        (&["flat.toml"], &["data", "[training]", "docs/upgrading.md"]),
        (
            &["--resume", "simulated"],
            &["a simulation without", "agewise simulate --resume simulated"],
        ),
        (&["--extend", "simulated", "--seeds", "3"], &["agewise simulate --extend simulated"]),
        (&["--dropout", "1.5"], &["dropout = 1.5"]),
        (&["--availability", "sometimes"], &["availability = sometimes"]),
        (&["--aggregate", "average"], &["average", "expected one of mean"]),
        (&["--track", "mlflow"], &["track = mlflow", "agewise.track_run(FOLDER, \"mlflow\")"]),
        (&["--policy", "random+medain"], &["medain", "did you mean median?"]),
        (&["--bound", "--learning-rate", "5"], &["--learning-rate"]),
        (&["typo.toml"], &["line 1: polices", "did you mean policies?"]),
        (&["world.toml"], &["a simulation without", "use `agewise simulate world.toml`"]),
        (&["simulated/config.toml"], &["use `agewise simulate simulated/config.toml`"]),
        (&["type.toml"], &["type.toml: line 3: training.batch = \"ten\": expected a whole number"]),
        (&["coordinator.toml"], &["line 2: round", "`agewise coordinator --config` takes"]),
        (&["--policy", "Random"], &["policy = Random", "did you mean random?"]),
        (&["--policy", "FedAvg"], &["policy = FedAvg", "random is the uniform sampling of FedAvg"]),
        (&["--policy", "random,random+mean"], &["policies = random", "each policy once"]),
        (
            &["--cohort", "4", "--policy", "random+trimmed-mean(trim=0.2)"],
            &["= 0.2: expected at least 0.25"],
        ),
        (&["--data", "MNIST"], &["MNIST", "did you mean mnist?"]),
        (&["--target", "90"], &["targets = 90", "did you mean 0.9, which is 90%?"]),
        (&["--rounds", "1e18"], &["rounds = 1000000000000000000", "from 1 to 1000000"]),
        (&["--seed", "99999999999999999999"], &["at most 9223372036854775807"]),
        (&["--learning-rate", "0"], &["learning_rate = 0", "above 0"]),
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
        (&["--speeds", "zipf:2"], &["speeds = zipf:2", "expected equal, or lognormal:S"]),
        (&["--partition", "dirichlet:0"], &["partition = dirichlet:0"]),
        (&["--rounds", "0"], &["rounds = 0"]),
        (&["--eval-every", "0"], &["eval_every = 0"]),
        (&["--seeds", "0"], &["seeds = 0"]),
        (&["--target", "1.5"], &["targets = 1.5"]),
        (&["--target", "0.9,0.8"], &["targets = [0.9, 0.8]", "increasing"]),
        (&["--target", "x"], &["target = x"]),
        (&["--batch", "0"], &["batch = 0"]),
        (&["--cohort", "101"], &["cohort = 101"]),
        (&["--clients", "7000"], &["clients = 7000", "6000 samples"]),
        (&["--resume", "nowhere"], &["nowhere", "config.toml"]),
    ];
    for (args, words) in cases {
        let output = compare(&here, args)?;
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        for word in *words {
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
fn training_that_diverges_says_so() -> Outcome {
    let here = folder("compare-diverged")?;
    // A single layer only scales; two of them overflow.
    let deep = SMALL.map(|arg| if arg == "softmax" { "2nn" } else { arg });
    let text = succeeds(&here, &[&deep[..], &["--learning-rate", "1e10"]].concat())?;
    assert!(text.contains("Training diverged"), "{text}");
    assert!(fs::read_to_string(here.join("runs/compare-001/report.html"))?.contains("diverged"));
    let text = small(&here, &["--target", "0.99"])?;
    // Where no run arrives, what all of them have is measured.
    assert!(
        text.contains("never (0 of 3)") && text.contains("Measured by mean accuracy"),
        "{text}"
    );
    // Runs that were to end at the target did not: their last models are compared.
    let text = small(&here, &["--target", "0.99", "--stop-at-target"])?;
    assert!(text.contains("final acc. %"), "{text}");
    Ok(())
}

/// A page is written only where none was, and nothing else is taken for one.
#[test]
fn a_report_overwrites_nothing() -> Outcome {
    let here = folder("compare-report-out")?;
    let simulated = ["simulate", "--rounds", "5", "--out", "run", "--quiet"];
    assert!(command(&here, &simulated).output()?.status.success());
    fs::write(here.join("mine.html"), "precious")?;
    let report =
        |out: &[&str]| command(&here, &[&["report", "run", "--out"], out].concat()).output();
    let config = fs::read_to_string(here.join("run/config.toml"))?;
    for (out, words) in [
        ("run/config.toml", "out = run/config.toml: expected a name that ends in .html"),
        ("mine.html", "out = mine.html: expected a file that does not exist yet, or --force"),
        ("run", "out = run: expected the name of a file"),
    ] {
        let output = report(&[out])?;
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(fs::read_to_string(here.join("run/config.toml"))?, config);
    assert_eq!(fs::read_to_string(here.join("mine.html"))?, "precious");
    for out in [&["new.html"][..], &["mine.html", "--force"]] {
        assert!(report(out)?.status.success());
        assert!(fs::read_to_string(here.join(out[0]))?.starts_with("<!DOCTYPE html>"));
    }
    Ok(())
}

/// At 80 and at 60 columns every line fits, but for paths and names that cannot be broken.
#[test]
fn tables_and_help_fit_into_the_terminal() -> Outcome {
    let here = folder("compare-width")?;
    let commands: [&[&str]; 21] = [
        &["--help"],
        &["compare", "--help"],
        &["simulate", "--help"],
        &["theory", "--help"],
        &["report", "--help"],
        &["policies", "--help"],
        &["presets", "--help"],
        &["data", "show", "--help"],
        &["coordinator", "--help"],
        &["client", "--help"],
        &["swarm", "--help"],
        &["status", "--help"],
        &["audit", "--help"],
        &["presets"],
        &["theory"],
        &["theory", "--cold-start", "4"],
        &["simulate", "--rounds", "20", "--seeds", "2", "--quiet", "--force", "--out", "run"],
        &["policies"],
        &["policies", "age-herding"],
        &["data", "list", "--data-dir", "."],
        &["data", "show", "--force", "--out", "shown"],
    ];
    for args in commands {
        for width in [60, 80] {
            let output = command(&here, args).env("COLUMNS", width.to_string()).output()?;
            let text = String::from_utf8(output.stdout)?;
            assert!(output.status.success() && !text.is_empty(), "{args:?}");
            for line in text.lines() {
                let words = line.split_whitespace().count();
                let fits = line.chars().count() <= width || words <= 2;
                assert!(fits, "{args:?} at {width}: {line}");
            }
        }
    }
    Ok(())
}

/// Images whose checksum is known and another one are used, and not in silence.
#[test]
fn altered_data_are_announced() -> Outcome {
    let here = folder("compare-altered")?;
    let idx = |dimensions: &[u32], bytes: Vec<u8>| {
        let mut file = vec![0, 0, 8, dimensions.len() as u8];
        file.extend(dimensions.iter().flat_map(|length| length.to_be_bytes()));
        file.extend(bytes);
        file
    };
    for (name, count) in [("train", 60_000u32), ("t10k", 10_000)] {
        let pixels = (0..count as usize * 784).map(|place| (place % 251) as u8).collect();
        let images = idx(&[count, 28, 28], pixels);
        let labels = idx(&[count], (0..count).map(|image| (image % 10) as u8).collect());
        fs::write(here.join(format!("{name}-images-idx3-ubyte")), images)?;
        fs::write(here.join(format!("{name}-labels-idx1-ubyte")), labels)?;
    }
    let args = ["--data", "mnist", "--data-dir", ".", "--model", "softmax", "--rounds", "1"];
    let few = ["--seeds", "1", "--policy", "random", "--steps", "1", "--quiet", "--out", "run"];
    let output = compare(&here, &[&args[..], &few].concat())?;
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains("caution: ") && message.contains("agewise data fetch mnist"),
        "{message}"
    );
    Ok(())
}
