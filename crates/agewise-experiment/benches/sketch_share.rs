//! What choosing by sketches costs, as a share of a round of training: 10,000 clients, sketches of 512 numbers.
//!
//! `cargo bench -p agewise-experiment --bench sketch_share`. Choosing is select, weigh and credit, with a sketch in every report.
//! The round is a round of `agewise compare` under `random`, with its evaluation, on all cores; the same machine chooses
//! and trains, in turns.

mod made_up;

use agewise_core::{Draws, Seed, Stream};
use agewise_experiment::{Experiment, ExperimentParams, TrainingParams};
use agewise_train::Threads;
use std::error::Error;

const CLIENTS: u64 = 10_000;
const WIDTH: usize = 512;
const POLICIES: [&str; 6] =
    ["random", "oldest-first", "age-herding", "age-herding(ahead=1)", "clustered(by=2)", "divfl"];

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this with other arguments: compiling it is enough then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let threads = Threads::default();
    let megabytes = CLIENTS as f64 * WIDTH as f64 * 4.0 / 1e6;
    println!(
        "{CLIENTS} clients with sketches of {WIDTH} numbers ({megabytes:.1} MB), 10 steps of 20 samples, {} \
         threads; medians of 9",
        threads.count()
    );
    println!(
        "{:>6} {:>7}  {:<21} {:>12} {:>12} {:>8}",
        "model", "cohort", "policy", "choosing ms", "round ms", "share"
    );
    let sketches: Vec<Vec<f32>> = (0..CLIENTS).map(sketch).collect();
    for (model, cohort, rounds) in [("2nn", 100, 5), ("2nn", 500, 3), ("cnn", 100, 1)] {
        let training = TrainingParams {
            model: model.to_string(),
            partition: "iid".to_string(),
            local_work: "10 steps".to_string(),
            ..TrainingParams::default()
        };
        let params = ExperimentParams {
            clients: CLIENTS,
            cohort,
            policies: POLICIES.map(str::to_string).to_vec(),
            seeds: 1,
            rounds: 1_000,
            training: Some(training),
            ..ExperimentParams::comparison()
        };
        let experiment = Experiment::with_data(params, made_up::data(20 * CLIENTS as usize)?)?;
        let round = made_up::training(&experiment, threads, 0, rounds)?;
        for (variant, name) in POLICIES.iter().enumerate() {
            let choosing = made_up::choosing(&experiment, variant, 9, &sketches)?;
            println!(
                "{model:>6} {cohort:>7}  {name:<21} {:>12.3} {:>12.1} {:>7.2}%",
                1e3 * choosing,
                1e3 * round,
                100.0 * choosing / round
            );
        }
    }
    Ok(())
}

/// Clients of ten kinds, with noise of their own: like updates of clients with few labels.
fn sketch(client: u64) -> Vec<f32> {
    let kind = Draws::new(Seed(client % 10), Stream::custom(900), 0);
    let own = Draws::new(Seed(client), Stream::custom(901), 0);
    let number = |index: u64| (kind.of(index).unit() + own.of(index).unit() - 1.0) as f32;
    (0..WIDTH as u64).map(number).collect()
}
