//! Which look a policy has in figures: the same one everywhere.

use crate::core::{POLICIES, PolicySpec};

/// The look of what is no policy (a closed form, a diagonal): grey, which no policy has.
pub(crate) const REFERENCE: usize = GREY;

/// The drawing code has seven colours; the last is grey.
const COLORS: usize = 7;
const GREY: usize = COLORS - 1;

/// The slot of each policy: by its place in the registry, and a further one for a second variant.
pub(crate) fn slots(policies: &[&PolicySpec]) -> Vec<usize> {
    let slot = |(index, policy): (usize, &&PolicySpec)| {
        let place = POLICIES.iter().position(|entry| entry.name == policy.name()).unwrap_or(0);
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
