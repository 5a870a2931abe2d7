//! A policy with all that belongs to it in a comparison or a deployment: a name, first ages and a weighting.

use crate::error::{Error, Result};
use crate::policies;
use crate::policy::{Policy, PolicySpec};
use crate::setting::{Setting, Start};
use crate::weighting::Weighting;
use std::fmt;
use std::sync::Arc;

type Factory = dyn Fn(&Setting) -> Result<Box<dyn Policy>> + Send + Sync;

/// A policy with its name, first ages and weighting: what is compared, deployed or run in a
/// [`Selector`](crate::Selector).
///
/// A registered policy comes from its name ([`PolicyVariant::parse`]), one of your own from a function that makes it
/// ([`PolicyVariant::new`]).
#[derive(Clone)]
pub struct PolicyVariant {
    name: String,
    start: Start,
    weighting: Weighting,
    factory: Arc<Factory>,
    spec: Option<PolicySpec>,
}

impl PolicyVariant {
    /// A policy of your own, with uniform weights and a stationary start.
    pub fn new(
        name: impl Into<String>,
        factory: impl Fn(&Setting) -> Result<Box<dyn Policy>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            start: Start::Stationary,
            weighting: Weighting::Uniform,
            factory: Arc::new(factory),
            spec: None,
        }
    }

    /// A registered policy, with its own weighting and a stationary start. An unknown name or option is an error; the
    /// values of options are checked when the policy is built for a setting.
    pub fn from_spec(spec: &PolicySpec) -> Result<Self> {
        let entry = policies::find(spec.name())?;
        spec.check_options(entry.options)?;
        let own = spec.clone();
        let built = Self::new(spec.to_string(), move |setting| (entry.build)(&own, setting));
        Ok(Self { weighting: entry.weighting, spec: Some(spec.clone()), ..built })
    }

    /// Reads `POLICY`, `POLICY@cold` or `POLICY@stationary`; `start` and `weighting` are for a text or a policy that does
    /// not say its own.
    pub fn parse(text: &str, start: Start, weighting: Option<Weighting>) -> Result<Self> {
        let (policy, own_start) = match text.rsplit_once('@') {
            None => (text, None),
            Some((policy, name)) => (policy, Some(name.trim())),
        };
        let variant = Self::from_spec(&policy.parse()?)?;
        let weighting = weighting.unwrap_or(variant.weighting);
        let start = match own_start {
            None => start,
            Some("cold") => Start::Cold,
            Some("stationary") => Start::Stationary,
            Some(other) => {
                return Err(Error::unknown("start", other, ["cold", "stationary"].into_iter()));
            }
        };
        let name = match own_start {
            None => variant.name,
            Some(start) => format!("{}@{start}", variant.name),
        };
        Ok(Self { name, start, weighting, ..variant })
    }

    /// The same with other first ages.
    #[must_use]
    pub fn with_start(self, start: Start) -> Self {
        Self { start, ..self }
    }

    /// The same with another weighting.
    #[must_use]
    pub fn with_weighting(self, weighting: Weighting) -> Self {
        Self { weighting, ..self }
    }

    /// The name that tables, figures and errors use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first ages.
    pub fn start(&self) -> Start {
        self.start
    }

    /// How cohorts are weighed.
    pub fn weighting(&self) -> Weighting {
        self.weighting
    }

    /// The name and the options of a registered policy.
    pub fn spec(&self) -> Option<&PolicySpec> {
        self.spec.as_ref()
    }

    /// The policy for a setting.
    pub fn build(&self, setting: &Setting) -> Result<Box<dyn Policy>> {
        (self.factory)(setting)
    }
}

impl fmt::Debug for PolicyVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, start, weighting, spec, .. } = self;
        f.debug_struct("PolicyVariant")
            .field("name", name)
            .field("start", start)
            .field("weighting", weighting)
            .field("spec", spec)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::SettingParams;

    #[test]
    fn a_start_of_its_own_is_part_of_the_name() {
        let parse = |text| PolicyVariant::parse(text, Start::Stationary, None);
        let plain = parse("markov-optimal").unwrap();
        assert_eq!((plain.name(), plain.start()), ("markov-optimal", Start::Stationary));
        let cold = parse("phased(reshuffle=0.1)@cold").unwrap();
        assert_eq!(cold.name(), "phased(reshuffle=0.1)@cold");
        assert_eq!(cold.spec().unwrap().to_string(), "phased(reshuffle=0.1)");
        assert_eq!(cold.start(), Start::Cold);
        assert_eq!(parse("random@warm").unwrap_err().field(), "start");
        assert_eq!(parse("rnd").unwrap_err().field(), "policy");
        assert_eq!(parse("random(x=1)").unwrap_err().field(), "policy option");
    }

    #[test]
    fn a_weighting_is_the_policy_s_own_unless_given() {
        let parse = |weighting| PolicyVariant::parse("random", Start::Cold, weighting).unwrap();
        assert_eq!(parse(None).weighting(), Weighting::DataSize);
        assert_eq!(parse(Some(Weighting::Uniform)).weighting(), Weighting::Uniform);
    }

    #[test]
    fn values_of_options_are_checked_for_a_setting() {
        let setting = SettingParams::new(10, 3, 5).check().unwrap();
        let variant = PolicyVariant::parse("power-of-choice(d=11)", Start::Cold, None).unwrap();
        assert_eq!(variant.build(&setting).unwrap_err().field(), "power-of-choice(d)");
    }
}
