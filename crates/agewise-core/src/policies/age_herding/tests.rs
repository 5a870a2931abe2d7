use super::super::test_support::{TestRound, vector};
use super::centred::Centred;
use super::schedule::Schedule;
use crate::ages::Ages;
use crate::policy::{Probe, ProbeKind};
use crate::random::Seed;
use crate::reports::Report;
use crate::round::Availability;
use crate::selector::Selector;
use crate::setting::{SettingParams, Start};

const WIDTH: u64 = 7;

/// Clients with ages from 0 to 9 and sketches of all lengths; every eighth has none.
fn setup(case: u64, clients: u32, cohort: u32) -> TestRound {
    let sizes = (0..clients).map(|client| f64::from(1 + client % 3)).collect();
    let mut setup = TestRound::sized(sizes, cohort).sketches(|client| {
        let scale = 10f32.powi((client % 5) as i32 - 2);
        let known = client % 8 != 7;
        known.then(|| vector(case, client, WIDTH).iter().map(|number| scale * number).collect())
    });
    let age = |client: u32| u64::from(client * 7 + case as u32) % 10;
    setup.ages = Ages::new((0..clients).map(age));
    setup
}

/// (sketch at unit length - mean) times weight, in double precision, as the module's words say.
fn centred(setup: &TestRound, by_size: bool) -> Vec<Vec<f64>> {
    let weight = |client: u32| if by_size { setup.setting.sizes().of(client) } else { 1.0 };
    let unit = |client: u32| {
        let sketch: Vec<f64> =
            setup.reports.sketch(client)?.iter().map(|&x| f64::from(x)).collect();
        let length = sketch.iter().map(|x| x * x).sum::<f64>().sqrt();
        Some(sketch.into_iter().map(|x| x / length).collect::<Vec<f64>>())
    };
    let clients = setup.setting.clients();
    let known: Vec<(u32, Vec<f64>)> = (0..clients).filter_map(|c| Some((c, unit(c)?))).collect();
    let total: f64 = known.iter().map(|(client, _)| weight(*client)).sum();
    let mean = |index: usize| {
        known.iter().map(|(client, sketch)| weight(*client) * sketch[index]).sum::<f64>() / total
    };
    let mean: Vec<f64> = (0..WIDTH as usize).map(mean).collect();
    let about = |client: u32| match unit(client) {
        Some(sketch) => {
            sketch.iter().zip(&mean).map(|(x, mean)| weight(client) * (x - mean)).collect()
        }
        None => vec![0.0; WIDTH as usize],
    };
    (0..clients).map(about).collect()
}

fn square_of_sum(vectors: &[Vec<f64>], clients: &[u32]) -> f64 {
    let sum =
        |index: usize| clients.iter().map(|&client| vectors[client as usize][index]).sum::<f64>();
    (0..WIDTH as usize).map(|index| sum(index).powi(2)).sum()
}

/// The words, taken literally: candidates by age, the oldest first, then the one with the smallest sum.
#[test]
fn one_cohort_is_the_greedy_choice() {
    for case in 0..60 {
        for (options, by_size) in [("", false), (", by_size=1", true)] {
            let setup = setup(case, 40, 5).without(&[3, 11, 20]);
            let vectors = centred(&setup, by_size);
            let chosen =
                setup.cohort(&format!("age-herding(ahead=1, slack=3, bound=100{options})"), case);
            let age = |&client: &u32| setup.ages.of(client);
            let mut left: Vec<u32> =
                (0..40).filter(|&client| setup.mask[client as usize]).collect();
            left.sort_by_key(|client| std::cmp::Reverse(age(client)));
            // Ties are random: everyone of the youngest candidates' age might be one.
            let youngest = age(&left[14]);
            left.retain(|client| age(client) >= youngest);
            let mut sum = vec![chosen.iter().copied().max_by_key(age).unwrap()];
            assert_eq!(age(&sum[0]), age(&left[0]), "the oldest is there");
            assert!(chosen.iter().all(|client| left.contains(client)));
            if left.len() == 15 && age(&left[1]) < age(&left[0]) {
                while sum.len() < 5 {
                    let with =
                        |client: u32| square_of_sum(&vectors, &[&sum[..], &[client]].concat());
                    let others = left.iter().copied().filter(|client| !sum.contains(client));
                    sum.push(others.min_by(|&a, &b| with(a).total_cmp(&with(b))).unwrap());
                }
                sum.sort_unstable();
                assert_eq!(chosen, sum, "case {case}");
            }
        }
    }
}

