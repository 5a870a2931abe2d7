//! A rule of aggregation of one's own in a deployment: its updates come from files, its memory survives a restart, and a
//! run does not go on under another rule.

use crate::common::site::eventually;
use crate::common::{Running, coordinator, folder, ledger, params, start_swarm, tasks};
use agewise_core::Result;
use agewise_server::{CoordinatorConfig, CoordinatorParams};
use agewise_train::aggregation::{
    Aggregation, Aggregator, AggregatorState, Contribution, UpdateSource, Verdict,
};
use std::fs;
use std::path::Path;
use tokio::net::TcpListener;

const ROUNDS: u64 = 8;

/// The mean of a cohort and of the cohort before it.
#[derive(Debug)]
struct TwoCohorts {
    last: Vec<f32>,
}

impl Aggregator for TwoCohorts {
    fn aggregate(
        &mut self,
        cohort: &[Contribution],
        updates: &mut dyn UpdateSource,
        _memory: usize,
        global: &mut [f32],
    ) -> Result<Vec<Verdict>> {
        let mut mean = vec![0.0; global.len()];
        let mut update = vec![0.0; global.len()];
        for member in 0..cohort.len() {
            updates.read(member, 0, &mut update)?;
            let pairs = mean.iter_mut().zip(&update);
            pairs.for_each(|(sum, value)| *sum += value / cohort.len() as f32);
        }
        let pairs = global.iter_mut().zip(&mean).zip(&self.last);
        pairs.for_each(|((global, now), before)| *global = f32::midpoint(*now, *before));
        self.last = mean;
        Ok(vec![Ok(()); cohort.len()])
    }

    fn state(&self) -> Vec<(&'static str, &[f32])> {
        vec![("last", &self.last)]
    }

    fn load_state(&mut self, state: AggregatorState) -> Result<()> {
        self.last = state.into_iter().map(|(_, values)| values).next().unwrap_or_default();
        Ok(())
    }
}

fn settings(state: &Path) -> CoordinatorParams {
    let mut params = params(state, "oldest-first", 8, 4);
    params.round.rounds = ROUNDS;
    params.round.drain_seconds = 60.0;
    // Time to stop the run before it has ended.
    params.round.pause_seconds = 0.5;
    params.model.name = "softmax".to_string();
    params
}

fn config(state: &Path) -> CoordinatorConfig {
    let own = |parameters| -> Result<Box<dyn Aggregator>> {
        Ok(Box::new(TwoCohorts { last: vec![0.0; parameters] }))
    };
    settings(state).check().unwrap().with_aggregation(Aggregation::new("two-cohorts", own))
}

/// Plays the run to its end, stopped and started again after so many rounds.
async fn run(state: &Path, stops: &[i64]) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut running = Running::serve(listener, coordinator(config(state)));
    let (swarm, _heard) = start_swarm(&running.url, tasks(8, 0));
    for &rounds in stops {
        let committed = "SELECT COUNT(*) FROM rounds WHERE state = 'committed'";
        let is_over = async || {
            let found = ledger(state).query_row(committed, [], |row| row.get::<_, i64>(0));
            found.is_ok_and(|found| found >= rounds)
        };
        eventually("a round", is_over).await;
        let stop = running.stop.take().unwrap();
        assert!(stop.send(()).is_ok(), "the run ended before it was stopped");
        running.until_the_end().await;
        let listener = TcpListener::bind(address).await.unwrap();
        running = Running::serve(listener, coordinator(config(state)).resuming());
    }
    running.until_the_end().await;
    swarm.await.unwrap();
    fs::read(state.join(format!("models/{ROUNDS:08}.safetensors"))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_of_ones_own_is_resumed_with_its_memory() {
    let (whole, broken) = (folder("own-rule"), folder("own-rule-broken"));
    let model = run(&whole, &[]).await;
    assert!(model == run(&broken, &[1, 3]).await, "other models");
    for text in [&b"\"server.last\""[..], b"\"two-cohorts\""] {
        assert!(model.windows(text.len()).any(|bytes| bytes == text), "{text:?}");
    }
    let query = "SELECT value FROM run WHERE key = 'aggregation'";
    let fact: Vec<u8> = ledger(&broken).query_row(query, [], |row| row.get(0)).unwrap();
    assert_eq!(fact, b"two-cohorts");
    // The built-in mean does not go on where it left off.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = coordinator(settings(&broken).check().unwrap()).resuming();
    let error = Running::serve(listener, other).ended.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("aggregation") && error.contains("two-cohorts"), "{error}");
}
