//! Back-off after failures: who may be asked when, for every policy, on both sides, and through stored states.

use crate::common::{all_policies, policy, setting};
use agewise_core::{
    Availability, Draws, EmptyCohort, FailedClient, Failures, Pick, Policy, PolicySpec,
    PolicyVariant, Report, Round, Seed, Selector, SelectorState, Setting, SettingParams, Start,
    Stream,
};
use std::collections::BTreeMap;

/// Plays a round in which these clients fail whenever they are asked; returns who was asked.
fn play(selector: &mut Selector, fails: impl Fn(u32) -> bool) -> Vec<u32> {
    let asked = selector.select(Availability::Everyone).unwrap().clients;
    end(selector, &asked, fails);
    asked
}

fn end(selector: &mut Selector, asked: &[u32], fails: impl Fn(u32) -> bool) {
    let (failed, came): (Vec<u32>, Vec<u32>) = asked.iter().partition(|&&client| fails(client));
    let came: Vec<Report> = came.into_iter().map(Report::plain).collect();
    selector.finish_with_failures(&came, &failed).unwrap();
}

fn start(spec: &PolicySpec, setting: Setting, seed: u64) -> Selector {
    Selector::new(spec, setting, Seed(seed), Start::Stationary).unwrap()
}

/// How often each client was asked.
fn asks(selector: &mut Selector, rounds: u64, fails: impl Fn(u32) -> bool) -> BTreeMap<u32, u64> {
    let mut asks = BTreeMap::new();
    for _ in 0..rounds {
        for client in play(selector, &fails) {
            *asks.entry(client).or_default() += 1;
        }
    }
    asks
}

fn without_backoff(clients: u64, cohort: u64, max_age: u64) -> Setting {
    let params = SettingParams::new(clients, cohort, max_age);
    SettingParams { backoff: false, ..params }.check().unwrap()
}

/// The experiment of the issue: 100 clients, 5 per round, one that is present and never reports.
#[test]
fn a_dead_client_is_asked_no_more_often_than_the_closed_form_says() {
    const ROUNDS: u64 = 400;
    let most = Failures::most_asks(ROUNDS, 20.0);
    assert_eq!(most, 14);
    for name in [
        "oldest-first",
        "age-herding",
        "markov-optimal",
        "round-robin",
        "phased",
        "phased(grace=0)",
        "markov-mixing",
        "phased(reshuffle=0.05)",
        "markov-capped",
    ] {
        let dead = |client| client == 17;
        let asked =
            |setting: Setting| asks(&mut start(&policy(name), setting, 1), ROUNDS, dead)[&17];
        let without = asked(without_backoff(100, 5, 30));
        if matches!(name, "markov-capped" | "phased(grace=0)") {
            // They give a place back with a cap, or not at all: a dead client is asked at most in one round of ten.
            assert!(without <= 60, "{name}: {without}");
            assert!(asked(setting(100, 5, 30)) <= most, "{name}");
            continue;
        }
        assert!(without > 350, "{name} gives places back");
        let asked = asked(setting(100, 5, 30));
        // The first ask comes within one interval of 20 rounds, which may cost one ask at the end.
        assert!((most - 1..=most).contains(&asked), "{name}: {asked}");
    }
}

#[test]
fn one_accident_costs_nothing() {
    for spec in all_policies() {
        let (mut with, mut without) =
            (start(&spec, setting(20, 5, 6), 3), start(&spec, without_backoff(20, 5, 6), 3));
        for round in 0..40 {
            let cohort = with.select(Availability::Everyone).unwrap();
            assert_eq!(cohort, without.select(Availability::Everyone).unwrap(), "{spec}");
            // Every client fails once in a row at most.
            let fails = |client: u32| {
                round % 3 == 0
                    && client.is_multiple_of(2)
                    && with.population().failures(client) == Failures::NONE
            };
            let failing: Vec<u32> = cohort.clients.iter().copied().filter(|&c| fails(c)).collect();
            end(&mut with, &cohort.clients, |client| failing.contains(&client));
            end(&mut without, &cohort.clients, |client| failing.contains(&client));
            if failing.iter().any(|&client| with.population().failures(client).in_a_row() > 1) {
                break;
            }
        }
    }
}

