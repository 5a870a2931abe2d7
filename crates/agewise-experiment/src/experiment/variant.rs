//! What is compared: a policy, its start and weighting, a rule of aggregation, and a schedule.

use crate::clock::Schedule;
use crate::params::ExperimentParams;
use agewise_core::{PolicyVariant, Result};
use agewise_train::aggregation::Aggregation;

/// One side of a comparison, written `POLICY[@START][+AGGREGATION][/SCHEDULE]`.
#[derive(Debug, Clone)]
pub struct Variant {
    name: String,
    /// Whether the name was given, or says the rule already.
    is_named: bool,
    policy: PolicyVariant,
    aggregation: Aggregation,
    schedule: Schedule,
}

impl Variant {
    /// A policy with a rule of aggregation. Its name is that of the policy; in an experiment whose usual rule is another
    /// one, `POLICY+AGGREGATION`.
    pub fn new(policy: PolicyVariant, aggregation: Aggregation) -> Self {
        let (name, schedule) = (policy.name().to_string(), Schedule::Sync);
        Self { name, is_named: false, policy, aggregation, schedule }
    }

    /// The same with another schedule.
    #[must_use]
    pub fn with_schedule(self, schedule: Schedule) -> Self {
        Self { schedule, ..self }
    }

    /// As it is called in an experiment with this usual rule and schedule, which need not be said: `random+mean` is
    /// `random` where updates are averaged anyway.
    pub(super) fn beside(self, usual: &Aggregation, schedule: Schedule) -> Self {
        if self.is_named {
            return self;
        }
        let mut name = self.policy.name().to_string();
        if self.aggregation.name() != usual.name() {
            name = format!("{name}+{}", self.aggregation.name());
        }
        if self.schedule != schedule {
            name = format!("{name}/{}", self.schedule);
        }
        if name == self.policy.name() { self } else { self.named(name) }
    }

    /// Reads `POLICY[@START][+AGGREGATION][/SCHEDULE]`; what the text does not say is as in the parameters, and aggregation
    /// is the usual one.
    pub fn parse(text: &str, params: &ExperimentParams, usual: &Aggregation) -> Result<Self> {
        let (text, schedule) = split(text, '/');
        let (policy, rule) = split(text, '+');
        let policy = PolicyVariant::parse(policy, params.start, params.weighting)?;
        let rule = rule.map_or_else(|| Ok(usual.clone()), str::parse)?;
        let usual_schedule = params.usual_schedule()?;
        let schedule = schedule.map_or(Ok(usual_schedule), str::parse)?;
        Ok(Self::new(policy, rule).with_schedule(schedule).beside(usual, usual_schedule))
    }

    /// The same under another name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), is_named: true, ..self }
    }

    /// What it is called in tables and figures.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The policy.
    pub fn policy(&self) -> &PolicyVariant {
        &self.policy
    }

    /// When its rounds end.
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// The rule of aggregation.
    pub fn aggregation(&self) -> &Aggregation {
        &self.aggregation
    }
}

/// What is before the first of these letters outside brackets, and what is behind it.
fn split(text: &str, mark: char) -> (&str, Option<&str>) {
    let mut depth = 0i32;
    for (place, letter) in text.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            letter if letter == mark && depth == 0 => {
                return (&text[..place], Some(&text[place + 1..]));
            }
            _ => {}
        }
    }
    (text, None)
}
