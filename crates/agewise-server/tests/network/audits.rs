//! What an audit finds, and what it does not: an honest run has nothing to find, whatever its operator did to it on the way.

use crate::common::site::eventually;
use crate::common::verified::{play, proven, tokens};
use crate::common::{Running, cohorts, coordinator, digits, folder, ledger, params, tasks};
use agewise_core::{
    Pick, Policy, PolicySpec, PolicyVariant, Round, Seed, Setting, Weighting, build_policy,
};
use agewise_server::CoordinatorParams;
use agewise_server::client::swarm::{self, SwarmParams};
use agewise_server::coordinator::audit::{AuditOptions, audit, audit_with};
use agewise_server::coordinator::{Admin, LEDGER};
use agewise_server::crypto::Identity;
use agewise_server::native::coordinator_task;
use agewise_train::Threads;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;

/// Every change of the ledger is found: each on a copy of its own.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_finds_what_was_changed() {
    let law = folder("honest-audit-law");
    let mut params = proven(&law, "markov-optimal", 20, 4);
    params.round.rounds = 8;
    params.round.join_seconds = 0.5;
    play(params).await;
    let chosen = folder("honest-audit-chosen");
    let mut params = proven(&chosen, "random", 8, 3);
    params.round.rounds = 4;
    play(params).await;
    let some_join = "SELECT client FROM joins WHERE round = 7 AND proof IS NOT NULL LIMIT 1";
    let outside = "SELECT MIN(client) FROM clients WHERE client NOT IN (SELECT client FROM joins WHERE round = 2)";
    for (state, change, expected) in [
        (&law, "UPDATE rounds SET seed = zeroblob(32) WHERE round = 3".to_string(), "seed"),
        (&law, "UPDATE rounds SET interval = 4 WHERE round = 2".to_string(), "interval"),
        (&law, format!("UPDATE joins SET age = age + 1 WHERE round = 7 AND client = ({some_join})"), "age"),
        (&law, format!("UPDATE joins SET proof = (SELECT proof FROM joins WHERE round = 6 AND proof IS NOT NULL) WHERE round = 7 AND client = ({some_join})"), "proof"),
        (&law, format!("UPDATE joins SET proof = NULL WHERE round = 7 AND client = ({some_join})"), "no proof"),
        (&law, format!("UPDATE keys SET key = (SELECT key FROM clients WHERE client = 19 - ({some_join})) WHERE client = ({some_join})"), "proof"),
        (&law, format!("UPDATE clients SET revoked_from = 2 WHERE client = ({some_join})"), "revoked"),
        (&law, "UPDATE clients SET first_waiting = first_waiting - 20 WHERE client = 3".to_string(), "first age"),
        (&law, "UPDATE clients SET waiting_since = waiting_since - 1 WHERE client = 4".to_string(), "on record"),
        (&law, "UPDATE rounds SET clients = 19 WHERE round = 3".to_string(), "enrolled"),
        (&chosen, format!("INSERT INTO joins (round, client, age, outcome) SELECT 2, ({outside}), 2 - waiting_since, 'missing' FROM clients WHERE client = ({outside})"), "did not choose"),
        (&chosen, "DELETE FROM joins WHERE round = 2 AND client = (SELECT MIN(client) FROM joins WHERE round = 2)".to_string(), "not invited"),
        (&law, "UPDATE rounds SET present = x'ffffff' WHERE round = 4".to_string(), "clients decide"),
        (&law, "UPDATE rounds SET reported = 99 WHERE round = 4".to_string(), "99 reports"),
        (&law, "DELETE FROM rounds WHERE round = 4".to_string(), "missing"),
        (&law, "UPDATE rounds SET settings = 7 WHERE round = 4".to_string(), "settings"),
        (&law, "UPDATE clients SET enrolled = 9223372036854775807, first_waiting = -9223372036854775808 WHERE client = 19".to_string(), "enrolled"),
        (&law, "UPDATE rounds SET draw_version = 1 WHERE round = 4".to_string(), "of version 1"),
        (&law, "UPDATE clients SET failures = 3, eligible_from = 99 WHERE client = 4".to_string(), "has failed"),
        (&law, format!("INSERT INTO suspensions (client, since, reason) VALUES (({some_join}), 0, 'no')"), "it was suspended"),
        (&chosen, "INSERT INTO suspensions (client, since, reason) SELECT MIN(client), 0, 'no' FROM joins WHERE round = 2".to_string(), "round 2: client"),
        (&chosen, "UPDATE rounds SET present = zeroblob(1) WHERE round = 1".to_string(), "did not choose"),
    ] {
        assert_eq!(audit(state, |_, _| {}).unwrap().findings, [], "before any change");
        let copy = folder("honest-audit-copy");
        ledger(state).execute("VACUUM INTO ?1", [copy.join(LEDGER).to_str().unwrap()]).unwrap();
        assert!(ledger(&copy).execute(&change, []).unwrap() > 0, "{change}");
        let findings = audit(&copy, |_, _| {}).unwrap().findings;
        let found = findings.iter().any(|finding| finding.to_string().contains(expected));
        assert!(found, "{change}: {findings:?}");
    }
}