/// The paper's random choice gives no place back: failures change nothing in it, and neither in other policies whose
/// rounds are independent.
#[test]
fn policies_with_independent_rounds_stay_as_they_are() {
    let fails = |client: u32| client.is_multiple_of(3);
    for name in ["random", "probabilistic", "clustered"] {
        let mut with = start(&policy(name), setting(30, 6, 6), 3);
        let mut silent = start(&policy(name), setting(30, 6, 6), 3);
        for _ in 0..60 {
            let asked = play(&mut with, fails);
            assert_eq!(asked, silent.select(Availability::Everyone).unwrap().clients, "{name}");
            let came = asked.iter().filter(|&&client| !fails(client));
            silent.finish(&came.map(|&client| Report::plain(client)).collect::<Vec<_>>()).unwrap();
        }
        assert!(
            with.population()
                .failed()
                .all(|(client, failures)| { fails(client) && failures.in_a_row() > 0 })
        );
        assert!(
            with.population().failed().count() > 0,
            "{name}: failures are counted all the same"
        );
    }
}

/// A coordinator that chooses gives places to clients that wait rather than leave them empty, to the first of them;
/// clients that decide alone keep to the rule.
#[test]
fn places_are_filled_where_the_coordinator_chooses() {
    for spec in all_policies() {
        let mut selector = start(&spec, setting(6, 4, 4), 1);
        let decides_alone = selector.policy().local_rule().is_some();
        let independent = selector.policy().rounds_are_independent();
        let mut waited = 0;
        for round in 0..60u64 {
            let waiting: Vec<(u64, u32)> = (0..6)
                .map(|client| (selector.population().failures(client).eligible_from(), client))
                .filter(|&(from, _)| from > round)
                .collect();
            let cohort = selector.select(Availability::Everyone).unwrap();
            let asked: Vec<u32> = cohort.clients.clone();
            let early = waiting.iter().filter(|(_, client)| asked.contains(client)).count();
            if !independent && decides_alone {
                let only_forced = cohort.forced && waiting.len() == 6;
                assert!(early == 0 || only_forced, "{spec}, round {round}");
            } else if !independent {
                assert_eq!(early, waiting.len().saturating_sub(2), "{spec}, round {round}");
                let mut first = waiting.clone();
                first.sort_unstable();
                let filled = &first[..early];
                assert!(filled.iter().all(|(_, client)| asked.contains(client)), "{spec}");
            }
            waited += waiting.len();
            // Four of six fail always, so eligible clients are fewer than places.
            end(&mut selector, &asked, |client| client < 4);
        }
        assert!(waited > 0, "{spec}");
    }
}

/// If all clients wait, one of them is forced: a round without any client delivers nothing for sure.
#[test]
fn somebody_is_forced_even_if_all_wait() {
    let mut selector = start(&policy("markov-optimal"), setting(3, 1, 8), 5);
    for _ in 0..40 {
        play(&mut selector, |_| true);
    }
    let all_wait = |selector: &Selector| {
        let round = selector.round();
        selector.population().failed().filter(|(_, f)| !f.is_eligible(round)).count() == 3
    };
    let mut forced = 0;
    for _ in 0..40 {
        if all_wait(&selector) {
            let cohort = selector.select(Availability::Everyone).unwrap();
            assert!(cohort.forced && cohort.clients.len() == 1);
            assert_eq!(selector.view(Availability::Everyone).unwrap().available().count(), 0);
            forced += 1;
        }
        play(&mut selector, |_| true);
    }
    assert!(forced > 0);
    let params = SettingParams::new(3, 1, 8);
    let skip = SettingParams { empty_cohort: EmptyCohort::Skip, ..params }.check().unwrap();
    let mut selector = start(&policy("markov-optimal"), skip, 5);
    for _ in 0..40 {
        if all_wait(&selector) {
            assert!(selector.select(Availability::Everyone).unwrap().clients.is_empty());
        }
        play(&mut selector, |_| true);
    }
}

