//! When a round ends: as soon as enough have reported, or as nobody is left to wait for. The deadline of these rounds is beyond the
//! patience of a test, so each of them would fail if a round waited for it.

use crate::common::folder;
use crate::common::site::{Site, bytes_of, eventually, settings};
use crate::faults::raw::{Raw, parts_of};
use agewise_server::CoordinatorParams;
use agewise_server::coordinator::audit::audit;
use agewise_server::protocol::report_reply;

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
