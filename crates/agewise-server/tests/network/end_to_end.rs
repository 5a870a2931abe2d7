//! The deployment does what the simulator does: the same cohorts and, to the last bit, the same model.

use crate::common::{Running, cohorts, digits, folder, ledger, params, start_swarm, tasks};
use agewise_experiment::{Experiment, ExperimentParams, RunId, TrainingParams, TrainingRun};
use agewise_server::protocol::{Announcement, BackOff, Commitment, State};
use agewise_train::Threads;
use agewise_train::checkpoint::read_model;
use agewise_train::model::{Model, ModelSpec};
use std::fs;
use std::path::Path;

/// The same run in the simulator: its cohorts, its last model and its accuracy.
fn simulated(
    policy: &str,
    clients: u64,
    cohort: u64,
    rounds: u64,
) -> (Vec<Vec<u32>>, Vec<f32>, f64) {
    let params = ExperimentParams {
        policies: vec![policy.to_string()],
        clients,
        cohort,
        rounds,
        seeds: 1,
        training: Some(TrainingParams { targets: vec![], ..TrainingParams::default() }),
        ..ExperimentParams::comparison()
    };
    let experiment = Experiment::with_data(params, digits()).unwrap();
    let mut run = TrainingRun::new(&experiment, RunId { variant: 0, seed: 0 }).unwrap();
    while !run.is_finished() {
        run.play_round(Threads::new(2).unwrap()).unwrap();
    }
    let cohorts = run.logs().iter().map(|log| log.clients.clone()).collect();
    let test = run.logs().last().unwrap().test.clone().unwrap();
    let accuracy = test.accuracy().unwrap();
    (cohorts, run.global().to_vec(), accuracy)
}

async fn deployed_like_simulated(
    policy: &str,
    clients: u64,
    cohort: u64,
    rounds: u64,
    join_seconds: f64,
) {
    let state = folder(&format!("like-{policy}-{clients}"));
    let mut params = params(&state, policy, clients, cohort);
    params.round.rounds = rounds;
    params.round.join_seconds = join_seconds;
    let coordinator = Running::start(params, false).await;
    let (swarm, _heard) = start_swarm(&coordinator.url, tasks(clients, 0));
    coordinator.until_the_end().await;
    swarm.await.unwrap();

    let (expected, model, accuracy) = simulated(policy, clients, cohort, rounds);
    let ledger = ledger(&state);
    assert_eq!(cohorts(&ledger), expected);
    let file = fs::read(state.join(format!("models/{rounds:08}.safetensors"))).unwrap();
    let dataset = digits();
    let spec = ModelSpec::named("2nn", dataset.train.shape(), 10).unwrap();
    let tensors = Model::new(spec).unwrap().tensors().to_vec();
    assert_eq!(read_model(&file, &tensors).unwrap(), model);
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

/// Policies that look at sketches of updates and at losses: with n/m = 4 they have seen half of the clients after two rounds, and all of
/// them after four, so the later cohorts follow from the coordinator's own sketches. No client is probed, as none is in a deployment.
#[tokio::test(flavor = "multi_thread")]
async fn policies_that_look_at_updates_give_the_model_of_the_simulator() {
    let policies = [
        "age-herding(probe=0)",
        "age-herding(probe=0, ahead=1)",
        "clustered(by=2)",
        "divfl(probe=0)",
        "active(whole=0)",
    ];
    for policy in policies {
        deployed_like_simulated(policy, 20, 5, 9, 60.0).await;
    }
}

/// Clients decide: 1.5 seconds are enough for all of them to say so, also on a busy machine.
#[tokio::test(flavor = "multi_thread")]
async fn policies_of_the_clients_give_the_model_of_the_simulator() {
    for policy in ["markov-optimal", "markov-linear", "phased"] {
        deployed_like_simulated(policy, 20, 5, 4, 1.5).await;
    }
}

/// The run of the paper's size: the accuracy of the simulator (to the last bit, as the cohorts are the same), and intervals and cohorts as
/// theory says. All X are 6 or 7, as n/m = 6.67; of about 450 of them a third is 6, with a standard error of 0.022; the mean of 30 cohorts
/// has a standard error of 0.65 around 15. Four standard errors are allowed.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_clients_follow_theory_and_reach_the_accuracy_of_the_simulator() {
    deployed_like_simulated("markov-optimal", 100, 15, 30, 1.5).await;
    let ledger = ledger(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("like-markov-optimal-100"));
    let mut query = ledger
        .prepare("SELECT age + 1 FROM joins WHERE outcome = 'reported' AND round > 6")
        .unwrap();
    let intervals = query.query_map([], |row| row.get(0)).unwrap();
    let intervals = intervals.collect::<Result<Vec<u32>, _>>().unwrap();
    assert!(intervals.iter().all(|interval| [6, 7].contains(interval)), "{intervals:?}");
    let sixes = intervals.iter().filter(|&&interval| interval == 6).count();
    let share = sixes as f64 / intervals.len() as f64;
    assert!((share - 1.0 / 3.0).abs() < 4.0 * 0.025, "{share}");
    let mean: f64 =
        ledger.query_row("SELECT AVG(reported) FROM rounds", [], |row| row.get(0)).unwrap();
    assert!((mean - 15.0).abs() < 4.0 * 0.65, "{mean}");
    let query =
        "SELECT SUM(late), SUM(refused), SUM(selected - reported), MIN(available) FROM rounds";
    let sums: [i64; 4] = ledger
        .query_row(query, [], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))
        .unwrap();
    assert_eq!(sums, [0, 0, 0, 100]);
}

/// The coordinator is not told that there are twice as many clients: it infers that from the reports. With 40 clients and m = 5 the interval
/// that gives 5 reports is 8, and it is published within 15% after 60 rounds.
#[tokio::test(flavor = "multi_thread")]
async fn calibration_finds_the_population() {
    let state = folder("calibrated");
    let mut params = params(&state, "markov-optimal", 20, 5);
    params.round.rounds = 60;
    params.round.join_seconds = 0.5;
    params.round.calibrate = Some(true);
    params.model.name = "softmax".to_string();
    let coordinator = Running::start(params, false).await;
    let (swarm, _heard) = start_swarm(&coordinator.url, tasks(40, 0));
    coordinator.until_the_end().await;
    swarm.await.unwrap();
    let query = "SELECT AVG(interval) FROM rounds WHERE round >= 50";
    let interval: f64 = ledger(&state).query_row(query, [], |row| row.get(0)).unwrap();
    assert!((interval / 8.0 - 1.0).abs() < 0.15, "{interval}");
}

/// An announcement is small, whatever it says.
#[test]
fn announcements_are_under_a_kilobyte() {
    let largest = Announcement {
        run: vec![255; 16],
        state: State::Training.into(),
        round: u64::MAX,
        seed: u64::MAX,
        clients: u32::MAX,
        cohort: u32::MAX,
        interval: f64::MAX,
        model_version: u64::MAX,
        model_sha256: vec![255; 32],
        join_millis: u32::MAX,
        report_millis: u32::MAX,
        invited: true,
        round_seed: vec![255; 32],
        seeds: Some(Commitment {
            chain: u64::MAX,
            anchor: vec![255; 32],
            next_anchor: vec![255; 32],
        }),
        back_off: Some(BackOff {
            failures: u32::MAX,
            eligible_from: u64::MAX,
            suspended: "x".repeat(100),
        }),
    };
    assert!(prost::Message::encoded_len(&largest) < 1_024);
}
