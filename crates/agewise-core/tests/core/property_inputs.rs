//! Inputs and accumulators: properties on random values, drawn from a fixed seed.
//!
//! What is accepted is exactly what is valid, nothing panics, text comes back, and merged accumulators are
//! the same bits as sequential ones.

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

/// Events, each with the part that sees it.
fn events<T: std::fmt::Debug>(
    one: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<(T, bool)>> {
    prop::collection::vec((one, any::<bool>()), 0..60)
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn merged_intervals_are_the_sequential_ones(
        ages in events(prop_oneof![0..20u64, 1_000..1_050u64, 0..1u64 << 40]),
    ) {
        let mut all = Intervals::default();
        let mut parts = [Intervals::default(), Intervals::default()];
        for (age, part) in ages {
            all.record(age);
            parts[usize::from(part)].record(age);
        }
        let [mut merged, other] = parts;
        merged.merge(&other);
        prop_assert_eq!(merged, all);
    }

    #[test]
    fn merged_sizes_and_loads_are_the_sequential_ones(counts in events(0..1u64 << 32)) {
        let (mut all, mut all_loads) = (CohortSizes::default(), Load::default());
        let mut parts = [CohortSizes::default(); 2];
        let mut loads = [Load::default(); 2];
        for (count, part) in counts {
            all.record(count);
            all_loads.record(count);
            parts[usize::from(part)].record(count);
            loads[usize::from(part)].record(count);
        }
        parts[0].merge(&parts[1].clone());
        loads[0].merge(&loads[1].clone());
        prop_assert_eq!((parts[0], loads[0]), (all, all_loads));
    }

    #[test]
    fn merged_sums_are_the_sequential_ones(terms in events(-1e6..1e6f64)) {
        let all: FixedSum = terms.iter().map(|(term, _)| *term).sum();
        let part = |which: bool| -> FixedSum {
            terms.iter().filter(|(_, part)| *part == which).map(|(term, _)| *term).sum()
        };
        prop_assert_eq!(part(true) + part(false), all);
        let exact: f64 = terms.iter().map(|(term, _)| *term).sum();
        prop_assert!((all.value() - exact).abs() < 1e-7);
    }

    #[test]
    fn merged_weights_are_the_sequential_ones(
        clients in events(prop::collection::vec(0.0..=1.0f64, 8)),
    ) {
        let count = |which: bool| clients.iter().filter(|(_, part)| *part == which).count() as u64;
        let mut all = WeightMoments::new(clients.len() as u64);
        let mut parts = [WeightMoments::new(count(false)), WeightMoments::new(count(true))];
        for round in 0..8 {
            for (weights, part) in &clients {
                let before = weights[..round].iter().sum();
                all.record(weights[round], before);
                parts[usize::from(*part)].record(weights[round], before);
            }
        }
        parts[0].merge(&parts[1].clone());
        prop_assert_eq!(parts[0], all);
    }

    #[test]
    fn merged_windows_are_the_sequential_ones(
        length in 1..7u32,
        clients in events(prop::collection::vec(any::<bool>(), 20)),
    ) {
        let count = |which: bool| clients.iter().filter(|(_, part)| *part == which).count() as u64;
        let mut all = WindowTally::new(length, clients.len() as u64);
        let new = |which| WindowTally::new(length, count(which));
        let mut parts = [new(false), new(true)];
        for round in 0..20u64 {
            let start = all.window_start(round) as usize;
            for (selected, part) in &clients {
                if selected[round as usize] {
                    let earlier = selected[start..round as usize].iter().filter(|&&s| s).count();
                    all.record(earlier as u64);
                    parts[usize::from(*part)].record(earlier as u64);
                }
            }
            all.end_round(round);
            for part in &mut parts {
                part.end_round(round);
            }
        }
        parts[0].merge(&parts[1].clone());
        prop_assert_eq!(parts[0], all);
    }

    #[test]
    fn merged_pairs_are_the_sequential_ones(
        clients in prop_oneof![1..40u32, 1_000..1_100u32],
        cohorts in events(prop::collection::btree_set(0..1_000u32, 0..30)),
    ) {
        let mut all = CoParticipation::new(clients);
        let mut parts = [CoParticipation::new(clients), CoParticipation::new(clients)];
        for (cohort, part) in cohorts {
            let cohort: Vec<u32> = cohort.into_iter().filter(|client| *client < clients).collect();
            all.record(&cohort);
            parts[usize::from(part)].record(&cohort);
        }
        let [mut merged, other] = parts;
        merged.merge(&other);
        prop_assert_eq!(merged, all);
    }
}
