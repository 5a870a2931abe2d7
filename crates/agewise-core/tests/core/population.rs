//! A population that changes on the way: a policy that hears of it chooses as one that is built anew, a stored run goes
//! on exactly, and what any policy answers is checked.

use crate::common::{all_policies, policy};
use agewise_core::{
    Availability, Error, Pick, Policy, PolicySpec, PolicyVariant, Report, Result, Round, Seed,
    Selector, SelectorState, Setting, SettingParams, Sizes, Start, Weighting, build_policy,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// What can happen between two rounds, or a round itself.
#[derive(Debug, Clone)]
enum Step {
    Admit(Vec<(f64, u64)>),
    Leave(u32),
    Size(u32, f64),
    Sizes(f64),
    Interval(f64),
    Round { there: u64, reported: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let size = || prop_oneof![2 => Just(1.0), 2 => (0u32..50).prop_map(f64::from), 1 => 0.1..9.0];
    prop_oneof![
        2 => prop::collection::vec((size(), 0u64..12), 1..4).prop_map(Step::Admit),
        1 => any::<u32>().prop_map(Step::Leave),
        2 => (any::<u32>(), size()).prop_map(|(client, size)| Step::Size(client, size)),
        1 => (1.0..3.0).prop_map(Step::Sizes),
        1 => (1.0..9.0).prop_map(Step::Interval),
        4 => (any::<u64>(), any::<u64>())
            .prop_map(|(there, reported)| Step::Round { there, reported }),
    ]
}

/// Every registered policy, and some with options that make them keep more.
fn policies() -> Vec<PolicySpec> {
    let options = [
        "phased(reshuffle=0.5)",
        "age-herding(bound=9)",
        "age-herding(ahead=1)",
        "age-herding(by_size=1)",
        "power-of-choice(d=7)",
        "clustered(by=2)",
    ];
    all_policies().into_iter().chain(options.map(policy)).collect()
}

/// A figure or a sketch of a client in a round.
fn figure(client: u32, round: u64, index: u64) -> f32 {
    ((u64::from(client) * 37 + round * 11 + index * 101) % 97) as f32 / 97.0 + 0.01
}

/// Plays a round in which some are there, some of those report, and the others fail.
fn play(selector: &mut Selector, there: u64, reported: u64) -> Vec<u32> {
    let round = selector.round();
    let mask: Vec<bool> =
        (0..selector.setting().clients()).map(|client| there >> (client % 64) & 3 != 0).collect();
    let cohort = selector.select(Availability::Only(&mask)).unwrap();
    let came = cohort.clients.iter().filter(|&&client| reported >> (client % 64) & 3 != 0);
    let sketches: Vec<(u32, [f32; 3])> =
        came.map(|&client| (client, [1, 2, 3].map(|i| figure(client, round, i) - 0.5))).collect();
    let reports: Vec<Report<'_>> = sketches
        .iter()
        .map(|(client, sketch)| Report {
            client: *client,
            loss: Some(figure(*client, round, 4)),
            duration: Some(figure(*client, round, 5)),
            root_mean_square: Some(figure(*client, round, 6)),
            sketch: Some(sketch),
        })
        .collect();
    let came: Vec<u32> = reports.iter().map(|report| report.client).collect();
    let failed: Vec<u32> =
        cohort.clients.iter().copied().filter(|client| !came.contains(client)).collect();
    selector.finish_with_failures(&reports, &failed).unwrap();
    cohort.clients
}

/// Does what a step says. What is refused changes nothing.
fn take(selector: &mut Selector, step: &Step) -> Result<Vec<u32>> {
    let clients = selector.setting().clients();
    let sizes = |factor: f64| {
        let sizes = selector.setting().sizes();
        Sizes::new((0..clients).map(|client| factor * sizes.of(client)).collect())
    };
    match step {
        Step::Admit(new) => selector.admit_all(new.iter().copied()).map(|first| vec![first]),
        Step::Leave(client) => selector.leave(client % clients).map(|()| Vec::new()),
        Step::Size(client, size) => selector.set_size(client % clients, *size).map(|()| Vec::new()),
        Step::Sizes(factor) => {
            sizes(*factor).and_then(|sizes| selector.set_sizes(sizes)).map(|()| Vec::new())
        }
        Step::Interval(interval) => selector.set_interval(*interval).map(|()| Vec::new()),
        Step::Round { there, reported } => Ok(play(selector, *there, *reported)),
    }
}

/// The cohort of a policy that is built anew for the present setting and has the same state.
fn anew(selector: &Selector, spec: &PolicySpec) -> (Vec<Pick>, Vec<f64>) {
    let mut fresh = build_policy(spec, selector.setting()).unwrap();
    fresh.load_state(&selector.policy().state()).unwrap();
    let round = selector.view(Availability::Everyone).unwrap();
    let (picks, _) = round.choose(&mut *fresh, "fresh").unwrap();
    let weights = round.weigh(&*fresh, Weighting::Unbiased, &picks);
    (picks, weights)
}

proptest! {
    // The cases are drawn from a fixed seed, so that a failure today is a failure tomorrow.
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_26),
        ..Default::default()
    })]

    #[test]
    fn a_policy_that_hears_of_changes_is_one_that_is_built_anew(
        steps in prop::collection::vec(step(), 1..25),
        seed in any::<u64>(),
    ) {
        for spec in policies() {
            let setting = SettingParams::new(12, 3, 6).check().unwrap();
            let new = || Selector::new(&spec, setting.clone(), Seed(seed), Start::Stationary).unwrap()
                .with_weighting(Weighting::Unbiased);
            let mut selector = new();
            let mut restored = new();
            for (index, step) in steps.iter().enumerate() {
                let before = selector.state();
                let taken = take(&mut selector, step);
                prop_assert_eq!(&taken, &take(&mut restored, step), "{}", &spec);
                if taken.is_err() {
                    prop_assert_eq!(selector.state(), before, "{}: {:?}", &spec, taken);
                }
                let cohort = selector.select(Availability::Everyone).unwrap();
                let (picks, weights) = anew(&selector, &spec);
                prop_assert_eq!(cohort.picks().collect::<Vec<_>>(), picks, "{}", &spec);
                prop_assert_eq!(cohort.weights, weights, "{}", &spec);
                if index % 5 == 4 {
                    let text = serde_json::to_string(&selector.state()).unwrap();
                    let state: SelectorState = serde_json::from_str(&text).unwrap();
                    restored.restore(state).unwrap();
                    prop_assert_eq!(restored.setting(), selector.setting());
                }
            }
        }
    }
}

