//! One run: a policy, a seed, so many rounds.

mod engine;
mod ledger;
mod numbered;

use crate::played::{Chosen, Settled};
use crate::world::World;
use agewise_core::metrics::{CohortSizes, Intervals, Load, MeanWeights};
use agewise_core::{
    Calibrator, LawFamily, Laws, Plan, Policy, PolicySpec, Result, Seed, Setting, SettingParams,
    SizeLaw, Sizes, Start, Weighting, build_policy,
};
use engine::Engine;
use ledger::Ledger;
use std::collections::BTreeMap;

/// Everything that a run depends on.
#[derive(Debug, Clone)]
pub struct RunSpec {
    /// The setting at the beginning.
    pub setting: Setting,
    /// The law that sizes of clients that join are drawn from.
    pub size_law: SizeLaw,
    /// The policy.
    pub policy: PolicySpec,
    /// How its cohorts are weighed.
    pub weighting: Weighting,
    /// Real life, with the seed of the run.
    pub world: World,
    /// First ages.
    pub start: Start,
    /// Rounds to play in all.
    pub rounds: u64,
    /// Rounds at the beginning that are played and not recorded.
    pub warmup: u64,
    /// Whether the target interval is learned from the number of reports.
    pub calibrate: bool,
}

/// One round in the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundRow {
    /// The round.
    pub round: u64,
    /// Clients selected.
    pub selected: u64,
    /// Clients that reported.
    pub reported: u64,
    /// Whether one was forced.
    pub forced: bool,
    /// The target interval of this round.
    pub interval: f64,
    /// Sigma over the recorded rounds so far; NaN before.
    pub sigma: f64,
}

/// How many clients have which age, in some rounds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgeMap {
    /// The rounds that were looked at.
    pub rounds: Vec<u64>,
    /// For each of them the number of clients by age.
    pub counts: Vec<BTreeMap<u64, u64>>,
}

/// What came out of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// Every round.
    pub rows: Vec<RoundRow>,
    /// X.
    pub intervals: Intervals,
    /// Cohort sizes (reports) of the recorded rounds.
    pub cohort_sizes: CohortSizes,
    /// Sigma.
    pub sigma: f64,
    /// Mean covariance of two clients' weights.
    pub mean_covariance: f64,
    /// Jain's index and clients never selected.
    pub load: Load,
    /// The number of clients by how often they took part.
    pub selections: BTreeMap<u32, u64>,
    /// The longest X, or the age of a client that still waits.
    pub longest_wait: u64,
    /// sqrt(Var Y)/T.
    pub window_sd: BTreeMap<u32, f64>,
    /// Ages over time.
    pub age_map: AgeMap,
}

/// First ages above this count as this; sixty years of rounds of one second.
const OLDEST: u64 = 1 << 31;

/// A run in progress.
pub struct Run {
    spec: RunSpec,
    engine: Engine,
    /// Learns the interval, and makes the laws of this family for it.
    calibration: Option<(Calibrator, LawFamily)>,
    round: u64,
    ledger: Ledger,
}

impl Run {
    /// Prepares a run; nothing is played yet.
    pub fn new(spec: RunSpec) -> Result<Self> {
        let policy = build_policy(&spec.policy, &spec.setting)?;
        let mut ages = match spec.start {
            Start::Stationary => policy.first_ages(&spec.setting, spec.world.seed),
            Start::Cold => vec![0; spec.setting.clients() as usize],
        };
        for age in &mut ages {
            *age = OLDEST.min(*age);
        }
        let everyone = setting_with_newcomers(&spec)?;
        let calibration = match policy.law_family().filter(|_| spec.calibrate) {
            Some(family) => {
                let setting = &spec.setting;
                Some((Calibrator::new(setting.cohort(), setting.interval())?, family))
            }
            None => None,
        };
        let means = mean_weights(&spec, &*policy);
        Ok(Self {
            ledger: Ledger::new(&spec, means, everyone.clients(), &ages.iter().copied().collect()),
            engine: Engine::new(policy, everyone, &spec, means, ages),
            spec,
            calibration,
            round: 0,
        })
    }

    /// The round that is played next.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Plays one round. Many rounds are played faster by [`Run::play_on`].
    pub fn play(&mut self) -> Result<RoundRow> {
        Ok(self.play_block(1)?[0])
    }

    /// Plays all rounds that are left, in blocks whose metrics are settled at once; `on_round` hears of
    /// every round, of a block at a time.
    pub fn play_on(&mut self, mut on_round: impl FnMut(&RoundRow)) -> Result<()> {
        self.play_while(|row| {
            on_round(row);
            true
        })
    }

    /// The same, until `goes_on` says no to a round; those of its block are played nevertheless.
    pub fn play_while(&mut self, mut goes_on: impl FnMut(&RoundRow) -> bool) -> Result<()> {
        let block = self.engine.block(&self.spec);
        let mut wanted = true;
        while wanted && self.round < self.spec.rounds {
            let rows = self.play_block(block.min(self.spec.rounds - self.round))?;
            for row in &rows {
                wanted &= goes_on(row);
            }
        }
        Ok(())
    }

    /// Whether all rounds were played.
    pub fn is_finished(&self) -> bool {
        self.round >= self.spec.rounds
    }

    /// Plays so many rounds: first chooses the clients of all of them, then does the books.
    fn play_block(&mut self, rounds: u64) -> Result<Vec<RoundRow>> {
        if self.engine.is_large() {
            // Inside the pool its threads stay awake from one round to the next.
            rayon::scope(|_| self.play_here(rounds))
        } else {
            self.play_here(rounds)
        }
    }

