//! When a round ends: as soon as enough have reported, or as nobody is left to wait for. The deadline of these rounds is beyond the
//! patience of a test, so each of them would fail if a round waited for it.

use crate::common::folder;
use crate::common::site::{Site, bytes_of, eventually, settings};
use crate::faults::raw::{Raw, parts_of};
use agewise_server::coordinator::audit::audit;
use agewise_server::protocol::report_reply;
use agewise_server::{CoordinatorParams, ReportDeadline};

const COMMITTED: &str = "SELECT COUNT(*) FROM rounds WHERE round = 0 AND state = 'committed'";

fn patient(name: &str, clients: u64) -> CoordinatorParams {
    let mut params = settings(&folder(name), clients, clients);
    params.round.rounds = 0;
    params.round.report_seconds = 3_600.0;
    params
}

/// All of them are in round 0.
async fn begin(site: &Site, names: &[&str]) -> Vec<Raw> {
    let mut crowd = Raw::crowd(&site.url, names).await;
    for raw in &mut crowd {
        raw.round(0).await;
        raw.join(0).await;
    }
    crowd
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_report_does_not_hold_up_its_round() {
    let site = Site::open(patient("faults-ends-refused", 2), 4).await;
    let mut crowd = begin(&site, &["good", "bad"]).await;
    let bytes = bytes_of(&[1.0, f32::NAN, 1.0, 1.0]);
    let parts = parts_of(crowd[1].header(0, 0, &bytes), &bytes);
    assert!(crowd[1].refused(parts).await.contains("not-finite"));
    assert_eq!(site.outcome(0, crowd[1].client), "refused");
    crowd[0].report(0, 0, 5.0).await;
    site.until(COMMITTED, 1).await;
    assert_eq!(site.value(1), 5.0);
    assert_eq!(site.outcome(0, crowd[1].client), "refused");
    assert_eq!(site.count("SELECT missing FROM clients WHERE name = 'bad'"), 1);
    assert_eq!(site.count("SELECT selected FROM rounds WHERE round = 0"), 2);
    site.close().await;
}

/// While the round is open, a client whose update was refused may send another one, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_client_may_do_better_as_long_as_the_round_is_open() {
    let params = patient("faults-ends-better", 2);
    let site = Site::open(params.clone(), 4).await;
    let mut crowd = begin(&site, &["slow", "better"]).await;
    let bytes = bytes_of(&[f32::INFINITY; 4]);
    let parts = parts_of(crowd[1].header(0, 0, &bytes), &bytes);
    crowd[1].refused(parts).await;
    site.close().await;
    drop(crowd);
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["slow", "better"]).await;
    crowd[1].report(0, 0, 3.0).await;
    crowd[0].report(0, 0, 5.0).await;
    site.until(COMMITTED, 1).await;
    assert_eq!(site.value(1), 4.0);
    site.close().await;
}

/// A client whose stream has ended is not waited for. What it brings later is late.
#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_does_not_hold_up_the_round() {
    let mut params = patient("faults-ends-gone", 3);
    params.round.min_reports = 2;
    let site = Site::open(params, 4).await;
    let mut crowd = begin(&site, &["a", "b", "gone"]).await;
    let gone = crowd.pop().unwrap().client;
    for raw in &mut crowd {
        raw.report(0, 0, 5.0).await;
    }
    site.until(COMMITTED, 1).await;
    assert_eq!(site.outcome(0, gone), "gone");
    let mut back = Raw::enrol(&site.url, "gone").await;
    assert_eq!(back.waiting_since, 0, "its age stays");
    let reply = back.send(back.update(0, 0, 9.0)).await.unwrap();
    assert_eq!(reply.outcome(), report_reply::Outcome::Late);
    assert_eq!(site.outcome(0, gone), "late");
    site.close().await;
}

/// Four are in the round and two are enough: the others are not waited for, keep their ages, and have not failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_ends_at_its_goal_and_the_surplus_has_not_failed() {
    let mut params = patient("faults-ends-goal", 4);
    params.round.goal_reports = 2;
    let site = Site::open(params.clone(), 4).await;
    let mut crowd = begin(&site, &["a", "b", "slow", "slower"]).await;
    for raw in &mut crowd[..2] {
        raw.report(0, 0, 5.0).await;
    }
    site.until(COMMITTED, 1).await;
    for slow in &mut crowd[2..] {
        assert_eq!(site.outcome(0, slow.client), "surplus");
        let parts = slow.update(0, 0, 9.0);
        let reply = slow.send(parts).await.unwrap();
        assert_eq!(reply.outcome(), report_reply::Outcome::Late);
        assert!(reply.why.contains("enough reports"), "{}", reply.why);
        assert_eq!((reply.waiting_since, site.outcome(0, slow.client)), (0, "surplus".to_string()));
    }
    assert_eq!(site.value(1), 5.0);
    assert_eq!(site.count("SELECT SUM(missing) + SUM(late) FROM clients"), 0);
    assert_eq!(site.count("SELECT 10 * selected + reported FROM rounds WHERE round = 0"), 42);
    // It is on record like this, and an audit finds nothing.
    eventually("the next round", async || site.count("SELECT COUNT(*) FROM rounds") == 2).await;
    let found = audit(&params.state, |_, _| {}).unwrap();
    assert_eq!(found.findings, []);
    site.close().await;
}

/// Rounds with a deadline that adapts, and otherwise the time of the patient ones.
fn adaptive(name: &str, clients: u64) -> CoordinatorParams {
    let mut params = patient(name, clients);
    // Two reports at least, as by default; and joining ends when all that were invited have come.
    params.round.min_reports = 0;
    params.round.report_deadline = ReportDeadline::default();
    params
}

