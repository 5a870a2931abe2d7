//! What several test files share: runs of a policy, and means with their standard errors.

use agewise_core::metrics::Participation;
use agewise_core::theory::WINDOW_LENGTHS;
use agewise_core::{
    Ages, Availability, Cohort, EmptyCohort, PolicySpec, Report, Seed, Selector, Setting,
    SettingParams, Start, Weighting, find_policy,
};

/// A law of a user's own for `markov-custom`: neither optimal nor monotone.
pub(crate) const CUSTOM_LAW: &str = "markov-custom(p=[0.05, 0.1, 0, 0.4, 0.2])";

/// Every registered policy, with options where they are needed.
pub(crate) fn all_policies() -> Vec<PolicySpec> {
    let with_options = |name: &str| match name {
        "markov-custom" => CUSTOM_LAW.to_string(),
        _ => name.to_string(),
    };
    agewise_core::POLICIES.iter().map(|entry| policy(&with_options(entry.name))).collect()
}

pub(crate) fn policy(text: &str) -> PolicySpec {
    text.parse().unwrap()
}

pub(crate) fn default_weighting(spec: &PolicySpec) -> Weighting {
    find_policy(spec.name()).unwrap().weighting
}

/// Equal sizes, one rate for all, and the paper's rule for an empty cohort.
pub(crate) fn setting(clients: u64, cohort: u64, max_age: u64) -> Setting {
    SettingParams::new(clients, cohort, max_age).check().unwrap()
}

/// The same with rounds that may pass without training.
pub(crate) fn skipping(clients: u64, cohort: u64, max_age: u64) -> Setting {
    let empty_cohort = EmptyCohort::Skip;
    let params = SettingParams::new(clients, cohort, max_age);
    SettingParams { empty_cohort, ..params }.check().unwrap()
}

/// Plays rounds in which everyone is available and every report is accepted; `watch` sees each cohort
/// with the ages at the beginning of its round.
pub(crate) fn play(selector: &mut Selector, rounds: u64, mut watch: impl FnMut(&Cohort, &Ages)) {
    for _ in 0..rounds {
        let cohort = selector.select(Availability::Everyone).unwrap();
        watch(&cohort, selector.ages());
        let accepted: Vec<Report> = cohort.clients.iter().map(|&c| Report::plain(c)).collect();
        selector.finish(&accepted).unwrap();
    }
}

/// The metrics of one run, with the selector as it is afterwards.
pub(crate) fn run(
    spec: &PolicySpec,
    setting: &Setting,
    seed: u64,
    start: Start,
    rounds: u64,
) -> (Participation, Selector) {
    let mut selector = Selector::new(spec, setting.clone(), Seed(seed), start).unwrap();
    let mut metrics = Participation::new(setting.clients(), &WINDOW_LENGTHS);
    play(&mut selector, rounds, |cohort, ages| metrics.record(cohort, ages));
    (metrics, selector)
}

/// The mean of independent values and its standard error.
pub(crate) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (square / (count - 1.0) / count).sqrt())
}
