//! Updates that are wrong in every way: refused with the reason, counted, and without a trace in the model.

use crate::common::folder;
use crate::common::site::{Site, bytes_of, settings};
use crate::faults::raw::{Raw, data_part, header_part, parts_of};
use agewise_server::MaxNorm;
use agewise_server::protocol::{ReportHeader, ReportPart, join_reply};
use agewise_train::aggregation::ServerRule;
use std::path::Path;

/// Above 256 KiB in bytes, so that a chunk can be too large and the update still have the right size.
const PARAMETERS: usize = 300_000;
const MAX_NORM: f64 = 1e4;
const GOOD: [f32; 3] = [1.0, -2.0, 4.5];

async fn site(state: &Path) -> (Site, Vec<Raw>) {
    // Four clients of which a round wants three.
    let mut params = settings(state, 4, 3);
    params.round.rounds = 1;
    params.updates.max_norm = MaxNorm::Fixed(MAX_NORM);
    let site = Site::open(params, PARAMETERS).await;
    let mut crowd = Raw::crowd(&site.url, &["a", "b", "c", "d"]).await;
    let mut inside = Vec::new();
    let mut outside = Vec::new();
    for mut raw in crowd.drain(..) {
        let invited = raw.round(0).await.invited;
        if invited { inside.push(raw) } else { outside.push(raw) }
    }
    assert_eq!((inside.len(), outside.len()), (3, 1));
    inside.append(&mut outside);
    (site, inside)
}

