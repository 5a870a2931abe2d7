//! A client of the cohort that reports what would spoil the model: the largest numbers there are, or a model that recognises nothing.
//! With the default settings the run goes on, and the operator reads who it was.

use crate::common::folder;
use crate::common::raw_client::RawClient;
use crate::common::site::{Site, settings, soon};
use agewise_server::protocol::{Announcement, State, report_reply};
use agewise_server::test_support::Numbers;
use agewise_server::{CoordinatorParams, DeployedModelParams, MaxNorm, UpdateParams};
use agewise_train::Evaluation;
use agewise_train::aggregation::{AggregationParams, WARM_UP};
use std::path::Path;
use tokio_stream::StreamExt;
use tonic::Streaming;

const PARAMETERS: usize = 1_000;
const NAMES: [&str; 4] = ["honest-a", "honest-b", "honest-c", "poisoner"];
const POISONER: usize = 3;

/// Every client in every round, and the defaults of a deployment.
fn poisoned(state: &Path) -> CoordinatorParams {
    let mut params = settings(state, 4, 4);
    params.round.rounds = 0;
    params.round.min_reports = 0;
    params.updates = UpdateParams::default();
    params
}

type Crowd = Vec<(RawClient, Streaming<Announcement>)>;

async fn crowd(site: &Site) -> Crowd {
    let mut crowd = Vec::new();
    for name in NAMES {
        let mut client = RawClient::enrol(&site.url, name, None).await;
        let stream = client.listen().await;
        crowd.push((client, stream));
    }
    crowd
}

/// Plays a round in which all clients join and report these values; gives what the last one was told.
async fn play(crowd: &mut Crowd, round: u64, values: [f32; 4]) -> (report_reply::Outcome, String) {
    let mut version = 0;
    for (_, stream) in crowd.iter_mut() {
        let hearing = async {
            loop {
                let heard = stream.next().await.unwrap().unwrap();
                if heard.round == round && heard.state() == State::Joining {
                    return heard.model_version;
                }
            }
        };
        version = soon("the round", hearing).await;
    }
    for (client, _) in crowd.iter_mut() {
        let age = client.age(round);
        assert_eq!(client.join(round, age, &[]).await.unwrap().why, "");
    }
    let mut told = (report_reply::Outcome::Unspecified, String::new());
    for ((client, _), value) in crowd.iter_mut().zip(values) {
        let reply = client.report(round, version, value).await.unwrap();
        client.reply.waiting_since = reply.waiting_since;
        told = (reply.outcome(), reply.why);
    }
    told
}

/// In the first round nothing is known, and updates are compared with each other; after the warm-up the poisoner is refused as it reports.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_numbers_are_left_out_of_the_first_round_and_refused_in_later_ones() {
    let state = folder("attackers-poison-norm");
    let site = Site::open(poisoned(&state), PARAMETERS).await;
    let mut clients = crowd(&site).await;
    // Accepted, as nothing is known about norms yet, and left out.
    let (outcome, why) = play(&mut clients, 0, [1.0, 2.0, 3.0, f32::MAX]).await;
    assert_eq!(outcome, report_reply::Outcome::Accepted, "{why}");
    site.until("SELECT COUNT(*) FROM rounds WHERE state = 'committed'", 1).await;
    assert_eq!(site.value(1), 2.0);
    let note = site.text("SELECT note FROM rounds WHERE round = 0");
    assert!(note.contains("poisoner") && note.contains("from the global model"), "{note}");

    let warm_up = WARM_UP as u64 / 4;
    for round in 1..=warm_up {
        let base = 2.0 * round as f32;
        let honest = [base + 1.0, base + 2.0, base + 3.0];
        let (outcome, why) =
            play(&mut clients, round, [honest[0], honest[1], honest[2], f32::MAX]).await;
        let expected = if round < warm_up {
            report_reply::Outcome::Accepted
        } else {
            report_reply::Outcome::Refused
        };
        assert_eq!(outcome, expected, "round {round}: {why}");
        let over =
            format!("SELECT COUNT(*) FROM rounds WHERE round = {round} AND state = 'committed'");
        site.until(&over, 1).await;
        assert_eq!(site.value(round + 1), honest[1], "round {round}");
    }
    let refused = "SELECT COUNT(*) FROM refusals WHERE reason = 'norm' AND client = 3";
    assert_eq!(site.count(refused), 1);
    // The bound is the same after a restart: it follows from the ledger.
    drop(clients);
    site.close().await;
    let site = Site::open(poisoned(&state), PARAMETERS).await;
    let mut clients = crowd(&site).await;
    let base = 2.0 * (warm_up + 1) as f32;
    let (outcome, _) =
        play(&mut clients, warm_up + 1, [base + 1.0, base + 2.0, base + 3.0, 1e6]).await;
    assert_eq!(outcome, report_reply::Outcome::Refused);
    site.close().await;
}

/// A task whose model is good below 100, and whose loss is not a number above a million.
fn judged(parameters: usize) -> Numbers {
    Numbers::new(parameters).with_evaluation(|model| {
        let correct = if model[0] < 100.0 { 90 } else { 10 };
        let loss_sum = if model[0] < 1e6 { 50.0 } else { f64::NAN };
        let (class_samples, class_correct) = (vec![100], vec![correct]);
        Evaluation { samples: 100, loss_sum, class_samples, class_correct }
    })
}

