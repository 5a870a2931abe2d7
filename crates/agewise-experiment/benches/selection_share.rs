//! What choosing clients costs, as a share of a round of training, with 100,000 clients.
//!
//! `cargo bench -p agewise-experiment --bench selection_share`. Choosing is everything that a policy and the bookkeeping of ages
//! do in a round: select, weigh, credit. The round is a round of `agewise compare`, with its evaluation, on all cores.

mod made_up;

use agewise_experiment::{Experiment, ExperimentParams, TrainingParams};
use agewise_train::Threads;
use std::error::Error;

const CLIENTS: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this with other arguments: compiling it is enough then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let policies =
        ["random", "probabilistic", "markov-optimal", "markov-linear", "oldest-first", "phased"];
    let threads = Threads::default();
    let count = threads.count();
    println!("{CLIENTS} clients, 5 steps of 20 samples, {count} threads; medians of 15 rounds");
    println!(
        "{:>6} {:>7}  {:<16} {:>12} {:>12} {:>8}",
        "model", "cohort", "policy", "choosing ms", "round ms", "share"
    );
    for (model, cohort) in [("2nn", 100), ("2nn", 1_000), ("cnn", 100)] {
        let training = TrainingParams {
            model: model.to_string(),
            partition: "iid".to_string(),
            ..TrainingParams::default()
        };
        let params = ExperimentParams {
            clients: CLIENTS,
            cohort,
            policies: policies.map(str::to_string).to_vec(),
            seeds: 1,
            rounds: 1_000,
            training: Some(training),
            ..ExperimentParams::comparison()
        };
        let experiment = Experiment::with_data(params, made_up::data(2 * CLIENTS as usize)?)?;
        let rounds = if model == "cnn" { 2 } else { 8 };
        for (variant, name) in policies.iter().enumerate() {
            let choosing = made_up::choosing(&experiment, variant, 15, &[])?;
            let round = made_up::training(&experiment, threads, variant, rounds)?;
            println!(
                "{model:>6} {cohort:>7}  {name:<16} {:>12.3} {:>12.1} {:>7.3}%",
                1e3 * choosing,
                1e3 * round,
                100.0 * choosing / round
            );
        }
    }
    Ok(())
}
