//! Every policy's theory against its own runs from a stationary start.
//!
//! Runs of different seeds are independent, so every figure is a mean over seeds whose standard error is
//! taken from the spread between them; 5 standard errors are allowed. Policies without randomness have
//! none, and must agree to rounding: all runs are whole periods and whole windows long.
//!
//! Sigma is a figure of the ensemble: where groups freeze (n/m whole), a client's mean weight within one
//! run is not its expectation. So E[w_i]^2 is taken from products of different seeds, which has no bias
//! at all, neither from freezing nor from runs being finite.

use crate::common::{all_policies, default_weighting, mean_and_error, play, policy, run, setting};
use agewise_core::metrics::Participation;
use agewise_core::theory::{PolicyTheory, WINDOW_LENGTHS};
use agewise_core::{
    EmptyCohort, PolicySpec, Seed, Selector, Setting, SettingParams, SizeDistribution, Sizes,
    Start, Weighting, build_policy,
};

/// A multiple of all window lengths and of all periods n / gcd(n, m) below.
const ROUNDS: u64 = 1_000;
const SEEDS: u64 = 24;
/// What sums over a whole run may lose to rounding.
const ROUNDING: f64 = 1e-9;

/// n, m, max_age, sizes: n/m whole and not, m = 1, m = n, a `max_age` that cuts the law short.
///
/// Theory does not know of forced clients, so rounds may be skipped, except in the paper's own setting
/// where a client is forced once in a million rounds.
fn settings() -> Vec<Setting> {
    let paper = setting(100, 15, 10);
    let drawn = |clients, cohort, max_age, law: SizeDistribution| {
        let sizes = Some(law.draw(clients as u32, Seed(11)).unwrap());
        let params = SettingParams::new(clients, cohort, max_age);
        let empty_cohort = EmptyCohort::Skip;
        SettingParams { sizes, empty_cohort, ..params }.check().unwrap()
    };
    vec![
        paper,
        drawn(100, 15, 10, SizeDistribution::Zipf(2.0)),
        drawn(60, 12, 10, SizeDistribution::LogNormal(0.5)),
        drawn(40, 6, 3, SizeDistribution::LogNormal(1.0)),
        drawn(20, 1, 30, SizeDistribution::Equal),
        drawn(50, 20, 1, SizeDistribution::LogNormal(0.7)),
        drawn(12, 12, 4, SizeDistribution::LogNormal(1.0)),
    ]
}

/// What one seed contributes.
struct OneSeed {
    mean_interval: f64,
    var_interval: f64,
    cohort_mean: f64,
    /// The mean square of |S| less its expectation; a mean, where the sd itself would be biased.
    cohort_square: f64,
    /// Var[Y] for each window length.
    window_variances: Vec<f64>,
    longest_wait: u64,
    /// The mean over rounds of sum w^2.
    weight_square: f64,
    /// The mean weight of each client.
    mean_weights: Vec<f64>,
}

fn one_seed(
    spec: &PolicySpec,
    setting: &Setting,
    weighting: Weighting,
    theory: &PolicyTheory,
    windows: &[u32],
    seed: u64,
) -> OneSeed {
    let selector = Selector::new(spec, setting.clone(), Seed(seed), Start::Stationary).unwrap();
    let mut selector = selector.with_weighting(weighting);
    let mut metrics = Participation::new(setting.clients(), windows);
    let (mut cohort_square, mut weight_square) = (0.0, 0.0);
    let mut mean_weights = vec![0.0; setting.clients() as usize];
    play(&mut selector, ROUNDS, |cohort, ages| {
        metrics.record(cohort, ages);
        cohort_square += (cohort.clients.len() as f64 - theory.cohort_mean).powi(2);
        for (&client, weight) in cohort.clients.iter().zip(&cohort.weights) {
            weight_square += weight * weight / ROUNDS as f64;
            mean_weights[client as usize] += weight / ROUNDS as f64;
        }
    });
    let summary = metrics.summary(selector.ages());
    let squared_means: f64 = mean_weights.iter().map(|w| w * w).sum();
    assert!(
        (summary.sigma - (weight_square - squared_means)).abs() < ROUNDING,
        "{}",
        summary.sigma
    );
    let variance = |length: &u32| (summary.window_sd[length] * f64::from(*length)).powi(2);
    OneSeed {
        mean_interval: summary.mean_interval,
        var_interval: summary.var_interval,
        cohort_mean: summary.cohort_mean,
        cohort_square: cohort_square / ROUNDS as f64,
        window_variances: windows.iter().map(variance).collect(),
        longest_wait: summary.longest_wait,
        weight_square,
        mean_weights,
    }
}

/// Sigma of the ensemble: the mean of sum w^2, less the mean over pairs of different seeds of the sum over
/// clients of one's mean weight times the other's.
fn ensemble_sigma(runs: &[&OneSeed]) -> f64 {
    let seeds = runs.len() as f64;
    let square = runs.iter().map(|run| run.weight_square).sum::<f64>() / seeds;
    let clients = runs[0].mean_weights.len();
    let products = |client: usize| {
        let weights = runs.iter().map(|run| run.mean_weights[client]);
        let sum: f64 = weights.clone().sum();
        (sum * sum - weights.map(|w| w * w).sum::<f64>()) / (seeds * (seeds - 1.0))
    };
    square - (0..clients).map(products).sum::<f64>()
}