/// The same without ties, so that every case is checked to the last client.
#[test]
fn without_ties_the_greedy_choice_is_exact() {
    for case in 0..60 {
        let mut setup = setup(case, 40, 5);
        setup.ages = Ages::new((0..40).map(|client| (client * 13 + case) % 40));
        let vectors = centred(&setup, false);
        let mut by_age: Vec<u32> = (0..40).collect();
        by_age.sort_by_key(|&client| std::cmp::Reverse(setup.ages.of(client)));
        let (candidates, mut expected) = (&by_age[..10], vec![by_age[0]]);
        while expected.len() < 5 {
            let with = |client: u32| square_of_sum(&vectors, &[&expected[..], &[client]].concat());
            let others = candidates.iter().copied().filter(|client| !expected.contains(client));
            expected.push(others.min_by(|&a, &b| with(a).total_cmp(&with(b))).unwrap());
        }
        expected.sort_unstable();
        assert_eq!(setup.cohort("age-herding(ahead=1, bound=1000)", 1), expected, "case {case}");
    }
}

/// The cost of a plan, from its definition.
fn cost(vectors: &[Vec<f64>], groups: &[usize], until_due: &[f64], punctual: f64) -> f64 {
    let squares: Vec<f64> = (0..vectors.len() as u32)
        .map(|client| square_of_sum(vectors, &[client]))
        .filter(|&s| s > 0.0)
        .collect();
    let unit = squares.iter().sum::<f64>() / squares.len() as f64;
    let rounds = 1 + groups.iter().max().unwrap();
    let members = |round: usize| -> Vec<u32> {
        (0..groups.len() as u32).filter(|&client| groups[client as usize] == round).collect()
    };
    let sums: f64 = (0..rounds).map(|round| square_of_sum(vectors, &members(round)) / unit).sum();
    let late = groups.iter().zip(until_due).map(|(&round, due)| (round as f64 - due).powi(2));
    sums + punctual * late.sum::<f64>()
}

#[test]
fn a_plan_ends_where_no_exchange_makes_it_cheaper() {
    for case in 0..40 {
        let setup = setup(case, 24, 4);
        let round = setup.round(case);
        let clients: Vec<u32> = (0..24).collect();
        let mean = Centred::mean(&round, |_| 1.0);
        let centred_sketches = Centred::new(&round, &clients, &mean, |_| 1.0);
        let groups: Vec<usize> = (0..24).map(|place| place / 4).collect();
        let until_due: Vec<f64> = (0..24).map(|place| f64::from(place % 7) - 0.3).collect();
        let (vectors, fixed, punctual) = (centred(&setup, false), 2, 0.04);
        let of = |groups: &[usize]| cost(&vectors, groups, &until_due, punctual);
        let mut plan =
            Schedule::new(&centred_sketches, groups.clone(), until_due.clone(), fixed, punctual);
        let before = of(&groups);
        plan.settle();
        let after = of(plan.groups());
        assert!(after < before, "case {case}: {before} {after}");
        assert_eq!(plan.groups()[..fixed], groups[..fixed]);
        for one in fixed..24 {
            for other in fixed..one {
                let mut changed = plan.groups().to_vec();
                changed.swap(one, other);
                // The policy computes in single precision, with sums of 24 numbers of about 1.
                assert!(of(&changed) > after - 1e-4, "case {case}: {one} and {other}");
            }
        }
    }
}

/// Clients of two kinds, whose updates are opposite: balanced cohorts have as many of one as of the other.
fn of_two_kinds(clients: u32, cohort: u32) -> TestRound {
    TestRound::new(clients, cohort).sketches(|client| {
        let sign = if client < clients / 2 { 1.0 } else { -1.0 };
        Some(vec![sign, 0.5, 0.0])
    })
}

#[test]
fn cohorts_are_balanced_in_both_forms_and_in_parts() {
    // 700 of 4,200: six parts greedily, and 17 parts of a plan.
    for (clients, cohort) in [(40, 4), (100, 10), (4_200, 700)] {
        let setup = of_two_kinds(clients, cohort);
        for policy in ["age-herding", "age-herding(ahead=1)"] {
            let chosen = setup.cohort(policy, 3);
            assert_eq!(chosen.len(), cohort as usize);
            assert!(chosen.is_sorted_by(|a, b| a < b), "each once, in order");
            let first = chosen.iter().filter(|&&client| client < clients / 2).count();
            let off = first.abs_diff(cohort as usize / 2);
            // A part of uneven size cannot be better than one off.
            let parts = if cohort == 700 { 35 } else { 0 };
            assert!(off <= parts, "{policy}, {cohort} of {clients}: {first} of the first kind");
        }
    }
}

