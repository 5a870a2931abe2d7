//! Prints the table of docs/policies.md: how many places policies lose to clients that fail, with back-off and without.
//!
//! 100 clients, 5 per round, 400 rounds, 20 seeds, stationary starts. Sketches are random, so that age-herding plans.

use agewise_core::{
    Availability, Draws, Error, PolicySpec, Report, Seed, Selector, SettingParams, Start, Stream,
};

const CLIENTS: u32 = 100;
const ROUNDS: u64 = 400;
const SEEDS: u64 = 20;
const POLICIES: [&str; 11] = [
    "random",
    "markov-capped",
    "markov-mixing",
    "markov-optimal",
    "markov-linear",
    "oldest-first",
    "round-robin",
    "phased",
    "phased(grace=0)",
    "phased(reshuffle=0.05)",
    "age-herding",
];
/// Rounds after which all dead clients are known: four intervals of 20 rounds, and some.
const KNOWN_AFTER: u64 = 100;
/// Of clients that fail always, the number, and of all others, the probability of a failure.
const WORLDS: [(u32, f64); 8] =
    [(0, 0.0), (1, 0.0), (5, 0.0), (20, 0.0), (0, 0.05), (0, 0.2), (0, 0.35), (0, 0.5)];
const FAILS: Stream = Stream::custom(18);
const SKETCH: Stream = Stream::custom(30);

/// What came of the runs of one policy in one world.
#[derive(Default)]
struct Outcome {
    asked: u64,
    lost: u64,
    longest: u64,
    intervals: Intervals,
    /// Those of the rounds from [`KNOWN_AFTER`] on.
    later: Intervals,
}

/// X of the clients that deliver at all.
#[derive(Default)]
struct Intervals {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Intervals {
    fn add(&mut self, interval: u64) {
        self.count += 1.0;
        self.sum += interval as f64;
        self.squares += (interval * interval) as f64;
    }

    fn variance(&self) -> f64 {
        let mean = self.sum / self.count;
        self.squares / self.count - mean * mean
    }

    /// The least variance that whole numbers with this mean can have.
    fn least_variance(&self) -> f64 {
        let part = (self.sum / self.count).fract();
        part * (1.0 - part)
    }
}

impl Outcome {
    fn share_lost(&self) -> f64 {
        self.lost as f64 / self.asked.max(1) as f64
    }

    /// How many places were lost for each report that arrived.
    fn lost_per_report(&self) -> f64 {
        self.lost as f64 / self.intervals.count
    }
}

fn play(policy: &str, (dead, dropout): (u32, f64), backoff: bool) -> Result<Outcome, Error> {
    let policy: PolicySpec = policy.parse()?;
    let mut outcome = Outcome::default();
    for seed in 0..SEEDS {
        let params = SettingParams::new(u64::from(CLIENTS), 5, 101);
        let setting = SettingParams { backoff, ..params }.check()?;
        let mut selector = Selector::new(&policy, setting, Seed(seed), Start::Stationary)?;
        let sketches: Vec<[f32; 4]> = (0..u64::from(CLIENTS))
            .map(|client| {
                let draws = Draws::new(Seed(seed), SKETCH, client);
                [0, 1, 2, 3].map(|number| draws.of(number).unit() as f32 - 0.5)
            })
            .collect();
        for round in 0..ROUNDS {
            let draws = Draws::new(Seed(seed), FAILS, round);
            let fails = |client: u32| {
                client * dead % CLIENTS < dead || draws.of(u64::from(client)).unit() < dropout
            };
            let asked = selector.select(Availability::Everyone)?.clients;
            let (failed, came): (Vec<u32>, Vec<u32>) =
                asked.iter().partition(|&&client| fails(client));
            outcome.asked += asked.len() as u64;
            outcome.lost += failed.len() as u64;
            for &client in &came {
                let interval = selector.ages().of(client) + 1;
                outcome.longest = outcome.longest.max(interval);
                outcome.intervals.add(interval);
                if round >= KNOWN_AFTER {
                    outcome.later.add(interval);
                }
            }
            let report = |&client: &u32| Report {
                sketch: Some(&sketches[client as usize]),
                ..Report::plain(client)
            };
            let reports: Vec<Report<'_>> = came.iter().map(report).collect();
            selector.finish_with_failures(&reports, &failed)?;
        }
    }
    Ok(outcome)
}

fn main() -> Result<(), Error> {
    println!(
        "| failures | policy | lost without | lost | per report | reports per round | Var[X] without | Var[X] | later | least | longest |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for world in WORLDS {
        let name = match world {
            (dead, 0.0) => format!("{dead}% always"),
            (_, dropout) => format!("{:.0}% at random", 100.0 * dropout),
        };
        for policy in POLICIES {
            let (without, with) = (play(policy, world, false)?, play(policy, world, true)?);
            println!(
                "| {name} | `{policy}` | {:.1}% | {:.1}% | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {} |",
                100.0 * without.share_lost(),
                100.0 * with.share_lost(),
                with.lost_per_report(),
                with.intervals.count / (ROUNDS * SEEDS) as f64,
                without.intervals.variance(),
                with.intervals.variance(),
                with.later.variance(),
                with.later.least_variance(),
                with.longest,
            );
        }
    }
    Ok(())
}