/// Everything that can be wrong with an update, with the word under which it is counted.
fn wrong_updates(raw: &Raw) -> Vec<(&'static str, Vec<ReportPart>)> {
    let good = bytes_of(&vec![GOOD[0]; PARAMETERS]);
    let honest = raw.header(0, 0, &good);
    let claim = |change: &dyn Fn(&mut ReportHeader)| {
        let mut header = honest.clone();
        change(&mut header);
        parts_of(header, &good)
    };
    let send = |values: Vec<f32>| {
        let bytes = bytes_of(&values);
        let header = ReportHeader { parameters: PARAMETERS as u64, ..raw.header(0, 0, &bytes) };
        parts_of(header, &bytes)
    };
    let with = |value: f32| {
        let mut values = vec![GOOD[0]; PARAMETERS];
        values[PARAMETERS - 1] = value;
        values
    };
    let far = (2.0 * MAX_NORM / (PARAMETERS as f64).sqrt()) as f32;
    // As large as the largest message that is read at all: 256 KiB and what may be around it.
    let large = vec![header_part(honest.clone()), data_part(&good[..(256 << 10) + 1024])];
    vec![
        ("shape", claim(&|header| header.parameters -= 1)),
        ("shape", claim(&|header| header.parameters = u64::MAX)),
        ("size", send(vec![1.0; PARAMETERS - 1])),
        ("size", send(vec![1.0; PARAMETERS + 1])),
        ("size", vec![header_part(honest.clone())]),
        ("size", large),
        ("not-finite", send(with(f32::NAN))),
        ("not-finite", send(with(f32::INFINITY))),
        ("not-finite", send(with(f32::NEG_INFINITY))),
        ("not-finite", claim(&|header| header.loss = f64::NAN)),
        ("not-finite", claim(&|header| header.seconds = f64::INFINITY)),
        ("not-finite", claim(&|header| header.seconds = -1.0)),
        ("norm", send(vec![far; PARAMETERS])),
        ("norm", send(with(f32::MAX))),
        ("checksum", claim(&|header| header.sha256[31] ^= 1)),
        ("checksum", claim(&|header| header.sha256.truncate(31))),
        ("checksum", claim(&|header| header.sha256.clear())),
        ("version", claim(&|header| header.model_version = 1)),
        ("round", claim(&|header| header.round = 1)),
        ("round", claim(&|header| header.round = u64::MAX)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_updates_are_refused_counted_and_without_effect() {
    let (clean, mut crowd) = site(&folder("faults-updates-clean")).await;
    for (raw, value) in crowd.iter_mut().zip(GOOD) {
        raw.join(0).await;
        raw.report(0, 0, value).await;
    }
    let expected = clean.model(1);
    drop(crowd);
    clean.until_the_end().await;

    let (site, mut crowd) = site(&folder("faults-updates")).await;
    let mut outsider = crowd.pop().unwrap();
    let joined = outsider.ask_to_join(0).await;
    assert_eq!(joined.outcome(), join_reply::Outcome::Refused);
    assert!(joined.why.contains("not-invited"), "{}", joined.why);
    assert!(outsider.refused(outsider.update(0, 0, 9.0)).await.contains("cohort"));
    // Called, and not come yet: not in the cohort either.
    let early = crowd[2].update(0, 0, 9.0);
    assert!(crowd[2].refused(early).await.contains("cohort"));

    let hostile = &mut crowd[0];
    hostile.join(0).await;
    let wrong = wrong_updates(hostile);
    for (at, (reason, parts)) in wrong.iter().enumerate() {
        let why = hostile.refused(parts.clone()).await;
        assert!(why.contains(reason), "{at}: {why}, expected {reason}");
    }
    assert_eq!(site.outcome(0, hostile.client), "refused", "it may still do better");
    hostile.report(0, 0, GOOD[0]).await;
    // The same again is no second report, and another one is none either.
    hostile.report(0, 0, GOOD[0]).await;
    hostile.waiting_since = 1;
    let other = hostile.update(0, 0, GOOD[0] + 1.0);
    assert!(hostile.refused(other).await.contains("twice"));
    let hostile = hostile.client;

    for reason in ["shape", "size", "not-finite", "norm", "checksum", "version", "round"] {
        let sent = wrong.iter().filter(|(counted, _)| *counted == reason).count();
        let query = format!(
            "SELECT SUM(count) FROM refusals WHERE reason = '{reason}' AND client = {hostile}"
        );
        assert_eq!(site.count(&query), sent as i64, "{reason}");
        let metric = format!("agewise_refusals_total{{reason=\"{reason}\"}}");
        assert_eq!(site.metric(&metric).await, sent as f64, "{reason}");
    }
    let all = wrong.len() as i64 + 1;
    let query = format!("SELECT refused FROM clients WHERE client = {hostile}");
    assert_eq!(site.count(&query), all);
    assert_eq!(site.count("SELECT refused FROM rounds WHERE round = 0"), all + 3);
    assert_eq!(site.count("SELECT COUNT(*) FROM refusals WHERE round > 0"), 0);
    let refused = site.metric("agewise_reports_total{outcome=\"refused\"}").await;
    assert_eq!(refused, (all + 2) as f64);
    assert_eq!(site.metric("agewise_reports_total{outcome=\"accepted\"}").await, 1.0);

    for (raw, value) in crowd.iter_mut().zip(GOOD).skip(1) {
        raw.join(0).await;
        raw.report(0, 0, value).await;
    }
    site.until("SELECT COUNT(*) FROM rounds WHERE state = 'committed'", 1).await;
    assert!(site.model(1) == expected, "the same model as without them");
    let reported = "SELECT reported FROM rounds WHERE round = 0";
    assert_eq!(site.count(reported), 3);
    assert_eq!(site.count("SELECT SUM(reports) FROM clients"), 3);
    drop((crowd, outsider));
    site.until_the_end().await;
}

/// A message that is too large to be read at all must not harm anyone either.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_beyond_all_bounds_harms_nobody() {
    let mut params = settings(&folder("faults-huge"), 2, 2);
    params.round.rounds = 1;
    let site = Site::open(params, 4).await;
    let mut crowd = Raw::crowd(&site.url, &["huge", "good"]).await;
    for raw in &mut crowd {
        raw.round(0).await;
        raw.join(0).await;
    }
    let header = crowd[0].header(0, 0, &bytes_of(&[1.0; 4]));
    let huge = vec![header_part(header), data_part(&vec![0; 8 << 20])];
    assert!(crowd[0].send(huge).await.is_err());
    assert_eq!(site.outcome(0, crowd[0].client), "selected");
    crowd[0].report(0, 0, 1.0).await;
    crowd[1].report(0, 0, 3.0).await;
    drop(crowd);
    site.until("SELECT COUNT(*) FROM rounds WHERE state = 'committed'", 1).await;
    assert_eq!(site.value(1), 2.0);
    site.until_the_end().await;
}

/// Plays a round in which all updates are the largest number there is: finite, and accepted if no bound is set. Whatever comes of them,
/// the round has to end, with a model that is finite.
async fn largest_numbers(name: &str, cohort: u64, server: ServerRule) {
    let mut params = settings(&folder(&format!("faults-largest-{name}")), cohort, cohort);
    params.round.rounds = 0;
    params.aggregation.server = server;
    let site = Site::open(params, 4).await;
    let names: Vec<String> = (0..cohort).map(|client| format!("c{client}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut crowd = Raw::crowd(&site.url, &names).await;
    for raw in &mut crowd {
        raw.round(0).await;
        raw.join(0).await;
    }
    for raw in &mut crowd {
        let parts = raw.update(0, 0, f32::MAX);
        raw.send(parts).await.unwrap();
    }
    let over = "SELECT COUNT(*) FROM rounds WHERE round = 0 AND state IN ('committed', 'abandoned', 'refused')";
    site.until(over, 1).await;
    let newest = site.count("SELECT MAX(version) FROM models") as u64;
    let model = site.model(newest);
    assert!(model.iter().all(|value| value.is_finite()), "{name}: {model:?}");
    site.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_numbers_do_not_stall_a_run() {
    for cohort in [2, 3, 7] {
        largest_numbers(&cohort.to_string(), cohort, ServerRule::Average).await;
    }
}

/// A server that goes further than the mean goes beyond what a float can hold.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_numbers_do_not_spoil_the_model_of_a_server_with_momentum() {
    let server = ServerRule::Momentum { learning_rate: 2.0, beta: 0.9 };
    largest_numbers("momentum", 2, server).await;
}
