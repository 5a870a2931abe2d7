//! What a simulation is asked to do: parameters from outside, checked before anything runs.

use crate::run::RunSpec;
use crate::world::{Availability, World};
use agewise_core::{
    Calibrator, EmptyCohort, Error, PolicySpec, Result, Seed, Setting, SettingParams, SizeLaw,
    Sizes, Start, Weighting, build_policy, find_policy,
};
use serde::{Deserialize, Serialize};

/// A simulation as it is written in a command line or a file; complete, so that it can be run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimulationParams {
    /// n: clients at the beginning.
    pub clients: u64,
    /// m: clients per round.
    pub cohort: u64,
    /// m': the age at which laws saturate.
    pub max_age: u64,
    /// Rounds to play.
    pub rounds: u64,
    /// Rounds at the beginning that are not recorded.
    pub warmup: u64,
    /// The law of the data sizes; also for clients that join, and where `size_list` is given.
    pub sizes: String,
    /// The policies.
    pub policies: Vec<String>,
    /// One weighting for all; each policy's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighting: Option<Weighting>,
    /// First ages.
    pub start: Start,
    /// The rule for a round in which nobody takes part.
    pub empty_cohort: EmptyCohort,
    /// The first seed; sizes are drawn from it too.
    pub seed: u64,
    /// How many seeds, from the first on.
    pub seeds: u32,
    /// When clients can be reached.
    pub availability: String,
    /// The probability that a selected client never reports.
    pub dropout: f64,
    /// Clients that join per round, as a share of the first population.
    pub join: f64,
    /// The probability that a client leaves for good in a round.
    pub leave: f64,
    /// Whether age laws learn the target interval from the number of reports.
    pub calibrate: bool,
    /// Sizes that were read from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_list: Option<Vec<f64>>,
}

impl Default for SimulationParams {
    /// The paper's load-balancing experiment, with our policies beside its own.
    fn default() -> Self {
        let policies = [
            "random",
            "probabilistic",
            "markov-optimal",
            "markov-linear",
            "oldest-first",
            "phased",
        ];
        Self {
            clients: 100,
            cohort: 15,
            max_age: 10,
            rounds: 1_000,
            warmup: 0,
            sizes: "equal".to_string(),
            policies: policies.map(str::to_string).to_vec(),
            weighting: None,
            start: Start::default(),
            empty_cohort: EmptyCohort::default(),
            seed: 0,
            seeds: 1,
            availability: "always".to_string(),
            dropout: 0.0,
            join: 0.0,
            leave: 0.0,
            calibrate: false,
            size_list: None,
        }
    }
}

/// The most rounds of a run.
const MOST_ROUNDS: u64 = 10_000_000;
/// The most seeds of a simulation.
const MOST_SEEDS: u32 = 10_000;

impl SimulationParams {
    /// Checks everything that can be wrong.
    pub fn check(self) -> Result<Simulation> {
        let empty_cohort = self.empty_cohort;
        let plain = SettingParams {
            empty_cohort,
            ..SettingParams::new(self.clients, self.cohort, self.max_age)
        };
        // The numbers first, before sizes are drawn for them.
        let clients = plain.clone().check()?.clients();
        let size_law: SizeLaw = self.sizes.parse()?;
        let sizes = match &self.size_list {
            Some(list) => Sizes::new(list.clone())?,
            None => size_law.draw(clients, Seed(self.seed))?,
        };
        let setting = SettingParams { sizes: Some(sizes), ..plain }.check()?;
        check_range("rounds", self.rounds, 1, MOST_ROUNDS)?;
        if self.warmup >= self.rounds {
            let expected = format!("fewer than the {} rounds", self.rounds);
            return Err(Error::new("warmup", self.warmup, expected));
        }
        check_range("seeds", u64::from(self.seeds), 1, u64::from(MOST_SEEDS))?;
        // A TOML file holds whole numbers up to this.
        check_range("seed", self.seed, 0, i64::MAX as u64 - u64::from(MOST_SEEDS))?;
        let world = self.world()?;
        if world.joined(clients, self.rounds) == u32::MAX {
            let expected = format!("fewer than {} clients in the end", u32::MAX);
            return Err(Error::new("join", self.join, expected));
        }
        let policies = self.policies.iter().map(|text| self.policy(text, &setting));
        let policies = policies.collect::<Result<Vec<_>>>()?;
        if policies.is_empty() {
            return Err(Error::new("policies", "[]", "at least one policy"));
        }
        Ok(Simulation { params: self, setting, size_law, world, policies })
    }

    fn world(&self) -> Result<World> {
        let availability: Availability = self.availability.parse()?;
        for (field, value) in [("dropout", self.dropout), ("leave", self.leave)] {
            if !(0.0..1.0).contains(&value) {
                return Err(Error::new(field, value, "a probability from 0 to under 1"));
            }
        }
        if !(0.0..=1e6).contains(&self.join) {
            return Err(Error::new(
                "join",
                self.join,
                "a share of the first population, 0 or more",
            ));
        }
        let seed = Seed(self.seed);
        let (dropout, join, leave) = (self.dropout, self.join, self.leave);
        Ok(World { seed, availability, dropout, join, leave })
    }

