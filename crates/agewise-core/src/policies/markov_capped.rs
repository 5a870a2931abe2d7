//! `markov-capped`: the best law under which no client can choose its round by staying away.
//!
//! No probability exceeds `factor` times m/n. So of k clients that act together at most a binomial number of them, each
//! with that probability, comes in any round, however long they waited for it, and whatever they agreed on. The price is
//! Var\[X\], which is about 1/factor^2 of that of random selection.
//!
//! Where n/m is at most `factor` the cap is 1 and caps nothing: the law is that of Theorem 2.

use super::law_policy::LawPolicy;
use crate::law::{AgeLaw, LawFamily};
use crate::policy::PolicyEntry;
use crate::weighting::Weighting;

/// The multiple of m/n where none is given.
const FACTOR: f64 = 2.0;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "markov-capped",
    summary: "the best law whose chances stay below a multiple of m/n, so that a client that waits does not choose its round.",
    options: &[("factor", "the greatest chance, as a multiple of m/n, 1 or more (2)")],
    needs_options: false,
    weighting: Weighting::Uniform,
    build: |spec, setting| {
        let factor = spec.number("factor")?.unwrap_or(FACTOR);
        AgeLaw::capped(2.0, 2, factor)
            .map_err(|error| spec.wrong("factor", factor, error.expected()))?;
        Ok(Box::new(LawPolicy::of_family(LawFamily::Capped { factor }, setting)?))
    },
};
