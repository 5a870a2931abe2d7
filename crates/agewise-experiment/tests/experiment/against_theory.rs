//! Every simulated figure against the core's closed form, for every policy, through the summary that users see.

use agewise_experiment::{Estimate, Experiment, ExperimentParams, NoCallbacks, Summary, play};
use std::sync::atomic::AtomicBool;

const SEEDS: u32 = 40;

fn summary(change: impl Fn(&mut ExperimentParams)) -> Summary {
    let mut params = ExperimentParams {
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
        ..ExperimentParams::default()
    };
    change(&mut params);
    let experiment = Experiment::new(params, &[]).unwrap();
    let stop = AtomicBool::new(false);
    play(&experiment, None, 2, &NoCallbacks, &stop).unwrap().summary().unwrap()
}

/// Means over 40 seeds: 2.5 times half of the 95% interval is 5 standard errors. Relative 1e-5 on top of it, for
/// policies that hardly vary: their interval is narrower than what single-precision sums and means taken from
/// the same rounds change.
fn assert_close(name: &str, policy: &str, measured: Estimate, theory: f64) {
    let tolerance = 2.5 * measured.half_width.unwrap_or(0.0) + 1e-5 * theory + 1e-9;
    let mean = measured.mean;
    let distance = (mean - theory).abs();
    assert!(distance < tolerance, "{policy}: {name} {mean}, theory {theory}, allowed {tolerance}");
}

fn assert_all_close(summary: &Summary) {
    for policy in &summary.policies {
        let (name, theory) = (policy.policy.as_str(), policy.theory.as_ref().unwrap());
        // X of clients that are hardly ever drawn is longer than the run: no fair comparison there.
        if name != "probabilistic" {
            assert_close("Var[X]", name, policy.means["var_interval"], theory.var_interval);
        }
        if let Some(theory) = theory.sigma {
            assert_close("Sigma", name, policy.means["sigma"], theory);
        }
        for (window, theory) in theory.window_sd.iter().filter(|(window, _)| **window <= 100) {
            let name = format!("{name}, T = {window}");
            assert_close("sd of Y/T", &name, policy.window_sd[window], *theory);
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
        (p.clients, p.cohort, p.max_age) = (60, 7, 5.into());
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
