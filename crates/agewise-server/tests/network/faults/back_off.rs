//! Clients that fail again and again: they wait, hear how long, and are suspended in the end, also across restarts; an audit replays it.

use crate::common::folder;
use crate::common::site::{Site, bytes_of, eventually, settings};
use crate::faults::raw::{Raw, parts_of};
use agewise_server::coordinator::Admin;
use agewise_server::coordinator::audit::audit;
use agewise_server::protocol::{BackOff, join_reply};
use std::path::Path;

const OVER: &str = "state IN ('committed', 'abandoned')";

/// An update that is refused.
async fn fail(raw: &mut Raw, round: u64, version: u64) {
    let bytes = bytes_of(&[f32::NAN; 4]);
    let parts = parts_of(raw.header(round, version, &bytes), &bytes);
    raw.refused(parts).await;
}

async fn until_over(site: &Site, round: u64) {
    site.until(&format!("SELECT COUNT(*) FROM rounds WHERE round = {round} AND {OVER}"), 1).await;
}

fn version(site: &Site) -> u64 {
    site.count("SELECT MAX(version) FROM models") as u64
}

fn is_sound(state: &Path) {
    assert_eq!(audit(state, |_, _| {}).unwrap().findings, []);
}

/// Where clients decide: a client that has failed twice in a row is refused until the round that it is told, and keeps its age.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_hears_of_its_failures_and_when_it_may_join_again() {
    let state = folder("faults-back-off");
    // Who has waited for a round takes part for sure. Two are a full cohort, so that no round waits for its window.
    let mut params = settings(&state, 8, 1);
    params.round.policy = "markov-custom(p=[0.999999999, 1])".to_string();
    params.round.max_cohort = 2;
    params.round.rounds = 0;
    let names = ["good", "other", "bad", "d", "e", "f", "g", "h"];
    let site = Site::open(params.clone(), 4).await;
    let mut crowd = Raw::crowd(&site.url, &names).await;
    for round in 0..2 {
        let version = version(&site);
        for place in [0, 2] {
            crowd[place].round(round).await;
            crowd[place].join(round).await;
        }
        fail(&mut crowd[2], round, version).await;
        crowd[0].report(round, version, 1.0).await;
        until_over(&site, round).await;
    }
    drop(crowd);
    site.close().await;
    is_sound(&state);

    // n/m is 8: after two failures in a row a quarter of that has to pass.
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &names).await;
    let expected = BackOff { failures: 2, eligible_from: 3, suspended: String::new() };
    let heard = crowd[2].round(2).await;
    assert_eq!(heard.back_off, Some(expected.clone()));
    let told = crowd[2].ask_to_join(2).await;
    assert_eq!(told.outcome(), join_reply::Outcome::Refused);
    assert!(told.why.contains("from round 3"), "{}", told.why);
    assert_eq!((told.back_off, told.waiting_since), (Some(expected), 0));
    let version_2 = version(&site);
    for place in [0, 1] {
        crowd[place].round(2).await;
        crowd[place].join(2).await;
        crowd[place].report(2, version_2, 1.0).await;
    }
    let version_3 = crowd[2].round(3).await.model_version;
    crowd[0].round(3).await;
    for place in [0, 2] {
        crowd[place].join(3).await;
        crowd[place].report(3, version_3, 1.0).await;
    }
    until_over(&site, 3).await;
    let cleared = "SELECT failures + eligible_from FROM clients WHERE name = 'bad'";
    site.until(cleared, 0).await;
    assert_eq!(site.count("SELECT COUNT(*) FROM refusals WHERE reason = 'back-off'"), 1);
    site.close().await;
    is_sound(&state);
}

/// In the middle of a round another client enrols, and the coordinator is started again with another cohort: a client that fails in that
/// round waits as the round was announced, and the audit, which saw no restart, agrees.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_follows_from_the_round_in_which_the_client_failed() {
    let state = folder("faults-back-off-restart");
    let mut params = settings(&state, 8, 1);
    params.round.rounds = 0;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut site = Site::open(params.clone(), 4).await;
    let mut crowd = Raw::crowd(&site.url, &names).await;
    // All are of one age: the same client is invited twice, as one failure costs nothing.
    site.until("SELECT COUNT(*) FROM joins WHERE round = 0", 1).await;
    let bad = site.count("SELECT client FROM joins WHERE round = 0") as usize;
    let version_0 = version(&site);
    crowd[bad].join(0).await;
    fail(&mut crowd[bad], 0, version_0).await;
    until_over(&site, 0).await;
    for round in 1.. {
        site.until(&format!("SELECT COUNT(*) FROM joins WHERE round = {round}"), 1).await;
        let invited = site.count(&format!("SELECT client FROM joins WHERE round = {round}"));
        let version = version(&site);
        let invited = invited as usize;
        crowd[invited].join(round).await;
        if invited != bad {
            crowd[invited].report(round, version, 1.0).await;
            until_over(&site, round).await;
            continue;
        }
        let late = Raw::enrol(&site.url, "late").await;
        drop((late, crowd));
        site.close().await;
        params.round.cohort = 3;
        site = Site::open(params, 4).await;
        let mut crowd = Raw::crowd(&site.url, &names).await;
        fail(&mut crowd[bad], round, version).await;
        until_over(&site, round).await;
        // A quarter of 8, and not of 9 or of 3.
        let eligible = format!("SELECT eligible_from FROM clients WHERE client = {bad}");
        assert_eq!(site.count(&eligible), round as i64 + 2);
        break;
    }
    site.close().await;
    is_sound(&state);
}

