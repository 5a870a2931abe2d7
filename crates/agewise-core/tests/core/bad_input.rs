//! Every bad input is an error that names the field and the value, never a panic.

use crate::common::{all_policies, policy, setting};
use agewise_core::{
    AgeLaw, Ages, Availability, Error, PolicySpec, Report, Reports, Result, Round, Seed, Selector,
    Setting, SettingParams, SizeDistribution, Sizes, Start, Weighting, build_policy, find_policy,
    proportional_rates,
};

/// The field and the value that an error blames.
fn blamed<T: std::fmt::Debug>(result: Result<T>) -> (String, String) {
    let error = result.unwrap_err();
    (error.field().to_string(), error.value().to_string())
}

fn pair(field: &str, value: &str) -> (String, String) {
    (field.to_string(), value.to_string())
}

fn selector(name: &str) -> Selector {
    Selector::new(&policy(name), setting(10, 3, 5), Seed(1), Start::Stationary).unwrap()
}

#[test]
fn impossible_numbers_of_clients_cohorts_and_ages() {
    let check = |n, m, max_age| blamed(SettingParams::new(n, m, max_age).check());
    assert_eq!(check(0, 1, 5), pair("clients", "0"));
    assert_eq!(check(u64::from(u32::MAX) + 1, 1, 5), pair("clients", "4294967296"));
    assert_eq!(check(u64::MAX, 1, 5), pair("clients", "18446744073709551615"));
    assert_eq!(check(10, 0, 5), pair("cohort", "0"));
    assert_eq!(check(10, 11, 5), pair("cohort", "11"));
    // A cohort that would be 1 if it were cut to 32 bits.
    assert_eq!(check(10, (1 << 32) + 1, 5), pair("cohort", "4294967297"));
    assert_eq!(check(10, 3, 0), pair("max_age", "0"));
    assert_eq!(check(10, 3, 1_000_001), pair("max_age", "1000001"));
    let error = SettingParams::new(10, 11, 5).check().unwrap_err();
    assert!(error.expected().contains("10"), "the limit is named: {error}");
    assert!(SettingParams::new(u64::from(u32::MAX), 1, 1_000_000).check().is_ok());
}

#[test]
fn vectors_that_are_no_laws() {
    let check = |p: &[f64]| blamed(AgeLaw::new(p));
    assert_eq!(check(&[]), pair("probabilities", "[]"));
    assert_eq!(check(&[0.5, 1.5]), pair("probabilities[1]", "1.5"));
    assert_eq!(check(&[-0.25, 0.5]), pair("probabilities[0]", "-0.25"));
    assert_eq!(check(&[0.1, f64::NAN, 0.5]), pair("probabilities[1]", "NaN"));
    assert_eq!(check(&[0.1, f64::INFINITY]), pair("probabilities[1]", "inf"));
    assert_eq!(check(&[0.5, 0.5, 0.0]), pair("probabilities[2]", "0"));
    assert_eq!(check(&[0.5]), pair("probabilities", "[0.5]"));
    for (interval, value) in [(0.5, "0.5"), (f64::NAN, "NaN"), (f64::INFINITY, "inf"), (-1.0, "-1")]
    {
        assert_eq!(blamed(AgeLaw::optimal(interval, 5)), pair("interval", value));
        assert_eq!(blamed(AgeLaw::linear(interval, 5)), pair("interval", value));
        assert_eq!(blamed(AgeLaw::optimal_variance(interval, 5)), pair("interval", value));
    }
    assert_eq!(blamed(AgeLaw::optimal(5.0, 0)), pair("max_age", "0"));
    // The same through the text of a policy.
    let custom = |text: &str| blamed(build_policy(&policy(text), &setting(10, 3, 5)));
    assert_eq!(custom("markov-custom(p=[0.5, 2])"), pair("probabilities[1]", "2"));
    assert_eq!(custom("markov-custom(p=[0.5, nan])"), pair("probabilities[1]", "NaN"));
    assert_eq!(custom("markov-custom(p=[0.5, 0])"), pair("probabilities[1]", "0"));
    assert_eq!(custom("markov-custom"), pair("markov-custom(p)", "missing"));
    assert_eq!(custom("markov-custom(p=0.5)"), pair("markov-custom(p)", "0.5"));
    assert_eq!(blamed("markov-custom(p=[])".parse::<PolicySpec>()).0, "markov-custom(p)");
}