/// A client that knows its age, its failures and the published interval decides as the coordinator expects it to.
#[test]
fn a_client_that_decides_alone_follows_the_same_rule() {
    const CLIENTS: u32 = 40;
    let fails = |round: u64, client: u32| {
        client.is_multiple_of(7) || (client + round as u32).is_multiple_of(3)
    };
    for name in ["markov-optimal", "markov-linear", "phased"] {
        let params = SettingParams::new(u64::from(CLIENTS), 4, 12);
        let skip = SettingParams { empty_cohort: EmptyCohort::Skip, ..params }.check().unwrap();
        let mut selector = start(&policy(name), skip, 8);
        // What the clients know of themselves.
        let mut at_home = vec![Failures::NONE; CLIENTS as usize];
        for round in 0..200 {
            let draws = selector.view(Availability::Everyone).unwrap().draws(Stream::DRAW);
            let rule = selector.policy().local_rule().unwrap();
            let decides = |&client: &u32| {
                let age = selector.ages().of(client);
                at_home[client as usize].is_eligible(round)
                    && rule.takes_part(round, client, age, draws.of(u64::from(client)))
            };
            let decided: Vec<u32> = (0..CLIENTS).filter(decides).collect();
            assert_eq!(play(&mut selector, |client| fails(round, client)), decided, "{name}");
            for client in decided {
                let failures = &mut at_home[client as usize];
                *failures = if fails(round, client) {
                    failures.and_one_more(round, 10.0)
                } else {
                    Failures::NONE
                };
                assert_eq!(selector.population().failures(client), *failures);
            }
        }
        assert!(at_home[7].in_a_row() > 5, "{name}");
    }
}

/// With oldest-first the places go to clients that are at least as old, each once, or to dead ones; hence the bound of
/// docs/theory.md for n_h healthy and D dead clients: W m <= n_h - 1 + D a(W) for a wait of W rounds, where a(W) is the
/// most often that a dead client is asked within W rounds. With age-herding the same holds from the round on in which the
/// client has waited as long as its own bound says, 1.5 n/m.
#[test]
fn no_healthy_client_waits_longer_than_the_bound() {
    for (clients, cohort, dead) in [(100u32, 5u32, 1u32), (100, 5, 20), (60, 15, 12), (30, 1, 3)] {
        let interval = f64::from(clients) / f64::from(cohort);
        let healthy = u64::from(clients - dead);
        let possible = |wait: u64| {
            let dead = u64::from(dead) * Failures::most_asks(wait, interval);
            wait * u64::from(cohort) < healthy + dead
        };
        let bound = 1 + (1..10_000).take_while(|&wait| possible(wait)).count() as u64;
        let herding = (1.5 * interval).ceil() as u64;
        for (name, extra) in [("oldest-first", 0), ("round-robin", 0), ("age-herding", herding)] {
            let spec = policy(name);
            let mut selector = start(&spec, setting(u64::from(clients), u64::from(cohort), 40), 2);
            let bound = bound + extra;
            let mut longest = 0;
            for _ in 0..600 {
                let ages: Vec<u64> = selector.ages().iter().collect();
                let asked = selector.select(Availability::Everyone).unwrap().clients;
                // Sketches, so that age-herding plans.
                let sketch = |client: u32| [(client % 7) as f32 - 3.0, (client % 5) as f32 - 2.0];
                let sketches: Vec<[f32; 2]> = asked.iter().map(|&client| sketch(client)).collect();
                let reports = asked.iter().zip(&sketches).filter(|(client, _)| **client >= dead);
                let reports: Vec<Report> = reports
                    .map(|(&c, sketch)| Report { sketch: Some(sketch), ..Report::plain(c) })
                    .collect();
                let failed: Vec<u32> = asked.iter().copied().filter(|&c| c < dead).collect();
                selector.finish_with_failures(&reports, &failed).unwrap();
                let waits = asked.iter().filter(|&&client| client >= dead);
                let waits = waits.map(|&client| ages[client as usize] + 1);
                longest = waits.max().unwrap_or(0).max(longest);
            }
            assert!(longest <= bound, "{name}, {dead} of {clients}: {longest} > {bound}");
            assert!(2 * longest >= interval as u64);
        }
    }
}

