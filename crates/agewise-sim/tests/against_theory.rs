//! Every simulated figure against the core's closed form, for every policy, through the summary that users see.

#![allow(clippy::unwrap_used)] // A test helper that fails is a test that fails.

use agewise_sim::{RunRecord, SimulationParams, Summary, play};

const SEEDS: u32 = 40;

fn summary(change: impl Fn(&mut SimulationParams)) -> Summary {
    let mut params = SimulationParams {
        rounds: 400,
        seeds: SEEDS,
        seed: 11,
        policies: [
            "random",
            "probabilistic",
            "markov-optimal",
            "markov-linear",
            "markov-custom(p=[0, 0.1, 0.4, 0.2])",
            "oldest-first",
            "phased",
            "round-robin",
        ]
        .map(str::to_string)
        .to_vec(),
        ..SimulationParams::default()
    };
    change(&mut params);
    let simulation = params.check().unwrap();
    let run = |policy, seed| RunRecord::from(play(simulation.run(policy, seed), |_| {}).unwrap());
    let runs: Vec<Vec<RunRecord>> = (0..simulation.policies().len())
        .map(|policy| (0..SEEDS).map(|seed| run(policy, seed)).collect())
        .collect();
    Summary::new(&simulation, &runs).unwrap()
}

/// Means over 40 seeds: 2.5 times half of the 95% interval is 5 standard errors. Relative 1e-5 on top of it, for
/// policies that hardly vary: their interval is narrower than what single-precision sums and means taken from
/// the same rounds change.
fn assert_close(name: &str, policy: &str, mean: f64, half_width: Option<&f64>, theory: f64) {
    let tolerance = 2.5 * half_width.copied().unwrap_or(0.0) + 1e-5 * theory + 1e-9;
    let distance = (mean - theory).abs();
    assert!(distance < tolerance, "{policy}: {name} {mean}, theory {theory}, allowed {tolerance}");
}

fn assert_all_close(summary: &Summary) {
    for policy in &summary.policies {
        let name = policy.policy.as_str();
        let half = |field: &str| policy.half_width.get(field);
        // X of clients that are hardly ever drawn is longer than the run: no fair comparison there.
        if name != "probabilistic" {
            let theory = policy.var_interval_theory.unwrap();
            assert_close(
                "Var[X]",
                name,
                policy.var_interval.unwrap(),
                half("var_interval"),
                theory,
            );
        }
        if let Some(theory) = policy.sigma_theory {
            assert_close("Sigma", name, policy.sigma.unwrap(), half("sigma"), theory);
        }
        for (window, theory) in policy.window_sd_theory.iter().filter(|(window, _)| **window <= 100)
        {
            let half_width = policy.window_sd_half_width.get(window);
            let name = format!("{name}, T = {window}");
            assert_close("sd of Y/T", &name, policy.window_sd[window], half_width, *theory);
        }
    }
}

#[test]
fn equal_sizes() {
    assert_all_close(&summary(|_| {}));
}

#[test]
fn unequal_sizes_and_other_numbers() {
    assert_all_close(&summary(|p| {
        (p.clients, p.cohort, p.max_age) = (60, 7, 5);
        // Whole periods of 60 rounds: a rhythm has no chance in it, and so no interval for what a part adds.
        p.rounds = 420;
        p.sizes = "lognormal:0.7".into();
    }));
}

#[test]
fn data_size_weights_for_all() {
    assert_all_close(&summary(|p| {
        p.sizes = "lognormal:0.7".into();
        p.weighting = Some(agewise_core::Weighting::DataSize);
    }));
}
