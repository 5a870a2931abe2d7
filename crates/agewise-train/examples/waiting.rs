//! What clients that wait and come together do to a model: the table of docs/security.md.
//!
//! 50 clients, 10 per round, 2nn on the digits. Ten clients decline for nine rounds and come in every tenth, with an update that goes
//! against what honest clients would send, as far as the adaptive bound on norms allows. Updates are combined by the coordinate median.
//! Prints, for each law, how many of them were in a cohort at most, and the accuracy before and after the worst of their rounds.
//! `cargo run --release -p agewise-train --example waiting`

use agewise_core::{
    Availability, EmptyCohort, MaxAge, PolicySpec, Report, Result, Seed, Selector, SettingParams,
    Start,
};
use agewise_train::aggregation::{
    Aggregation, AggregationParams, AggregationRule, Contribution, MaxNorm, MemoryUpdates,
    NormBound,
};
use agewise_train::data;
use agewise_train::local::{LocalTrainingParams, LocalWork};
use agewise_train::task::{PartitionKey, TrainJob};
use agewise_train::{NativeTask, Task, Threads};

const CLIENTS: u64 = 50;
const COHORT: u64 = 10;
const COLLUDERS: u32 = 10;
const ROUNDS: u64 = 60;
/// They come in every so many rounds.
const PERIOD: u64 = 10;
const SEEDS: u64 = 5;

/// What they did in one run.
struct Attack {
    /// The most of them in a cohort, and how large it was.
    most: (usize, usize),
    /// The accuracy before and after the round that cost the most of it.
    worst: (f64, f64),
    /// The accuracy in the end.
    last: f64,
}

/// The distance between two models.
fn distance(one: &[f32], other: &[f32]) -> f64 {
    let squares = one.iter().zip(other).map(|(a, b)| f64::from(a - b) * f64::from(a - b));
    squares.sum::<f64>().sqrt()
}

/// As far from the global model as this, on the other side of an honest update.
fn reversed(global: &[f32], honest: &[f32], norm: f64) -> Vec<f32> {
    let step = (norm / distance(honest, global)) as f32;
    global.iter().zip(honest).map(|(&g, &h)| g - step * (h - g)).collect()
}

fn play(task: &NativeTask, policy: &PolicySpec, seed: u64) -> Result<Attack> {
    let params = SettingParams::new(CLIENTS, COHORT, MaxAge::Auto);
    let setting = SettingParams { empty_cohort: EmptyCohort::Skip, ..params }.check()?;
    let mut selector = Selector::new(policy, setting, Seed(seed), Start::Stationary)?;
    let median = AggregationParams {
        rule: AggregationRule::Median,
        max_norm: MaxNorm::Auto,
        ..AggregationParams::default()
    };
    let mut aggregator = Aggregation::from_params(median)?.build(task.parameters())?;
    let key = PartitionKey { seed: Seed(seed), clients: CLIENTS as u32 };
    let mut global = task.initial(Seed(seed))?;
    // The same norms as the rule sees, so that they know how far they may go.
    let mut norms = NormBound::default();
    let mut before = task.evaluate_all(&global, Threads::ONE)?.accuracy();
    let mut attack = Attack { most: (0, 0), worst: (before, before), last: before };
    for round in 0..ROUNDS {
        let are_ready = round % PERIOD == PERIOD - 1;
        let mut cohort = selector.select(Availability::Everyone)?.clients;
        cohort.retain(|&client| client >= COLLUDERS || are_ready);
        let train = |client: u32| {
            let mut update = global.clone();
            task.train(&TrainJob::round(key, round, client), &mut update)?;
            Ok(update)
        };
        let mut updates = Vec::new();
        for &client in &cohort {
            // All of them send the same, so that the median is theirs if they are most of the cohort.
            let honest = train(if client < COLLUDERS { 0 } else { client })?;
            let bound = norms.bound().filter(|_| client < COLLUDERS);
            let sent = bound.map(|bound| reversed(&global, &honest, 0.99 * bound));
            updates.push(sent.unwrap_or(honest));
        }
        for update in &updates {
            norms.observe(distance(update, &global));
        }
        let members: Vec<Contribution> =
            cohort.iter().map(|&client| Contribution::new(client, 1.0)).collect();
        if !updates.is_empty() {
            let mut source = MemoryUpdates(&updates);
            aggregator.aggregate(&members, &mut source, 1 << 26, &mut global)?;
        }
        let reports: Vec<Report<'_>> = cohort.iter().map(|&client| Report::plain(client)).collect();
        selector.finish(&reports)?;
        let after = task.evaluate_all(&global, Threads::ONE)?.accuracy();
        let theirs = cohort.iter().filter(|&&client| client < COLLUDERS).count();
        if theirs > 0 && before - after > attack.worst.0 - attack.worst.1 {
            attack.worst = (before, after);
        }
        attack.most = attack.most.max((theirs, cohort.len()));
        (before, attack.last) = (after, after);
    }
    Ok(attack)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let training = LocalTrainingParams {
        work: LocalWork::Epochs(5),
        batch: 20,
        ..LocalTrainingParams::default()
    };
    let task = NativeTask::named(data::load("digits", &[])?, "2nn", training.check()?)?
        .with_partition("dirichlet:1".parse()?, "equal".parse()?);
    println!(
        "| policy | seed | most in a cohort | before the worst round | after it | in the end |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for name in ["markov-optimal", "markov-capped"] {
        let policy: PolicySpec = name.parse()?;
        for seed in 0..SEEDS {
            let Attack { most, worst, last } = play(&task, &policy, seed)?;
            println!(
                "| `{name}` | {seed} | {} of {} | {:.2} | {:.2} | {last:.2} |",
                most.0, most.1, worst.0, worst.1
            );
        }
    }
    Ok(())
}
