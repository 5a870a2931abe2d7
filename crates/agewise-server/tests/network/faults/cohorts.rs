//! Cohorts that are full, too small, or empty.

use crate::common::raw_client::{RawClient, identity};
use crate::common::site::{Site, eventually, settings};
use crate::common::{folder, ledger};
use crate::faults::raw::Raw;
use agewise_core::Weighting;
use agewise_server::protocol::{Announcement, join_reply};

/// A law under which every draw wins, and one under which none does.
const EVERYONE: &str = "markov-custom(p=[1, 1])";
const NO_CLIENT: &str = "markov-custom(p=[1e-12, 1e-12])";

#[tokio::test(flavor = "multi_thread")]
async fn a_full_cohort_takes_nobody_else_and_ages_stay() {
    let mut params = settings(&folder("faults-full"), 4, 2);
    params.round.policy = EVERYONE.to_string();
    params.round.max_cohort = 3;
    params.round.rounds = 0;
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "c", "d"]).await;
    for raw in &mut crowd {
        raw.round(0).await;
    }
    for raw in &mut crowd[..3] {
        raw.join(0).await;
    }
    let told = crowd[3].ask_to_join(0).await;
    assert_ne!(told.outcome(), join_reply::Outcome::Selected);
    assert_eq!(told.waiting_since, 0);
    for raw in &mut crowd[..3] {
        raw.report(0, 0, 1.0).await;
    }
    let heard = crowd[3].round(1).await;
    assert_eq!(heard.model_version, 1);
    assert_eq!(site.waiting_since(crowd[3].client), 0, "its age is 1 now");
    crowd[3].join(1).await;
    site.close().await;
}

/// "A client that asks while the cohort is full is told so and keeps its age."
#[tokio::test(flavor = "multi_thread")]
async fn who_asks_when_the_cohort_is_full_is_told_full() {
    let mut params = settings(&folder("faults-told-full"), 2, 1);
    params.round.policy = EVERYONE.to_string();
    params.round.max_cohort = 1;
    params.round.rounds = 0;
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b"]).await;
    for raw in &mut crowd {
        raw.round(0).await;
    }
    crowd[0].join(0).await;
    let told = crowd[1].ask_to_join(0).await;
    assert_eq!(told.outcome(), join_reply::Outcome::Full);
    assert_eq!(told.waiting_since, 0);
    assert_eq!(site.outcome(0, crowd[1].client), "full");
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_reports_abandon_the_round_and_credit_who_reported() {
    let mut params = settings(&folder("faults-few"), 3, 3);
    params.round.min_reports = 3;
    params.round.rounds = 2;
    params.round.join_seconds = 2.0;
    params.round.report_seconds = 3.0;
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "c"]).await;
    for raw in &mut crowd {
        raw.round(0).await;
        raw.join(0).await;
    }
    for raw in &mut crowd[..2] {
        raw.report(0, 0, 1.0).await;
    }
    let heard = crowd[2].round(1).await;
    assert_eq!(heard.model_version, 0, "the model stays");
    assert_eq!(site.text("SELECT state FROM rounds WHERE round = 0"), "abandoned");
    assert!(site.text("SELECT note FROM rounds WHERE round = 0").contains("2 reports, 3"));
    assert_eq!(site.count("SELECT COUNT(*) FROM models WHERE version > 0"), 0);
    let since: Vec<i64> = crowd.iter().map(|raw| site.waiting_since(raw.client)).collect();
    assert_eq!(since, [1, 1, 0]);
    assert_eq!(site.metric("agewise_rounds_total{outcome=\"abandoned\"}").await, 1.0);
    // The next one has all three, and trains the same model.
    for raw in &mut crowd {
        raw.join(1).await;
        raw.report(1, 0, 6.0).await;
    }
    drop(crowd);
    site.until("SELECT COUNT(*) FROM rounds WHERE round = 1 AND state = 'committed'", 1).await;
    assert_eq!(site.value(2), 6.0);
    site.until_the_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_round_invites_a_client() {
    let mut params = settings(&folder("faults-empty"), 3, 1);
    params.round.policy = NO_CLIENT.to_string();
    params.round.rounds = 3;
    params.round.join_seconds = 1.0;
    params.round.report_seconds = 30.0;
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "c"]).await;
    for round in 0..3u64 {
        // Everyone hears the announcement; one of them later hears that it is called.
        let query =
            format!("SELECT client FROM joins WHERE round = {round} AND outcome = 'invited'");
        let count =
            format!("SELECT COUNT(*) FROM joins WHERE round = {round} AND outcome = 'invited'");
        site.until(&count, 1).await;
        let called = site.count(&query) as u32;
        let raw = crowd.iter_mut().find(|raw| raw.client == called).unwrap();
        let for_me = move |heard: &Announcement| heard.round == round && heard.invited;
        let heard = raw.hear("the call", for_me).await;
        assert_eq!(heard.model_version, round);
        raw.join(round).await;
        raw.report(round, round, 1.0 + round as f32).await;
        let over = format!(
            "SELECT COUNT(*) FROM rounds WHERE round = {round} AND state = 'committed' AND forced = 1"
        );
        site.until(&over, 1).await;
        assert_eq!(site.value(round + 1), 1.0 + round as f32);
    }
    drop(crowd);
    site.until_the_end().await;
}

