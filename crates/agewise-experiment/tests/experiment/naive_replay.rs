//! The engines against a plain replay that looks at every client in every round: the same cohorts, exactly.

use agewise_core::{
    Ages, Calibrator, Chance, Draws, EmptyCohort, Laws, PolicyVariant, Population, Seed,
    SettingParams, SizeDistribution, Sizes, Start, Stream, Weighting,
};
use agewise_experiment::{AvailabilityModel, SelectionRun, SelectionSpec, World};

const POLICIES: [&str; 9] = [
    "random",
    "probabilistic",
    "markov-optimal",
    "markov-linear",
    "markov-custom(p=[0, 0.2, 0, 0.9, 0.3])",
    "oldest-first",
    "phased",
    "phased(reshuffle=0.2)",
    "round-robin",
];

/// The streams of the world, as its documentation has them.
const ONLINE: Stream = Stream::custom(16);
const SWITCH: Stream = Stream::custom(17);
const DROPOUT: Stream = Stream::custom(18);
const LEAVE: Stream = Stream::custom(19);
const TIME_ZONE: Stream = Stream::custom(20);
const FAILING: Stream = Stream::custom(25);

fn draw(seed: Seed, stream: Stream, round: u64, client: u32) -> f64 {
    Draws::new(seed, stream, round).of(u64::from(client)).unit()
}

/// One client after the other, nothing remembered but plain lists.
struct Naive {
    spec: SelectionSpec,
    /// Of everyone who will ever join.
    sizes: Sizes,
    ages: Vec<u64>,
    here: Vec<bool>,
    on: Vec<bool>,
    /// The failures of each client in a row, and the round from which it may be asked again.
    failures: Vec<(u32, u64)>,
    calibrator: Option<Calibrator>,
}

impl Naive {
    fn new(spec: &SelectionSpec) -> Self {
        let policy = spec.policy.build(&spec.setting).unwrap();
        let first = spec.setting.clients();
        let all = spec.world.joined(first, spec.rounds);
        let mut ages = match spec.policy.start() {
            Start::Stationary => policy.initial_ages(&spec.setting, spec.world.seed),
            Start::Cold => vec![0; first as usize],
        };
        ages.resize(all as usize, 0);
        let up_share = match spec.world.availability {
            AvailabilityModel::OnOff { up, down } => up / (up + down),
            _ => 1.0,
        };
        let on = |client| draw(spec.world.seed, ONLINE, u64::MAX, client) < up_share;
        let interval = spec.setting.interval();
        Self {
            sizes: spec.size_distribution.draw(all, spec.world.seed).unwrap(),
            ages,
            here: (0..all).map(|client| client < first).collect(),
            on: (0..all).map(on).collect(),
            failures: vec![(0, 0); all as usize],
            calibrator: spec
                .calibrate
                .then(|| Calibrator::new(spec.setting.cohort(), interval).unwrap()),
            spec: spec.clone(),
        }
    }

    fn is_online(&self, round: u64, client: u32) -> bool {
        let seed = self.spec.world.seed;
        match self.spec.world.availability {
            AvailabilityModel::Always => true,
            AvailabilityModel::Bernoulli(p) => draw(seed, ONLINE, round, client) < p,
            AvailabilityModel::OnOff { .. } => self.on[client as usize],
            AvailabilityModel::Ranked(_) | AvailabilityModel::InSeconds(_) => unreachable!(),
            AvailabilityModel::Diurnal { period, depth } => {
                let day = round as f64 / period + draw(seed, TIME_ZONE, 0, client);
                let night = 0.5 * (1.0 + (std::f64::consts::TAU * day).cos());
                draw(seed, ONLINE, round, client) < 1.0 - depth * night
            }
        }
    }

