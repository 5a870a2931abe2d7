//! What is compared: a policy, its start and weighting, and a rule of aggregation.

use crate::params::ExperimentParams;
use agewise_core::{PolicyVariant, Result};
use agewise_train::aggregation::Aggregation;

/// One side of a comparison, written `POLICY[@START][+AGGREGATION]`.
#[derive(Debug, Clone)]
pub struct Variant {
    name: String,
    /// Whether the name was given, or says the rule already.
    is_named: bool,
    policy: PolicyVariant,
    aggregation: Aggregation,
}

impl Variant {
    /// A policy with a rule of aggregation. Its name is that of the policy; in an experiment whose usual rule is another
    /// one, `POLICY+AGGREGATION`.
    pub fn new(policy: PolicyVariant, aggregation: Aggregation) -> Self {
        Self { name: policy.name().to_string(), is_named: false, policy, aggregation }
    }

    /// As it is called in an experiment with this usual rule.
    pub(super) fn beside(self, usual: &Aggregation) -> Self {
        if self.is_named || self.aggregation.name() == usual.name() {
            return self;
        }
        let name = format!("{}+{}", self.policy.name(), self.aggregation.name());
        self.named(name)
    }

    /// Reads `POLICY[@START][+AGGREGATION]`; what the text does not say is as in the parameters, and aggregation is the
    /// usual one.
    pub fn parse(text: &str, params: &ExperimentParams, usual: &Aggregation) -> Result<Self> {
        let (policy, rule) = split_aggregation(text);
        let policy = PolicyVariant::parse(policy, params.start, params.weighting)?;
        let Some(rule) = rule else {
            return Ok(Self::new(policy, usual.clone()));
        };
        // The usual rule need not be said: `random+mean` is `random` where updates are averaged anyway.
        Ok(Self::new(policy, rule.parse()?).beside(usual))
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

    /// The rule of aggregation.
    pub fn aggregation(&self) -> &Aggregation {
        &self.aggregation
    }
}

/// The text of the policy, and that of the rule behind the first `+` outside brackets.
fn split_aggregation(text: &str) -> (&str, Option<&str>) {
    let mut depth = 0i32;
    for (place, letter) in text.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '+' if depth == 0 => return (&text[..place], Some(&text[place + 1..])),
            _ => {}
        }
    }
    (text, None)
}
