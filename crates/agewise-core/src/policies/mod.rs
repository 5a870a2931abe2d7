//! The policies, one file each, and the registry in which they are found by name.
//!
//! A new policy is one file that ends in a `pub(super) const ENTRY: PolicyEntry`, and two lines below.

use crate::error::{Error, Result};
use crate::policy::{Policy, PolicyEntry, PolicySpec};
use crate::setting::Setting;

mod active;
mod age_herding;
mod clustered;
mod divfl;
mod law_policy;
mod markov_capped;
mod markov_custom;
mod markov_linear;
mod markov_mixing;
mod markov_optimal;
mod oldest_first;
mod oort;
mod phased;
mod power_of_choice;
mod probabilistic;
mod random;
mod round_robin;
mod sampling;
mod simd;
#[cfg(test)]
mod test_support;
mod vectors;
mod ward_clustering;

/// Every policy, in the order in which they are listed.
pub const POLICIES: &[PolicyEntry] = &[
    random::ENTRY,
    probabilistic::ENTRY,
    markov_optimal::ENTRY,
    markov_linear::ENTRY,
    markov_custom::ENTRY,
    oldest_first::ENTRY,
    phased::ENTRY,
    round_robin::ENTRY,
    age_herding::ENTRY,
    power_of_choice::ENTRY,
    active::ENTRY,
    clustered::ENTRY,
    divfl::ENTRY,
    oort::ENTRY,
    markov_mixing::ENTRY,
    markov_capped::ENTRY,
];

/// The policy of this name.
pub fn find(name: &str) -> Result<&'static PolicyEntry> {
    let found = POLICIES.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| {
        let unknown = Error::unknown("policy", name, POLICIES.iter().map(|entry| entry.name));
        if !["fedavg", "uniform"].contains(&name.to_lowercase().as_str()) {
            return unknown;
        }
        let expected = format!("{} (random is the uniform sampling of FedAvg)", unknown.expected());
        Error::new("policy", name, expected)
    })
}

/// Makes a policy from its name and options.
pub fn build(spec: &PolicySpec, setting: &Setting) -> Result<Box<dyn Policy>> {
    let entry = find(spec.name())?;
    spec.check_options(entry.options)?;
    (entry.build)(spec, setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_unknown_ones_are_suggested() {
        for (index, entry) in POLICIES.iter().enumerate() {
            assert_eq!(POLICIES.iter().position(|other| other.name == entry.name), Some(index));
            assert!(!entry.summary.is_empty());
        }
        let error = find("oldest").unwrap_err().to_string();
        assert!(error.contains("one of random, probabilistic"), "{error}");
        assert!(error.contains("did you mean oldest-first?"), "{error}");
        assert!(find("markov-optimum").unwrap_err().to_string().contains("markov-optimal?"));
    }

    #[test]
    fn unknown_options_are_refused() {
        let setting = crate::SettingParams::new(10, 2, 5).check().unwrap();
        let refused = |text: &str| {
            let spec: PolicySpec = text.parse().unwrap();
            build(&spec, &setting).unwrap_err().to_string()
        };
        assert!(refused("random(x=1)").contains("random has no options"));
        assert!(refused("phased(reshufle=1)").contains("did you mean reshuffle?"));
    }
}