    fn play(&mut self, round: u64) -> Vec<u32> {
        let world = self.spec.world;
        let joined = world.joined(self.spec.setting.clients(), round);
        for client in 0..self.sizes.clients() {
            let index = client as usize;
            let newcomer = client < joined
                && client >= world.joined(self.spec.setting.clients(), round.saturating_sub(1))
                && client >= self.spec.setting.clients();
            if newcomer {
                self.here[index] = true;
                self.ages[index] = 0;
            }
            if client < joined && draw(world.seed, LEAVE, round, client) < world.leave {
                self.here[index] = false;
            }
            if let (AvailabilityModel::OnOff { up, down }, true) =
                (world.availability, client < joined)
            {
                let u = draw(world.seed, SWITCH, round, client);
                self.on[index] = if self.on[index] { u >= 1.0 / up } else { u < 1.0 / down };
            }
        }
        let available: Vec<bool> = (0..joined)
            .map(|client| self.here[client as usize] && self.is_online(round, client))
            .collect();
        let eligible = self.eligible(round, &available);
        let mut cohort = self.select(round, &eligible);
        if cohort.is_empty() && self.spec.setting.empty_cohort() == EmptyCohort::ForceOne {
            let draws = Draws::new(world.seed, Stream::FORCED, round);
            let lowest = |mask: &[bool]| {
                let online = (0..joined).filter(|&c| mask[c as usize]);
                online.min_by_key(|&client| draws.of(u64::from(client)))
            };
            cohort.extend(lowest(&eligible).or_else(|| lowest(&available)));
        }
        let first_failing = draw(world.seed, FAILING, 0, 0);
        let reports = |&client: &u32| {
            let before = |client: f64| (client * world.failing + first_failing).floor() as u64;
            before(f64::from(client)) == before(f64::from(client) + 1.0)
                && draw(world.seed, DROPOUT, round, client) >= world.dropout
        };
        let failed: Vec<u32> = cohort.iter().copied().filter(|c| !reports(c)).collect();
        cohort.retain(reports);
        self.note_failures(round, joined, &cohort, &failed);
        for age in &mut self.ages {
            *age += 1;
        }
        for &client in &cohort {
            self.ages[client as usize] = 0;
        }
        if let Some(calibrator) = &mut self.calibrator {
            calibrator.observe(cohort.len() as u64);
        }
        cohort
    }

    /// Whether clients decide alone; nothing where none has to wait after failures.
    fn decide_alone(&self) -> Option<bool> {
        let policy = self.spec.policy.build(&self.spec.setting).unwrap();
        let backs_off = self.spec.setting.backoff() && !policy.rounds_are_independent();
        backs_off.then(|| policy.local_rule().is_some())
    }

    /// Those of the available clients that do not have to wait because they failed. Where the coordinator chooses, clients
    /// that failed five times or more take turns, and the first of those that are held back get the places that are left.
    fn eligible(&self, round: u64, available: &[bool]) -> Vec<bool> {
        let mut eligible = available.to_vec();
        let Some(decide_alone) = self.decide_alone() else {
            return eligible;
        };
        let mut held_back = Vec::new();
        let (mut share, mut due, mut taking_turns) = (0u128, 0, 0);
        for (client, eligible) in (0..).zip(&mut eligible) {
            let (in_a_row, from) = self.failures[client as usize];
            let takes_turns = !decide_alone && in_a_row >= 5;
            if *eligible && (from > round || takes_turns) {
                *eligible = false;
                held_back.push((from, client));
                if takes_turns {
                    let clients = available.len() as f64;
                    let turn = (2.0 * clients / f64::from(self.spec.setting.cohort())).ceil();
                    share += (1 << 48) / turn as u128;
                    due += usize::from(from <= round);
                    taking_turns += 1;
                }
            }
        }
        held_back.sort_unstable();
        let there = eligible.iter().filter(|&&eligible| eligible).count();
        let missing = (self.spec.setting.cohort() as usize).saturating_sub(there);
        let passed = |rounds: u64| (u128::from(rounds) * share) >> 48;
        let places = if taking_turns == 1 { 1 } else { passed(round + 1) - passed(round) };
        let turns = due.min(places as usize);
        if !decide_alone {
            for (_, client) in held_back.into_iter().take(missing.max(turns)) {
                eligible[client as usize] = true;
            }
        }
        eligible
    }