/// One that joins, stays connected and never reports: after five seconds the round ends without it.
#[tokio::test(flavor = "multi_thread")]
async fn a_connected_member_that_is_silent_does_not_hold_up_the_round() {
    let params = adaptive("faults-ends-silent", 4);
    let site = Site::open(params.clone(), 4).await;
    let mut crowd = begin(&site, &["a", "b", "c", "silent"]).await;
    for raw in &mut crowd[..3] {
        raw.report(0, 0, 5.0).await;
    }
    site.until(COMMITTED, 1).await;
    assert_eq!(site.value(1), 5.0);
    let silent = &mut crowd[3];
    assert_eq!(site.outcome(0, silent.client), "missing");
    // It is connected all the time, and what it brings now is late.
    silent.round(1).await;
    let parts = silent.update(0, 0, 9.0);
    let reply = silent.send(parts).await.unwrap();
    assert_eq!(reply.outcome(), report_reply::Outcome::Late);
    assert_eq!(reply.back_off.unwrap().failures, 1);
    assert_eq!(site.outcome(0, silent.client), "late");
    site.close().await;
    assert_eq!(audit(&params.state, |_, _| {}).unwrap().findings, []);
}

/// A client that is late again and again fails and waits, and is not suspended; one that is silent as often is.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_client_is_not_suspended_and_a_silent_one_is() {
    let mut params = adaptive("faults-ends-late", 4);
    params.round.suspend_after = 2;
    // Without waits everyone is invited in every round.
    params.round.backoff = false;
    // With an adaptive deadline the late one would be waited for from the second round on.
    params.round.report_deadline = ReportDeadline::Fixed;
    (params.round.join_seconds, params.round.report_seconds) = (8.0, 8.0);
    let site = Site::open(params.clone(), 4).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "late", "silent"]).await;
    for round in 0..4 {
        let version = site.count("SELECT MAX(version) FROM models") as u64;
        for raw in &mut crowd[..if round < 2 { 4 } else { 3 }] {
            raw.round(round).await;
            raw.join(round).await;
        }
        for raw in &mut crowd[..2] {
            raw.report(round, version, 1.0).await;
        }
        let over =
            format!("SELECT COUNT(*) FROM rounds WHERE round = {round} AND state = 'committed'");
        site.until(&over, 1).await;
        let late = &mut crowd[2];
        let parts = late.update(round, version, 9.0);
        let reply = late.send(parts).await.unwrap();
        assert_eq!(reply.outcome(), report_reply::Outcome::Late, "{}", reply.why);
        let back_off = reply.back_off.unwrap();
        assert_eq!((u64::from(back_off.failures), back_off.suspended.as_str()), (round + 1, ""));
    }
    let suspended =
        "SELECT c.name || ': ' || s.reason FROM suspensions s JOIN clients c USING (client)";
    assert_eq!(site.count("SELECT COUNT(*) FROM suspensions"), 1);
    let reason = site.text(suspended);
    assert!(reason.starts_with("silent: 2 failures in a row, the last one in round 1"), "{reason}");
    site.close().await;
    assert_eq!(audit(&params.state, |_, _| {}).unwrap().findings, []);
}

/// A round that goes on after a start waits for its members as long as `report_seconds` says, as nothing is known of their durations.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_start_nothing_is_known_of_durations() {
    let params = adaptive("faults-ends-started", 3);
    let site = Site::open(params.clone(), 4).await;
    let mut crowd = begin(&site, &["a", "b", "slow"]).await;
    crowd[0].report(0, 0, 5.0).await;
    site.close().await;
    drop(crowd);
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "slow"]).await;
    crowd[1].report(0, 0, 5.0).await;
    // Longer than the least that a member has where durations are known.
    tokio::time::sleep(std::time::Duration::from_secs(7)).await;
    crowd[2].report(0, 0, 5.0).await;
    site.until(COMMITTED, 1).await;
    assert_eq!(site.count("SELECT reported FROM rounds WHERE round = 0"), 3);
    site.close().await;
}

/// After twenty reports a round ends with the quantile of their durations, if there are enough reports for a model.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_by_quantile_ends_rounds_without_the_slowest() {
    let mut params = adaptive("faults-ends-quantile", 4);
    params.round.report_deadline = ReportDeadline::Quantile(0.5);
    params.round.backoff = false;
    params.round.suspend_after = 0;
    let site = Site::open(params.clone(), 4).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "c", "silent"]).await;
    // Twenty reports are needed before there is a quantile: five rounds of all four.
    for round in 0..6 {
        let version = site.count("SELECT MAX(version) FROM models") as u64;
        for raw in &mut crowd {
            raw.round(round).await;
            raw.join(round).await;
        }
        let reporting = if round < 5 { 4 } else { 3 };
        for raw in &mut crowd[..reporting] {
            let parts = raw.update(round, version, 1.0);
            let reply = raw.send(parts).await.unwrap();
            let is_last = round == 5;
            // The quantile of durations of milliseconds may pass while the others still report.
            assert!(is_last || reply.outcome() == report_reply::Outcome::Accepted, "{}", reply.why);
            raw.waiting_since = reply.waiting_since;
        }
        let over =
            format!("SELECT COUNT(*) FROM rounds WHERE round = {round} AND state = 'committed'");
        site.until(&over, 1).await;
    }
    assert_eq!(site.outcome(5, crowd[3].client), "missing");
    let settings = site.text("SELECT config FROM settings");
    assert!(settings.contains("report_deadline = 0.5"), "{settings}");
    site.close().await;
    assert_eq!(audit(&params.state, |_, _| {}).unwrap().findings, []);
}