/// What policies lose to clients that fail, over 400 rounds and 5 seeds, 5 clients per round.
struct Lost {
    share: f64,
    /// Var\[X\] of the clients that deliver at all, and their longest X.
    variance: f64,
    longest: u64,
    /// Mean and variance from round 100 on, after five intervals.
    later: (f64, f64),
    /// How many places were lost for each report.
    per_report: f64,
}

fn moments(intervals: &[u64]) -> (f64, f64) {
    let count = intervals.len() as f64;
    let mean = intervals.iter().sum::<u64>() as f64 / count;
    (mean, intervals.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>() / count)
}

/// The same of 100 clients.
fn lost(name: &str, dead: u32, dropout: f64) -> Lost {
    lost_of(100, name, dead, dropout)
}

fn lost_of(clients: u32, name: &str, dead: u32, dropout: f64) -> Lost {
    const FAILS: Stream = Stream::custom(18);
    const SKETCH: Stream = Stream::custom(30);
    let (mut asks, mut losses, mut intervals, mut later) = (0, 0, Vec::new(), Vec::new());
    for seed in 0..5 {
        // A client that is forced into an empty cohort is not there by its law, and fewer healthy clients leave more cohorts empty.
        let params = SettingParams::new(u64::from(clients), 5, 101);
        let params = SettingParams { empty_cohort: EmptyCohort::Skip, ..params };
        let mut selector = start(&policy(name), params.check().unwrap(), seed);
        // So that age-herding plans: without them it is oldest-first.
        let sketch = |client: u64| {
            let draws = Draws::new(Seed(seed), SKETCH, client);
            [0, 1, 2, 3].map(|number| draws.of(number).unit() as f32 - 0.5)
        };
        let sketches: Vec<[f32; 4]> = (0..u64::from(clients)).map(sketch).collect();
        for round in 0..400 {
            let draws = Draws::new(Seed(seed), FAILS, round);
            let fails = |client: u32| {
                client * dead % clients < dead || draws.of(u64::from(client)).unit() < dropout
            };
            let ages: Vec<u64> = selector.ages().iter().collect();
            let asked = selector.select(Availability::Everyone).unwrap().clients;
            let (failed, came): (Vec<u32>, Vec<u32>) =
                asked.iter().partition(|&&client| fails(client));
            let report = |&client: &u32| Report {
                sketch: Some(&sketches[client as usize]),
                ..Report::plain(client)
            };
            let reports: Vec<Report> = came.iter().map(report).collect();
            selector.finish_with_failures(&reports, &failed).unwrap();
            asks += asked.len();
            losses += failed.len();
            let came: Vec<u64> = came.iter().map(|&client| ages[client as usize] + 1).collect();
            intervals.extend(&came);
            if round >= 100 {
                later.extend(came);
            }
        }
    }
    Lost {
        share: losses as f64 / asks as f64,
        variance: moments(&intervals).1,
        longest: intervals.iter().copied().max().unwrap_or(0),
        later: moments(&later),
        per_report: losses as f64 / intervals.len() as f64,
    }
}

