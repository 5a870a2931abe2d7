//! The coordinator's side and the client's side agree, and a stored run goes on as if nothing had happened.

use crate::common::{all_policies, play, policy, setting};
use agewise_core::{
    Ages, Availability, Chance, Cohort, Draws, Policy, PolicySpec, Report, Reports, Round, Seed,
    Selector, SelectorState, Setting, SettingParams, Sizes, Start, Stream, build_policy,
    proportional_rates,
};

/// Every policy, and `phased` with swaps.
fn policies() -> Vec<PolicySpec> {
    let mut all = all_policies();
    all.push(policy("phased(reshuffle=0.3)"));
    all.push(policy("phased(reshuffle=1)"));
    all
}

/// Random facts of a test's own: streams that no policy uses.
fn chance(stream: u64, round: u64, index: u32, p: f64) -> bool {
    let draws = Draws::new(Seed(77), Stream::custom((1 << 20) + stream), round);
    Chance::new(p).wins(draws.of(u64::from(index)))
}

fn mask(clients: u32, round: u64, share: f64) -> Vec<bool> {
    (0..clients).map(|client| chance(1, round, client, share)).collect()
}

/// These ages at the beginning of this round: each client was last credited in the round before its age.
fn ages_at(round: u64, wanted: &[u64]) -> Ages {
    let mut ages = Ages::new(wanted.iter().map(|age| age.saturating_sub(round)));
    for now in 0..round {
        let credited = (0..).zip(wanted).filter(|(_, age)| now + **age + 1 == round);
        ages.advance(&credited.map(|(client, _)| client).collect::<Vec<u32>>()).unwrap();
    }
    assert!(ages.iter().eq(wanted.iter().copied()) && ages.round() == round);
    ages
}

fn settings() -> Vec<Setting> {
    let rates = proportional_rates(&(1..=30).map(f64::from).collect::<Vec<_>>(), 7.0).unwrap();
    let own_rates = SettingParams { rates: Some(rates), ..SettingParams::new(30, 7, 6) };
    vec![setting(50, 8, 10), setting(50, 10, 10), setting(40, 3, 4), own_rates.check().unwrap()]
}

/// Every available client is asked at home, with its age and its own draw of the round; those that say yes
/// must be the cohort. Near rounds and far ones; ages are anything.
#[test]
fn a_client_at_home_decides_as_the_coordinator_does() {
    let mut asked = 0;
    for setting in settings() {
        for spec in policies() {
            // Swapping phases is refused where clients have rates of their own.
            if setting.rates().is_some() && spec.to_string().contains("reshuffle") {
                assert_eq!(build_policy(&spec, &setting).unwrap_err().field(), "phased(reshuffle)");
                continue;
            }
            let mut built = build_policy(&spec, &setting).unwrap();
            for round in (0..40).chain([999, 1_000, 99_999, 100_000]) {
                let takes_part = cohort_by_both_sides(&mut *built, &setting, round, &spec);
                asked += usize::from(takes_part.is_some_and(|size| size > 0));
            }
        }
    }
    assert!(asked > 500, "hardly anybody took part: {asked} cohorts");
}

/// The size of the cohort, after checking that both sides agree; `None` if there is only one side.
fn cohort_by_both_sides(
    built: &mut dyn Policy,
    setting: &Setting,
    round: u64,
    spec: &PolicySpec,
) -> Option<usize> {
    let seed = Seed(5);
    let clients = setting.clients();
    let age = |client: u32| {
        let bits = Draws::new(Seed(6), Stream::custom(1 << 20), round).of(u64::from(client)).bits();
        bits % if chance(2, round, client, 0.1) { 1_000 } else { 12 }
    };
    let ages = ages_at(round, &(0..clients).map(age).collect::<Vec<_>>());
    let available = mask(clients, round, 0.8);
    let reports = Reports::default();
    let seen = Round::new(setting, seed, &ages, Availability::Only(&available), &reports).unwrap();
    let cohort: Vec<u32> = built.select(&seen).iter().map(|pick| pick.client).collect();

    let rule = built.local_rule()?;
    let draws = Draws::new(seed, Stream::DRAW, round);
    let says_yes = |&client: &u32| {
        available[client as usize]
            && rule.takes_part(round, client, ages.of(client), draws.of(u64::from(client)))
    };
    let at_home: Vec<u32> = (0..clients).filter(says_yes).collect();
    assert_eq!(cohort, at_home, "{spec}, round {round}");
    Some(cohort.len())
}

