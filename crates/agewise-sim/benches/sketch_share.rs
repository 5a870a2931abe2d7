//! What choosing by sketches costs, as a share of a round of training: 10,000 clients, sketches of 512 numbers.
//!
//! `cargo bench -p agewise-sim --bench sketch_share`. Choosing is select, weigh and credit, with a sketch in every report.
//! The round is a round of `agewise compare` under `random`, with its evaluation, on all cores; the same machine chooses
//! and trains, in turns.

mod made_up;

use agewise_core::{Availability, Lots, Report, Selector, Stream};
use agewise_learn::train::Crew;
use agewise_sim::study::{RunId, Study, StudyParams, TrainingRun};
use made_up::median;
use std::error::Error;
use std::time::Instant;

const CLIENTS: u64 = 10_000;
const WIDTH: usize = 512;
const POLICIES: [&str; 6] =
    ["random", "oldest-first", "age-herding", "age-herding(ahead=1)", "clustered(by=2)", "divfl"];

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this with other arguments: compiling it is enough then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let megabytes = CLIENTS as f64 * WIDTH as f64 * 4.0 / 1e6;
    println!(
        "{CLIENTS} clients with sketches of {WIDTH} numbers ({megabytes:.1} MB), 10 steps of 20 samples, {threads} \
         threads; medians of 9"
    );
    println!(
        "{:>6} {:>7}  {:<21} {:>12} {:>12} {:>8}",
        "model", "cohort", "policy", "choosing ms", "round ms", "share"
    );
    for (model, cohort, rounds) in [("2nn", 100, 5), ("2nn", 500, 3), ("cnn", 100, 1)] {
        let params = StudyParams {
            model: model.to_string(),
            clients: CLIENTS,
            cohort,
            partition: "iid".to_string(),
            policies: POLICIES.map(str::to_string).to_vec(),
            local_work: "10 steps".to_string(),
            seeds: 1,
            rounds: 1_000,
            ..StudyParams::default()
        };
        let study = Study::new(params, made_up::data(20 * CLIENTS as usize)?)?;
        let mut crew = Crew::new(study.trainer(), threads)?;
        let mut run = TrainingRun::new(&study, RunId { seed: 0, contender: 0 })?;
        let mut times = Vec::new();
        for _ in 0..rounds {
            let begin = Instant::now();
            run.play_round(&mut crew)?;
            times.push(begin.elapsed().as_secs_f64());
        }
        let round = median(&mut times);
        for (contender, name) in POLICIES.iter().enumerate() {
            let choosing = choosing(&study, contender)?;
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

/// Seconds that a policy needs in a round when everyone has a sketch.
fn choosing(study: &Study, contender: usize) -> Result<f64, Box<dyn Error>> {
    let contender = &study.contenders()[contender];
    let scene = study.scene(0)?;
    let setting = scene.setting.clone();
    let mut selector = Selector::new(&contender.spec, setting, scene.seed, contender.start)?;
    let sketches: Vec<Vec<f32>> = (0..CLIENTS).map(sketch).collect();
    let report =
        |client: u32| Report { sketch: Some(&sketches[client as usize]), ..Report::plain(client) };
    selector.note(&(0..CLIENTS as u32).map(report).collect::<Vec<_>>())?;
    let mut times = Vec::new();
    for _ in 0..9 {
        let begin = Instant::now();
        let cohort = selector.select(Availability::Everyone)?;
        let reports: Vec<Report<'_>> =
            cohort.clients.iter().map(|&client| report(client)).collect();
        selector.finish(&reports)?;
        times.push(begin.elapsed().as_secs_f64());
    }
    Ok(median(&mut times))
}

/// Clients of ten kinds, with noise of their own: like updates of clients with few labels.
fn sketch(client: u64) -> Vec<f32> {
    let kind = Lots::new(agewise_core::Seed(client % 10), Stream::custom(900), 0);
    let own = Lots::new(agewise_core::Seed(client), Stream::custom(901), 0);
    let number = |index: u64| (kind.of(index).unit() + own.of(index).unit() - 1.0) as f32;
    (0..WIDTH as u64).map(number).collect()
}
