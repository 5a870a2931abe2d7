//! A simulation summed up: means over seeds with 95% intervals, beside the closed forms.

use crate::config::Simulation;
use crate::record::RunRecord;
use crate::statistics::Estimate;
use agewise_core::theory::PolicyTheory;
use agewise_core::{Result, Weighting, build_policy};
use serde::Serialize;
use std::collections::BTreeMap;

/// One policy summed up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicySummary {
    /// The policy with its options.
    pub policy: String,
    /// How its cohorts were weighed.
    pub weighting: Weighting,
    /// Sigma.
    pub sigma: Option<f64>,
    /// Sigma in closed form, where the world is calm and one is known.
    pub sigma_theory: Option<f64>,
    /// E\[X\].
    pub mean_interval: Option<f64>,
    /// Var\[X\].
    pub var_interval: Option<f64>,
    /// Var\[X\] in closed form.
    pub var_interval_theory: Option<f64>,
    /// Mean cohort.
    pub cohort_mean: f64,
    /// Standard deviation of the cohort.
    pub cohort_sd: f64,
    /// Smallest cohort of any seed.
    pub cohort_min: u64,
    /// Largest cohort of any seed.
    pub cohort_max: u64,
    /// Jain's index.
    pub jain: Option<f64>,
    /// Clients never selected (mean over seeds).
    pub never_selected: f64,
    /// Longest wait of any seed.
    pub longest_wait: u64,
    /// Mean covariance of two clients' weights.
    pub mean_covariance: Option<f64>,
    /// sqrt(Var Y)/T.
    pub window_sd: BTreeMap<u32, f64>,
    /// sqrt(Var Y)/T in closed form.
    pub window_sd_theory: BTreeMap<u32, f64>,
    /// Half the width of the 95% interval of each of `window_sd`, with two seeds or more.
    pub window_sd_half_width: BTreeMap<u32, f64>,
    /// Half the width of the 95% interval of each mean, with two seeds or more.
    pub half_width: BTreeMap<&'static str, f64>,
}

/// A simulation summed up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// n at the beginning.
    pub clients: u64,
    /// m.
    pub cohort: u64,
    /// m'.
    pub max_age: u64,
    /// Rounds played.
    pub rounds: u64,
    /// Seeds.
    pub seeds: u32,
    /// One entry for each policy.
    pub policies: Vec<PolicySummary>,
}

impl Summary {
    /// Sums up the runs: `runs[policy][seed]`.
    pub fn new(simulation: &Simulation, runs: &[Vec<RunRecord>]) -> Result<Self> {
        let params = simulation.params();
        let policies = (0..).zip(runs).map(|(index, runs)| summarise(simulation, index, runs));
        Ok(Self {
            clients: params.clients,
            cohort: params.cohort,
            max_age: params.max_age,
            rounds: params.rounds,
            seeds: params.seeds,
            policies: policies.collect::<Result<_>>()?,
        })
    }
}

/// The theory of one policy of a simulation, if its world is the one of the theory.
pub fn theory(simulation: &Simulation, policy: usize) -> Result<Option<PolicyTheory>> {
    if !simulation.is_calm() {
        return Ok(None);
    }
    let simulated = &simulation.policies()[policy];
    let setting = simulation.setting();
    build_policy(&simulated.spec, setting)?.theory(setting, simulated.weighting)
}

fn summarise(simulation: &Simulation, index: usize, runs: &[RunRecord]) -> Result<PolicySummary> {
    let simulated = &simulation.policies()[index];
    let theory = theory(simulation, index)?;
    let mut half_width = BTreeMap::new();
    let mut mean = |name: &'static str, value: &dyn Fn(&RunRecord) -> Option<f64>| {
        let estimate = Estimate::of(runs.iter().filter_map(value))?;
        half_width.extend(estimate.half_width.map(|half| (name, half)));
        Some(estimate.mean)
    };
    let lengths: Vec<u32> =
        runs.first().map_or(Vec::new(), |run| run.window_sd.keys().copied().collect());
    let window = |&length: &u32| {
        let values = runs.iter().filter_map(|run| run.window_sd.get(&length).copied());
        Estimate::of(values).map(|estimate| (length, estimate))
    };
    let windows: BTreeMap<u32, Estimate> = lengths.iter().filter_map(window).collect();
    Ok(PolicySummary {
        policy: simulated.spec.to_string(),
        weighting: simulated.weighting,
        sigma: mean("sigma", &|run| run.sigma),
        sigma_theory: theory.as_ref().and_then(|theory| theory.sigma),
        mean_interval: mean("mean_interval", &|run| run.mean_interval),
        var_interval: mean("var_interval", &|run| run.var_interval),
        var_interval_theory: theory.as_ref().map(|theory| theory.var_interval),
        cohort_mean: mean("cohort_mean", &|run| Some(run.cohort_mean)).unwrap_or(0.0),
        cohort_sd: mean("cohort_sd", &|run| Some(run.cohort_sd)).unwrap_or(0.0),
        cohort_min: runs.iter().map(|run| run.cohort_min).min().unwrap_or(0),
        cohort_max: runs.iter().map(|run| run.cohort_max).max().unwrap_or(0),
        jain: mean("jain", &|run| run.jain),
        never_selected: mean("never_selected", &|run| Some(run.never_selected as f64))
            .unwrap_or(0.0),
        longest_wait: runs.iter().map(|run| run.longest_wait).max().unwrap_or(0),
        mean_covariance: mean("mean_covariance", &|run| run.mean_covariance),
        window_sd: windows.iter().map(|(&length, sd)| (length, sd.mean)).collect(),
        window_sd_half_width: windows
            .iter()
            .filter_map(|(&length, sd)| Some((length, sd.half_width?)))
            .collect(),
        window_sd_theory: theory.map_or_else(BTreeMap::new, |theory| theory.window_sd),
        half_width,
    })
}