/// The same with its standard error, by leaving out one seed after the other.
fn sigma_and_error(runs: &[OneSeed]) -> (f64, f64) {
    let all: Vec<&OneSeed> = runs.iter().collect();
    let without = |left_out: usize| {
        let rest = all.iter().enumerate().filter(|(index, _)| *index != left_out);
        ensemble_sigma(&rest.map(|(_, run)| *run).collect::<Vec<_>>())
    };
    let (_, spread) = mean_and_error(&(0..runs.len()).map(without).collect::<Vec<_>>());
    // The spread of leave-one-out values is too small by the factor seeds - 1.
    (ensemble_sigma(&all), spread * (runs.len() as f64 - 1.0))
}

/// What does not agree: all of it is wanted, not only the first.
#[derive(Default)]
struct Disagreements(Vec<String>);

impl Disagreements {
    fn check(&mut self, what: &str, (value, error): (f64, f64), expected: f64, extra: f64) {
        let allowed = 5.0 * error + extra + ROUNDING * expected.abs().max(1.0);
        let agrees = (value - expected).abs() <= allowed;
        self.note(agrees, || format!("{what}: {value} +- {error}, theory says {expected}"));
    }

    fn note(&mut self, agrees: bool, what: impl Fn() -> String) {
        if !agrees {
            self.0.push(what());
        }
    }

    fn assert_none(&self) {
        assert!(self.0.is_empty(), "{} disagreements:\n{}", self.0.len(), self.0.join("\n"));
    }
}

fn simulate(
    spec: &PolicySpec,
    setting: &Setting,
    weighting: Weighting,
    theory: &PolicyTheory,
    windows: &[u32],
) -> Vec<OneSeed> {
    let seeds = 0..SEEDS;
    seeds.map(|seed| one_seed(spec, setting, weighting, theory, windows, seed)).collect()
}

fn context(spec: &PolicySpec, setting: &Setting) -> String {
    format!("{spec}, {} of {}", setting.cohort(), setting.clients())
}

#[test]
fn intervals_cohorts_and_windows_are_as_theory_says() {
    let mut found = Disagreements::default();
    for setting in settings() {
        for spec in all_policies() {
            let context = context(&spec, &setting);
            let weighting = default_weighting(&spec);
            let built = build_policy(&spec, &setting).unwrap();
            let Some(theory) = built.theory(&setting, weighting).unwrap() else {
                continue;
            };
            let runs = simulate(&spec, &setting, weighting, &theory, &WINDOW_LENGTHS);
            let over_seeds = |value: &dyn Fn(&OneSeed) -> f64| {
                mean_and_error(&runs.iter().map(value).collect::<Vec<_>>())
            };
            let mut check = |what: &str, value: &dyn Fn(&OneSeed) -> f64, expected, extra| {
                found.check(&format!("{what} of {context}"), over_seeds(value), expected, extra);
            };
            check("E[X]", &|run| run.mean_interval, theory.mean_interval, 0.0);
            check("Var[X]", &|run| run.var_interval, theory.var_interval, 0.0);
            check("E|S|", &|run| run.cohort_mean, theory.cohort_mean, 0.0);
            check("Var|S|", &|run| run.cohort_square, theory.cohort_sd.powi(2), 0.0);
            for (index, length) in WINDOW_LENGTHS.iter().enumerate() {
                let variance = (theory.window_sd[length] * f64::from(*length)).powi(2);
                // The metric takes deviations from the mean over clients, who are n independent ones at
                // worst: that hides up to Var[Y]/n.
                let hidden = variance / f64::from(setting.clients());
                check(
                    &format!("Var Y({length})"),
                    &|run| run.window_variances[index],
                    variance,
                    hidden,
                );
            }
            let longest = runs.iter().map(|run| run.longest_wait).max().unwrap();
            found.note(
                match theory.longest_wait {
                    Some(bound) => longest == bound,
                    None => longest as f64 > 2.0 * theory.mean_interval,
                },
                || format!("longest wait of {context}: {longest}, not {:?}", theory.longest_wait),
            );
        }
    }
    found.assert_none();
}

/// Sigma for the policy's own weighting, for data sizes and for Horvitz-Thompson weights; and of the last
/// that they are unbiased: the average of w_i is the client's share q_i of the data.
#[test]
fn weights_are_as_theory_says_for_every_weighting() {
    let mut found = Disagreements::default();
    for setting in settings() {
        for spec in all_policies() {
            let own = default_weighting(&spec);
            let others = [Weighting::DataSize, Weighting::Unbiased];
            for weighting in others.into_iter().filter(|&w| w != own).chain([own]) {
                let Some(runs) = runs_with_known_sigma(&mut found, &spec, &setting, weighting)
                else {
                    continue;
                };
                if weighting == Weighting::Unbiased {
                    check_mean_weights(&mut found, &spec, &setting, &runs);
                }
            }
        }
    }
    found.assert_none();
}

