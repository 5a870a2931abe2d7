//! Clocks that jump, and a ledger that is locked by another process.

use crate::common::raw_client::{RawClient, identity};
use crate::common::site::{PATIENCE, Site, eventually, settings};
use crate::common::{folder, ledger};
use crate::faults::raw::Raw;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

const YEAR: i64 = 365 * 24 * 3_600 * 1_000;

/// Every look at the time of day is years away from the last one, forwards and backwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_decides_nothing() {
    let mut params = settings(&folder("faults-clock"), 2, 2);
    params.round.rounds = 0;
    params.round.join_seconds = 2.0;
    params.round.report_seconds = 3.0;
    let looks = AtomicI64::new(0);
    let clock = move || match looks.fetch_add(1, Ordering::Relaxed) % 4 {
        0 => 50 * YEAR,
        1 => -20 * YEAR,
        2 => i64::MAX,
        _ => i64::MIN,
    };
    let site = Site::open_with(params, 4, |coordinator| coordinator.with_wall_clock(clock)).await;
    let mut crowd = Raw::crowd(&site.url, &["steady", "lazy"]).await;
    let begun = Instant::now();
    for round in 0..6 {
        let heard = crowd[0].round(round).await;
        assert!(heard.join_millis <= 2_000 && heard.report_millis <= 3_000, "{heard:?}");
        assert!(heard.report_millis > 0);
        crowd[0].join(round).await;
        // Every other round waits for its deadline.
        if round % 2 == 0 {
            crowd[1].round(round).await;
            crowd[1].join(round).await;
        }
        crowd[0].report(round, heard.model_version, 1.0).await;
    }
    site.until("SELECT COUNT(*) FROM rounds WHERE state = 'committed'", 6).await;
    // No round took longer than the test, and none less than nothing. Rounds with a lazy client last until their deadline
    // of 3 seconds, counted from the announcement.
    let most = begun.elapsed().as_secs_f64() + 1.0;
    let sane =
        format!("SELECT COUNT(*) FROM rounds WHERE round < 6 AND seconds BETWEEN 0 AND {most}");
    assert_eq!(site.count(&sane), 6);
    assert_eq!(
        site.count(
            "SELECT COUNT(*) FROM rounds WHERE seconds >= 2.99 AND round < 6 AND round % 2 = 0"
        ),
        3
    );
    assert_eq!(
        site.count(
            "SELECT COUNT(*) FROM joins WHERE outcome = 'missing' AND round < 6 AND round % 2 = 0"
        ),
        3
    );
    let jumped = "SELECT MAX(began) > 1500000000000 AND MIN(began) < 0 FROM rounds";
    assert_eq!(site.count(jumped), 1, "the clock did jump");
    let status = site.status().await;
    assert!(status.history.iter().all(|round| (0.0..most).contains(&round.seconds)));
    site.close().await;
}

/// Another process locks the ledger for longer than the coordinator waits for it. No call is answered in the meantime, nothing is lost, and a
/// request to stop in the meantime is not forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_ledger_delays_everything_and_loses_nothing() {
    let mut params = settings(&folder("faults-held"), 3, 1);
    params.round.rounds = 0;
    let state = params.state.clone();
    let site = Site::open(params, 4).await;
    let first = Raw::enrol(&site.url, "first").await;
    let holder = ledger(&state);
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let enrol = |name: &'static str| {
        let calls = first.calls.clone();
        tokio::spawn(async move { RawClient::enrol_over(calls, name, &identity(name), None).await })
    };
    // The driver waits for the ledger with the first command; the others pile up behind it. The pauses make this order likely, and the
    // replies are the same in any order.
    let second = enrol("second");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let third = enrol("third");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let closing = tokio::spawn(site.end());
    // The coordinator waits 10 seconds for the ledger, each time.
    for asked in [second, third] {
        let answer = tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap();
        assert!(answer.is_err(), "nothing is promised that cannot be written");
    }
    holder.execute_batch("ROLLBACK").unwrap();
    let ended =
        tokio::time::timeout(PATIENCE, closing).await.expect("the wish to stop was heard").unwrap();
    ended.unwrap();
    let names: i64 =
        holder.query_row("SELECT COUNT(*) FROM clients", [], |row| row.get(0)).unwrap();
    assert_eq!(names, 1);
}

/// Every place that people and programs look at says that the ledger cannot be written, until it can be.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_ledger_shows_in_health_status_page_and_metrics() {
    let mut params = settings(&folder("faults-locked"), 3, 1);
    params.round.rounds = 0;
    let site = Site::open(params.clone(), 4).await;
    let first = Raw::enrol(&site.url, "first").await;
    assert!(site.get("/readyz").await.contains("ready\n"));
    let holder = ledger(&params.state);
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let calls = first.calls.clone();
    let second = tokio::spawn(async move {
        RawClient::enrol_over(calls, "second", &identity("second"), None).await
    });
    let not_ready = async || site.get("/readyz").await.contains("503 Service Unavailable");
    eventually("the coordinator is not ready", not_ready).await;
    let is_said = |text: &str| text.contains("the disk or the ledger fails");
    let warnings = site.status().await.warnings;
    assert!(warnings.iter().any(|warning| is_said(warning)), "{warnings:?}");
    assert!(is_said(&site.get("/live").await));
    assert_eq!(site.metric("agewise_ready").await, 0.0);
    assert!(site.metric("agewise_warnings").await >= 1.0);
    holder.execute_batch("ROLLBACK").unwrap();
    drop(tokio::time::timeout(PATIENCE, second).await.unwrap());
    eventually("it is ready again", async || site.get("/readyz").await.contains("200 OK")).await;
    assert_eq!(site.metric("agewise_ready").await, 1.0);
    assert_eq!(site.status().await.warnings, Vec::<String>::new());
    site.close().await;
}