#[test]
fn a_policy_that_cannot_follow_refuses_and_nothing_is_changed() {
    let setting = SettingParams::new(12, 3, 6).check().unwrap();
    let spec = policy("age-herding(bound=5)");
    let mut selector = Selector::new(&spec, setting, Seed(1), Start::Stationary).unwrap();
    selector.admit_all([(1.0, 0), (2.0, 1), (1.0, 2)]).unwrap();
    let before = selector.state();
    assert_eq!(selector.admit(1.0, 0).unwrap_err().field(), "age-herding(bound)");
    assert_eq!(selector.set_interval(6.0).unwrap_err().field(), "age-herding(bound)");
    assert_eq!(selector.state(), before);
    assert_eq!(anew(&selector, &spec).0.len(), 3);
    selector.set_size(14, 3.0).unwrap();
    assert_eq!(selector.setting().clients(), 15);
}

#[test]
fn states_that_do_not_fit_are_refused() {
    let new = || {
        let setting = SettingParams::new(6, 2, 6).check().unwrap();
        Selector::new(&policy("phased"), setting, Seed(1), Start::Cold).unwrap()
    };
    let mut grown = new();
    grown.admit_all([(3.0, 1), (2.0, 2)]).unwrap();
    grown.leave(7).unwrap();
    let mut selector = new();
    let before = selector.state();
    let mut refused = |change: &dyn Fn(&mut SelectorState)| {
        let mut state = grown.state();
        change(&mut state);
        let error = selector.restore(state).unwrap_err();
        assert_eq!(selector.state(), before);
        error.field().to_string()
    };
    assert_eq!(refused(&|state| state.population.admitted = 1), "ages");
    assert_eq!(refused(&|state| state.population.sizes = Some(vec![1.0; 7])), "sizes");
    assert_eq!(refused(&|state| state.population.left = vec![8]), "client");
    assert_eq!(refused(&|state| state.population.interval = Some(0.0)), "interval");
    assert_eq!(refused(&|state| state.policy = vec![1.0]), "state");
    selector.restore(grown.state()).unwrap();
    assert!(selector.population().has_left(7) && selector.population().admitted() == 2);
}