#[test]
fn sizes_that_are_none() {
    let check = |sizes: &[f64]| blamed(Sizes::new(sizes.to_vec()));
    assert_eq!(check(&[]), pair("sizes", "[]"));
    assert_eq!(check(&[1.0, f64::NAN]), pair("sizes[1]", "NaN"));
    assert_eq!(check(&[-3.0, 1.0]), pair("sizes[0]", "-3"));
    assert_eq!(check(&[1.0, 2.0, f64::INFINITY]), pair("sizes[2]", "inf"));
    assert_eq!(check(&[0.0, 0.0]).0, "sizes");
    assert_eq!(check(&[f64::MAX, f64::MAX]).0, "sizes");
    let sizes = Some(Sizes::new(vec![1.0; 9]).unwrap());
    let params = SettingParams { sizes, ..SettingParams::new(10, 3, 5) };
    assert_eq!(blamed(params.check()), pair("sizes", "a list of 9"));
    for text in ["zipf:1", "zipf:-2", "lognormal:-0.1", "uniform", "zipf:", ""] {
        assert_eq!(blamed(text.parse::<SizeDistribution>()), pair("sizes", text));
    }
    // A law made in code is not checked by a parser.
    for law in [
        SizeDistribution::Zipf(0.5),
        SizeDistribution::Zipf(f64::NAN),
        SizeDistribution::LogNormal(f64::NAN),
    ] {
        assert_eq!(blamed(law.draw(10, Seed(1))).0, "sizes", "{law}");
    }
    assert_eq!(
        blamed(SizeDistribution::Zipf(2.0).draw(u32::MAX, Seed(1))),
        pair("clients", "4294967295")
    );
    assert_eq!(blamed(SizeDistribution::Zipf(2.0).draw(0, Seed(1))), pair("sizes", "[]"));
}

#[test]
fn rates_that_are_none_or_do_not_add_up() {
    let check = |rates: &[f64]| {
        let rates = Some(rates.to_vec());
        blamed(SettingParams { rates, ..SettingParams::new(3, 1, 5) }.check())
    };
    assert_eq!(check(&[0.5, 0.5]), pair("rates", "a list of 2"));
    assert_eq!(check(&[0.5, 0.5, 0.0]), pair("rates[2]", "0"));
    assert_eq!(check(&[1.5, -0.5, 0.5]), pair("rates[0]", "1.5"));
    assert_eq!(check(&[0.5, f64::NAN, 0.5]), pair("rates[1]", "NaN"));
    assert_eq!(check(&[0.5, 0.5, 0.5]), pair("rates", "a sum of 1.5"));
    assert_eq!(blamed(proportional_rates(&[1.0, 0.0], 1.0)), pair("weights[1]", "0"));
    assert_eq!(blamed(proportional_rates(&[f64::NAN], 1.0)), pair("weights[0]", "NaN"));
    assert_eq!(blamed(proportional_rates(&[1.0, 1.0], 3.0)), pair("cohort", "3"));
    assert_eq!(blamed(proportional_rates(&[1.0, 1.0], f64::NAN)), pair("cohort", "NaN"));
    assert_eq!(blamed(proportional_rates(&[], 1.0)), pair("cohort", "1"));
}