#[test]
fn both_sides_agree_a_million_rounds_on() {
    let setting = setting(20, 3, 10);
    for name in ["markov-optimal", "phased", "phased(reshuffle=0.3)"] {
        let spec = policy(name);
        let mut built = build_policy(&spec, &setting).unwrap();
        let sizes: Vec<_> = (1_000_000..1_000_010)
            .filter_map(|round| cohort_by_both_sides(&mut *built, &setting, round, &spec))
            .collect();
        assert_eq!(sizes.len(), 10, "{name} has a local rule");
    }
}

#[test]
fn exactly_the_decentralised_policies_have_a_local_rule() {
    let setting = setting(10, 2, 5);
    for spec in all_policies() {
        let expected = spec.name().starts_with("markov") || spec.name() == "phased";
        let built = build_policy(&spec, &setting).unwrap();
        assert_eq!(built.local_rule().is_some(), expected, "{spec}");
    }
}

/// One round with clients away and reports lost; both depend on the round alone.
fn rough_round(selector: &mut Selector) -> Cohort {
    let round = selector.round();
    let share = if round.is_multiple_of(7) { 0.3 } else { 0.9 };
    let available = mask(selector.setting().clients(), round, share);
    let cohort = selector.select(Availability::Only(&available)).unwrap();
    let again = selector.select(Availability::Only(&available)).unwrap();
    assert_eq!(cohort, again, "asking twice gives two answers");
    let arrived = cohort.clients.iter().filter(|&&client| chance(3, round, client, 0.75));
    let report = |&client: &u32| Report {
        loss: Some(round as f32 / 3.0 + client as f32),
        duration: (client % 2 == 0).then_some(0.1 * client as f32),
        ..Report::plain(client)
    };
    selector.finish(&arrived.map(report).collect::<Vec<_>>()).unwrap();
    cohort
}

#[test]
fn a_restored_selector_continues_exactly() {
    let sizes = Some(Sizes::new((0..30).map(|client| f64::from(client % 7)).collect()).unwrap());
    let setting = SettingParams { sizes, ..SettingParams::new(30, 4, 6) }.check().unwrap();
    for spec in policies() {
        let new = || Selector::new(&spec, setting.clone(), Seed(8), Start::Stationary).unwrap();
        for stored_at in [0, 1, 13, 60] {
            let mut unbroken = new();
            for _ in 0..stored_at {
                rough_round(&mut unbroken);
            }
            let text = serde_json::to_string(&unbroken.state()).unwrap();
            let mut restored = new();
            // Something else must have happened to the second one, or restoring would show nothing.
            play(&mut restored, 3, |_, _| {});
            restored.restore(serde_json::from_str::<SelectorState>(&text).unwrap()).unwrap();
            assert_eq!(restored.state(), unbroken.state(), "{spec}");
            for _ in 0..60 {
                let (one, other) = (rough_round(&mut unbroken), rough_round(&mut restored));
                assert_eq!(one, other, "{spec}, stored at {stored_at}");
            }
            assert_eq!(restored.state(), unbroken.state(), "{spec}");
        }
    }
}