/// Those who reported share the whole weight.
#[test]
fn who_reported_is_weighed_anew() {
    let sizes = Some(Sizes::new((1..=8).map(f64::from).collect()).unwrap());
    let setting = SettingParams { sizes, ..SettingParams::new(8, 4, 6) }.check().unwrap();
    let mut selector =
        Selector::new(&policy("random"), setting, Seed(1), Start::Stationary).unwrap();
    let cohort = selector.select(Availability::Everyone).unwrap();
    let all: Vec<Pick> = cohort.picks().collect();
    let weigh = |picks: &[Pick]| selector.weigh(picks, Availability::Everyone);
    assert_eq!(weigh(&all).unwrap(), cohort.weights);
    let size = |pick: &Pick| f64::from(pick.client + 1);
    let sum: f64 = all[1..].iter().map(size).sum();
    let expected: Vec<f64> = all[1..].iter().map(|pick| size(pick) / sum).collect();
    assert_eq!(weigh(&all[1..]).unwrap(), expected);
    assert_eq!(weigh(&[Pick::once(8)]).unwrap_err().field(), "client");
}

#[test]
fn cohorts_say_how_often_each_was_drawn() {
    let setting = SettingParams::new(3, 3, 6).check().unwrap();
    let mut selector =
        Selector::new(&policy("probabilistic"), setting, Seed(4), Start::Stationary).unwrap();
    for _ in 0..20 {
        let cohort = selector.select(Availability::Everyone).unwrap();
        assert_eq!(cohort.draws.iter().sum::<u32>(), 3);
        assert_eq!(cohort.draws.len(), cohort.clients.len());
        selector.finish(&[]).unwrap();
    }
}

/// Answers what it is told to.
#[derive(Debug)]
struct Told(Vec<Pick>, usize);

impl Policy for Told {
    fn select(&mut self, _: &Round<'_>) -> Vec<Pick> {
        self.0.clone()
    }

    fn inclusion(&self, round: &Round<'_>, clients: &[u32]) -> Vec<f64> {
        clients.iter().map(|&client| round.setting().rate(client)).collect()
    }

    fn initial_ages(&self, _: &Setting, _: Seed) -> Vec<u64> {
        vec![0; self.1]
    }
}

fn told(clients: &[u32], ages: usize) -> Result<Selector> {
    let picks: Vec<Pick> = clients.iter().map(|&client| Pick::once(client)).collect();
    let variant = PolicyVariant::new("told", move |_| Ok(Box::new(Told(picks.clone(), ages))));
    Selector::from_variant(&variant, SettingParams::new(5, 2, 6).check()?, Seed(1))
}

/// Whatever a policy answers: what is no cohort is an error that names the policy and the client.
#[test]
fn answers_of_any_policy_are_checked() {
    let refused = |clients: &[u32]| -> Error {
        let mut selector = told(clients, 5).unwrap();
        selector.leave(4).unwrap();
        selector.select(Availability::Only(&[true, true, true, false, true])).unwrap_err()
    };
    for (clients, wrong, expected) in [
        (vec![1, 0], 0, "increasing"),
        (vec![0, 1, 1], 1, "once"),
        (vec![2, 3], 3, "available"),
        (vec![0, 4], 4, "left"),
        (vec![5], 5, "from 0 to 4"),
        (vec![u32::MAX], u32::MAX, "from 0 to 4"),
    ] {
        let error = refused(&clients);
        assert_eq!(error.field(), "cohort of told");
        assert_eq!(error.value(), format!("client {wrong}"));
        assert!(error.expected().contains(expected), "{error}");
    }
    assert!(told(&[0, 2], 5).unwrap().select(Availability::Everyone).is_ok());
    assert_eq!(told(&[], 4).unwrap_err().field(), "initial ages of told");
}

/// A round after many small changes costs no more than one after none: nothing is built anew for each.
#[test]
fn many_changes_are_cheap() {
    let setting = SettingParams::new(100, 10, 50).check().unwrap();
    for text in ["markov-optimal", "markov-linear", "phased", "age-herding", "probabilistic"] {
        let mut selector =
            Selector::new(&policy(text), setting.clone(), Seed(1), Start::Stationary).unwrap();
        for client in 100..30_000 {
            selector.admit(f64::from(client % 7 + 1), 3).unwrap();
            selector.set_size(client / 3, 2.0).unwrap();
        }
        assert!(!selector.select(Availability::Everyone).unwrap().clients.is_empty(), "{text}");
    }
}
