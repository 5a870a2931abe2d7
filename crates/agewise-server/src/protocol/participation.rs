//! How a client decides, from what was announced. Client and coordinator build the same rule, so the coordinator can check
//! what a client claims.

use agewise_core::{
    AgeLaw, Draw, Draws, MaxAge, Policy, PolicySpec, Result, Seed, SettingParams, Stream,
    build_policy,
};

/// The parameters of a rule; the rule changes when they do.
#[derive(Debug, Clone, PartialEq)]
pub struct ParticipationParams {
    /// The policy.
    pub policy: PolicySpec,
    /// The age at which a law saturates.
    pub max_age: MaxAge,
    /// n: the clients of the run.
    pub clients: u32,
    /// m: clients that a round aims at.
    pub cohort: u32,
    /// The interval of the age laws: n/m, or as calibrated.
    pub interval: f64,
}

/// How clients decide under a policy.
#[derive(Debug)]
pub enum ParticipationRule {
    /// By age and one random number.
    Law(AgeLaw),
    /// By a rule of the policy's own, such as a periodic schedule.
    Local(Box<dyn Policy>),
    /// Not at all: the coordinator chooses.
    CoordinatorSelected,
}

impl ParticipationParams {
    /// The rule.
    pub fn build(&self) -> Result<ParticipationRule> {
        let (clients, cohort) = (u64::from(self.clients), u64::from(self.cohort));
        let setting = SettingParams::new(clients, cohort, self.max_age).check()?;
        let policy = build_policy(&self.policy, &setting)?;
        if let Some(family) = policy.law_family() {
            return Ok(ParticipationRule::Law(family.law(self.interval, self.max_age)?));
        }
        Ok(if policy.local_rule().is_some() {
            ParticipationRule::Local(policy)
        } else {
            ParticipationRule::CoordinatorSelected
        })
    }
}

impl ParticipationRule {
    /// Whether clients decide.
    pub fn is_local(&self) -> bool {
        !matches!(self, Self::CoordinatorSelected)
    }

    /// Whether there are draws with which a client of this age takes part by itself.
    pub fn may_take_part(&self, age: u64) -> bool {
        match self {
            Self::Law(law) => law.probability(age) > 0.0,
            Self::Local(_) => true,
            Self::CoordinatorSelected => false,
        }
    }

    /// Whether a client takes part by itself, with this draw.
    pub fn takes_part(&self, round: u64, client: u32, age: u64, drawn: Draw) -> bool {
        match self {
            Self::Law(law) => law.takes_part(age, drawn),
            Self::Local(policy) => {
                policy.local_rule().is_some_and(|rule| rule.takes_part(round, client, age, drawn))
            }
            Self::CoordinatorSelected => false,
        }
    }
}

/// A maximum age as it is announced: 0 is `auto`.
pub(crate) fn max_age_to_wire(max_age: MaxAge) -> u32 {
    match max_age {
        MaxAge::Auto => 0,
        // A checked configuration has no number that does not fit.
        MaxAge::Fixed(age) => u32::try_from(age).unwrap_or(u32::MAX),
    }
}

/// What such a number stands for.
pub(crate) fn max_age_from_wire(number: u32) -> MaxAge {
    if number == 0 { MaxAge::Auto } else { MaxAge::Fixed(u64::from(number)) }
}

/// The draw of a client where draws are seeded: the simulator's.
pub(crate) fn seeded_draw(seed: Seed, round: u64, client: u32) -> Draw {
    Draws::new(seed, Stream::DRAW, round).of(u64::from(client))
}