    fn policy(&self, text: &str, setting: &Setting) -> Result<SimulatedPolicy> {
        let spec: PolicySpec = text.parse()?;
        let weighting = self.weighting.unwrap_or(find_policy(spec.name())?.weighting);
        let policy = build_policy(&spec, setting)?;
        if policy.learns_from_training() {
            let expected = "a policy that chooses without losses and updates: nobody trains here, \
                            `agewise compare` does";
            return Err(Error::new("policy", text, expected));
        }
        if self.calibrate && policy.law_family().is_some() {
            Calibrator::new(setting.cohort(), setting.interval())?;
        }
        if self.calibrate && policy.law_family().is_some() && weighting == Weighting::Unbiased {
            let expected = "weights that do not need a known rate, where laws are calibrated";
            return Err(Error::new("weighting", weighting, expected));
        }
        Ok(SimulatedPolicy { spec, weighting })
    }
}

fn check_range(field: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Error::new(field, value, format!("a whole number from {low} to {high}")))
    }
}

/// A policy of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedPolicy {
    /// The policy with its options.
    pub spec: PolicySpec,
    /// How its cohorts are weighed.
    pub weighting: Weighting,
}

/// A checked simulation.
#[derive(Debug, Clone)]
pub struct Simulation {
    params: SimulationParams,
    setting: Setting,
    size_law: SizeLaw,
    world: World,
    policies: Vec<SimulatedPolicy>,
}

impl Simulation {
    /// The parameters it was made from.
    pub fn params(&self) -> &SimulationParams {
        &self.params
    }

    /// The setting at the beginning.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// The policies.
    pub fn policies(&self) -> &[SimulatedPolicy] {
        &self.policies
    }

    /// One of its runs.
    pub fn run(&self, policy: usize, seed: u32) -> RunSpec {
        let SimulatedPolicy { spec, weighting } = self.policies[policy].clone();
        let seed = Seed(self.params.seed.wrapping_add(u64::from(seed)));
        RunSpec {
            setting: self.setting.clone(),
            size_law: self.size_law,
            policy: spec,
            weighting,
            world: World { seed, ..self.world },
            start: self.params.start,
            rounds: self.params.rounds,
            warmup: self.params.warmup,
            calibrate: self.params.calibrate,
        }
    }

    /// How the data sizes are described.
    pub fn sizes(&self) -> String {
        match &self.params.size_list {
            Some(list) => format!("from a list of {}", list.len()),
            None => self.params.sizes.clone(),
        }
    }

    /// About how much memory it takes, in bytes, with so many runs at a time.
    pub fn memory(&self, side_by_side: u64) -> u64 {
        /// The engines' state, and the first ages that it is made from.
        const PER_CLIENT: u64 = 32;
        /// A row while it is played, its record, and its line of the table.
        const PER_ROUND: u64 = 250;
        let params = &self.params;
        let clients = u64::from(self.world.joined(self.setting.clients(), params.rounds));
        let sizes =
            if params.size_list.is_some() || self.size_law != SizeLaw::Equal { 8 } else { 0 };
        let runs = self.policies.len() as u64 * u64::from(params.seeds);
        let at_once = side_by_side.min(runs);
        let of_clients = clients.saturating_mul(PER_CLIENT * at_once + sizes);
        let of_rounds = runs.saturating_mul(params.rounds).saturating_mul(PER_ROUND);
        of_clients.saturating_add(of_rounds)
    }

    /// Whether the population and everyone in it behave as the theory assumes.
    pub fn is_calm(&self) -> bool {
        self.world.is_calm()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_papers_experiment() {
        let simulation = SimulationParams::default().check().unwrap();
        assert_eq!(simulation.setting().clients(), 100);
        assert!(simulation.is_calm());
        assert_eq!(simulation.run(2, 3).world.seed, Seed(3));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let field = |change: &dyn Fn(&mut SimulationParams)| {
            let mut params = SimulationParams::default();
            change(&mut params);
            params.check().unwrap_err().field().to_string()
        };
        assert_eq!(field(&|p| p.rounds = 0), "rounds");
        assert_eq!(field(&|p| p.warmup = 1_000), "warmup");
        assert_eq!(field(&|p| p.seeds = 0), "seeds");
        assert_eq!(field(&|p| p.seed = u64::MAX), "seed");
        let far_apart = |p: &mut SimulationParams| {
            (p.clients, p.cohort, p.calibrate) = (2_000_000, 1, true);
        };
        assert_eq!(field(&far_apart), "interval");
        assert_eq!(field(&|p| p.dropout = 1.0), "dropout");
        assert_eq!(field(&|p| p.leave = f64::NAN), "leave");
        assert_eq!(field(&|p| p.join = -0.1), "join");
        assert_eq!(field(&|p| p.join = 1e5), "join");
        assert_eq!(field(&|p| p.sizes = "zipf".into()), "sizes");
        assert_eq!(field(&|p| p.availability = "never".into()), "availability");
        assert_eq!(field(&|p| p.policies.clear()), "policies");
        for policy in
            ["age-herding", "power-of-choice", "active", "clustered(by=2)", "divfl", "oort"]
        {
            assert_eq!(field(&|p| p.policies = vec![policy.into()]), "policy", "{policy}");
        }
        assert_eq!(field(&|p| p.policies = vec!["rnd".into()]), "policy");
        assert_eq!(field(&|p| p.size_list = Some(vec![1.0])), "sizes");
        let unbiased = |p: &mut SimulationParams| {
            p.calibrate = true;
            p.weighting = Some(Weighting::Unbiased);
        };
        assert_eq!(field(&unbiased), "weighting");
    }
}
