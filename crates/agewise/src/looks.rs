//! Which look a policy has in figures: the same one everywhere.

use crate::core::{POLICIES, PolicySpec};

/// The look of what is no policy (a closed form, a diagonal): grey, which no policy has.
pub(crate) const REFERENCE: usize = GREY;

/// The drawing code has seven colours; the last is grey.
const COLORS: usize = 7;
const GREY: usize = COLORS - 1;

/// The place of a policy in the registry, those that need no options first: they are drawn together by
/// default, so they get the colours that differ.
fn place(name: &str) -> usize {
    let plain = POLICIES.iter().filter(|entry| !entry.needs_options);
    let others = POLICIES.iter().filter(|entry| entry.needs_options);
    plain.chain(others).position(|entry| entry.name == name).unwrap_or(0)
}

/// The slot of each policy: by its place, and a further one for a second variant.
pub(crate) fn slots(policies: &[&PolicySpec]) -> Vec<usize> {
    let slot = |(index, policy): (usize, &&PolicySpec)| {
        let place = place(policy.name());
        let variant =
            policies[..index].iter().filter(|other| other.name() == policy.name()).count();
        let number = place + variant * POLICIES.len();
        // Step over every grey one.
        number + number / (COLORS - 1)
    };
    policies.iter().enumerate().map(slot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_of_the_default_simulation_differ_in_colour() {
        let specs: Vec<PolicySpec> = agewise_sim::SimulationParams::default()
            .policies
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let slots = slots(&specs.iter().collect::<Vec<_>>());
        let mut colors: Vec<usize> = slots.iter().map(|slot| slot % COLORS).collect();
        colors.sort_unstable();
        colors.dedup();
        assert_eq!(colors.len(), specs.len());
    }

    #[test]
    fn every_policy_and_variant_has_a_look_of_its_own() {
        let specs: Vec<PolicySpec> =
            POLICIES.iter().chain(POLICIES).map(|entry| PolicySpec::named(entry.name)).collect();
        let slots = slots(&specs.iter().collect::<Vec<_>>());
        for (index, slot) in slots.iter().enumerate() {
            assert!(!slots[..index].contains(slot));
            assert_ne!(slot % COLORS, GREY);
        }
    }
}