/// A copy of a run: its ledger and its models.
fn copy_of(state: &Path, name: &str) -> PathBuf {
    let copy = folder(name);
    ledger(state).execute("VACUUM INTO ?1", [copy.join(LEDGER).to_str().unwrap()]).unwrap();
    fs::create_dir(copy.join("models")).unwrap();
    for file in fs::read_dir(state.join("models")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.join("models").join(file.file_name())).unwrap();
    }
    copy
}

/// Weights are computed again, models that are kept have the bytes that were written, and they are as good as the ledger says.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_finds_what_was_changed_in_models_and_weights() {
    let state = folder("audits-models");
    let mut params = proven(&state, "random", 8, 3);
    params.round.rounds = 4;
    params.round.weighting = Some(Weighting::DataSize);
    play(params.clone()).await;
    let training = params.training.check().unwrap();
    let task = coordinator_task(&params.model, training, digits()).unwrap();
    let options = AuditOptions { task: Some((&task, Threads::ONE)), ..AuditOptions::default() };
    let audited = audit_with(&state, &options, |_, _| {}).unwrap();
    assert_eq!(audited.findings, []);
    assert_eq!((audited.weights, audited.models, audited.evaluations), (12, 3, 3));
    // Without the task of the run: everything but the evaluations.
    let audited = audit(&state, |_, _| {}).unwrap();
    assert_eq!((audited.weights, audited.models, audited.evaluations), (12, 3, 0));
    let some = "client = (SELECT MIN(client) FROM joins WHERE round = 2)";
    for (change, expected) in [
        (
            format!("UPDATE joins SET weight = weight * 1.001 WHERE round = 2 AND {some}"),
            "its weight is",
        ),
        (
            format!("UPDATE joins SET weight = NULL WHERE round = 2 AND {some}"),
            "it reported, and has no weight",
        ),
        (format!("UPDATE samples SET samples = 3 * samples WHERE {some}"), "its weight is"),
        (
            "UPDATE rounds SET accuracy = accuracy + 0.01 WHERE round = 3".to_string(),
            "the accuracy of model 4",
        ),
        ("UPDATE rounds SET loss = loss * 1.05 WHERE round = 1".to_string(), "the loss of model 2"),
        ("UPDATE rounds SET loss = 9e999 WHERE round = 1".to_string(), "the loss of model 2"),
        (
            "UPDATE models SET sha256 = zeroblob(32) WHERE version = 3".to_string(),
            "model 3 has other bytes",
        ),
        ("UPDATE models SET file = 'none' WHERE version = 3".to_string(), "model 3 cannot be read"),
        (
            "UPDATE rounds SET model = 1 WHERE round = 3".to_string(),
            "it trained model 1, expected 3",
        ),
        (
            "UPDATE rounds SET state = 'abandoned' WHERE round = 1".to_string(),
            "it trained model 2, expected 1",
        ),
    ] {
        let copy = copy_of(&state, "audits-models-copy");
        assert!(ledger(&copy).execute(&change, []).unwrap() > 0, "{change}");
        let findings = audit_with(&copy, &options, |_, _| {}).unwrap().findings;
        let found = findings.iter().any(|finding| finding.to_string().contains(expected));
        assert!(found, "{change}: {findings:?}");
    }
    // The file of a model: one bit, and another model in its place, with its checksum in the ledger.
    let copy = copy_of(&state, "audits-models-copy");
    let path = copy.join("models/00000003.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let findings = audit_with(&copy, &options, |_, _| {}).unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].what.contains("model 3 has other bytes"), "{findings:?}");
    fs::copy(copy.join("models/00000002.safetensors"), &path).unwrap();
    let change = "UPDATE models SET sha256 = (SELECT sha256 FROM models WHERE version = 2) WHERE version = 3";
    assert_eq!(ledger(&copy).execute(change, []).unwrap(), 1);
    assert!(!audit_with(&copy, &options, |_, _| {}).unwrap().findings.is_empty());
}

