//! The cost of a round with all metrics on, 15% of the clients being selected.
//!
//! `cargo bench -p agewise-experiment -- [LARGEST] [POLICY...]` goes from 10^4 clients to LARGEST (10^7 unless told).
//! `cargo bench -p agewise-experiment -- --clients N --rounds R [POLICY...]` plays one size and prints a line
//! "policy seconds_per_round" for each policy, for `bench/selection/run`.

use agewise_core::{PolicyVariant, Result, Seed, SettingParams, SizeDistribution, Start};
use agewise_experiment::{SelectionRun, SelectionSpec, World};
use std::time::Instant;

const POLICIES: [&str; 5] = ["markov-optimal", "oldest-first", "random", "probabilistic", "phased"];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let mut policies: Vec<&str> =
        POLICIES.into_iter().filter(|policy| arguments.iter().any(|a| a == policy)).collect();
    if policies.is_empty() {
        policies = POLICIES.to_vec();
    }
    if let Some(clients) = option("--clients") {
        let rounds = option("--rounds").unwrap_or(200);
        for policy in policies {
            println!("{policy} {}", measure(policy, clients, rounds)?.round);
        }
        return Ok(());
    }
    let largest = arguments.iter().find_map(|argument| argument.parse().ok());
    let sizes = (4..).map(|power| 10u64.pow(power));
    let sizes: Vec<u64> = sizes.take_while(|size| *size <= largest.unwrap_or(10_000_000)).collect();
    for policy in policies {
        for &clients in &sizes {
            let rounds = option("--rounds").unwrap_or((100_000_000 / clients).clamp(20, 2_000));
            let cost = measure(policy, clients, rounds)?;
            println!(
                "{policy:15} {clients:>10} clients: {:>9.3} ms per round, {:>6.2} ns per selected client, \
                 setup {:.2} s, peak memory so far {}",
                cost.round * 1e3,
                cost.round * 1e9 / cohort(clients) as f64,
                cost.setup,
                peak_memory()
            );
        }
    }
    Ok(())
}

fn cohort(clients: u64) -> u64 {
    clients * 15 / 100
}

/// Seconds for preparing a run, and for each of its rounds.
struct Cost {
    setup: f64,
    round: f64,
}

fn measure(policy: &str, clients: u64, rounds: u64) -> Result<Cost> {
    let started = Instant::now();
    let mut run = SelectionRun::new(SelectionSpec {
        setting: SettingParams::new(clients, cohort(clients), 10).check()?,
        size_distribution: SizeDistribution::Equal,
        policy: PolicyVariant::parse(policy, Start::Stationary, None)?,
        world: World::calm(Seed(1)),
        rounds,
        warmup: 0,
        calibrate: false,
    })?;
    let setup = started.elapsed().as_secs_f64();
    let started = Instant::now();
    run.play_on(|_| true)?;
    Ok(Cost { setup, round: started.elapsed().as_secs_f64() / rounds as f64 })
}

/// The most memory that the process has had, as Linux knows it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or_else(|| "unknown".to_string(), |peak| peak.trim().to_string())
}
