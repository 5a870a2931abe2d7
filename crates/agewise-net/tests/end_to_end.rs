//! The deployment does what the simulator does: the same cohorts and, to the last bit, the same model.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod common;

use agewise_learn::model::{Model, ModelSpec};
use agewise_learn::train::{Crew, Learner, Trainer};
use agewise_sim::study::{RunId, Study, StudyParams, TrainingRun};
use common::{Running, cohorts, digits, folder, learners, ledger, params, start_swarm};
use std::fs;

/// The same run in the simulator: its cohorts, its last model and its accuracy.
fn simulated(policy: &str, clients: u64, cohort: u64, rounds: u64) -> (Vec<Vec<u32>>, Vec<f32>, f64) {
    let params = StudyParams {
        policies: vec![policy.to_string()],
        baseline: policy.to_string(),
        clients,
        cohort,
        rounds,
        targets: vec![],
        seeds: 1,
        ..StudyParams::default()
    };
    let study = Study::new(params, digits()).unwrap();
    let mut run = TrainingRun::new(&study, RunId { contender: 0, seed: 0 }).unwrap();
    let mut crew = Crew::new(study.trainer(), 2).unwrap();
    while !run.is_finished() {
        run.play_round(&mut crew).unwrap();
    }
    let cohorts = run.logs().iter().map(|log| log.clients.clone()).collect();
    let test = run.logs().last().unwrap().test.clone().unwrap();
    let accuracy = test.accuracy(&study.test_counts()).unwrap();
    (cohorts, run.global().to_vec(), accuracy)
}

async fn deployed_like_simulated(policy: &str, clients: u64, cohort: u64, rounds: u64, join_seconds: f64) {
    let state = folder(&format!("like-{policy}"));
    let mut params = params(&state, policy, clients, cohort);
    params.round.rounds = rounds;
    params.round.join_seconds = join_seconds;
    let coordinator = Running::start(params, false).await;
    let (swarm, _heard) = start_swarm(&coordinator.url, learners(clients, 0));
    coordinator.until_the_end().await;
    swarm.await.unwrap();

    let (expected, model, accuracy) = simulated(policy, clients, cohort, rounds);
    let ledger = ledger(&state);
    assert_eq!(cohorts(&ledger), expected);
    let file = fs::read(state.join(format!("models/{rounds:08}.safetensors"))).unwrap();
    let dataset = digits();
    let spec = ModelSpec::named("2nn", dataset.train.shape(), 10).unwrap();
    let trainer = Trainer::new(Model::new(spec).unwrap());
    assert_eq!(trainer.parameters(), model.len());
    assert_eq!(trainer.model().from_safetensors(&file).unwrap(), model);
    let query = "SELECT accuracy FROM rounds ORDER BY round DESC LIMIT 1";
    let found: f64 = ledger.query_row(query, [], |row| row.get(0)).unwrap();
    assert_eq!(found, accuracy);
}

/// The coordinator chooses, and goes on as soon as everyone has come: no time plays a part.
#[tokio::test(flavor = "multi_thread")]
async fn policies_of_the_coordinator_give_the_model_of_the_simulator() {
    for policy in ["oldest-first", "random", "probabilistic", "round-robin"] {
        deployed_like_simulated(policy, 20, 5, 4, 60.0).await;
    }
}

/// Clients decide: 1.5 seconds are enough for all of them to say so, also on a busy machine.
#[tokio::test(flavor = "multi_thread")]
async fn policies_of_the_clients_give_the_model_of_the_simulator() {
    for policy in ["markov-optimal", "markov-linear", "phased"] {
        deployed_like_simulated(policy, 20, 5, 4, 1.5).await;
    }
}
