//! A simulation summed up: means over seeds with 95% intervals, beside the closed forms.

use crate::config::Simulation;
use crate::record::RunRecord;
use agewise_core::theory::PolicyTheory;
use agewise_core::{Result, Weighting, build_policy};
use serde::Serialize;
use std::collections::BTreeMap;

/// A mean over seeds, with half the width of its 95% interval if there is more than one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95% interval; `None` for a single seed.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// The estimate from one value per seed; `None` if there is no value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return values.first().map(|_| Self { mean, half_width: None });
        }
        let spread = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let error = (spread / (count - 1.0) / count).sqrt();
        Some(Self { mean, half_width: Some(student_quantile(values.len() - 1) * error) })
    }
}

/// The 97.5% quantile of Student's t.
fn student_quantile(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    // Beyond the table the excess over the normal quantile falls like 1/degrees.
    TABLE.get(degrees - 1).copied().unwrap_or(1.96 + 2.46 / degrees as f64)
}

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
    build_policy(&simulated.spec, setting)?.theory(setting, simulated.weighting).map(Some)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_student() {
        assert_eq!(Estimate::of([]), None);
        assert_eq!(Estimate::of([3.0]).unwrap().half_width, None);
        let estimate = Estimate::of([1.0, 2.0, 3.0]).unwrap();
        assert_eq!(estimate.mean, 2.0);
        assert!((estimate.half_width.unwrap() - 4.303 / 3f64.sqrt()).abs() < 1e-12);
        // 2.021 at 40 and 1.980 at 120 degrees of freedom.
        assert!((student_quantile(40) - 2.021).abs() < 0.002);
        assert!((student_quantile(120) - 1.980).abs() < 0.002);
    }
}
