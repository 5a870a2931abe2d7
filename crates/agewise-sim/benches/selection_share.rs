//! What choosing clients costs, as a share of a round of training, with 100,000 clients.
//!
//! `cargo bench -p agewise-sim --bench selection_share`. Choosing is everything that a policy and the bookkeeping of ages
//! do in a round: select, weigh, credit. The round is a round of `agewise compare`, with its evaluation, on all cores.

mod made_up;

use agewise_learn::train::Crew;
use agewise_sim::study::{Study, StudyParams};
use std::error::Error;

const CLIENTS: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this with other arguments: compiling it is enough then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let policies =
        ["random", "probabilistic", "markov-optimal", "markov-linear", "oldest-first", "phased"];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{CLIENTS} clients, 5 steps of 20 samples, {threads} threads; medians of 15 rounds");
    println!(
        "{:>6} {:>7}  {:<16} {:>12} {:>12} {:>8}",
        "model", "cohort", "policy", "choosing ms", "round ms", "share"
    );
    for (model, cohort) in [("2nn", 100), ("2nn", 1_000), ("cnn", 100)] {
        let params = StudyParams {
            model: model.to_string(),
            clients: CLIENTS,
            cohort,
            partition: "iid".to_string(),
            policies: policies.map(str::to_string).to_vec(),
            seeds: 1,
            rounds: 1_000,
            ..StudyParams::default()
        };
        let study = Study::new(params, made_up::data(2 * CLIENTS as usize)?)?;
        let mut crew = Crew::new(study.trainer(), threads)?;
        let rounds = if model == "cnn" { 2 } else { 8 };
        for (contender, name) in policies.iter().enumerate() {
            let choosing = made_up::choosing(&study, contender, 15, &[])?;
            let round = made_up::training(&study, &mut crew, contender, rounds)?;
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