/// Clients that always fail: of the places that a policy gives it loses at most 1.2 times the share that random choice
/// loses, which is their share of the clients. Clients that deliver keep Var\[X\] within 10% of that without failures,
/// and their longest wait, where each decides alone. Where the coordinator chooses, the first failures of many clients
/// come at once and make others late, by a variance of at most 2% of that of random choice, 8 rounds^2; once the dead ones
/// are known, Var\[X\] is within 10% of the least that whole numbers with the mean of X can have. That is not so with
/// `age-herding`, which changes places on purpose and has a test of its own.
#[test]
fn dead_clients_cost_no_more_than_random_choice_loses() {
    for name in [
        "markov-capped",
        "markov-mixing",
        "markov-optimal",
        "markov-linear",
        "phased",
        "phased(grace=0)",
        "phased(reshuffle=0.05)",
        "oldest-first",
        "round-robin",
    ] {
        let own = lost(name, 0, 0.0);
        assert!(own.share == 0.0);
        // Where no age is certain the longest of many waits is a matter of chance; the theorem is tested elsewhere.
        let is_certain = name != "markov-capped";
        // Reshuffled phases are less even with a fifth of the clients dead, by 14% over 20 seeds (docs/policies.md).
        let factor = if name.contains("reshuffle") { 1.25 } else { 1.1 };
        for dead in [1, 5, 20] {
            let with = lost(name, dead, 0.0);
            let random = f64::from(dead) / 100.0;
            assert!(with.share <= 1.2 * random, "{name}, {dead}%: {} lost", with.share);
            let decides_alone = name.starts_with("markov") || name.starts_with("phased");
            let tolerance = if decides_alone { 0.05 } else { 8.0 };
            let most = factor * own.variance + tolerance;
            assert!(with.variance <= most, "{name}, {dead}%: Var[X] {}", with.variance);
            let has_longest = decides_alone && is_certain;
            assert!(!has_longest || with.longest <= own.longest, "{name}: {}", with.longest);
            let (mean, variance) = with.later;
            let least = mean.fract() * (1.0 - mean.fract());
            let most =
                if decides_alone { factor * own.later.1 + tolerance } else { 1.1 * least + 0.005 };
            assert!(variance <= most, "{name}, {dead}%: later {variance}, least {least}");
        }
    }
}

/// `age-herding` with sketches: it loses no more places than the others, and misses the goal of 10% for the clients that
/// deliver. With 20 dead clients their mean X is that of 89 clients without failures (17.8), and Var\[X\] is up to a third
/// above what it has with those; docs/policies.md says 25% for 20 seeds.
#[test]
fn age_herding_is_less_even_with_dead_clients_than_without() {
    for (dead, most) in [(1, 1.0), (5, 1.8), (20, 1.8)] {
        let with = lost("age-herding", dead, 0.0);
        let random = f64::from(dead) / 100.0;
        assert!(with.share <= 1.2 * random, "{dead}%: {} lost", with.share);
        assert!(with.later.1 <= most, "{dead}%: later {}", with.later.1);
    }
    let (mean, with) = lost("age-herding", 20, 0.0).later;
    let (same_mean, own) = lost_of(89, "age-herding", 0, 0.0).later;
    assert!((mean - same_mean).abs() < 0.1, "{mean} and {same_mean}");
    assert!(own > 0.5, "with sketches it is not oldest-first: {own}");
    assert!(with <= 1.35 * own, "{with} and {own}");
}

/// Failures that hit every client alike cost every policy the same share of its places, and as many places for each report
/// that arrives. 10,000 asks have a standard error of at most 0.005, and retries come in few rounds: 4 of them are allowed
/// for the share. For places per report that is less than the 1.2 times that are the goal.
#[test]
fn failures_at_random_cost_as_much_as_with_random_choice() {
    for dropout in [0.05, 0.2, 0.5] {
        let random = lost("random", 0, dropout);
        for name in [
            "random",
            "markov-capped",
            "markov-mixing",
            "markov-optimal",
            "markov-linear",
            "phased",
            "phased(grace=0)",
            "phased(reshuffle=0.05)",
            "oldest-first",
            "age-herding",
        ] {
            let lost = lost(name, 0, dropout);
            assert!((lost.share - dropout).abs() < 0.02, "{name}: {} of {dropout}", lost.share);
            assert!(lost.per_report <= 1.2 * random.per_report, "{name}: {}", lost.per_report);
        }
    }
}

/// Twenty dead clients of 100 that come back together would take four rounds in a row from all others. In turns, one of
/// them is asked in every other round: each has waited for 40 rounds then.
#[test]
fn clients_that_fail_again_and_again_take_turns() {
    for name in ["oldest-first", "round-robin"] {
        let dead = |client: u32| (40..60).contains(&client);
        let mut selector = start(&policy(name), setting(100, 5, 101), 1);
        let mut last = BTreeMap::new();
        for round in 0..400u64 {
            let asked = play(&mut selector, dead);
            let dead: Vec<u32> = asked.into_iter().filter(|&client| dead(client)).collect();
            let before: Vec<Option<u64>> = dead.iter().map(|&c| last.insert(c, round)).collect();
            if round >= 100 {
                assert_eq!(dead.len() as u64, 1 - round % 2, "{name}, {round}: {dead:?}");
                assert!(round < 140 || before == vec![Some(round - 40); dead.len()], "{before:?}");
            }
        }
    }
}