/// Policies that use random draws differ between seeds; the fixed rhythms do not.
#[test]
fn seeds_matter_where_something_is_random() {
    let cohorts = |spec: &PolicySpec, seed| {
        let mut selector =
            Selector::new(spec, setting(30, 4, 10), Seed(seed), Start::Stationary).unwrap();
        let mut cohorts = Vec::new();
        play(&mut selector, 30, |cohort, _| cohorts.push(cohort.clients.clone()));
        cohorts
    };
    for spec in all_policies() {
        // At 4 of 30 no round of `phased` is empty, so no client is forced into a cohort at random there either.
        let is_random = spec.name() != "round-robin" && spec.name() != "phased";
        let (one, other) = (cohorts(&spec, 1), cohorts(&spec, 2));
        assert_eq!(one != other, is_random, "{spec}");
        assert_eq!(one, cohorts(&spec, 1), "{spec} is not a function of its seed");
    }
}

/// A client misses its turn, by being away or by losing its report; it comes in the first round in
/// which it can, and afterwards it is back in its old rhythm.
#[test]
fn a_missed_turn_of_phased_is_made_up_at_once() {
    let setting = setting(100, 15, 10);
    let turns_of = |client: u32, away: std::ops::Range<u64>, lost: Option<u64>| {
        let spec = policy("phased");
        let mut selector =
            Selector::new(&spec, setting.clone(), Seed(1), Start::Stationary).unwrap();
        let mut turns = Vec::new();
        for round in 0..60 {
            let mut available = vec![true; 100];
            available[client as usize] = !away.contains(&round);
            let cohort = selector.select(Availability::Only(&available)).unwrap();
            if cohort.clients.contains(&client) {
                turns.push(round);
            }
            let arrives = |&&other: &&u32| other != client || Some(round) != lost;
            let accepted: Vec<Report> =
                cohort.clients.iter().filter(arrives).map(|&c| Report::plain(c)).collect();
            selector.finish(&accepted).unwrap();
        }
        turns
    };
    for client in 0..100 {
        let regular = turns_of(client, 0..0, None);
        let (missed, next) = (regular[2], regular[3]);
        // Away from its turn on for three rounds: it comes right after them.
        let mut expected = regular.clone();
        expected[2] = missed + 3;
        assert!(missed + 3 < next);
        assert_eq!(turns_of(client, missed..missed + 3, None), expected, "client {client}, away");
        // Its report is lost: it is asked again in the very next round.
        let mut expected = regular.clone();
        expected.insert(3, missed + 1);
        assert_eq!(turns_of(client, 0..0, Some(missed)), expected, "client {client}, lost");
        // Away for two whole intervals: one visit makes up for all.
        let mut expected = regular.clone();
        expected.retain(|turn| !(missed..missed + 15).contains(turn));
        if !expected.contains(&(missed + 15)) {
            expected.insert(2, missed + 15);
        }
        let seen = turns_of(client, missed..missed + 15, None);
        assert_eq!(seen, expected, "client {client}, long away");
    }
}

/// The same with swaps. Who is always there never waits longer than 2 ceil(n/m) - 1 = 13 rounds, whatever is
/// swapped: one turn at most is lost to a swap. So a client that comes only in every 14th round has
/// missed a turn each time, and is due each time.
#[test]
fn a_missed_turn_is_made_up_where_phases_are_swapped() {
    for share in [0.0, 0.05, 0.3, 1.0] {
        let spec = policy(&format!("phased(reshuffle={share})"));
        let mut selector =
            Selector::new(&spec, setting(100, 15, 10), Seed(1), Start::Stationary).unwrap();
        let (mut visits, mut turns) = (0, 0);
        for round in 0..1_400 {
            let available: Vec<bool> =
                (0..100).map(|client| client >= 10 || (round + client) % 14 == 0).collect();
            let cohort = selector.select(Availability::Only(&available)).unwrap();
            let rare = available[..10].iter().filter(|&&here| here).count();
            // The first visits may come before the first turn.
            if round >= 14 {
                visits += rare;
                turns += cohort.clients.iter().filter(|&&client| client < 10).count();
            }
            let accepted: Vec<Report> = cohort.clients.iter().map(|&c| Report::plain(c)).collect();
            selector.finish(&accepted).unwrap();
        }
        assert_eq!(turns, visits, "{spec}: missed turns were forgotten");
    }
}
