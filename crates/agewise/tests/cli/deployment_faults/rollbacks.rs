//! Going back to the model of an earlier round: while the coordinator runs, while it does not, and with kill -9 in the middle.

use super::processes::{Deployment, agewise, until};
use std::process::Output;

const CLIENTS: usize = 4;

fn endless(name: &str, keep: u32) -> Deployment {
    let round = format!(
        "policy = \"markov-optimal\"\nclients = {CLIENTS}\ncohort = 2\nrounds = 0\njoin_seconds = 1.0\nreport_seconds = 20.0\nmin_reports = 1"
    );
    let site = Deployment::new(name, &round);
    site.change("\"softmax\"", &format!("\"softmax\"\nkeep = {keep}"));
    site
}

fn roll_back(site: &Deployment, round: i64) -> Output {
    let mut command = agewise();
    command.args(["coordinator", "rollback", &round.to_string(), "--config"]).arg(site.config());
    command.output().unwrap()
}

/// The rollbacks that were done: the model, and the first round after it.
fn done(site: &Deployment) -> Vec<(i64, i64)> {
    let ledger = site.ledger();
    let count = ledger.number("SELECT COUNT(*) FROM rollbacks WHERE round IS NOT NULL");
    let one = |column: &str, at: i64| {
        let all = "FROM rollbacks WHERE round IS NOT NULL ORDER BY number LIMIT 1 OFFSET";
        ledger.number(&format!("SELECT {column} {all} {at}"))
    };
    (0..count).map(|at| (one("version", at), one("round", at))).collect()
}

/// The model that a round trained.
fn trained(site: &Deployment, round: i64) -> i64 {
    site.ledger().number(&format!("SELECT model FROM rounds WHERE round = {round}"))
}

fn audited(site: &Deployment) -> String {
    let audited = agewise().arg("audit").arg(site.state()).output().unwrap();
    let text = String::from_utf8_lossy(&audited.stdout).into_owned();
    assert!(audited.status.success(), "{text}{}", String::from_utf8_lossy(&audited.stderr));
    text
}

#[test]
fn a_run_goes_back_to_an_earlier_model_and_on() {
    let site = endless("rollback", 1_000);
    let coordinator = site.coordinator();
    let _swarm = site.swarm(CLIENTS);
    site.until_over(6);

    // While it runs: the round under way is given up, and the next one trains the earlier model.
    let back = site.ledger().number("SELECT MAX(round) FROM rounds") - 2;
    let version = trained(&site, back);
    let credits = |before: i64| {
        let query =
            "SELECT round, client, age, sha256 FROM joins WHERE outcome = 'reported' AND round <";
        site.ledger().table(&format!("{query} {before} ORDER BY round, client"))
    };
    let kept = credits(back + 2);
    let output = roll_back(&site, back);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    until("the rollback", || done(&site).len() == 1);
    let [(to, first)] = done(&site)[..] else { panic!("{:?}", done(&site)) };
    assert_eq!(to, version);
    site.until_over(first + 2);
    assert_eq!(trained(&site, first), version);
    let later = format!("SELECT COUNT(*) FROM rounds WHERE model > {first}");
    until("a round with a later model", || site.ledger().number(&later) > 0);
    // Everything that was promised stays, and no round is played with a seed that was shown before.
    assert_eq!(credits(back + 2), kept);
    let ledger = site.ledger();
    let rounds = "SELECT COUNT(*) = MAX(round) + 1 AND COUNT(DISTINCT seed) = COUNT(*) FROM rounds";
    assert_eq!(ledger.number(rounds), 1);
    assert!(
        audited(&site).contains(&format!("rollback   from round {first} on, to model {version}"))
    );

    // While it does not run: it is done by the next start, also if that one is killed again and again.
    site.stop(coordinator);
    let last = site.ledger().number("SELECT MAX(round) FROM rounds");
    let version = trained(&site, last - 1);
    let output = roll_back(&site, last - 1);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("--resume"), "{said}");
    assert_eq!(done(&site).len(), 1);
    for delay in [0, 5, 10, 20, 40, 60, 80, 100, 150, 200] {
        let mut coordinator = site.coordinator();
        std::thread::sleep(std::time::Duration::from_millis(delay));
        coordinator.kill();
        let found = done(&site);
        assert!(found.len() <= 2, "{found:?}");
    }
    let coordinator = site.coordinator();
    until("the rollback", || done(&site).len() == 2);
    let (to, first) = done(&site)[1];
    assert_eq!((to, first > last), (version, true));
    site.until_over(first + 2);
    assert_eq!(trained(&site, first), version);
    site.stop(coordinator);
    let text = audited(&site);
    assert!(
        text.contains(&format!("rollback   from round {first} on, to model {version}")),
        "{text}"
    );
}

/// What cannot be gone back to is refused before anything is changed.
#[test]
fn a_rollback_without_a_model_is_refused() {
    let site = endless("rollback-refused", 3);
    let coordinator = site.coordinator();
    let _swarm = site.swarm(CLIENTS);
    site.until_over(8);
    site.stop(coordinator);
    let next = site.ledger().number("SELECT MAX(round) + 1 FROM rounds");
    for round in [0, next + 5] {
        let output = roll_back(&site, round);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("a round whose first model is kept"), "{error}");
    }
    // A model that was damaged is not one to go back to.
    let newest = site.ledger().number("SELECT MAX(version) FROM models");
    let path = site.state().join(format!("models/{:08}.safetensors", newest - 1));
    std::fs::write(&path, "damaged").unwrap();
    let round = site
        .ledger()
        .number(&format!("SELECT MAX(round) FROM rounds WHERE model = {}", newest - 1));
    let output = roll_back(&site, round);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("expected the bytes that were written"), "{error}");
    assert_eq!(site.ledger().number("SELECT COUNT(*) FROM rollbacks"), 0);
}
