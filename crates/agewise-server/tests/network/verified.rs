//! Runs in which everything is verified: draws are proven, seeds are checked, and everyone has a token.

use crate::common::site::{PATIENCE, eventually};
use crate::common::verified::{play, proven, tokens};
use crate::common::{Running, coordinator, folder, ledger, tasks};
use agewise_server::client::{Client, ClientError, ClientParams};
use agewise_server::coordinator::Admin;
use agewise_server::coordinator::audit::audit;
use agewise_server::crypto::Identity;
use agewise_server::crypto::token::{Role, Token};
use agewise_server::remote::{revoke, status};
use agewise_server::tls::Trust;
use data_encoding::BASE64;
use std::path::Path;
use tokio::net::TcpListener;

/// As with the simulator's draws: intervals are 6 or 7, a third of them 6 (standard error 0.025 of 360), and cohorts have a mean of 15 with a
/// standard error of 0.8 over 20 rounds. Four standard errors are allowed. Nothing is refused.
#[tokio::test(flavor = "multi_thread")]
async fn proven_draws_follow_theory() {
    let state = folder("honest-law");
    let mut params = proven(&state, "markov-optimal", 100, 15);
    params.round.rounds = 30;
    params.round.join_seconds = 1.5;
    play(params).await;
    let ledger = ledger(&state);
    let number = |query: &str| ledger.query_row(query, [], |row| row.get::<_, f64>(0)).unwrap();
    let odd =
        "SELECT COUNT(*) FROM joins WHERE outcome = 'reported' AND round > 6 AND age NOT IN (5, 6)";
    assert_eq!(number(odd), 0.0);
    let share = number("SELECT AVG(age = 5) FROM joins WHERE outcome = 'reported' AND round > 6");
    assert!((share - 1.0 / 3.0).abs() < 4.0 * 0.025, "{share}");
    let mean = number("SELECT AVG(reported) FROM rounds");
    assert!((mean - 15.0).abs() < 4.0 * 0.8, "{mean}");
    assert_eq!(number("SELECT COUNT(*) FROM refusals"), 0.0);
    let proofs = "SELECT COUNT(*) FROM joins WHERE LENGTH(proof) = 96";
    let joins = "SELECT COUNT(*) FROM joins j JOIN rounds r USING (round) WHERE NOT r.forced";
    assert_eq!(number(proofs), number(joins));
    assert_eq!(number("SELECT COUNT(DISTINCT seed) FROM rounds"), 30.0);
    assert_eq!(number("SELECT COUNT(*) FROM tokens WHERE client IS NULL"), 0.0);

    let audited = audit(&state, |_, _| {}).unwrap();
    assert_eq!(audited.findings, []);
    assert_eq!((audited.rounds, audited.clients), (30, 100));
    assert_eq!(audited.proofs as f64, number(proofs));
    assert_eq!(audited.joins, audited.proofs + audited.invited);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_policy_runs_with_proven_draws() {
    for policy in ["markov-linear", "phased", "oldest-first", "random", "probabilistic"] {
        let state = folder(&format!("honest-{policy}"));
        let mut params = proven(&state, policy, 12, 4);
        params.round.rounds = 5;
        params.round.join_seconds = 1.0;
        play(params).await;
        let ledger = ledger(&state);
        let query = "SELECT COUNT(*) FROM rounds WHERE state = 'committed'";
        assert_eq!(ledger.query_row(query, [], |row| row.get(0)), Ok(5), "{policy}");
        let query = "SELECT COUNT(*) FROM refusals";
        assert_eq!(ledger.query_row(query, [], |row| row.get(0)), Ok(0), "{policy}");
        assert_eq!(audit(&state, |_, _| {}).unwrap().findings, [], "{policy}");
    }
}

/// A client on its own, until it gives up.
async fn gives_up(url: &str, name: &str, identity: Identity, token: Option<Token>) -> String {
    let params = ClientParams {
        name: Some(name.to_string()),
        identity: Some(identity),
        token,
        ..ClientParams::new(url)
    };
    let task = tasks(1, 0).remove(0);
    let client = Client::new(params, task).unwrap();
    let ended = tokio::time::timeout(PATIENCE, client.run(std::future::pending()));
    match ended.await.unwrap() {
        Err(ClientError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_enrols_without_a_token_of_its_own_or_after_it_was_revoked() {
    let state = folder("honest-tokens");
    let mut params = proven(&state, "oldest-first", 2, 1);
    params.round.rounds = 0;
    let mut admin = Admin::open(&state).unwrap();
    let mut invite = |role, name| admin.invite(role, name, 1).unwrap().remove(0);
    let used = invite(Role::Client, None);
    let observer = invite(Role::Observer, None);
    let for_seven = invite(Role::Client, Some("seven"));
    let revoked = invite(Role::Client, None);
    let coordinator = Running::start(params, false).await;
    let url = coordinator.url.clone();
    let key = |number| Identity::from_secret([number; 32]);

    let first = ClientParams {
        name: Some("first".to_string()),
        identity: Some(key(1)),
        token: Some(used.clone()),
        ..ClientParams::new(&url)
    };
    let first = Client::new(first, tasks(1, 0).remove(0)).unwrap();
    let first = tokio::spawn(first.run(std::future::pending()));
    let enrolled = "SELECT COUNT(*) FROM clients";
    let has_enrolled =
        async || ledger(&state).query_row(enrolled, [], |row| row.get::<_, i64>(0)).unwrap() > 0;
    eventually("the first enrols", has_enrolled).await;
    let mut admin = Admin::open(&state).unwrap();
    admin.revoke(&revoked.id()).unwrap();
    for (name, token, why) in [
        ("a", None, "needed"),
        ("b", Some(used), "used"),
        ("c", Some(observer), "not for clients"),
        ("eight", Some(for_seven), "another name"),
        ("d", Some(Token::generate().unwrap()), "not known"),
        ("e", Some(revoked), "revoked"),
    ] {
        let told = gives_up(&url, name, key(2), token).await;
        assert!(told.contains(why), "{name}: {told}");
    }
    // The name of another, with another key.
    let told = gives_up(&url, "first", key(3), None).await;
    assert!(told.contains("another key"), "{told}");
    assert_eq!(ledger(&state).query_row(enrolled, [], |row| row.get(0)), Ok(1));

    // It works all the time, and is revoked in the middle of it.
    admin.revoke("first").unwrap();
    let ended = tokio::time::timeout(PATIENCE, first).await.unwrap().unwrap();
    assert!(
        matches!(&ended, Err(ClientError::Refused(why)) if why.contains("revoked")),
        "{ended:?}"
    );
    drop(coordinator.stop);
    coordinator.ended.await.unwrap().unwrap();
    let counted = |reason: &str| {
        let query = "SELECT COALESCE(SUM(count), 0) FROM refusals WHERE reason = ?1";
        ledger(&state).query_row(query, [reason], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(counted("token"), 5);
    assert_eq!(counted("key"), 1);
    assert!(counted("revoked") >= 2);
}

/// Killed and resumed, the seeds go on where they were, and clients that remember the commitment do not complain; with another secret they would.
#[tokio::test(flavor = "multi_thread")]
async fn another_secret_is_noticed() {
    let state = folder("honest-secret");
    let mut params = proven(&state, "markov-optimal", 4, 2);
    params.round.rounds = 3;
    params.round.join_seconds = 0.5;
    play(params.clone()).await;
    params.round.rounds = 4;
    std::fs::write(state.join("seeds.key"), "00".repeat(32)).unwrap();
    let coordinator = Running::start(params.clone(), true).await;
    let error = coordinator.ended.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("anchor"), "{error}");
    std::fs::remove_file(state.join("seeds.key")).unwrap();
    let coordinator = Running::start(params, true).await;
    let error = coordinator.ended.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("secret"), "{error}");
}

/// Asks the page of a coordinator, and gives the status line.
async fn get(address: std::net::SocketAddr, path: &str, authorization: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{authorization}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text.lines().next().unwrap_or_default().to_string()
}

/// 0.0.0.0 can be reached from other machines, so the page needs a token; and operators revoke over the network, which observers may not.
#[tokio::test(flavor = "multi_thread")]
async fn observers_look_and_operators_revoke() {
    let state = folder("honest-roles");
    let params = proven(&state, "oldest-first", 2, 1);
    let mut admin = Admin::open(&state).unwrap();
    let [client, observer, operator] =
        Role::ALL.map(|role| admin.invite(role, None, 1).unwrap().remove(0));
    let config = params.check().unwrap();
    let web = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let page = ([127, 0, 0, 1], web.local_addr().unwrap().port()).into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let coordinator = Running::serve(listener, coordinator(config).with_web(web));
    let url = coordinator.url.clone();

    let bearer = |token: &Token| format!("Authorization: Bearer {}\r\n", token.reveal());
    eventually("ready", async || get(page, "/readyz", "").await.contains("200")).await;
    for path in ["/", "/live", "/metrics", "/api/state.json"] {
        assert!(get(page, path, "").await.contains("401"), "{path}");
        assert!(get(page, path, &bearer(&client)).await.contains("401"), "{path}");
        assert!(get(page, path, &bearer(&observer)).await.contains("200"), "{path}");
        assert!(get(page, path, &bearer(&operator)).await.contains("200"), "{path}");
    }
    assert!(get(page, "/healthz", "").await.contains("200"));
    // As a browser does it: any name, and the token as the password.
    let password = BASE64.encode(format!("me:{}", observer.reveal()).as_bytes());
    let basic = format!("Authorization: Basic {password}\r\n");
    assert!(get(page, "/", &basic).await.contains("200"));

    let trust = Trust::default();
    assert!(status(&url, &trust, None).await.is_err());
    assert!(status(&url, &trust, Some(&client)).await.is_err());
    assert_eq!(status(&url, &trust, Some(&observer)).await.unwrap().enrolled, 0);
    let refused = revoke(&url, &trust, Some(&observer), &client.id()).await.unwrap_err();
    assert!(refused.to_string().contains("role"), "{refused}");
    let who = "nobody";
    assert!(
        revoke(&url, &trust, Some(&operator), who).await.unwrap_err().to_string().contains(who)
    );
    assert!(revoke(&url, &trust, Some(&operator), &client.id()).await.unwrap().contains("client"));
    let told = gives_up(&url, "late", Identity::from_secret([1; 32]), Some(client)).await;
    assert!(told.contains("revoked"), "{told}");
    // Who is revoked looks no longer.
    assert!(revoke(&url, &trust, Some(&operator), &observer.id()).await.is_ok());
    assert!(status(&url, &trust, Some(&observer)).await.is_err());
    assert!(get(page, "/", &basic).await.contains("401"));
    drop(coordinator.stop);
    coordinator.ended.await.unwrap().unwrap();
}

/// A client plays some rounds; then its key is lost. With a token for its name it gets another one, its number and its age.
#[tokio::test(flavor = "multi_thread")]
async fn who_lost_its_key_gets_another_with_a_token_for_its_name() {
    let state = folder("honest-lost-key");
    let mut params = proven(&state, "markov-optimal", 3, 1);
    params.round.rounds = 6;
    params.round.join_seconds = 0.3;
    play(params.clone()).await;
    params.round.rounds = 12;
    let mut admin = Admin::open(&state).unwrap();
    let renewed = admin.invite(Role::Client, Some("swarm-00001"), 1).unwrap();
    let others = admin.invite(Role::Client, None, 1).unwrap();
    let before: Vec<i64> = waiting(&state);
    let coordinator = Running::start(params, true).await;
    // A token that is not for this name is not enough.
    let other = others.into_iter().next();
    let told =
        gives_up(&coordinator.url, "swarm-00001", Identity::from_secret([9; 32]), other).await;
    assert!(told.contains("another key"), "{told}");
    assert_eq!(waiting(&state), before);
    let client = ClientParams {
        name: Some("swarm-00001".to_string()),
        identity: Some(Identity::from_secret([9; 32])),
        token: renewed.into_iter().next(),
        ..ClientParams::new(&coordinator.url)
    };
    let client = Client::new(client, tasks(3, 0).remove(1)).unwrap();
    let client = tokio::spawn(client.run(std::future::pending()));
    coordinator.until_the_end().await;
    client.await.unwrap().unwrap();
    let ledger = ledger(&state);
    let number = |query: &str| ledger.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("SELECT COUNT(*) FROM clients"), 3);
    assert_eq!(number("SELECT COUNT(*) FROM keys"), 4);
    let later =
        "SELECT COUNT(*) FROM joins WHERE client = 1 AND round >= 6 AND outcome = 'reported'";
    assert!(number(later) > 0);
    assert_eq!(audit(&state, |_, _| {}).unwrap().findings, []);
}

fn waiting(state: &Path) -> Vec<i64> {
    let ledger = ledger(state);
    let mut query = ledger.prepare("SELECT waiting_since FROM clients ORDER BY client").unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// A coordinator that pretends to go on with a run, with other seeds: the client remembers what it was told, and leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_leaves_a_coordinator_that_changes_its_commitment() {
    let home = folder("honest-cheated-client");
    let mut ended = Vec::new();
    for name in ["honest-cheated-1", "honest-cheated-2"] {
        let state = folder(name);
        let mut params = proven(&state, "markov-optimal", 1, 1);
        params.round.rounds = 2;
        params.round.join_seconds = 0.2;
        let token = tokens(&state, 1).into_iter().next();
        let config = params.check().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let coordinator = Running::serve(listener, coordinator(config).with_run([5; 16]));
        let client = ClientParams {
            name: Some("faithful".to_string()),
            state: Some(home.clone()),
            token,
            ..ClientParams::new(&coordinator.url)
        };
        let client = Client::new(client, tasks(1, 0).remove(0)).unwrap();
        let running = client.run(std::future::pending());
        ended.push(tokio::time::timeout(PATIENCE, running).await.unwrap());
        drop(coordinator.stop);
        coordinator.ended.await.unwrap().unwrap();
    }
    assert!(ended[0].is_ok(), "{ended:?}");
    assert!(
        matches!(&ended[1], Err(ClientError::Cheated(why)) if why.contains("other seeds")),
        "{ended:?}"
    );
}