/// Where the coordinator selects: who fails three times in a row is invited no more until an operator says so.
#[tokio::test(flavor = "multi_thread")]
async fn who_fails_too_often_is_suspended_until_an_operator_reinstates_it() {
    is_suspended_until_reinstated("faults-suspended", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_fails_too_often_is_suspended_without_back_off_too() {
    is_suspended_until_reinstated("faults-suspended-only", false).await;
}

async fn is_suspended_until_reinstated(name: &str, backoff: bool) {
    let state = folder(name);
    let mut params = settings(&state, 3, 1);
    params.round.backoff = backoff;
    params.round.suspend_after = 3;
    params.round.rounds = 0;
    let names = ["a", "b", "bad"];
    let mut site = Site::open(params.clone(), 4).await;
    let mut crowd = Raw::crowd(&site.url, &names).await;
    let (mut round, mut failures, mut after) = (0, 0, 0);
    // Three failures, and ten rounds more in which the others are invited.
    while after < 10 {
        let joined = format!("SELECT COUNT(*) FROM joins WHERE round = {round}");
        site.until(&joined, 1).await;
        let invited = site.count(&format!("SELECT client FROM joins WHERE round = {round}"));
        let version = version(&site);
        let raw = crowd.iter_mut().find(|raw| i64::from(raw.client) == invited).unwrap();
        raw.join(round).await;
        if raw.client == 2 {
            assert!(failures < 3, "it was invited in round {round} although it is suspended");
            fail(raw, round, version).await;
            failures += 1;
        } else {
            raw.report(round, version, 1.0).await;
        }
        until_over(&site, round).await;
        round += 1;
        after += u64::from(failures == 3);
        if after == 5 {
            // It is on record.
            drop(crowd);
            site.close().await;
            site = Site::open(params.clone(), 4).await;
            crowd = Raw::crowd(&site.url, &names).await;
        }
    }
    let warnings = site.status().await.warnings;
    let named = |warning: &String| {
        warning.contains("client bad is suspended: 3 failures in a row")
            && warning.contains("reinstate bad")
    };
    assert!(warnings.iter().any(named), "{warnings:?}");
    assert!(site.get("/live").await.contains("client bad is suspended"));
    let mut admin = Admin::open(&state).unwrap();
    let listed = admin.clients().unwrap();
    assert_eq!((listed[2].failures, listed[2].suspended.is_some()), (3, true));
    let error = admin.reinstate("a").unwrap_err().to_string();
    assert!(error.contains("name") && error.contains("suspended"), "{error}");
    admin.reinstate("bad").unwrap();
    eventually("no warning", async || site.status().await.warnings.is_empty()).await;

    // It is the oldest, so it comes soon.
    for round in round.. {
        site.until(&format!("SELECT COUNT(*) FROM joins WHERE round = {round}"), 1).await;
        let invited = site.count(&format!("SELECT client FROM joins WHERE round = {round}"));
        let version = version(&site);
        let raw = crowd.iter_mut().find(|raw| i64::from(raw.client) == invited).unwrap();
        raw.join(round).await;
        raw.report(round, version, 1.0).await;
        until_over(&site, round).await;
        if invited == 2 {
            break;
        }
    }
    assert_eq!(site.count("SELECT failures FROM clients WHERE name = 'bad'"), 0);
    site.close().await;
    is_sound(&state);
    // A suspension that does not follow from failures, and one that is missing, are found.
    for change in [
        "INSERT INTO suspensions (client, since, reason) VALUES (0, 1, 'no')",
        "DELETE FROM suspensions",
    ] {
        crate::common::ledger(&state).execute_batch(change).unwrap();
        let findings = audit(&state, |_, _| {}).unwrap().findings;
        assert!(findings.iter().any(|finding| finding.what.contains("suspended")), "{findings:?}");
    }
}