#[test]
fn wrong_failures_are_refused_and_change_nothing() {
    let mut selector = start(&policy("oldest-first"), setting(6, 2, 6), 1);
    play(&mut selector, |client| client == 3);
    let before = selector.state();
    for (accepted, failed, wrong) in [
        (vec![], vec![6], "6"),
        (vec![], vec![2, 2], "2"),
        (vec![1, 4], vec![0, 4], "4"),
        (vec![], vec![u32::MAX], "4294967295"),
    ] {
        let accepted: Vec<Report> = accepted.into_iter().map(Report::plain).collect();
        let error = selector.finish_with_failures(&accepted, &failed).unwrap_err();
        assert_eq!((error.field(), error.value()), ("failed", wrong));
        assert_eq!(selector.state(), before);
    }
    let error = selector.finish_with_failures(&[Report::plain(9)], &[1]).unwrap_err();
    assert_eq!(error.field(), "credited");
    assert_eq!(selector.state(), before);
}

#[test]
fn stored_failures_come_back_or_are_refused() {
    let new = || start(&policy("oldest-first"), setting(20, 4, 6), 1);
    let mut selector = new();
    assert!(!serde_json::to_string(&selector.state()).unwrap().contains("failed"));
    for _ in 0..30 {
        play(&mut selector, |client| client.is_multiple_of(5));
    }
    let text = serde_json::to_string(&selector.state()).unwrap();
    assert!(text.contains("failed"));
    let mut restored = new();
    restored.restore(serde_json::from_str(&text).unwrap()).unwrap();
    for _ in 0..50 {
        assert_eq!(restored.state(), selector.state());
        let fails = |client: u32| client.is_multiple_of(5);
        assert_eq!(play(&mut restored, fails), play(&mut selector, fails));
    }
    let failed = |client, in_a_row| FailedClient { client, in_a_row, eligible_from: 3 };
    for (failed, wrong) in [
        (vec![failed(20, 1)], "20"),
        (vec![failed(3, 0)], "0 failures in a row"),
        (vec![failed(3, 1), failed(3, 1)], "3"),
    ] {
        let mut state: SelectorState = selector.state();
        state.population.failed = failed;
        let before = restored.state();
        let error = restored.restore(state).unwrap_err();
        assert_eq!((error.field(), error.value()), ("failed", wrong));
        assert_eq!(restored.state(), before);
    }
}

/// Names the same clients in every round.
#[derive(Debug)]
struct Stubborn;

impl Policy for Stubborn {
    fn select(&mut self, _: &Round<'_>) -> Vec<Pick> {
        vec![Pick::once(0), Pick::once(1)]
    }

    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        clients.iter().map(|&client| round.setting().rate(client)).collect()
    }

    fn initial_ages(&self, setting: &Setting, _: Seed) -> Vec<u64> {
        vec![0; setting.clients() as usize]
    }
}

/// A policy of a user's own sees only clients that may be asked, and is told when it names another.
#[test]
fn a_policy_of_one_s_own_is_held_to_it() {
    let variant = PolicyVariant::new("stubborn", |_| Ok(Box::new(Stubborn)));
    let mut selector = Selector::from_variant(&variant, setting(8, 2, 8), Seed(1)).unwrap();
    play(&mut selector, |client| client == 0);
    play(&mut selector, |client| client == 0);
    // Not in the next round: X/4 is 1 round, X/2 are 2.
    play(&mut selector, |client| client == 0);
    let error = selector.select(Availability::Everyone).unwrap_err();
    assert_eq!((error.field(), error.value()), ("cohort of stubborn", "client 0"));
    assert!(error.expected().contains("wait"), "{error}");
    let seen: Vec<u32> = selector.view(Availability::Everyone).unwrap().available().collect();
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
}
