//! What holds for every setting, policy, availability, dropout and seed: properties on random inputs.
//!
//! The cases are drawn from a fixed seed, so that a failure today is a failure tomorrow.

use crate::common::{all_policies, policy};
use agewise_core::{
    Availability, EmptyCohort, PolicySpec, Report, Seed, Selector, Setting, SettingParams, Sizes,
    Start, Weighting,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_26),
        ..Default::default()
    }
}

/// Sizes of which some are zero, but not all.
fn sizes(clients: usize) -> impl Strategy<Value = Option<Sizes>> {
    let one = prop_oneof![2 => Just(0.0), 3 => 0.01..100.0f64, 1 => Just(1.0)];
    let some = prop::collection::vec(one, clients).prop_map(|sizes| Sizes::new(sizes).ok());
    prop_oneof![1 => Just(None), 3 => some]
}

/// One round from outside: who is available, and who of the chosen ones reports.
#[derive(Debug, Clone)]
struct Outside {
    available: Vec<bool>,
    reports: Vec<bool>,
}

fn outside(clients: usize) -> impl Strategy<Value = Outside> {
    let shares = prop_oneof![Just(0.0), Just(0.1), Just(0.6), Just(1.0)];
    shares.prop_flat_map(move |share| {
        let available = prop::collection::vec(prop::bool::weighted(share), clients);
        let reports = prop::collection::vec(prop::bool::weighted(0.8), clients);
        (available, reports).prop_map(|(available, reports)| Outside { available, reports })
    })
}

#[derive(Debug, Clone)]
struct Case {
    setting: Setting,
    spec: PolicySpec,
    weighting: Weighting,
    start: Start,
    seed: u64,
    rounds: Vec<Outside>,
}

fn case() -> impl Strategy<Value = Case> {
    let mut policies = all_policies();
    policies.push(policy("phased(reshuffle=0.5)"));
    let how = (
        prop::sample::select(policies),
        prop::sample::select(&Weighting::ALL),
        prop::sample::select(&[Start::Stationary, Start::Cold]),
        prop::sample::select(&[EmptyCohort::ForceOne, EmptyCohort::Skip]),
        any::<u64>(),
    );
    (1usize..25, how).prop_flat_map(|(clients, how)| {
        let rounds = prop::collection::vec(outside(clients), 1..12);
        let numbers = (1..=clients as u64, 1u64..15);
        (numbers, sizes(clients), rounds).prop_map(move |((cohort, max_age), sizes, rounds)| {
            let (spec, weighting, start, empty_cohort, seed) = how.clone();
            let params = SettingParams::new(clients as u64, cohort, max_age);
            let setting = SettingParams { sizes, empty_cohort, ..params }.check().unwrap();
            Case { setting, spec, weighting, start, seed, rounds }
        })
    })
}

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn every_cohort_is_in_order(case in case()) {
        let Case { setting, spec, weighting, start, seed, rounds } = case;
        let m = setting.cohort() as usize;
        let rule = setting.empty_cohort();
        let selector = Selector::new(&spec, setting, Seed(seed), start).unwrap();
        let mut selector = selector.with_weighting(weighting);
        let mut naive: Vec<u64> = selector.ages().iter().collect();
        if start == Start::Cold {
            prop_assert!(naive.iter().all(|&age| age == 0));
        }
        for Outside { available, reports } in rounds {
            let cohort = selector.select(Availability::Only(&available)).unwrap();
            let present = available.iter().filter(|&&here| here).count();

            prop_assert!(cohort.clients.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(cohort.clients.iter().all(|&client| available[client as usize]));
            let size = cohort.clients.len();
            prop_assert!(size > 0 || present == 0 || rule == EmptyCohort::Skip);
            prop_assert!(!cohort.forced || (size == 1 && rule == EmptyCohort::ForceOne));
            match spec.name() {
                "random" | "oldest-first" | "round-robin" => prop_assert_eq!(size, m.min(present)),
                "probabilistic" => prop_assert!(size <= m.min(present)),
                _ => {}
            }

            prop_assert_eq!(cohort.weights.len(), size);
            let usable = |weight: &f64| weight.is_finite() && *weight >= 0.0;
            prop_assert!(cohort.weights.iter().all(usable), "{:?}", cohort.weights);
            if weighting.is_normalised() && size > 0 {
                let total: f64 = cohort.weights.iter().sum();
                prop_assert!((total - 1.0).abs() < 1e-9, "{total}");
            }

            // A(t+1) = (A(t) + 1)(1 - S(t)), S being 1 only for those whose report arrived.
            let arrived = cohort.clients.iter().filter(|&&client| reports[client as usize]);
            let accepted: Vec<Report> = arrived.map(|&client| Report::plain(client)).collect();
            selector.finish(&accepted).unwrap();
            for (client, age) in naive.iter_mut().enumerate() {
                let credited = accepted.iter().any(|report| report.client as usize == client);
                *age = if credited { 0 } else { *age + 1 };
            }
            prop_assert_eq!(selector.ages().iter().collect::<Vec<u64>>(), naive.clone());
            prop_assert_eq!(selector.ages().round(), cohort.round + 1);
        }
    }
}

/// With `probabilistic`, a client without data can be in a cohort only by force, when nobody who is
/// available has data; its share is 0, and so is its unbiased weight.
#[test]
fn a_forced_client_without_data_has_a_weight_that_is_a_number() {
    let sizes = Some(Sizes::new(vec![0.0, 0.0, 5.0]).unwrap());
    let setting = SettingParams { sizes, ..SettingParams::new(3, 2, 4) }.check().unwrap();
    let selector = Selector::new(&policy("probabilistic"), setting, Seed(1), Start::Cold).unwrap();
    let mut selector = selector.with_weighting(Weighting::Unbiased);
    let cohort = selector.select(Availability::Only(&[true, true, false])).unwrap();
    assert!(cohort.forced && cohort.clients.len() == 1);
    assert_eq!(cohort.weights, [0.0]);
}