fn count(state: &Path, query: &str) -> i64 {
    ledger(state).query_row(query, [], |row| row.get(0)).unwrap()
}

/// Plays with the same clients through several starts: each until a number in the ledger is reached, the last one to its end.
async fn play_through(starts: Vec<(CoordinatorParams, &str, i64)>, clients: u64) {
    let state = starts[0].0.state.clone();
    let identities: Vec<Identity> =
        (0..clients as u8).map(|client| Identity::from_secret([client; 32])).collect();
    let tokens = tokens(&state, clients);
    for (params, query, enough) in starts {
        let coordinator = Running::start(params, true).await;
        let mut swarm = SwarmParams::new(&coordinator.url);
        swarm.identities.clone_from(&identities);
        swarm.tokens.clone_from(&tokens);
        swarm.prefix = "later".to_string();
        swarm.longest_pause = Duration::from_millis(200);
        let swarm = swarm::run(swarm, tasks(clients, 0), None, std::future::pending());
        let swarm = tokio::spawn(swarm);
        if query.is_empty() {
            coordinator.until_the_end().await;
            swarm.await.unwrap().unwrap();
            return;
        }
        eventually(query, async || count(&state, query) >= enough).await;
        drop(coordinator.stop);
        coordinator.ended.await.unwrap().unwrap();
        swarm.abort();
    }
}

/// The operator expects more clients than come, and corrects that before the first round.
#[tokio::test(flavor = "multi_thread")]
async fn settings_may_change_before_the_first_round() {
    let state = folder("audits-before");
    let expecting = |clients| {
        let mut params = proven(&state, "markov-optimal", clients, 2);
        params.round.rounds = 6;
        params.round.join_seconds = 0.5;
        params
    };
    let enrolled = "SELECT COUNT(*) FROM clients";
    play_through(vec![(expecting(6), enrolled, 5), (expecting(5), "", 0)], 5).await;
    assert_eq!(count(&state, "SELECT COUNT(*) FROM settings"), 2);
    assert_eq!(audit(&state, |_, _| {}).unwrap().findings, []);
}

/// The operator changes the cohort while a round is under way: it ends as it was announced, and the next ones are others.
#[tokio::test(flavor = "multi_thread")]
async fn settings_may_change_in_the_middle_of_a_round() {
    let state = folder("audits-middle");
    let wanting = |cohort, join_seconds| {
        let mut params = proven(&state, "markov-optimal", 6, cohort);
        params.round.rounds = 8;
        params.round.join_seconds = join_seconds;
        params.round.drain_seconds = 0.0;
        params
    };
    let third = "SELECT COUNT(*) FROM rounds";
    let starts = vec![(wanting(3, 1.0), third, 3), (wanting(1, 0.5), "", 0)];
    play_through(starts, 6).await;
    let both = "SELECT COUNT(DISTINCT settings) FROM rounds";
    assert_eq!(count(&state, both), 2);
    assert_eq!(audit(&state, |_, _| {}).unwrap().findings, []);
}

