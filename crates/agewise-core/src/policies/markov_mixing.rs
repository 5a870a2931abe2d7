//! `markov-mixing`: the optimal law, with intervals that vary a little where n/m is a whole number.
//!
//! Under `markov-optimal` clients always stay in step there: cohort sizes repeat, and the same clients always meet. The
//! price of mixing is Var\[X\], and it is an option; what it buys is in [`crate::theory::phases`].

use super::law_policy::LawPolicy;
use crate::law::{AgeLaw, LawFamily};
use crate::policy::PolicyEntry;
use crate::weighting::Weighting;

/// Var\[X\] where none is given.
const VARIANCE: f64 = 0.1;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "markov-mixing",
    summary: "the optimal law, with a little variance where it would freeze: clients that met part again.",
    options: &[("variance", "the least Var[X], above 0 and up to 0.75 (0.1)")],
    needs_options: false,
    weighting: Weighting::Uniform,
    build: |spec, setting| {
        let variance = spec.number("variance")?.unwrap_or(VARIANCE);
        AgeLaw::mixing(2.0, 2, variance)
            .map_err(|error| spec.wrong("variance", variance, error.expected()))?;
        Ok(Box::new(LawPolicy::of_family(LawFamily::Mixing { variance }, setting)?))
    },
};
