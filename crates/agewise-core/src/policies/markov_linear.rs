//! `markov-linear`: each client decides with a probability that grows linearly with its age (policy 4 of
//! the paper, whose values it leaves open).

use super::law_policy::LawPolicy;
use crate::law::LawFamily;
use crate::policy::PolicyEntry;
use crate::weighting::Weighting;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "markov-linear",
    summary: "each client decides alone, with a chance that grows with its age; not optimal.",
    options: &[],
    needs_options: false,
    weighting: Weighting::Uniform,
    build: |_, setting| Ok(Box::new(LawPolicy::of_family(LawFamily::Linear, setting)?)),
};
