//! Clients with rates of their own, and phases that are reshuffled: theory against runs.
//!
//! The continuation of `against_simulation.rs` for settings in which clients differ. Means are over
//! independent seeds, with the standard error from the spread between them; 5 are allowed.

use crate::common::{mean_and_error, play, policy, run, setting};
use agewise_core::metrics::Intervals;
use agewise_core::{
    AgeLaw, EmptyCohort, LawFamily, Seed, Selector, Setting, SettingParams, SizeDistribution,
    Sizes, Start, Weighting, build_policy, proportional_rates,
};

const ROUNDS: u64 = 2_000;
const SEEDS: u64 = 16;
const MAX_AGE: u64 = 12;

fn with_rates(sizes: Vec<f64>, rates: Vec<f64>, cohort: u64) -> Setting {
    let params = SettingParams::new(sizes.len() as u64, cohort, MAX_AGE);
    let sizes = Some(Sizes::new(sizes).unwrap());
    let empty_cohort = EmptyCohort::Skip;
    SettingParams { sizes, rates: Some(rates), empty_cohort, ..params }.check().unwrap()
}

/// 40 clients, 10 per round, rates in proportion to log-normal sizes: from about 0.1 to under 1, so that
/// some 1/r are above `max_age` and none is 1.
fn moderate_rates() -> Setting {
    let drawn = SizeDistribution::LogNormal(0.5).draw(40, Seed(3)).unwrap();
    let sizes: Vec<f64> = (0..40).map(|client| drawn.of(client)).collect();
    let rates = proportional_rates(&sizes, 10.0).unwrap();
    assert!(rates.iter().all(|&rate| rate < 0.99), "{rates:?}");
    with_rates(sizes, rates, 10)
}

/// Two clients are so large that they take part in every round.
fn capped_rates() -> Setting {
    let sizes: Vec<f64> = (0..20).map(|client| if client < 2 { 50.0 } else { 1.0 }).collect();
    let rates = proportional_rates(&sizes, 7.0).unwrap();
    assert_eq!((rates[0], rates[1]), (1.0, 1.0));
    with_rates(sizes, rates, 7)
}

/// The intervals of each client in one run.
fn intervals_by_client(name: &str, setting: &Setting, seed: u64) -> Vec<Intervals> {
    let mut intervals = vec![Intervals::default(); setting.clients() as usize];
    let mut selector =
        Selector::new(&policy(name), setting.clone(), Seed(seed), Start::Stationary).unwrap();
    play(&mut selector, ROUNDS, |cohort, ages| {
        for &client in &cohort.clients {
            intervals[client as usize].record(ages.of(client));
        }
    });
    intervals
}

/// Each client's own E[X] = 1/r and the Var[X] of its own law. The variance within a run is too small by
/// about its share 1/count of the intervals; counts are above 100.
#[test]
fn each_client_follows_its_own_law() {
    let setting = moderate_rates();
    for (name, family) in
        [("markov-optimal", LawFamily::Optimal), ("markov-linear", LawFamily::Linear)]
    {
        let runs: Vec<_> =
            (0..SEEDS).map(|seed| intervals_by_client(name, &setting, seed)).collect();
        for client in 0..setting.clients() {
            let own = runs.iter().map(|run| &run[client as usize]);
            let (mean, mean_error) =
                mean_and_error(&own.clone().map(Intervals::mean).collect::<Vec<_>>());
            let (variance, variance_error) =
                mean_and_error(&own.clone().map(Intervals::variance).collect::<Vec<_>>());
            let rate = setting.rate(client);
            let law = family.law(1.0 / rate, MAX_AGE).unwrap().interval();
            let context = format!("{name}, client {client}, r = {rate}");
            // A ratio of sums: biased by the covariance of count and length, of the order X/count.
            let count = own.map(Intervals::count).min().unwrap() as f64;
            let bias = 2.0 / rate / count;
            assert!((mean - 1.0 / rate).abs() < 5.0 * mean_error + bias, "{context}: {mean}");
            let allowed = 5.0 * variance_error + 2.0 * law.variance / count + 1e-9;
            assert!((variance - law.variance).abs() < allowed, "{context}: {variance}, {law:?}");
            if family == LawFamily::Optimal {
                let least = AgeLaw::optimal_variance(1.0 / rate, MAX_AGE as u32).unwrap();
                assert!((law.variance - least).abs() < 1e-9, "{context}");
            }
        }
    }
}

#[test]
fn phased_clients_wait_one_of_two_whole_numbers_around_their_own_interval() {
    for setting in [moderate_rates(), capped_rates()] {
        for (client, own) in intervals_by_client("phased", &setting, 1).into_iter().enumerate() {
            let interval = 1.0 / setting.rate(client as u32);
            let seen: Vec<u64> = own.histogram().map(|(x, _)| x).collect();
            let around = interval.floor() as u64..=interval.ceil() as u64;
            assert!(
                seen.iter().all(|x| around.contains(x)),
                "client {client}: {seen:?}, {interval}"
            );
            // A rhythm is never more than one turn off.
            let turns = ROUNDS as f64 / interval;
            assert!((own.count() as f64 - turns).abs() <= 1.0, "client {client}: {}", own.count());
        }
    }
}