/// The longest and the mean squared deviation of X over a run with sketches that change all the time.
fn play(policy: &str, clients: u32, cohort: u32, rounds: u64) -> (u64, f64) {
    let setting = SettingParams::new(u64::from(clients), u64::from(cohort), 10).check().unwrap();
    let interval = setting.interval();
    let mut selector =
        Selector::new(&policy.parse().unwrap(), setting, Seed(5), Start::Stationary).unwrap();
    let (mut longest, mut squares, mut count) = (0, 0.0, 0.0);
    for round in 0..rounds {
        let chosen = selector.select(Availability::Everyone).unwrap().clients;
        assert_eq!(chosen.len(), cohort as usize);
        let sketches: Vec<Vec<f32>> =
            chosen.iter().map(|&client| vector(round, client % 9, WIDTH)).collect();
        for &client in &chosen {
            let x = selector.ages().of(client) + 1;
            longest = longest.max(x);
            if round as f64 > 3.0 * interval {
                squares += (x as f64 - interval).powi(2);
                count += 1.0;
            }
        }
        let reports: Vec<Report<'_>> = chosen
            .iter()
            .zip(&sketches)
            .map(|(&client, sketch)| Report { sketch: Some(sketch), ..Report::plain(client) })
            .collect();
        selector.finish(&reports).unwrap();
    }
    let waiting = selector.ages().iter().max().unwrap();
    (longest.max(waiting), squares / count)
}

#[test]
fn nobody_waits_longer_than_the_bound() {
    for (policy, bound) in [
        ("age-herding(ahead=1, slack=6)", 18),
        ("age-herding(ahead=1, slack=6, bound=14)", 14),
        ("age-herding(punctual=0)", 18),
        ("age-herding(punctual=0, bound=13)", 13),
        ("age-herding(ahead=3, punctual=0)", 18),
    ] {
        let (longest, _) = play(policy, 47, 4, 400);
        assert!(longest <= bound, "{policy}: {longest}");
    }
    // Where the bound leaves nothing to choose it is a schedule without exceptions.
    assert_eq!(play("age-herding(punctual=0, bound=10)", 40, 4, 200), (10, 0.0));
}

#[test]
fn the_load_is_even_as_far_as_punctuality_is_worth_it() {
    let (_, loose) = play("age-herding(punctual=0.001)", 60, 5, 400);
    let (_, usual) = play("age-herding", 60, 5, 400);
    let (_, strict) = play("age-herding(punctual=100000)", 60, 5, 400);
    assert!(5.0 * usual < loose, "{usual} {loose}");
    assert_eq!(strict, 0.0, "sketches decide nothing any more");
}

#[test]
fn until_half_have_a_sketch_it_is_oldest_first() {
    let with = |known: u32| setup_with(known);
    for seed in 0..10 {
        let few = with(9);
        assert_eq!(few.cohort("age-herding", seed), few.cohort("oldest-first", seed));
    }
    let differs = (0..10).any(|seed| {
        let half = with(10);
        half.cohort("age-herding", seed) != half.cohort("oldest-first", seed)
    });
    assert!(differs);
}

fn setup_with(known: u32) -> TestRound {
    TestRound::new(20, 4).sketches(|client| (client < known).then(|| vector(1, client, WIDTH)))
}

#[test]
fn who_has_no_sketch_is_asked_before_the_first_round_only() {
    let mut setup = setup_with(9).without(&[12]);
    let asked = |setup: &TestRound, policy: &str| setup.policy(policy).probes(&setup.round(1));
    let unknown: Vec<u32> = (9..20).filter(|&client| client != 12).collect();
    assert_eq!(asked(&setup, "age-herding"), Probe::all(ProbeKind::UpdateStep, unknown));
    assert!(asked(&setup, "age-herding(probe=0)").is_empty());
    setup.ages.advance(&[0, 1]).unwrap();
    assert!(asked(&setup, "age-herding").is_empty());
}

#[test]
fn who_is_away_is_not_chosen_and_few_are_all_taken() {
    for policy in ["age-herding", "age-herding(ahead=1)"] {
        let setup = of_two_kinds(20, 6).without(&[0, 1, 2, 3, 10]);
        for seed in 0..20 {
            let chosen = setup.cohort(policy, seed);
            assert_eq!(chosen.len(), 6);
            assert!(chosen.iter().all(|&client| setup.mask[client as usize]));
        }
        let away: Vec<usize> = (0..16).collect();
        assert_eq!(of_two_kinds(20, 6).without(&away).cohort(policy, 1), [16, 17, 18, 19]);
        let all: Vec<usize> = (0..20).collect();
        assert!(of_two_kinds(20, 6).without(&all).cohort(policy, 1).is_empty());
    }
}

