//! What the core costs. Run with `cargo bench -p agewise-core`; figures go to docs/performance.md.
//!
//! Each figure is the best of several runs, and ratios compare things measured in the same process: the
//! machines this runs on are shared and noisy.

#![allow(clippy::disallowed_methods, reason = "no result comes of it")]

use agewise_core::theory::subset_weights::random_sigma;
use agewise_core::{
    Availability, POLICIES, PolicySpec, Report, Seed, Selector, SettingParams, SizeDistribution,
    Sizes, Start, build_policy, find_policy,
};
use std::hint::black_box;
use std::time::Instant;

type Outcome = Result<(), agewise_core::Error>;

/// The shortest of `runs` times, in seconds.
fn best(runs: u32, mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(time).fold(f64::INFINITY, f64::min)
}

fn main() -> Outcome {
    theorem_3()?;
    theory_of_a_billion()?;
    selection()
}

fn theorem_3() -> Outcome {
    println!("Theorem 3 (Sigma of random selection, data-size weights)");
    let twenty: Vec<f64> = (1..=20).map(|d| f64::from(d).sqrt()).collect();
    let enumerating = best(3, || {
        black_box(enumerate(black_box(&twenty), 10));
    });
    let sizes = Sizes::new(twenty)?;
    let integrating = best(20, || {
        black_box(random_sigma(black_box(&sizes), 10));
    });
    let ratio = enumerating / integrating;
    println!(
        "  n = 20, m = 10: subsets {enumerating:.4} s, integral {integrating:.6} s: {ratio:.0}x"
    );
    for law in [SizeDistribution::Zipf(2.0), SizeDistribution::LogNormal(1.0)] {
        for (clients, cohort) in [(1_000, 100), (20_000, 2_000), (1_000_000, 1_000)] {
            let sizes = law.draw(clients, Seed(1))?;
            let mut exact = false;
            let time = best(3, || exact = random_sigma(black_box(&sizes), cohort).exact);
            let note = if exact { "exact" } else { "sizes gathered into classes" };
            println!("  n = {clients}, m = {cohort}, {law}: {time:.3} s, {note}");
        }
    }
    Ok(())
}

fn enumerate(sizes: &[f64], cohort: u32) -> f64 {
    let mut square = 0.0;
    for subset in 0u32..1 << sizes.len() {
        if subset.count_ones() == cohort {
            let members = (0..sizes.len()).filter(|i| subset >> i & 1 == 1);
            let total: f64 = members.clone().map(|i| sizes[i]).sum();
            square += members.map(|i| (sizes[i] / total).powi(2)).sum::<f64>();
        }
    }
    square
}

fn theory_of_a_billion() -> Outcome {
    println!("theory, n = 10^9, m = 10^6, max_age = 5000");
    let setting = SettingParams::new(1_000_000_000, 1_000_000, 5_000).check()?;
    for name in POLICIES.iter().map(|entry| entry.name).filter(|name| *name != "markov-custom") {
        let weighting = find_policy(name)?.weighting;
        let policy = build_policy(&PolicySpec::named(name), &setting)?;
        let time = best(5, || {
            let _ = black_box(policy.theory(&setting, weighting));
        });
        println!("  {name}: {:.2} ms", time * 1e3);
    }
    Ok(())
}

fn selection() -> Outcome {
    let clients = 100_000;
    println!("one round of {clients} clients, 15% per round");
    let setting = SettingParams::new(clients, clients * 15 / 100, 10).check()?;
    let ages: Vec<u64> = (0..clients).collect();
    let scan = best(50, || {
        black_box(black_box(&ages).iter().sum::<u64>());
    });
    println!("  reading all ages once: {:.1} us", scan * 1e6);
    for name in POLICIES.iter().map(|entry| entry.name).filter(|name| *name != "markov-custom") {
        let spec = PolicySpec::named(name);
        let mut selector = Selector::new(&spec, setting.clone(), Seed(1), Start::Stationary)?;
        let mut outcome = Ok(());
        let time = best(50, || outcome = play_round(&mut selector));
        outcome?;
        println!("  {name}: {:.0} us, {:.0} times the reading", time * 1e6, time / scan);
    }
    Ok(())
}

fn play_round(selector: &mut Selector) -> Outcome {
    let cohort = selector.select(Availability::Everyone)?;
    let reports: Vec<Report> = cohort.clients.into_iter().map(Report::plain).collect();
    selector.finish(&reports)
}
