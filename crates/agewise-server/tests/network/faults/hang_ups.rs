//! Clients that vanish in each phase, and clients that are slow: the round ends in time without them.

use crate::common::folder;
use crate::common::site::{Site, bytes_of, settings, soon};
use crate::faults::raw::{Raw, data_part, header_part};
use agewise_server::protocol::{ReportPart, report_part, report_reply};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tonic::Code;

/// 2 MB: several chunks, so that there is a middle.
const PARAMETERS: usize = 500_000;
const REPORT_SECONDS: f64 = 12.0;

/// Sends the parts and says nothing more: a call that stays open until its task is aborted. Who listens hears of each part that goes out.
fn hold(
    mut raw: Raw,
    parts: Vec<ReportPart>,
) -> (JoinHandle<Option<Code>>, mpsc::UnboundedReceiver<()>) {
    let (taken, all_taken) = mpsc::unbounded_channel();
    let parts = tokio_stream::iter(parts).map(move |part| {
        taken.send(()).ok();
        part
    });
    let call = tokio::spawn(async move {
        let stream = parts.chain(tokio_stream::pending());
        raw.calls.report(stream).await.err().map(|status| status.code())
    });
    (call, all_taken)
}

async fn all_sent(taken: &mut mpsc::UnboundedReceiver<()>, parts: usize) {
    for _ in 0..parts {
        soon("a part to be sent", taken.recv()).await.unwrap();
    }
    // On its way through the connection: what arrives later than this is the same hang-up, a moment earlier.
    tokio::time::sleep(Duration::from_millis(300)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_in_any_phase_is_missing_and_the_others_go_on() {
    let mut params = settings(&folder("faults-hang-up"), 8, 8);
    params.round.rounds = 2;
    params.round.join_seconds = 5.0;
    params.round.report_seconds = REPORT_SECONDS;
    let site = Site::open(params, PARAMETERS).await;

    // Enrolled and gone: it never counts as available.
    let gone = Raw::enrol(&site.url, "after-enrol").await;
    let gone = gone.client;
    let names = ["watching", "joined", "fetching", "header", "half", "no-reply", "slow", "good"];
    let mut crowd = Raw::crowd(&site.url, &names).await;
    let clients: Vec<u32> = crowd.iter().map(|raw| raw.client).collect();
    for raw in &mut crowd {
        let heard = raw.round(0).await;
        assert!(heard.invited, "all that are here are called");
    }
    drop(crowd.remove(0));
    for raw in &mut crowd {
        raw.join(0).await;
    }
    let [joined, mut fetching, header, half, mut no_reply, slow, mut good] =
        <[Raw; 7]>::try_from(crowd).ok().unwrap();

    drop(joined);

    let request = fetching.fetch_request(0);
    let mut chunks = fetching.calls.fetch_model(request).await.unwrap().into_inner();
    let first = soon("a chunk", chunks.message()).await.unwrap().unwrap();
    assert!(!first.data.is_empty() && first.data.len() < 4 * PARAMETERS);
    drop(chunks);
    drop(fetching);

    let parts = header.update(0, 0, 7.0);
    let (call, mut taken) = hold(header, parts[..1].to_vec());
    all_sent(&mut taken, 1).await;
    call.abort();

    let parts = half.update(0, 0, 7.0);
    let part = parts.len() / 2;
    let (call, mut taken) = hold(half, parts[..part].to_vec());
    all_sent(&mut taken, part).await;
    call.abort();

    // Stays connected and never says the rest.
    let parts = slow.update(0, 0, 7.0);
    let (slow_call, mut taken) = hold(slow, parts[..part].to_vec());
    all_sent(&mut taken, part).await;

    // Everything was sent, and the answer is not read.
    let parts = no_reply.update(0, 0, 1.0);
    no_reply.send(parts.clone()).await.unwrap();
    drop(no_reply);

    assert_eq!(good.fetch(0).await, vec![0.0; PARAMETERS]);
    good.report(0, 0, 3.0).await;

    site.until("SELECT COUNT(*) FROM rounds WHERE round = 0 AND state = 'committed'", 1).await;

    let expected = ["gone", "gone", "gone", "gone", "gone", "reported", "missing", "reported"];
    for ((client, name), expected) in clients.iter().zip(names).zip(expected) {
        // A stream that was cancelled may look like one that has ended; then what came is refused as too short.
        let found = site.outcome(0, *client).replace("refused", "gone");
        assert_eq!(found, expected, "{name}");
        let since = i64::from(expected == "reported");
        assert_eq!(site.waiting_since(*client), since, "{name}");
    }
    let joins = format!("SELECT COUNT(*) FROM joins WHERE client = {gone}");
    assert_eq!(site.count(&joins), 0);
    let round = "SELECT available || ' ' || selected || ' ' || reported || ' ' || late FROM rounds";
    assert_eq!(site.text(&format!("{round} WHERE round = 0")), "8 8 2 0");
    let (header, half) = (clients[3], clients[4]);
    let others = format!(
        "SELECT COUNT(*) FROM refusals WHERE reason != 'size' OR client NOT IN ({header}, {half})"
    );
    assert_eq!(site.count(&others), 0);
    assert_eq!(site.value(1), 2.0, "the mean of the two that were whole, and nothing else");

    // The one who never heard the answer asks again, and is told the same.
    let mut back = Raw::arrive(&site.url, "no-reply").await;
    assert_eq!(back.waiting_since, 1);
    let reply = back.send(parts).await.unwrap();
    assert_eq!(reply.outcome(), report_reply::Outcome::Accepted);
    assert_eq!(site.count("SELECT reports FROM clients WHERE name = 'no-reply'"), 1);

    // The slow one is cut off by itself, at the latest when the length of a round has passed.
    assert!(soon("the end of the slow call", slow_call).await.unwrap().is_some());
    site.close().await;
}

/// Whether a report is stored when its sender vanishes with the last byte is up to the network; half of a credit is not.
#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_with_the_last_byte_is_credited_or_not_but_never_half() {
    let mut params = settings(&folder("faults-last-byte"), 2, 2);
    params.round.rounds = 8;
    params.round.join_seconds = 5.0;
    params.round.report_seconds = 6.0;
    // Time for the one that has hung up to come back before the next round calls it.
    params.round.pause_seconds = 1.0;
    let site = Site::open(params, PARAMETERS).await;
    let mut good = Raw::arrive(&site.url, "good").await;
    for round in 0..8 {
        let mut hasty = Raw::arrive(&site.url, "hasty").await;
        let version = good.round(round).await.model_version;
        hasty.round(round).await;
        let since = hasty.waiting_since;
        hasty.join(round).await;
        good.join(round).await;
        let parts = hasty.update(round, version, 2.0);
        let count = parts.len();
        let (seen, mut sent) = mpsc::unbounded_channel();
        let (client, mut calls) = (hasty.client, hasty.calls.clone());
        let call = tokio::spawn(async move {
            let stream = tokio_stream::iter(parts).map(move |part| {
                seen.send(()).ok();
                part
            });
            calls.report(stream).await.ok();
        });
        for _ in 0..count {
            soon("a part", sent.recv()).await.unwrap();
        }
        // From not at all to long enough: on the way somewhere in between.
        tokio::time::sleep(Duration::from_millis(round * round)).await;
        call.abort();
        drop(hasty);
        good.report(round, version, 2.0).await;
        let over =
            format!("SELECT COUNT(*) FROM rounds WHERE round = {round} AND state = 'committed'");
        site.until(&over, 1).await;
        let credited = site.outcome(round, client) == "reported";
        let expected = if credited { round as i64 + 1 } else { since };
        assert_eq!(site.waiting_since(client), expected, "round {round}");
        assert_eq!(site.value(round + 1), 2.0);
    }
    let reports = "SELECT reports - (SELECT COUNT(*) FROM joins WHERE joins.client = clients.client AND outcome = 'reported')
                   FROM clients WHERE name = 'hasty'";
    assert_eq!(site.count(reports), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_late_is_told_so_keeps_its_age_and_is_counted() {
    let mut params = settings(&folder("faults-late"), 2, 2);
    params.round.rounds = 0;
    params.round.join_seconds = 3.0;
    params.round.report_seconds = 4.0;
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["late", "good"]).await;
    for raw in &mut crowd {
        raw.round(0).await;
        raw.join(0).await;
    }
    crowd[1].report(0, 0, 5.0).await;
    crowd[1].round(1).await;
    assert_eq!(site.outcome(0, crowd[0].client), "missing");

    for attempt in 0..2 {
        let parts = crowd[0].update(0, 0, 9.0);
        let reply = crowd[0].send(parts).await.unwrap();
        assert_eq!(reply.outcome(), report_reply::Outcome::Late, "attempt {attempt}");
        assert_eq!(reply.waiting_since, 0);
        assert_eq!(site.outcome(0, crowd[0].client), "late");
        assert_eq!(site.count("SELECT late FROM rounds WHERE round = 0"), 1, "counted once");
        assert_eq!(site.count("SELECT 10 * late + missing FROM clients WHERE name = 'late'"), 10);
        assert_eq!(site.metric("agewise_reports_total{outcome=\"late\"}").await, 1.0);
    }
    assert_eq!(site.value(1), 5.0);
    let fresh = Raw::enrol(&site.url, "late").await;
    assert_eq!(fresh.waiting_since, 0);
    site.close().await;
}

/// A client that was slow between joining and fetching finds the round over. It has done nothing wrong: what it is told must not make
/// it give up (`InvalidArgument` and the like do).
#[tokio::test(flavor = "multi_thread")]
async fn who_fetches_too_late_may_come_back() {
    let mut params = settings(&folder("faults-late-fetch"), 1, 1);
    params.round.rounds = 0;
    params.round.join_seconds = 2.0;
    params.round.report_seconds = 3.0;
    let site = Site::open(params, 4).await;
    let mut raw = Raw::arrive(&site.url, "slow").await;
    raw.round(0).await;
    raw.join(0).await;
    raw.round(1).await;
    let request = raw.fetch_request(0);
    let code = raw.calls.fetch_model(request).await.err().map(|status| status.code());
    let for_good = [Code::InvalidArgument, Code::PermissionDenied, Code::Unauthenticated];
    assert!(code.is_some_and(|code| !for_good.contains(&code)), "{code:?}");
    site.close().await;
}

/// Headers in the middle, data before the header, nothing at all: an answer each time, and no trace in the round.
#[tokio::test(flavor = "multi_thread")]
async fn parts_in_a_wrong_order_are_not_an_update() {
    let mut params = settings(&folder("faults-order"), 2, 2);
    params.round.rounds = 1;
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["odd", "patient"]).await;
    for raw in &mut crowd {
        raw.round(0).await;
        raw.join(0).await;
    }
    // The round stays open for the other one.
    let [mut raw, mut patient] = <[Raw; 2]>::try_from(crowd).ok().unwrap();
    let bytes = bytes_of(&[1.0; 4]);
    let header = header_part(raw.header(0, 0, &bytes));
    for parts in [vec![], vec![data_part(&bytes)], vec![ReportPart { part: None }]] {
        assert_eq!(raw.send(parts).await.unwrap_err().code(), Code::InvalidArgument);
    }
    let twice =
        vec![header.clone(), data_part(&bytes[..8]), header.clone(), data_part(&bytes[8..])];
    assert!(raw.refused(twice).await.contains("size"));
    let nothing =
        vec![header.clone(), ReportPart { part: Some(report_part::Part::Data(Vec::new().into())) }];
    assert!(raw.refused(nothing).await.contains("size"));
    assert_eq!(site.outcome(0, raw.client), "refused");
    // One byte at a time is odd, and right.
    let bytewise = bytes.chunks(1).map(data_part);
    let parts = std::iter::once(header).chain(bytewise).collect();
    let reply = raw.send(parts).await.unwrap();
    assert_eq!(reply.outcome(), report_reply::Outcome::Accepted, "{}", reply.why);
    patient.report(0, 0, 1.0).await;
    drop((raw, patient));
    site.until_the_end().await;
}