/// Figures over all clients, by seeds. E[X] is n rounds over all selections.
#[test]
fn figures_of_the_whole_population_are_as_theory_says() {
    for setting in [moderate_rates(), capped_rates()] {
        for name in ["markov-optimal", "markov-linear"] {
            let built = build_policy(&policy(name), &setting).unwrap();
            let theory = built.theory(&setting, Weighting::Uniform).unwrap().unwrap();
            let summary = |seed| {
                let (metrics, selector) =
                    run(&policy(name), &setting, seed, Start::Stationary, ROUNDS);
                metrics.summary(selector.ages())
            };
            let runs: Vec<_> = (0..SEEDS).map(summary).collect();
            let figures: [(&str, Vec<f64>, f64); 4] = [
                ("E[X]", runs.iter().map(|s| s.mean_interval).collect(), theory.mean_interval),
                ("Var[X]", runs.iter().map(|s| s.var_interval).collect(), theory.var_interval),
                ("E|S|", runs.iter().map(|s| s.cohort_mean).collect(), theory.cohort_mean),
                ("sd|S|", runs.iter().map(|s| s.cohort_sd).collect(), theory.cohort_sd),
            ];
            for (what, values, expected) in figures {
                let (mean, error) = mean_and_error(&values);
                // A standard deviation of dependent rounds is a little low; so is what a ratio of sums gives.
                let allowed = 5.0 * error + 2e-3 * expected;
                assert!((mean - expected).abs() < allowed, "{what}, {name}: {mean}, {expected}");
            }
            assert_eq!(theory.mean_interval, f64::from(setting.clients()) / theory.cohort_mean);
        }
    }
}

/// Sigma with every weighting: a run of T rounds falls short by Sigma/T at most, 5 standard errors on top.
#[test]
fn sigma_with_own_rates_is_as_theory_says() {
    let mut wrong = Vec::new();
    for (which, setting) in [("moderate", moderate_rates()), ("capped", capped_rates())] {
        for name in ["markov-optimal", "markov-linear", "phased"] {
            for weighting in [Weighting::Uniform, Weighting::DataSize, Weighting::Unbiased] {
                let built = build_policy(&policy(name), &setting).unwrap();
                let expected = built.theory(&setting, weighting).unwrap().unwrap().sigma.unwrap();
                let sigma = |seed| {
                    let selector = Selector::new(
                        &policy(name),
                        setting.clone(),
                        Seed(seed),
                        Start::Stationary,
                    );
                    let mut selector = selector.unwrap().with_weighting(weighting);
                    let mut metrics =
                        agewise_core::metrics::Participation::new(setting.clients(), &[]);
                    // As many rounds as theory replays for `phased`, which does not depend on the seed.
                    play(&mut selector, 4_096, |cohort, ages| metrics.record(cohort, ages));
                    metrics.sigma()
                };
                let seeds = if name == "phased" { 2 } else { SEEDS };
                let (mean, error) = mean_and_error(&(0..seeds).map(sigma).collect::<Vec<_>>());
                let allowed = 5.0 * error + expected / 4_096.0 + 1e-9;
                // A Sigma that is no number does not agree either.
                let agrees = (mean - expected).abs() <= allowed;
                if !agrees {
                    wrong.push(format!(
                        "{which}, {name}, {weighting}: {mean} +- {error}, {expected}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What theory says of reshuffled phases must hold for them: the longest wait is a bound, Var[X] and the
/// spread of Y are within a tenth (20,000 rounds of 100 clients are 300,000 intervals). What is not known may
/// be left out.
#[test]
fn theory_of_reshuffled_phases_holds_for_reshuffled_phases() {
    let setting = setting(100, 15, 10);
    let mut wrong = Vec::new();
    for share in [0.05, 0.3, 1.0] {
        let spec = policy(&format!("phased(reshuffle={share})"));
        let built = build_policy(&spec, &setting).unwrap();
        let theory = built.theory(&setting, Weighting::Uniform).unwrap().unwrap();
        let (metrics, selector) = run(&spec, &setting, 1, Start::Stationary, 20_000);
        let summary = metrics.summary(selector.ages());
        assert_eq!((summary.cohort_min, summary.cohort_max), (14, 16), "swaps keep all phases");
        assert!((summary.sigma - theory.sigma.unwrap()).abs() < 1e-3, "{}", summary.sigma);
        if theory.longest_wait.is_some_and(|bound| summary.longest_wait > bound) {
            wrong.push(format!(
                "{spec}: waited {}, {:?}",
                summary.longest_wait, theory.longest_wait
            ));
        }
        let (seen, expected) = (summary.var_interval, theory.var_interval);
        if (seen - expected).abs() > 0.1 * seen {
            wrong.push(format!("{spec}: Var[X] {seen}, {expected}"));
        }
        for (length, expected) in theory.window_sd {
            let seen = summary.window_sd[&length];
            // Over long windows the sd is small and few windows are there: a thousandth on top.
            if (seen - expected).abs() > 0.1 * seen + 1e-3 {
                wrong.push(format!("{spec}: sd of Y({length})/{length} {seen}, {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
