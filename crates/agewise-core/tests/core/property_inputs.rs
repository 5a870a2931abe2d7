//! Inputs and accumulators: properties on random values, drawn from a fixed seed.
//!
//! What is accepted is exactly what is valid, nothing panics, text comes back, and accumulators have the same bits in
//! any order.

use agewise_core::metrics::{
    CoParticipation, CohortSizes, FixedSum, Intervals, Load, WeightMoments, WindowTally,
};
use agewise_core::{
    AgeLaw, LARGEST_MAX_AGE, OptionValue, PolicySpec, SettingParams, proportional_rates,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_27),
        ..Default::default()
    }
}

/// Probabilities with the special ones among them, the last of them positive.
fn probabilities() -> impl Strategy<Value = Vec<f64>> {
    let one = || prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0f64];
    let last = prop_oneof![Just(1.0), 1e-9..=1.0f64];
    (prop::collection::vec(one(), 1..20), last).prop_map(|(mut all, last)| {
        all.push(last);
        all
    })
}

/// Numbers of which some are no probabilities.
fn doubtful() -> impl Strategy<Value = f64> {
    let special = [0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, -1e-300, 1.0 + f64::EPSILON, 5e-324];
    prop_oneof![3 => 0.0..=1.0f64, 1 => prop::sample::select(special.to_vec()), 1 => any::<f64>()]
}

/// Around the limits, and anywhere.
fn number() -> impl Strategy<Value = u64> {
    let limits = [0, 1, 2, 1_000_000, 1_000_001, u32::MAX as u64, 1 << 32, u64::MAX];
    prop_oneof![prop::sample::select(limits.to_vec()), 0..50u64, any::<u64>()]
}