#[test]
fn masks_and_ages_of_another_population() {
    for spec in all_policies() {
        let mut selector = selector(&spec.to_string());
        for length in [0, 9, 11] {
            let result = selector.select(Availability::Only(&vec![true; length]));
            assert_eq!(blamed(result), pair("available", &format!("a list of {length}")));
        }
        // Nobody there is not an error: the round is empty.
        assert!(selector.select(Availability::Only(&[false; 10])).unwrap().clients.is_empty());
    }
    let (setting, reports) = (setting(10, 3, 5), Reports::default());
    let ages = Ages::cold(9);
    let round = Round::new(&setting, Seed(1), &ages, Availability::Everyone, &reports);
    assert_eq!(blamed(round), pair("ages", "a list of 9"));
}

#[test]
fn reports_of_unknown_clients_twice_or_with_wild_figures_change_nothing() {
    let mut selector = selector("oldest-first");
    selector.finish(&[Report::plain(2)]).unwrap();
    let before = selector.state();
    let with_loss = |client, loss| Report { loss: Some(loss), ..Report::plain(client) };
    let with_duration =
        |client, duration| Report { duration: Some(duration), ..Report::plain(client) };
    let bad = [
        (vec![Report::plain(1), Report::plain(10)], pair("credited", "10")),
        (vec![Report::plain(u32::MAX)], pair("credited", "4294967295")),
        (vec![Report::plain(4), Report::plain(5), Report::plain(4)], pair("credited", "4")),
        (vec![with_loss(1, 0.5), with_loss(3, f32::NAN)], pair("loss of client 3", "NaN")),
        (vec![with_loss(0, f32::INFINITY)], pair("loss of client 0", "inf")),
        (vec![with_duration(7, f32::NEG_INFINITY)], pair("duration of client 7", "-inf")),
    ];
    for (reports, expected) in bad {
        assert_eq!(blamed(selector.finish(&reports)), expected);
        assert_eq!(selector.state(), before, "a refused round left a trace");
    }
}

#[test]
fn states_of_another_population_are_refused() {
    let state_of = |clients: u64, reporting: Option<u32>| {
        let spec = policy("random");
        let mut other = Selector::new(&spec, setting(clients, 1, 5), Seed(1), Start::Cold).unwrap();
        let report = |client| Report { loss: Some(1.0), ..Report::plain(client) };
        other.finish(&reporting.map(report).into_iter().collect::<Vec<_>>()).unwrap();
        other.state()
    };
    let mut selector = selector("random");
    let before = selector.state();
    for clients in [1, 9, 11] {
        let refused = blamed(selector.restore(state_of(clients, None)));
        assert_eq!(refused, pair("ages", &format!("a list of {clients}")));
    }
    // The right number of ages, but reports of a client that does not exist.
    let mut mixed = state_of(10, None);
    mixed.population.reports = state_of(20, Some(15)).population.reports;
    assert_eq!(blamed(selector.restore(mixed)), pair("reports", "a list of 16"));
    assert_eq!(selector.state(), before);
    assert!(selector.restore(state_of(10, Some(9))).is_ok());
}

/// What is accepted as stored ages can be worked with, at the very limits too; what lies in the future
/// is refused.
#[test]
fn stored_ages_are_refused_or_usable() {
    let mut ages = Ages::new([3, 0]);
    for _ in 0..5 {
        ages.advance(&[1]).unwrap();
    }
    let stored = serde_json::to_value(&ages).unwrap();
    let earlier = {
        let mut changed = stored.clone();
        changed["round"] = 4.into();
        serde_json::from_value::<Ages>(changed)
    };
    assert!(earlier.is_err(), "client 1 would wait since a round that is not there yet");

    let limits: Vec<i64> = [0, 3, 10, 30, 31, 32, 62, 63]
        .into_iter()
        .flat_map(|bits| [-1, 0, 1].map(|near: i128| (1i128 << bits) + near))
        .flat_map(|limit| [limit, -limit])
        .filter_map(|limit| i64::try_from(limit).ok())
        .collect();
    let mut usable = 0;
    for (round, since) in limits.iter().flat_map(|&a| limits.iter().map(move |&b| (a, b))) {
        let mut changed = stored.clone();
        changed["round"] = round.into();
        changed["waiting_since"][0] = since.into();
        if let Ok(mut ages) = serde_json::from_value::<Ages>(changed) {
            let before: Vec<u64> = ages.iter().collect();
            assert_eq!(before, [ages.of(0), ages.of(1)]);
            if ages.advance(&[1]).is_ok() {
                assert_eq!(ages.iter().collect::<Vec<_>>(), [before[0] + 1, 0]);
            }
            usable += 1;
        }
    }
    assert!(usable > 0, "nothing was tried");
}