#[test]
fn sketches_that_say_nothing_leave_the_order_of_age() {
    let mut setup = TestRound::new(12, 3).sketches(|_| Some(vec![0.0; 3]));
    setup.ages = Ages::new(0..12);
    for policy in ["age-herding", "age-herding(ahead=1)", "age-herding(by_size=1)"] {
        assert_eq!(setup.cohort(policy, 1), [9, 10, 11], "{policy}");
    }
    let alike = setup.sketches(|_| Some(vec![f32::MAX, f32::MIN_POSITIVE, -1.0]));
    assert_eq!(alike.cohort("age-herding", 1), [9, 10, 11]);
}

#[test]
fn a_selector_that_was_kept_goes_on_as_it_would_have() {
    let setting = || SettingParams::new(30, 4, 10).check().unwrap();
    let spec = "age-herding".parse().unwrap();
    let begin = || Selector::new(&spec, setting(), Seed(2), Start::Stationary).unwrap();
    let play = |selector: &mut Selector, round: u64| {
        let chosen = selector.select(Availability::Everyone).unwrap().clients;
        let sketches: Vec<Vec<f32>> = chosen.iter().map(|&c| vector(round, c, WIDTH)).collect();
        let reports: Vec<Report<'_>> = chosen
            .iter()
            .zip(&sketches)
            .map(|(&client, sketch)| Report { sketch: Some(sketch), ..Report::plain(client) })
            .collect();
        selector.finish(&reports).unwrap();
        chosen
    };
    let mut whole = begin();
    for round in 0..15 {
        play(&mut whole, round);
    }
    let mut other = begin();
    other.restore(whole.state()).unwrap();
    for round in 15..40 {
        assert_eq!(play(&mut whole, round), play(&mut other, round), "round {round}");
    }
}

#[test]
fn options_out_of_range_are_named() {
    let setup = TestRound::new(20, 4);
    for (options, expected) in [
        ("slack=0.5", "slack"),
        ("bound=4", "bound"),
        ("bound=5.5", "bound"),
        ("ahead=0", "ahead"),
        ("ahead=129", "ahead"),
        ("punctual=-1", "punctual"),
        ("probe=2", "probe"),
        ("by_size=0.5", "by_size"),
    ] {
        let spec = format!("age-herding({options})").parse().unwrap();
        let error = super::super::build(&spec, &setup.setting).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn answers_before_the_first_round_order_the_first_schedule() {
    // Clients of two kinds that cancel each other; the first ages shuffle them.
    let setting = || SettingParams::new(40, 4, 10).check().unwrap();
    let sketch = |client: u32| vec![if client.is_multiple_of(2) { 1.0f32 } else { -1.0 }, 0.2];
    let spec = "age-herding".parse().unwrap();
    let sketches: Vec<Vec<f32>> = (0..40).map(sketch).collect();
    let report =
        |client: u32| Report { sketch: Some(&sketches[client as usize]), ..Report::plain(client) };
    for start in [Start::Stationary, Start::Cold] {
        let mut selector = Selector::new(&spec, setting(), Seed(4), start).unwrap();
        let mut before: Vec<u64> = selector.ages().iter().collect();
        let asked = selector.probes(Availability::Everyone).unwrap();
        assert_eq!(asked.len(), 40);
        selector
            .observe(&asked.iter().map(|probe| report(probe.client)).collect::<Vec<_>>())
            .unwrap();
        let mut after: Vec<u64> = selector.ages().iter().collect();
        assert_eq!(before != after, start == Start::Stationary, "ages that are 0 stay 0");
        before.sort_unstable();
        after.sort_unstable();
        assert_eq!(before, after, "as many clients of each age as before");
        let mut intervals = Vec::new();
        for round in 0..30 {
            let chosen = selector.select(Availability::Everyone).unwrap().clients;
            let even = chosen.iter().filter(|&&client| client % 2 == 0).count();
            assert_eq!(even, 2, "round {round}");
            intervals.extend(chosen.iter().map(|&client| selector.ages().of(client) + 1));
            let reports: Vec<Report<'_>> = chosen.iter().map(|&client| report(client)).collect();
            selector.finish(&reports).unwrap();
        }
        if start == Start::Stationary {
            assert!(intervals.iter().all(|&x| x == 10), "from the first round on everyone in turn");
        }
    }
}
