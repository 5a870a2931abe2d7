//! A run that was stopped and resumed is the run that was not: the same model, whatever the server remembers and however updates are combined.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod common;

use agewise_learn::aggregate::ServerRule;
use agewise_learn::combine::CombineRule;
use agewise_net::CoordinatorParams;
use common::{Running, cohorts, folder, learners, ledger, params, start_swarm};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;

const ROUNDS: u64 = 6;

fn settings(state: &Path, server: ServerRule, combine: CombineRule) -> CoordinatorParams {
    let mut params = params(state, "oldest-first", 12, 4);
    params.round.rounds = ROUNDS;
    params.round.drain_seconds = 60.0;
    params.model.name = "softmax".to_string();
    params.server = server;
    params.updates.combine = combine;
    params.updates.clip_norm = 0.5;
    params.updates.memory_mib = 1;
    params
}

/// The last model, and the server's memory if it has one.
fn last_files(state: &Path) -> Vec<Vec<u8>> {
    let read = |end: &str| fs::read(state.join(format!("models/{ROUNDS:08}.{end}")));
    ["safetensors", "server"].into_iter().filter_map(|end| read(end).ok()).collect()
}

async fn unbroken(params: CoordinatorParams) {
    let coordinator = Running::start(params, false).await;
    let (swarm, _heard) = start_swarm(&coordinator.url, learners(12, 0));
    coordinator.until_the_end().await;
    swarm.await.unwrap();
}

/// Stops the coordinator after each round and starts it again at the same address; the clients stay.
async fn stopped_and_resumed(params: CoordinatorParams) {
    let state = params.state.clone();
    let mut running = Running::start(params.clone(), false).await;
    let address = running.url.trim_start_matches("http://").to_string();
    let (swarm, _heard) = start_swarm(&running.url, learners(12, 0));
    for round in 1..ROUNDS {
        let over = "SELECT COUNT(*) FROM rounds WHERE state = 'committed'";
        while ledger(&state).query_row(over, [], |row| row.get::<_, i64>(0)).unwrap_or(0)
            < round as i64
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        running.stop.take().unwrap().send(()).ok();
        running.until_the_end().await;
        let listener = TcpListener::bind(&address).await.unwrap();
        running = Running::start_on(listener, params.clone(), true);
    }
    running.until_the_end().await;
    swarm.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_run_goes_on_to_the_same_model() {
    let momentum = ServerRule::Momentum { learning_rate: 0.8, beta: 0.5 };
    let adam = ServerRule::Adam { learning_rate: 0.01, beta1: 0.9, beta2: 0.99, tau: 0.001 };
    let cases = [
        ("mean", ServerRule::Average, CombineRule::Mean, 1),
        ("median", momentum, CombineRule::Median, 2),
        ("trimmed", adam, CombineRule::TrimmedMean, 2),
    ];
    for (name, server, combine, files) in cases {
        let whole = folder(&format!("whole-{name}"));
        unbroken(settings(&whole, server, combine)).await;
        let broken = folder(&format!("broken-{name}"));
        stopped_and_resumed(settings(&broken, server, combine)).await;
        assert_eq!(cohorts(&ledger(&whole)), cohorts(&ledger(&broken)), "{name}");
        assert_eq!(last_files(&whole).len(), files, "{name}");
        assert!(last_files(&whole) == last_files(&broken), "{name}: other models");
    }
}