#[test]
fn unknown_names_are_refused_with_a_suggestion() {
    fn suggested(error: &Error) -> Option<&str> {
        error.expected().split_once("did you mean ")?.1.strip_suffix("?)")
    }
    for (name, meant) in [
        ("markov-optimum", Some("markov-optimal")),
        ("radnom", Some("random")),
        ("oldest_first", Some("oldest-first")),
        ("completely-different", None),
    ] {
        let error = find_policy(name).unwrap_err();
        assert_eq!((error.field(), error.value()), ("policy", name));
        assert_eq!(suggested(&error), meant, "{error}");
        assert!(error.expected().contains("round-robin"), "all names are listed: {error}");
    }
    let built = |text: &str, setting: &Setting| build_policy(&policy(text), setting).unwrap_err();
    let setting = setting(10, 3, 5);
    let error = built("phased(reshufle=0.1)", &setting);
    assert_eq!((error.field(), error.value()), ("option of phased", "reshufle"));
    assert_eq!(suggested(&error), Some("reshuffle"));
    let error = built("random(seed=1)", &setting);
    assert_eq!(error.value(), "seed");
    assert!(error.expected().contains("random has no options"), "{error}");
    let error = "datasize".parse::<Weighting>().unwrap_err();
    assert_eq!((error.field(), error.value()), ("weighting", "datasize"));
    assert_eq!(suggested(&error), Some("data-size"));
    for (share, value) in [("1.1", "1.1"), ("-0.1", "-0.1"), ("nan", "NaN"), ("[0.1]", "a list")] {
        let error = built(&format!("phased(reshuffle={share})"), &setting);
        assert_eq!((error.field(), error.value()), ("phased(reshuffle)", value));
    }
    let twice = "phased(reshuffle=0, reshuffle=1)".parse::<PolicySpec>();
    assert_eq!(blamed(twice).0, "phased(reshuffle)");
}

/// Probabilities and rates that are positive but absurdly small are refused, or give a run that works.
#[test]
fn absurdly_small_probabilities_are_refused_or_usable() {
    for p in [1e-18, 1e-20, 1e-300, f64::MIN_POSITIVE, 5e-324] {
        let text = format!("markov-custom(p=[0, 0.5, {p:e}])");
        for start in [Start::Stationary, Start::Cold] {
            let spec: PolicySpec = text.parse().unwrap();
            let Ok(mut selector) = Selector::new(&spec, setting(50, 5, 5), Seed(1), start) else {
                continue;
            };
            for _ in 0..3 {
                let cohort = selector.select(Availability::Everyone).unwrap();
                let accepted: Vec<Report> =
                    cohort.clients.iter().map(|&client| Report::plain(client)).collect();
                selector.finish(&accepted).unwrap();
            }
        }
        let rates = Some(vec![1.0, 1.0, p]);
        let params = SettingParams { rates, ..SettingParams::new(3, 2, 5) };
        for name in ["markov-optimal", "markov-linear", "phased"] {
            let Ok(setting) = params.clone().check() else { continue };
            if let Ok(mut selector) =
                Selector::new(&policy(name), setting, Seed(1), Start::Stationary)
            {
                let cohort = selector.select(Availability::Everyone).unwrap();
                assert!(cohort.clients.starts_with(&[0, 1]), "{name}, {p}: {cohort:?}");
            }
        }
    }
}