/// The client that was invited because none had come stays invited after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_forced_round_survives_a_restart() {
    let mut params = settings(&folder("faults-forced-restart"), 2, 1);
    params.round.policy = NO_CLIENT.to_string();
    params.round.rounds = 0;
    params.round.join_seconds = 1.0;
    params.round.report_seconds = 30.0;
    let site = Site::open(params.clone(), 4).await;
    let crowd = Raw::crowd(&site.url, &["a", "b"]).await;
    site.until("SELECT COUNT(*) FROM joins WHERE outcome = 'invited'", 1).await;
    let called = site.count("SELECT client FROM joins WHERE outcome = 'invited'") as u32;
    site.close().await;
    drop(crowd);

    params.round.join_seconds = 20.0;
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b"]).await;
    assert_ne!(site.text("SELECT state FROM rounds WHERE round = 0"), "abandoned");
    let raw = crowd.iter_mut().find(|raw| raw.client == called).unwrap();
    raw.hear("the call", |heard| heard.round == 0 && heard.invited).await;
    raw.join(0).await;
    raw.report(0, 0, 2.0).await;
    drop(crowd);
    site.until("SELECT COUNT(*) FROM rounds WHERE state = 'committed' AND reported = 1", 1).await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_lost_its_state_gets_its_age_back_by_its_name() {
    let mut params = settings(&folder("faults-lost-state"), 2, 2);
    params.round.rounds = 0;
    params.round.join_seconds = 2.0;
    params.round.report_seconds = 3.0;
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["steady", "forgetful"]).await;
    for raw in &mut crowd {
        raw.round(0).await;
        raw.join(0).await;
        raw.report(0, 0, 1.0).await;
    }
    let number = crowd[1].client;
    drop(crowd.pop());
    // Rounds go by without it.
    for round in 1..3 {
        let version = crowd[0].round(round).await.model_version;
        crowd[0].join(round).await;
        crowd[0].report(round, version, 1.0).await;
    }
    let again = Raw::enrol(&site.url, "forgetful").await;
    assert_eq!((again.client, again.waiting_since), (number, 1));
    // And a name that is not one is not enrolled.
    for name in ["", "no spaces", "../up", &"x".repeat(65)] {
        let enrolled = RawClient::try_enrol(&site.url, name, &identity(name), None).await;
        assert!(enrolled.is_err(), "{name}");
    }
    assert_eq!(site.count("SELECT COUNT(*) FROM clients"), 2);
    site.close().await;
}

/// The round under way is one of the clients that had enrolled, also if the next start expects more of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_round_goes_on_where_more_clients_are_expected_since() {
    let mut params = settings(&folder("faults-more-expected"), 2, 1);
    params.round.policy = NO_CLIENT.to_string();
    params.round.rounds = 0;
    let site = Site::open(params.clone(), 4).await;
    let crowd = Raw::crowd(&site.url, &["a", "b"]).await;
    site.until("SELECT COUNT(*) FROM rounds", 1).await;
    drop(crowd);
    site.close().await;

    params.round.clients = 5;
    params.round.join_seconds = 2.0;
    let site = Site::open(params.clone(), 4).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b"]).await;
    site.until("SELECT COUNT(*) FROM joins WHERE outcome = 'invited'", 1).await;
    let called = site.count("SELECT client FROM joins WHERE outcome = 'invited'") as u32;
    let raw = crowd.iter_mut().find(|raw| raw.client == called).unwrap();
    raw.hear("the call", |heard| heard.round == 0 && heard.invited).await;
    raw.join(0).await;
    raw.report(0, 0, 2.0).await;
    site.until("SELECT COUNT(*) FROM rounds WHERE state = 'committed'", 1).await;
    site.until("SELECT COUNT(*) FROM rounds", 2).await;
    drop(crowd);
    site.close().await;

    // A round of more clients than have enrolled cannot be gone on with.
    ledger(&params.state).execute("UPDATE rounds SET clients = 3 WHERE round = 1", []).unwrap();
    let error = Site::open(params, 4).await.end().await.unwrap_err();
    assert!(error.to_string().contains("round 1 of 3 clients, and 2 have enrolled"), "{error}");
}

/// Of three clients of the same size two are connected, and one of them is selected: its chance is 1/2, so it counts for (1/3)/(1/2). A
/// restart during the round does not change that, even if the third one is back.
#[tokio::test(flavor = "multi_thread")]
async fn unbiased_weights_follow_from_those_who_were_connected() {
    let mut params = settings(&folder("faults-unbiased"), 3, 1);
    params.round.weighting = Some(Weighting::Unbiased);
    params.round.rounds = 0;
    let site = Site::open(params.clone(), 4).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "c"]).await;
    let invited = |site: &Site, round: u64| {
        site.count(&format!("SELECT client FROM joins WHERE round = {round}")) as u32
    };
    crowd[0].round(0).await;
    let first = invited(&site, 0);
    let away = crowd.iter().position(|raw| raw.client != first).unwrap();
    drop(crowd.remove(away));
    eventually("two are connected", async || site.status().await.connected == 2).await;
    let raw = crowd.iter_mut().find(|raw| raw.client == first).unwrap();
    raw.join(0).await;
    raw.report(0, 0, 1.0).await;
    site.until("SELECT COUNT(*) FROM rounds WHERE round = 1 AND available = 2", 1).await;
    site.close().await;
    drop(crowd);

    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "c"]).await;
    let second = invited(&site, 1);
    let raw = crowd.iter_mut().find(|raw| raw.client == second).unwrap();
    raw.join(1).await;
    raw.report(1, 1, 1.0).await;
    site.until("SELECT COUNT(*) FROM rounds WHERE round = 1 AND state = 'committed'", 1).await;
    let weight = |round: u64| -> f64 {
        let query = format!("SELECT weight FROM joins WHERE round = {round}");
        ledger(&site.state).query_row(&query, [], |row| row.get(0)).unwrap()
    };
    assert!((weight(0) - 1.0).abs() < 1e-12);
    assert!((weight(1) - 2.0 / 3.0).abs() < 1e-12);
    drop(crowd);
    site.close().await;
}