/// The interval follows the reports, the first clients never come back, and others come later.
#[tokio::test(flavor = "multi_thread")]
async fn calibration_and_clients_that_come_later_are_no_findings() {
    let state = folder("audits-calibrated");
    let mut params = proven(&state, "markov-optimal", 6, 2);
    params.round.rounds = 12;
    params.round.join_seconds = 0.4;
    params.round.calibrate = Some(true);
    let mut more = params.clone();
    more.round.rounds = 20;
    play(params).await;
    play_through(vec![(more, "", 0)], 9).await;
    assert_eq!(audit(&state, |_, _| {}).unwrap().findings, []);
}

/// Cohorts that follow from sketches cannot be computed again, and the audit says so; the first one follows from ages alone. What is on record is
/// checked all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_says_what_it_cannot_check() {
    let state = folder("audits-sketches");
    let mut params = proven(&state, "age-herding", 8, 2);
    params.round.rounds = 6;
    play(params).await;
    let audited = audit(&state, |_, _| {}).unwrap();
    assert_eq!((audited.rounds, audited.unchecked, audited.invited), (6, 5, 2));
    let [finding] = &audited.findings[..] else {
        panic!("{:?}", audited.findings);
    };
    assert_eq!((finding.round, finding.client), (None, None));
    let begin = "the cohorts of 5 rounds cannot be checked: age-herding chooses by sketches";
    assert!(finding.what.starts_with(begin), "{finding}");
    for (change, expected) in [
        ("UPDATE joins SET draws = 2 WHERE round = 4", "4 were chosen, where the policy takes 2"),
        ("UPDATE rounds SET present = zeroblob(1) WHERE round = 4", "did not choose"),
        ("UPDATE joins SET age = age + 1 WHERE round = 4", "its age was"),
        ("DELETE FROM joins WHERE round = 0", "not invited"),
    ] {
        let copy = folder("audits-sketches-copy");
        ledger(&state).execute("VACUUM INTO ?1", [copy.join(LEDGER).to_str().unwrap()]).unwrap();
        assert!(ledger(&copy).execute(change, []).unwrap() > 0, "{change}");
        let findings = audit(&copy, |_, _| {}).unwrap().findings;
        let found = findings.iter().any(|finding| finding.to_string().contains(expected));
        assert!(found, "{change}: {findings:?}");
    }
}

/// An option of the policy that was right for those with whom the run began is wrong for one more: that one is told, and the run goes on.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_enrols_for_whom_there_is_no_policy() {
    let state = folder("audits-growth");
    let mut params = proven(&state, "age-herding(bound=3)", 3, 1);
    params.round.rounds = 400;
    params.round.pause_seconds = 0.05;
    let tokens = tokens(&state, 4);
    let coordinator = Running::start(params, false).await;
    let swarm = |prefix: &str, tokens: &[_], count: usize| {
        let mut swarm = SwarmParams::new(&coordinator.url);
        (swarm.prefix, swarm.tokens) = (prefix.to_string(), tokens.to_vec());
        let tasks = tasks(4, 0).into_iter().take(count).collect();
        tokio::spawn(swarm::run(swarm, tasks, None, std::future::pending()))
    };
    let first = swarm("first", &tokens[..3], 3);
    let clients = "SELECT COUNT(*) FROM clients";
    eventually("three enrol", async || count(&state, clients) >= 3).await;
    let refused = swarm("late", &tokens[3..], 1).await.unwrap().unwrap_err().to_string();
    for part in ["round.policy", "age-herding(bound=3)", "4 clients", "at least 4"] {
        assert!(refused.contains(part), "{part} in {refused}");
    }
    let rounds = "SELECT COUNT(*) FROM rounds WHERE state = 'committed'";
    let before = count(&state, rounds);
    eventually("three rounds more", async || count(&state, rounds) >= before + 3).await;
    first.abort();
    drop(coordinator.stop);
    coordinator.ended.await.unwrap().unwrap();
}

