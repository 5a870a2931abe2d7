//! The tables of a run folder, as CSV.

use super::Finished;
use crate::core::Result;
use crate::csv::{optional, quoted};
use crate::sim::theory;
use std::collections::BTreeMap;
use std::fmt::Write as _;

impl Finished {
    /// Every round of every run.
    pub(super) fn rounds_csv(&self) -> String {
        let mut csv = String::from(
            "policy,seed,round,selected,reported,forced,target_interval,sigma_so_far\n",
        );
        let first_seed = self.simulation.params().seed;
        for (policy, runs) in self.summary.policies.iter().zip(&self.runs) {
            let name = quoted(&policy.policy);
            for (seed, run) in (first_seed..).zip(runs) {
                for (round, row) in run.rounds.iter().enumerate() {
                    let forced = u8::from(row.forced);
                    let (selected, reported, interval) = (row.selected, row.reported, row.interval);
                    let sigma = optional(row.sigma);
                    let _ = writeln!(
                        csv,
                        "{name},{seed},{round},{selected},{reported},{forced},{interval},{sigma}"
                    );
                }
            }
        }
        csv
    }

    /// Every X, over all seeds, beside its probability.
    pub(super) fn intervals_csv(&self) -> Result<String> {
        let mut csv = String::from("policy,interval,count,share,theory\n");
        for (index, policy) in self.summary.policies.iter().enumerate() {
            let counts = self.interval_counts(index);
            let total: u64 = counts.values().sum();
            let theory = theory(&self.simulation, index)?;
            let theory: BTreeMap<u64, f64> =
                theory.into_iter().flat_map(|theory| theory.interval_distribution).collect();
            let name = quoted(&policy.policy);
            for (interval, count) in counts {
                let share = count as f64 / total as f64;
                let expected = optional(theory.get(&interval));
                let _ = writeln!(csv, "{name},{interval},{count},{share},{expected}");
            }
        }
        Ok(csv)
    }

    /// sqrt(Var Y)/T for every T.
    pub(super) fn windows_csv(&self) -> String {
        let mut csv = String::from("policy,window,sd_over_window,half_width_95,theory\n");
        for policy in &self.summary.policies {
            let name = quoted(&policy.policy);
            for (window, sd) in &policy.window_sd {
                let theory = optional(policy.window_sd_theory.get(window));
                let half = optional(policy.window_sd_half_width.get(window));
                let _ = writeln!(csv, "{name},{window},{sd},{half},{theory}");
            }
        }
        csv
    }

    /// How often each X was seen, over all seeds.
    pub(super) fn interval_counts(&self, policy: usize) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for &(interval, count) in self.runs[policy].iter().flat_map(|run| &run.intervals) {
            let sum: &mut u64 = counts.entry(interval).or_default();
            *sum = sum.saturating_add(count);
        }
        counts
    }
}