/// Policies that look at losses or updates have no closed form; all others do, so that they are tested here.
#[test]
fn everything_that_looks_at_ages_and_lots_only_has_a_closed_form() {
    let setting = setting(100, 15, 10);
    for name in ["random", "probabilistic", "oldest-first", "phased", "round-robin"]
        .into_iter()
        .chain(["markov-optimal", "markov-linear", crate::common::CUSTOM_LAW])
    {
        let spec = policy(name);
        let built = build_policy(&spec, &setting).unwrap();
        assert!(built.theory(&setting, default_weighting(&spec)).unwrap().is_some(), "{name}");
    }
}

fn runs_with_known_sigma(
    found: &mut Disagreements,
    spec: &PolicySpec,
    setting: &Setting,
    weighting: Weighting,
) -> Option<Vec<OneSeed>> {
    let theory = build_policy(spec, setting).unwrap().theory(setting, weighting).unwrap()?;
    let expected = theory.sigma?;
    let runs = simulate(spec, setting, weighting, &theory, &[]);
    let what = format!("Sigma ({weighting}) of {}", context(spec, setting));
    assert!(theory.sigma_exact, "{what}");
    found.check(&what, sigma_and_error(&runs), expected, 0.0);
    Some(runs)
}

fn check_mean_weights(
    found: &mut Disagreements,
    spec: &PolicySpec,
    setting: &Setting,
    runs: &[OneSeed],
) {
    for client in 0..setting.clients() {
        let weights = runs.iter().map(|run| run.mean_weights[client as usize]);
        let mean = mean_and_error(&weights.collect::<Vec<_>>());
        let share = setting.sizes().share(client);
        // A client that is left out once in 30,000 rounds shows no spread at all; up to ten rounds
        // that by chance were not seen are allowed for it.
        let unseen = 10.0 * share / (ROUNDS * SEEDS) as f64;
        let what = format!("E[w] of client {client}, {}", context(spec, setting));
        found.check(&what, mean, share, unseen);
    }
}

/// Where weights add up to one in each round, all covariances together are -Sigma.
#[test]
fn the_mean_covariance_of_normalised_weights_follows_from_sigma() {
    for spec in all_policies() {
        let (metrics, selector) = run(&spec, &setting(100, 15, 10), 4, Start::Stationary, 300);
        let summary = metrics.summary(selector.ages());
        let expected = -summary.sigma / (100.0 * 99.0);
        assert!((summary.mean_covariance - expected).abs() < 1e-12, "{spec}");
    }
}

/// One client has weight 1 in every round, so nothing varies; of two clients one is chosen at random in
/// each round, so Sigma = 1/2 and a run of T rounds shows it within 5/sqrt(T) (in fact far nearer: only
/// the mean weights are random).
#[test]
fn sigma_survives_long_runs() {
    const LONG: u64 = 30_000;
    for (clients, expected) in [(1, 0.0), (2, 0.5)] {
        let setting = setting(clients, 1, 3);
        let (metrics, _) = run(&policy("random"), &setting, 1, Start::Stationary, LONG);
        let sigma = metrics.sigma();
        assert!((sigma - expected).abs() < 1e-3, "{clients} clients: {sigma}, not {expected}");
    }
}

#[test]
fn sigma_is_zero_where_everyone_always_comes() {
    let sizes = Sizes::new(vec![1.0, 2.0, 5.0, 40.0]).unwrap();
    let params = SettingParams { sizes: Some(sizes), ..SettingParams::new(4, 4, 3) };
    let setting = params.check().unwrap();
    for name in
        ["random", "markov-optimal", "markov-linear", "oldest-first", "phased", "round-robin"]
    {
        for weighting in Weighting::ALL {
            let built = build_policy(&policy(name), &setting).unwrap();
            let sigma = built.theory(&setting, weighting).unwrap().unwrap().sigma;
            let is_zero = sigma.is_some_and(|sigma| sigma.abs() < 1e-12);
            assert!(is_zero, "{name}, {weighting}: {sigma:?}, though weights never change");
        }
    }
}

/// Nothing about fixed cohorts and rhythms changes where a turn comes once in millions of rounds.
#[test]
fn very_rare_turns_are_as_regular_as_others() {
    for (clients, cohort, variance) in [(3_000_000, 1, 0.0), (5_000_001, 2, 0.25)] {
        let setting = setting(clients, cohort, 10);
        for name in ["oldest-first", "phased", "round-robin"] {
            let built = build_policy(&policy(name), &setting).unwrap();
            let theory = built.theory(&setting, Weighting::Uniform).unwrap().unwrap();
            assert_eq!(theory.longest_wait, Some(clients.div_ceil(cohort)), "{name}");
            assert!(
                (theory.var_interval - variance).abs() < 1e-6,
                "{name}: {}",
                theory.var_interval
            );
        }
    }
}