/// Texts that look like a policy, up to any nonsense.
fn policy_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z-]{1,8}",
        r"[a-z-]{1,8}\([a-z]{1,4} ?= ?[0-9.e-]{1,5}\)",
        r"[a-z-]{1,8}\([a-z]{1,4}=\[[0-9., ]{1,12}\], ?[a-z]=-?[0-9]{1,3}\)",
        r"[a-z]\([a-c=,\[\]()0-9 ]{0,14}\)",
        r"[a-z]\(([a-c\[\](]{1,3}=[0-9],?){1,3}\)",
        r"[a-z(),=\[\]0-9. -]{0,20}",
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn a_law_is_accepted_exactly_if_it_is_one(p in prop::collection::vec(doubtful(), 0..8)) {
        let all_in_range = p.iter().all(|p| *p >= 0.0 && *p <= 1.0);
        let valid = p.len() >= 2 && all_in_range && p.last().is_some_and(|last| *last >= 1e-12);
        match AgeLaw::new(&p) {
            Ok(law) => prop_assert!(valid && law.probabilities() == p),
            Err(error) => prop_assert!(!valid, "{p:?} refused: {error}"),
        }
    }

    #[test]
    fn a_steady_state_is_a_distribution_that_a_step_leaves_alone(p in probabilities()) {
        let law = AgeLaw::new(&p).unwrap();
        let pi = law.steady_state();
        prop_assert_eq!(pi.len(), p.len());
        prop_assert!((pi.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let mut next = vec![0.0; p.len()];
        for (age, (share, p)) in pi.iter().zip(&p).enumerate() {
            prop_assert!(*share >= 0.0);
            next[0] += share * p;
            next[(age + 1).min(pi.len() - 1)] += share * (1.0 - p);
        }
        prop_assert!(pi.iter().zip(&next).all(|(now, then)| (now - then).abs() < 1e-9));
        // pi_0 is the rate, and the rate is the inverse of E[X].
        prop_assert!((law.rate() / pi[0] - 1.0).abs() < 1e-9);
        prop_assert!((law.interval().mean * pi[0] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_setting_is_accepted_exactly_if_it_is_one(n in number(), m in number(), age in number()) {
        let valid = (1..=u32::MAX as u64).contains(&n)
            && (1..=n).contains(&m)
            && (1..=LARGEST_MAX_AGE as u64).contains(&age);
        prop_assert_eq!(SettingParams::new(n, m, age).check().is_ok(), valid);
    }

    #[test]
    fn policies_that_can_be_read_can_be_written_and_read_again(text in policy_text()) {
        if let Ok(spec) = text.parse::<PolicySpec>() {
            let written = spec.to_string();
            let again = written.parse::<PolicySpec>();
            prop_assert!(again.is_ok(), "{text:?} was read, {written:?} is not: {again:?}");
            // As text, because an option may be NaN, which differs from itself.
            prop_assert_eq!(again.unwrap().to_string(), written);
        }
        let _ = PolicySpec::parse_list(&text);
    }

    #[test]
    fn options_made_in_code_survive_their_text(
        number in any::<f64>().prop_filter("NaN differs from itself", |x| !x.is_nan()),
        list in prop::collection::vec(-1e300..1e300f64, 1..5),
    ) {
        let spec = PolicySpec::named("some-policy")
            .with("number", OptionValue::Number(number))
            .with("list", OptionValue::List(list));
        prop_assert_eq!(spec.to_string().parse::<PolicySpec>().unwrap(), spec);
    }

    /// Rates add up to the cohort, none is zero or above one, and those under one are in proportion
    /// to their weights to nine digits, however much the weights differ.
    #[test]
    fn proportional_rates_are_proportional_and_add_up(
        logs in prop::collection::vec(-25.0..25.0f64, 1..30),
        share in 0.001..=1.0f64,
    ) {
        let weights: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
        let cohort = (share * weights.len() as f64).ceil();
        let rates = proportional_rates(&weights, cohort).unwrap();
        prop_assert!((rates.iter().sum::<f64>() / cohort - 1.0).abs() < 1e-9);
        prop_assert!(rates.iter().all(|&rate| rate > 0.0 && rate <= 1.0), "{weights:?}: {rates:?}");
        let mut scale = weights.iter().zip(&rates).filter(|(_, rate)| **rate < 1.0 - 1e-9);
        if let Some((first_weight, first_rate)) = scale.next() {
            for (weight, rate) in scale {
                let ratio = (rate / first_rate) / (weight / first_weight);
                prop_assert!((ratio - 1.0).abs() < 1e-9, "{weights:?}: {rates:?}");
            }
        }
        let setting = SettingParams::new(weights.len() as u64, cohort as u64, 5);
        let accepted = SettingParams { rates: Some(rates), ..setting }.check().is_ok();
        prop_assert!(accepted, "a setting refuses the rates that were made for it");
    }
}

/// Events in an order, and the same events in another one.
fn events<T: std::fmt::Debug + Clone>(
    one: impl Strategy<Value = T>,
) -> impl Strategy<Value = (Vec<T>, Vec<T>)> {
    let events = prop::collection::vec(one, 0..60);
    events.prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle()))
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn the_order_of_intervals_and_counts_does_not_matter(
        (ages, other) in events(prop_oneof![0..20u64, 1_000..1_050u64, 0..1u64 << 40]),
    ) {
        let record = |ages: &[u64]| {
            let mut intervals = Intervals::default();
            let (mut sizes, mut load) = (CohortSizes::default(), Load::default());
            for &age in ages {
                intervals.record(age);
                sizes.record(age);
                load.record(age);
            }
            (intervals, sizes, load)
        };
        prop_assert_eq!(record(&ages), record(&other));
    }

    #[test]
    fn the_order_of_terms_does_not_matter((terms, other) in events(-1e6..1e6f64)) {
        let sum: FixedSum = terms.iter().copied().sum();
        prop_assert_eq!(sum, other.iter().copied().sum());
        prop_assert!((sum.value() - terms.iter().sum::<f64>()).abs() < 1e-7);
    }

    /// Weights and windows: the clients of a round in any order.
    #[test]
    fn the_order_of_clients_does_not_matter(
        length in 1..7u32,
        (clients, other) in events(prop::collection::vec(0.0..=1.0f64, 20)),
    ) {
        let record = |clients: &[Vec<f64>]| {
            let mut moments = WeightMoments::new(clients.len() as u64);
            let mut windows = WindowTally::new(length, clients.len() as u64);
            for round in 0..20u64 {
                let now = round as usize;
                let start = windows.window_start(round) as usize;
                for weights in clients.iter().filter(|weights| weights[now] > 0.5) {
                    moments.record(weights[now], weights[..now].iter().filter(|w| **w > 0.5).sum());
                    let earlier = weights[start..now].iter().filter(|w| **w > 0.5).count();
                    windows.record(earlier as u64);
                }
                windows.end_round(round);
            }
            (moments, windows)
        };
        prop_assert_eq!(record(&clients), record(&other));
    }

    #[test]
    fn the_order_of_cohorts_does_not_matter(
        clients in prop_oneof![1..40u32, 1_000..1_100u32],
        (cohorts, other) in events(prop::collection::btree_set(0..1_000u32, 0..30)),
    ) {
        let record = |cohorts: &[std::collections::BTreeSet<u32>]| {
            let mut pairs = CoParticipation::new(clients);
            for cohort in cohorts {
                let known = cohort.iter().copied().filter(|client| *client < clients);
                pairs.record(&known.collect::<Vec<_>>());
            }
            pairs
        };
        prop_assert_eq!(record(&cohorts), record(&other));
    }
}