/// The clients that were credited last, and of those the first ones: a policy that is of no use, and is not registered.
#[derive(Debug)]
struct YoungestFirst;

impl Policy for YoungestFirst {
    fn select(&mut self, round: &Round<'_>) -> Vec<Pick> {
        let mut clients: Vec<u32> = round.available().collect();
        clients.sort_by_key(|&client| round.ages().of(client));
        clients.truncate(round.setting().cohort() as usize);
        clients.sort_unstable();
        clients.into_iter().map(Pick::once).collect()
    }

    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        clients.iter().map(|&client| round.setting().rate(client)).collect()
    }

    fn initial_ages(&self, setting: &Setting, _: Seed) -> Vec<u64> {
        (0..u64::from(setting.clients())).rev().collect()
    }
}

/// A policy of one's own runs where the coordinator selects, over a stop, and can be audited with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_of_ones_own_is_deployed_resumed_and_audited() {
    let state = folder("audits-own");
    let own = PolicyVariant::new("youngest-first", |_| Ok(Box::new(YoungestFirst)));
    let mut params = proven(&state, "random", 6, 2);
    params.round.drain_seconds = 60.0;
    let mut swarm = SwarmParams::new("");
    swarm.tokens = tokens(&state, 6);
    swarm.longest_pause = Duration::from_millis(200);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    swarm.coordinator = format!("http://{address}");
    let serve = |rounds: u64, listener| {
        let mut params = params.clone();
        params.round.rounds = rounds;
        let config = params.check_with(own.clone()).unwrap();
        Running::serve(listener, coordinator(config).resuming())
    };
    let running = serve(100, listener);
    let swarm = swarm::run(swarm, tasks(6, 0), None, std::future::pending());
    let swarm = tokio::spawn(swarm);
    let rounds = "SELECT COUNT(*) FROM rounds WHERE state = 'committed'";
    eventually("two rounds", async || count(&state, rounds) >= 2).await;
    drop(running.stop);
    running.ended.await.unwrap().unwrap();
    let played = count(&state, "SELECT COUNT(*) FROM rounds") as u64;
    serve(played + 2, TcpListener::bind(address).await.unwrap()).until_the_end().await;
    swarm.await.unwrap().unwrap();

    // The youngest at first are the last two, and they stay the youngest.
    assert!(cohorts(&ledger(&state)).iter().all(|cohort| *cohort == [4, 5]));
    let audited = audit_with(
        &state,
        &AuditOptions { policy: Some(&own), ..AuditOptions::default() },
        |_, _| {},
    )
    .unwrap();
    assert_eq!((audited.policy.as_str(), audited.findings.len()), ("youngest-first", 0));
    assert_eq!(audited.invited, 2 * (played + 2));
    let unknown = audit(&state, |_, _| {}).unwrap_err().to_string();
    assert!(unknown.contains("youngest-first"), "{unknown}");
}

/// Clients build their rule from the policy's name, so a law of one's own is refused before anything begins.
#[test]
fn a_law_of_ones_own_cannot_be_deployed() {
    let optimal: PolicySpec = "markov-optimal".parse().unwrap();
    let own = PolicyVariant::new("mine", move |setting| build_policy(&optimal, setting));
    let error = CoordinatorParams::default().check_with(own).unwrap_err();
    assert_eq!((error.field(), error.value()), ("round.policy", "mine"));
    assert!(error.expected().contains("clients decide"), "{error}");
}