    fn note_failures(&mut self, round: u64, joined: u32, credited: &[u32], failed: &[u32]) {
        for &client in credited {
            self.failures[client as usize] = (0, 0);
        }
        let published = match &self.calibrator {
            Some(calibrator) => calibrator.interval(),
            None => self.spec.setting.interval(),
        };
        let interval = match self.decide_alone() {
            Some(true) => published,
            _ => f64::from(joined) / f64::from(self.spec.setting.cohort()),
        };
        for &client in failed {
            let (in_a_row, from) = &mut self.failures[client as usize];
            *in_a_row += 1;
            let wait = match *in_a_row {
                1 => 1.0,
                2 => interval / 4.0,
                3 => interval / 2.0,
                4 => interval,
                _ => 2.0 * interval,
            };
            *from = round + wait.ceil() as u64;
        }
    }

    /// What the policy chooses when it is made anew for those who have joined by this round.
    fn select(&mut self, round: u64, available: &[bool]) -> Vec<u32> {
        let (spec, clients) = (&self.spec, available.len() as u32);
        let params = SettingParams {
            sizes: Some(Sizes::new((0..clients).map(|c| self.sizes.of(c)).collect()).unwrap()),
            empty_cohort: spec.setting.empty_cohort(),
            backoff: spec.setting.backoff(),
            ..SettingParams::new(u64::from(clients), u64::from(spec.setting.cohort()), 10)
        };
        let since = self.ages.iter().take(available.len()).map(|&age| round as i64 - age as i64);
        let ages = Ages::resumed(round, since).unwrap();
        let mut population = Population::new(params.check().unwrap(), ages).unwrap();
        let policy = spec.policy.build(&spec.setting).unwrap();
        if let (Some(calibrator), Some(family)) = (&self.calibrator, policy.law_family()) {
            let laws = Laws::shared(family.law(calibrator.interval(), 10).unwrap());
            let draws = Draws::new(spec.world.seed, Stream::DRAW, round);
            let takes_part = |&client: &u32| {
                let chance = Chance::new(laws.of(client).probability(self.ages[client as usize]));
                available[client as usize] && chance.wins(draws.of(u64::from(client)))
            };
            return (0..clients).filter(takes_part).collect();
        }
        // What clients decide by themselves was published at the beginning.
        if spec.world.join > 0.0 && policy.local_rule().is_some() {
            population.set_interval(spec.setting.interval()).unwrap();
        }
        let mut policy = spec.policy.build(population.setting()).unwrap();
        let mask = agewise_core::Availability::Only(available);
        let seen = population.view(spec.world.seed, mask).unwrap();
        policy.select(&seen).into_iter().map(|pick| pick.client).collect()
    }
}

fn spec(policy: &str, clients: u64, cohort: u64, availability: &str) -> SelectionSpec {
    let size_distribution = SizeDistribution::Zipf(2.0);
    let seed = Seed(7);
    let sizes = Some(size_distribution.draw(clients as u32, seed).unwrap());
    SelectionSpec {
        setting: SettingParams { sizes, ..SettingParams::new(clients, cohort, 10) }
            .check()
            .unwrap(),
        size_distribution,
        policy: PolicyVariant::parse(policy, Start::Stationary, Some(Weighting::DataSize)).unwrap(),
        world: World { availability: availability.parse().unwrap(), ..World::calm(seed) },
        rounds: 30,
        warmup: 3,
        calibrate: false,
    }
}