    fn play_here(&mut self, rounds: u64) -> Result<Vec<RoundRow>> {
        let chosen = (0..rounds).map(|_| self.choose()).collect::<Result<Vec<_>>>()?;
        let settled = self.engine.settle();
        let rows = chosen.iter().zip(&settled);
        let row = |((interval, chosen), settled): (&(f64, Chosen), &Settled)| {
            self.ledger.record(*interval, chosen, settled)
        };
        Ok(rows.map(row).collect())
    }

    /// Chooses the clients of the next round, by the target interval that is returned with them.
    fn choose(&mut self) -> Result<(f64, Chosen)> {
        let (interval, laws) = match &self.calibration {
            None => (self.spec.setting.interval(), None),
            Some((calibrator, family)) => {
                let law = family.law(calibrator.interval(), self.spec.setting.max_age())?;
                (calibrator.interval(), Some(Laws::shared(law)))
            }
        };
        let chosen = self.engine.choose(self.round, laws)?;
        if let Some((calibrator, _)) = &mut self.calibration {
            calibrator.observe(chosen.reported);
        }
        self.round += 1;
        Ok((interval, chosen))
    }

    /// The clients credited in the last round, in increasing order.
    pub fn last_cohort(&self) -> Vec<u32> {
        self.engine.cohort_before(self.round)
    }

    /// The figures of the rounds so far.
    pub fn outcome(self) -> RunOutcome {
        self.ledger.outcome(self.engine.selections())
    }
}

/// What is known about the mean weights of the clients before anything is played.
fn mean_weights(spec: &RunSpec, policy: &dyn Policy) -> MeanWeights {
    let setting = &spec.setting;
    let independent = policy.rounds_are_independent();
    // Age and lots treat all clients alike; a rhythm gives each its own company for ever.
    let chosen_alike = setting.rates().is_none() && !matches!(policy.plan(), Plan::Select);
    let weighed_alike = setting.sizes().are_equal() || spec.weighting == Weighting::Uniform;
    if !spec.world.is_calm() {
        MeanWeights::Unknown
    } else if chosen_alike && weighed_alike {
        MeanWeights::Alike
    } else if independent {
        MeanWeights::IndependentRounds
    } else {
        MeanWeights::Unknown
    }
}

/// The setting with the sizes of everyone who will ever join.
fn setting_with_newcomers(spec: &RunSpec) -> Result<Setting> {
    let setting = &spec.setting;
    let total = spec.world.joined(setting.clients(), spec.rounds);
    if total == setting.clients() {
        return Ok(setting.clone());
    }
    let sizes = setting.sizes();
    let all = if sizes.are_equal() {
        Sizes::equal(total)
    } else {
        let drawn = spec.size_law.draw(total, spec.world.seed)?;
        let here = setting.clients();
        let size = |client| if client < here { sizes.of(client) } else { drawn.of(client) };
        Sizes::new((0..total).map(size).collect())?
    };
    let params = SettingParams {
        sizes: Some(all),
        empty_cohort: setting.empty_cohort(),
        ..SettingParams::new(
            u64::from(total),
            u64::from(setting.cohort()),
            u64::from(setting.max_age()),
        )
    };
    params.check()
}

/// Plays a run to its end; `on_round` hears of every round, of several at a time.
pub fn play(spec: RunSpec, on_round: impl FnMut(&RoundRow)) -> Result<RunOutcome> {
    let mut run = Run::new(spec)?;
    run.play_on(on_round)?;
    Ok(run.outcome())
}

/// A world in which nothing happens.
pub fn calm(seed: Seed) -> World {
    World { seed, availability: crate::Availability::Always, dropout: 0.0, join: 0.0, leave: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of rounds against one round after the other, for every engine and with people coming and going.
    #[test]
    fn blocks_change_nothing() {
        for policy in ["random", "probabilistic", "markov-optimal", "oldest-first", "round-robin"] {
            for (clients, leave) in [(500, 0.0), (500, 0.01), (40_000, 0.0)] {
                let world = World { dropout: 0.1, join: 0.002, leave, ..calm(Seed(3)) };
                let sizes = SizeLaw::Zipf(2.0).draw(clients, world.seed).unwrap();
                let clients = u64::from(clients);
                let setting = SettingParams {
                    sizes: Some(sizes),
                    ..SettingParams::new(clients, clients / 7, 10)
                };
                let spec = RunSpec {
                    setting: setting.check().unwrap(),
                    size_law: SizeLaw::Zipf(2.0),
                    policy: PolicySpec::named(policy),
                    weighting: Weighting::DataSize,
                    world,
                    start: Start::Stationary,
                    rounds: 75,
                    warmup: 5,
                    calibrate: true,
                };
                let mut single = Run::new(spec.clone()).unwrap();
                let rows: Vec<RoundRow> = (0..75).map(|_| single.play().unwrap()).collect();
                let mut heard = Vec::new();
                let blocks = play(spec, |row| heard.push(*row)).unwrap();
                // Sigma is not a number while nothing is recorded, and then not even equal to itself.
                assert_eq!(format!("{heard:?}"), format!("{rows:?}"), "{policy}");
                assert_eq!(format!("{blocks:?}"), format!("{:?}", single.outcome()), "{policy}");
            }
        }
    }
}
