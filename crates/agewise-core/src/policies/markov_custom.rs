//! `markov-custom`: each client decides by a law that the user gives, `markov-custom(p=[0, 0.5, 1])`.
//!
//! Its own `max_age` is the length of the vector less one, and its own rate need not be m/n: the theory
//! says how many clients it really calls.

use super::law_policy::LawPolicy;
use crate::law::{AgeLaw, Laws};
use crate::policy::PolicyEntry;
use crate::weighting::Weighting;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "markov-custom",
    summary: "each client decides alone by the probabilities that you give.",
    options: &[("p", "the probabilities by age, from 0 on; the last holds for all greater ages")],
    needs_options: true,
    weighting: Weighting::Uniform,
    build: |spec, setting| {
        let p = spec.list("p")?.ok_or_else(|| {
            spec.wrong("p", "missing", "the law, such as markov-custom(p=[0, 0.5, 1])")
        })?;
        Ok(Box::new(LawPolicy::new(Laws::shared(AgeLaw::new(p)?), setting)))
    },
};
