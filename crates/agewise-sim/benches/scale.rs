//! The cost of a round from 10^4 to 10^8 clients, all metrics on. `cargo bench -p agewise-sim -- [LARGEST] [POLICY...]`.

use agewise_core::{PolicySpec, Result, Seed, SettingParams, SizeLaw, Start, find_policy};
use agewise_sim::{Run, RunSpec, calm};
use std::time::Instant;

fn main() -> Result<()> {
    let largest = std::env::args().filter_map(|arg| arg.parse::<u64>().ok()).next();
    let largest = largest.unwrap_or(10_000_000);
    let all = ["markov-optimal", "oldest-first", "random", "probabilistic", "phased"];
    let asked: Vec<String> = std::env::args().filter(|arg| all.contains(&arg.as_str())).collect();
    for policy in all.into_iter().filter(|p| asked.is_empty() || asked.iter().any(|a| a == p)) {
        let mut clients = 10_000;
        while clients <= largest {
            measure(policy, clients)?;
            clients *= 10;
        }
    }
    Ok(())
}

fn measure(policy: &str, clients: u64) -> Result<()> {
    let cohort = clients * 15 / 100;
    let rounds = (100_000_000 / clients).clamp(20, 1_000);
    let started = Instant::now();
    let mut run = Run::new(RunSpec {
        setting: SettingParams::new(clients, cohort, 10).check()?,
        size_law: SizeLaw::Equal,
        policy: PolicySpec::named(policy),
        weighting: find_policy(policy)?.weighting,
        world: calm(Seed(1)),
        start: Start::Stationary,
        rounds,
        warmup: 0,
        calibrate: false,
    })?;
    let setup = started.elapsed().as_secs_f64();
    let started = Instant::now();
    for _ in 0..rounds {
        run.play()?;
    }
    let round = started.elapsed().as_secs_f64() / rounds as f64;
    println!(
        "{policy:15} {clients:>10} clients: {:>9.3} ms per round, {:>6.2} ns per selected client, setup {setup:.2} s",
        round * 1e3,
        round * 1e9 / cohort as f64
    );
    Ok(())
}
