//! Starts that must not succeed, and stops in the middle.

use super::processes::{Deployment, agewise, until};
use std::fs;
use std::path::Path;
use std::process::Output;

const ROUND: &str =
    "policy = \"oldest-first\"\nclients = 3\ncohort = 2\nrounds = 0\nseed = 4\njoin_seconds = 20.0
report_seconds = 60.0\npause_seconds = 0.1\ndrain_seconds = 1.0";

/// Exit code 2 and a message with all of these.
fn assert_refused(output: &Output, what: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for part in what {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[test]
fn two_coordinators_do_not_share_a_folder() {
    let site = Deployment::new("two", ROUND);
    let mut first = site.coordinator();
    let _swarm = site.swarm(3);
    site.until_over(2);
    let second = site.here.join("second.toml");
    let text = fs::read_to_string(site.config()).unwrap();
    let listen = text.lines().next().unwrap();
    fs::write(&second, text.replace(listen, "listen = \"127.0.0.1:0\"")).unwrap();
    let output =
        agewise().args(["coordinator", "--resume", "--config"]).arg(&second).output().unwrap();
    assert_refused(&output, &["state", "no other coordinator"]);
    // Without --resume nobody comes near a run that is there.
    let output = agewise().args(["coordinator", "--config"]).arg(&second).output().unwrap();
    assert_refused(&output, &["state", "--resume"]);
    assert!(first.ended().is_none());
    let over = site.ledger().rounds_over();
    site.until_over(over + 2);
    site.stop(first);
}

#[test]
fn what_a_run_is_cannot_change_on_the_way() {
    let site = Deployment::new("changed", ROUND);
    let coordinator = site.coordinator();
    let swarm = site.swarm(3);
    site.until_over(2);
    site.stop(coordinator);
    drop(swarm);
    let before = crate::common::files(&site.state().join("models")).unwrap();
    let over = site.ledger().rounds_over();
    let changes = [
        ("seed = 4", "seed = 5", ["round.seed", "5", "4"]),
        ("\"oldest-first\"", "\"random\"", ["round.policy", "random", "oldest-first"]),
        ("\"softmax\"", "\"2nn\"", ["model.name", "2nn", "softmax"]),
    ];
    for (from, to, parts) in changes {
        site.change(from, to);
        assert_refused(&site.failing_coordinator(), &parts);
        site.change(to, from);
    }
    assert!(crate::common::files(&site.state().join("models")).unwrap() == before);
    // As it was, it goes on.
    let coordinator = site.coordinator();
    let _swarm = site.swarm(3);
    site.until_over(over + 1);
    site.stop(coordinator);
}

/// The round cannot be finished in time: it is handed back, and the next start takes it up.
#[test]
fn sigterm_in_the_middle_of_a_round() {
    let site = Deployment::new("drain", ROUND);
    site.change("\"1 steps\"", "\"100000000 steps\"");
    let coordinator = site.coordinator();
    let swarm = site.swarm(3);
    let joined = "SELECT COUNT(*) FROM joins WHERE outcome = 'selected'";
    until("a cohort", || {
        site.state().join("ledger.sqlite").exists()
            && site.log().contains("announced")
            && site.ledger().number(joined) == 2
    });
    // One second of draining, two for calls that are under way, and what a busy machine needs; `stop` waits no longer than
    // its handshake_timeout, and the clients would train for hours.
    site.stop(coordinator);
    drop(swarm);
    let open = "SELECT round FROM rounds WHERE state IN ('joining', 'training')";
    let round = site.ledger().number(open);
    assert_eq!(round, 0);
    let cohort =
        "SELECT client FROM joins WHERE round = 0 AND outcome != 'missing' ORDER BY client";
    let before = site.ledger().table(cohort);

    site.change("\"100000000 steps\"", "\"1 steps\"");
    let coordinator = site.coordinator();
    let _swarm = site.swarm(3);
    site.until_over(2);
    assert_eq!(site.ledger().table(cohort), before, "the same cohort has finished it");
    assert_eq!(site.ledger().number("SELECT reported FROM rounds WHERE round = 0"), 2);
    site.stop(coordinator);
}

#[test]
fn init_overwrites_nothing() {
    let here = crate::common::folder("deployment-faults-init").unwrap();
    let init =
        |folder: &Path| agewise().args(["coordinator", "init"]).arg(folder).output().unwrap();
    for name in ["coordinator.toml", "tls/ca.pem", "tls/coordinator.pem", "tls/coordinator.key"] {
        let folder = here.join(name.replace('/', "-"));
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "mine").unwrap();
        assert_refused(&init(&folder), &[name]);
        let files = crate::common::files(&folder).unwrap();
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }
    let folder = here.join("fresh");
    assert!(init(&folder).status.success());
    let files = crate::common::files(&folder).unwrap();
    assert_eq!(files.len(), 4);
    assert_refused(&init(&folder), &["coordinator.toml"]);
    assert!(crate::common::files(&folder).unwrap() == files);
}

/// A folder without a run is refused once, and no model is spoken of.
#[test]
fn an_audit_of_another_folder_says_one_thing() {
    let here = crate::common::folder("deployment-faults-no-run").unwrap();
    let output = agewise().arg("audit").arg(&here).output().unwrap();
    assert_refused(&output, &["state", "a folder with the ledger of a run"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Every message names the field, what it was and what would be right; nothing is begun.
#[test]
fn bad_configurations_are_refused() {
    let cases = [
        ("rounds = 0", "rouds = 0", vec!["rouds", "rounds"]),
        ("rounds = 0", "rounds = -1", vec!["rounds", "-1"]),
        ("rounds = 0", "rounds = \"many\"", vec!["rounds", "many"]),
        ("clients = 3", "clients = 0", vec!["round.clients", "0"]),
        ("cohort = 2", "cohort = 4", vec!["round.cohort", "4", "3"]),
        ("cohort = 2", "cohort = 2\nmax_cohort = 1", vec!["round.max_cohort", "1", "2"]),
        ("cohort = 2", "cohort = 2\nmin_reports = 5", vec!["round.min_reports", "5", "4"]),
        ("join_seconds = 20.0", "join_seconds = 0.0", vec!["round.join_seconds", "0.001"]),
        ("join_seconds = 20.0", "join_seconds = nan", vec!["round.join_seconds", "NaN"]),
        ("report_seconds = 60.0", "report_seconds = 1.0", vec!["round.report_seconds", "1", "20"]),
        ("drain_seconds = 1.0", "drain_seconds = inf", vec!["round.drain_seconds", "inf"]),
        (
            "\"oldest-first\"",
            "\"oldest-frist\"",
            vec!["round.policy", "oldest-frist", "oldest-first"],
        ),
        (
            "\"oldest-first\"",
            "\"age-herding(bound=1)\"",
            vec!["round.age-herding(bound)", "1", "at least 2"],
        ),
        ("\"oldest-first\"", "\"oort(delta=0)\"", vec!["round.oort(delta)", "0"]),
        (
            "\"oldest-first\"",
            "\"age-herding\"\ncalibrate = true",
            vec!["round.calibrate", "age-herding has no interval"],
        ),
        (
            "\"oldest-first\"",
            "\"oldest-first\"\ncalibrate = true",
            vec!["round.calibrate", "false"],
        ),
        ("\"softmax\"", "\"sotfmax\"", vec!["sotfmax", "softmax"]),
        ("\"softmax\"", "\"softmax\"\nkeep = 0", vec!["model.keep", "0"]),
        ("\"softmax\"", "\"softmax\"\ndata = \"nothing\"", vec!["nothing"]),
        ("\"1 steps\"", "\"one step\"", vec!["local_work", "one step"]),
        ("batch = 20", "batch = 0", vec!["training.batch", "0"]),
        ("[round]", "[updates]\nmax_norm = -1.0\n[round]", vec!["updates.max_norm", "-1"]),
        ("[round]", "[aggregation]\ntrim = 0.5\n[round]", vec!["aggregation.trim", "0.5"]),
        ("[round]", "[aggregation.server]\nrule = \"adma\"\n[round]", vec!["adma", "adam"]),
        ("[round]", "[server]\nrule = \"adam\"\n[round]", vec!["server", "aggregation.server"]),
        ("[round]", "[updates]\ncombine = \"mean\"\n[round]", vec!["aggregation.rule"]),
        ("[round]", "[round]\nlots = \"seeded\"", vec!["round.lots", "round.draws"]),
        ("[round]", "[tls]\nkey = \"key.pem\"\n[round]", vec!["tls.certificate"]),
        ("listen = \"127.0.0.1", "listen = \"0.0.0.0", vec!["listen", "loopback"]),
        ("listen = \"", "listen = \"nowhere at all ", vec!["listen", "HOST:PORT"]),
        ("http = \"\"", "http = \"127.0.0.1:port\"", vec!["http"]),
        ("http = \"\"", "http = \"127.0.0.1\"", vec!["http", "HOST:PORT"]),
        ("[round]", "[round", vec!["config"]),
    ];
    let site = Deployment::new("bad", ROUND);
    for (from, to, parts) in cases {
        site.configure(ROUND);
        site.change(from, to);
        let output = site.failing_coordinator();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!message.contains("panicked"), "{message}");
        assert_refused(&output, &parts);
        assert!(!site.state().join("ledger.sqlite").exists(), "{to}: a run was begun");
    }
}
