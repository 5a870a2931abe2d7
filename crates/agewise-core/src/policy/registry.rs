//! How a policy is entered in the registry.

use crate::error::Result;
use crate::policy::{Policy, PolicySpec};
use crate::setting::Setting;
use crate::weighting::Weighting;

/// A policy in the registry: its name, what it does, and how it is made from its options.
#[derive(Debug, Clone, Copy)]
pub struct PolicyEntry {
    /// The name by which it is configured.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The options it understands, each with its meaning.
    pub options: &'static [(&'static str, &'static str)],
    /// Whether it cannot be made without options.
    pub needs_options: bool,
    /// The paper's weighting, or the natural one.
    pub weighting: Weighting,
    /// Makes the policy for a setting.
    pub build: fn(&PolicySpec, &Setting) -> Result<Box<dyn Policy>>,
}