fn assert_same(spec: &SelectionSpec) {
    let mut naive = Naive::new(spec);
    let mut run = SelectionRun::new(spec.clone()).unwrap();
    let mut anybody = 0;
    for round in 0..spec.rounds {
        let row = run.play().unwrap();
        let cohort = naive.play(round);
        // Not `assert_eq!`: nobody wants to read two lists of 15,000 clients.
        let same = run.last_cohort() == cohort;
        assert!(same, "{}, round {round}, {:?}", spec.policy.name(), spec.world);
        assert_eq!(row.reported, cohort.len() as u64);
        anybody += cohort.len();
    }
    assert!(anybody > 0);
}

const WORLDS: [&str; 4] = ["always", "bernoulli:0.7", "on-off:12,4", "diurnal:10,0.9"];

#[test]
fn every_policy_in_every_world() {
    for policy in POLICIES {
        for availability in WORLDS {
            assert_same(&spec(policy, 200, 30, availability));
            let restless = World {
                dropout: 0.2,
                failing: 0.1,
                join: 0.05,
                leave: 0.01,
                ..spec(policy, 1, 1, availability).world
            };
            assert_same(&SelectionSpec { world: restless, ..spec(policy, 200, 27, availability) });
        }
        let cold = spec(policy, 100, 15, "always");
        let cold = SelectionSpec { policy: cold.policy.clone().with_start(Start::Cold), ..cold };
        assert_same(&cold);
        assert_same(&spec(policy, 50, 50, "bernoulli:0.5"));
        assert_same(&spec(policy, 40, 1, "bernoulli:0.1"));
    }
}

/// So many failures that clients wait for long, eligible ones are fewer than places, and none may be eligible at all.
#[test]
fn with_many_failures_too() {
    for policy in POLICIES {
        for (clients, cohort, failing, dropout) in
            [(200, 10, 0.2, 0.0), (60, 20, 0.9, 0.0), (40, 4, 0.5, 0.6), (12, 1, 0.9, 0.5)]
        {
            for availability in ["always", "bernoulli:0.7"] {
                let plain = spec(policy, clients, cohort, availability);
                let world = World { failing, dropout, ..plain.world };
                assert_same(&SelectionSpec { world, rounds: 120, ..plain });
            }
        }
        let plain = spec(policy, 200, 10, "always");
        let world = World { failing: 0.2, dropout: 0.3, ..plain.world };
        let params = SettingParams { backoff: false, ..SettingParams::new(200, 10, 10) };
        let sizes = Some(plain.setting.sizes().clone());
        let setting = SettingParams { sizes, ..params }.check().unwrap();
        assert_same(&SelectionSpec { world, setting, ..plain });
    }
}

#[test]
fn calibrated_laws_too() {
    for policy in ["markov-optimal", "markov-linear"] {
        for availability in WORLDS {
            let mut spec = spec(policy, 300, 40, availability);
            spec.calibrate = true;
            spec.rounds = 60;
            spec.world.dropout = 0.1;
            spec.world.failing = 0.05;
            spec.world.join = 0.03;
            assert_same(&spec);
        }
    }
}

/// Several shards, the last one begun by clients that join.
#[test]
fn a_hundred_thousand_clients() {
    for policy in ["random", "markov-optimal", "oldest-first", "round-robin", "probabilistic"] {
        for availability in ["always", "on-off:12,4"] {
            let mut spec = spec(policy, 98_000, 15_000, availability);
            spec.rounds = 10;
            spec.world.dropout = 0.05;
            spec.world.failing = 0.02;
            spec.world.join = 0.004;
            assert_same(&spec);
        }
    }
}

#[test]
fn threads_change_nothing() {
    for policy in POLICIES {
        let mut spec = spec(policy, 70_000, 9_000, "bernoulli:0.8");
        spec.rounds = 12;
        let play = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut run = SelectionRun::new(spec.clone()).unwrap();
                run.play_on(|_| true).unwrap();
                run.finish()
            })
        };
        assert_eq!(play(1), play(3), "{policy}");
    }
}