/// A ledger of a version that cannot be used is left alone, and the message says what to do.
#[test]
fn a_ledger_of_another_version_is_refused() {
    for (change, parts) in [
        ("UPDATE run SET value = 999", ["of version 999", "use the release that wrote it"]),
        ("UPDATE run SET value = 1", ["of version 1", "the release that began it"]),
        ("UPDATE run SET value = 2", ["of version 2", "agewise coordinator --resume"]),
        ("UPDATE run SET key = 'other'", ["without a version", "restore it from a backup"]),
    ] {
        let state = folder("audits-version");
        drop(Admin::open(&state).unwrap());
        ledger(&state).execute(change, []).unwrap();
        let error = Admin::open(&state).unwrap_err();
        assert!(error.is_bad_input());
        for part in parts.into_iter().chain(["docs/upgrading.md"]) {
            assert!(error.to_string().contains(part), "{part} in {error}");
        }
    }
}

/// A run of 0.1.
const VERSION_2: &str =
    include_str!("../../src/coordinator/storage/ledger/migrations/fixtures/version-2.sql");

/// A configuration that does not fit the run leaves an old ledger as it is, so that the release that began it can go on. After the migration
/// draws of version 1 are good for the rounds before it only.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_ledger_is_migrated_for_a_configuration_that_fits() {
    let state = folder("audits-0-1-migrated");
    ledger(&state).execute_batch(VERSION_2).unwrap();
    // The secret of its seeds is not there any more, so the coordinator is told that there was none.
    let seeded = "UPDATE run SET value = CAST('seeded' AS BLOB) WHERE key = 'round.lots';
                  UPDATE run SET key = 'anchor' WHERE key = 'anchor.0'";
    ledger(&state).execute_batch(seeded).unwrap();
    let start = async |policy: &str| {
        let mut params = params(&state, policy, 4, 2);
        params.model.name = "softmax".to_string();
        let Running { stop, ended, .. } = Running::start(params, true).await;
        drop(stop);
        ended.await.unwrap()
    };
    let version = "SELECT value FROM run WHERE key = 'schema'";
    let error = start("oldest-first").await.unwrap_err();
    assert!(error.is_bad_input());
    let error = error.to_string();
    assert!(error.contains("round.policy") && error.contains("markov-optimal"), "{error}");
    assert_eq!(count(&state, version), 2);
    // Its models are not there either, so it ends after the migration.
    start("markov-optimal").await.unwrap_err();
    assert!(count(&state, version) > 2);
    assert_eq!(count(&state, "SELECT value FROM run WHERE key = 'draws-of-version-1'"), 6);
    let change = "UPDATE run SET value = 4 WHERE key = 'draws-of-version-1';
                  UPDATE run SET key = 'anchor.0' WHERE key = 'anchor'";
    ledger(&state).execute_batch(change).unwrap();
    let findings = audit(&state, |_, _| {}).unwrap().findings;
    let old = findings.iter().filter(|finding| finding.what.contains("until round 4 only"));
    assert_eq!(old.map(|finding| finding.round).collect::<Vec<_>>(), [Some(4), Some(5)]);
}

/// The audit reads the ledger of a run of 0.1, finds nothing, and leaves the file alone.
#[test]
fn a_run_of_0_1_can_be_audited() {
    let state = folder("audits-0-1");
    ledger(&state).execute_batch(VERSION_2).unwrap();
    let audited = audit(&state, |_, _| {}).unwrap();
    assert_eq!(audited.findings, []);
    assert_eq!((audited.rounds, audited.clients, audited.draws.as_str()), (6, 4, "proven"));
    assert!(audited.proofs > 0);
    let version = "SELECT value FROM run WHERE key = 'schema'";
    assert_eq!(count(&state, version), 2);
    // What was changed in it is found as in any other ledger.
    let change = "UPDATE joins SET age = age + 1 WHERE round = 3";
    assert!(ledger(&state).execute(change, []).unwrap() > 0);
    assert!(!audit(&state, |_, _| {}).unwrap().findings.is_empty());
}