/// Without a bound on norms, the evaluation is what is left: the model is refused, and the run goes on with the old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_collapses_is_refused_with_the_names_of_its_contributors() {
    let state = folder("attackers-poison-model");
    let mut params = poisoned(&state);
    params.updates.max_norm = MaxNorm::OFF;
    let site = Site::open_task(params.clone(), judged(PARAMETERS)).await;
    let mut clients = crowd(&site).await;
    play(&mut clients, 0, [1.0, 2.0, 3.0, 2.0]).await;
    play(&mut clients, 1, [3.0, 4.0, 5.0, 10_000.0]).await;
    play(&mut clients, 2, [3.0, 4.0, 5.0, f32::MAX]).await;
    let states = "SELECT COUNT(*) FROM rounds WHERE state = 'refused' AND reported = 4";
    site.until(states, 2).await;
    for (round, what) in [(1, "accuracy is 0.1000 after 0.9000"), (2, "loss of the model is NaN")] {
        let note = site.text(&format!("SELECT note FROM rounds WHERE round = {round}"));
        assert!(note.contains(what) && NAMES.iter().all(|name| note.contains(name)), "{note}");
    }
    assert_eq!(site.metric("agewise_rounds_total{outcome=\"refused\"}").await, 2.0);
    assert_eq!(site.metric("agewise_model_accuracy").await, 0.9);
    assert_eq!(site.count("SELECT MAX(version) FROM models"), 1);
    let status = site.status().await;
    let last = &status.history[0];
    assert_eq!((last.outcome.as_str(), last.committed), ("refused", false));
    assert!(last.note.contains(NAMES[POISONER]), "{last:?}");
    let warned = status.warnings.iter().filter(|warning| warning.contains("was refused")).count();
    assert_eq!(warned, 2, "{:?}", status.warnings);
    let page = site.get("/live").await;
    assert!(page.contains("round 2 was refused") && page.contains("model refused"), "{page}");

    // After a restart all of it is still known, and the old model is trained.
    drop(clients);
    site.close().await;
    let site = Site::open_task(params, judged(PARAMETERS)).await;
    let warnings = site.status().await.warnings;
    assert_eq!(warnings.iter().filter(|warning| warning.contains("was refused")).count(), 2);
    let mut clients = crowd(&site).await;
    play(&mut clients, 3, [3.0, 4.0, 5.0, 4.0]).await;
    site.until("SELECT COUNT(*) FROM rounds WHERE round = 3 AND state = 'committed'", 1).await;
    assert_eq!((site.count("SELECT model FROM rounds WHERE round = 3"), site.value(4)), (1, 4.0));
    site.close().await;
}

/// Two clients are invited and one reports: it is no model by itself. Of four that are aimed at, two move the model half of the way, and a
/// client that was forced a quarter.
#[tokio::test(flavor = "multi_thread")]
async fn one_client_is_never_the_model() {
    let state = folder("attackers-poison-alone");
    let mut params = poisoned(&state);
    params.aggregation = AggregationParams { full_reports: 0, ..params.aggregation };
    params.model = DeployedModelParams { keep: 100, ..params.model };
    let site = Site::open(params.clone(), PARAMETERS).await;
    let mut clients = crowd(&site).await;
    for (round, reports, expected) in [(0u64, 1, None), (1, 2, Some(4.0)), (2, 4, Some(8.0))] {
        site.until(&format!("SELECT COUNT(*) FROM rounds WHERE round = {round}"), 1).await;
        let version = site.count("SELECT MAX(version) FROM models") as u64;
        for (client, _) in &mut clients {
            let age = client.age(round);
            assert_eq!(client.join(round, age, &[]).await.unwrap().why, "");
        }
        for (client, _) in &mut clients[..reports] {
            let reply = client.report(round, version, 8.0).await.unwrap();
            assert_eq!(reply.outcome(), report_reply::Outcome::Accepted, "{}", reply.why);
            client.reply.waiting_since = reply.waiting_since;
        }
        // The round waits for nobody: the others are refused.
        for (client, _) in &mut clients[reports..] {
            let reply = client.report(round, version, f32::NAN).await.unwrap();
            assert_eq!(reply.outcome(), report_reply::Outcome::Refused, "{}", reply.why);
        }
        let over = format!(
            "SELECT COUNT(*) FROM rounds WHERE round = {round} AND state IN ('committed', 'abandoned')"
        );
        site.until(&over, 1).await;
        match expected {
            Some(expected) => assert_eq!(site.value(round + 1), expected, "round {round}"),
            None => assert_eq!(site.count("SELECT MAX(version) FROM models"), 0),
        }
    }
    drop(clients);
    site.close().await;

    // No draw wins, so that one is forced.
    let state = folder("attackers-poison-forced");
    params.state = state;
    // Nobody comes before this is over.
    params.round.join_seconds = 5.0;
    params.round.policy = "markov-custom(p=[1e-12, 1e-12])".to_string();
    let site = Site::open(params, PARAMETERS).await;
    let mut clients = crowd(&site).await;
    site.until("SELECT COUNT(*) FROM joins WHERE outcome = 'invited'", 1).await;
    let forced = site.count("SELECT client FROM joins") as usize;
    let (client, _) = &mut clients[forced];
    assert_eq!(client.join(0, client.age(0), &[]).await.unwrap().why, "");
    client.report(0, 0, 8.0).await.unwrap();
    site.until("SELECT COUNT(*) FROM rounds WHERE round = 0 AND state = 'committed'", 1).await;
    assert_eq!(site.value(1), 2.0, "a quarter of its update");
    site.close().await;
}
