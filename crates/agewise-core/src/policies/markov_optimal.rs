//! `markov-optimal`: each client decides by the optimal law of Theorem 2 (policy 3 of the paper).

use super::law_policy::LawPolicy;
use crate::law::LawFamily;
use crate::policy::PolicyEntry;
use crate::weighting::Weighting;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "markov-optimal",
    summary: "each client decides alone by the law with the least Var[X]; the cohort size varies.",
    options: &[],
    needs_options: false,
    weighting: Weighting::Uniform,
    build: |_, setting| Ok(Box::new(LawPolicy::of_family(LawFamily::Optimal, setting)?)),
};
