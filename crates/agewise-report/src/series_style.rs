//! Which look a policy has in figures: the same one everywhere, unless two of a figure would have the same colour while
//! others are free.

use agewise_core::POLICIES;

/// The look of what is no policy (a closed form, a diagonal): grey, which no policy has.
pub(crate) const REFERENCE: usize = GREY;

/// The drawing code has seven colours; the last is grey.
const COLORS: usize = 7;
const GREY: usize = COLORS - 1;
/// It has five kinds of lines; dashes as long as those of the last can be taken for a line without any.
const DASHES: usize = 5;
const LONG_DASHES: usize = DASHES - 1;

/// The slot of a number: not a grey one, and none with long dashes whose colour another line has already.
fn slot(number: usize) -> usize {
    let good =
        |slot: &usize| slot % COLORS != GREY && (*slot < COLORS || slot % DASHES != LONG_DASHES);
    (0..).filter(good).nth(number).unwrap_or(number)
}

/// The place of a policy in the registry, those that need no options first: they are drawn together by
/// default, so they get the colours that differ.
fn place(name: &str) -> Option<usize> {
    let plain = POLICIES.iter().filter(|entry| !entry.needs_options);
    let others = POLICIES.iter().filter(|entry| entry.needs_options);
    plain.chain(others).position(|entry| entry.name == name)
}

/// The slot of each policy, given by the names without options: by its place. A further variant, a policy that is not
/// in the registry, and one whose colour an earlier one has, gets one whose colour is free, as long as there is any.
pub(crate) fn slots(policies: &[&str]) -> Vec<usize> {
    let is_variant = |index: usize| policies[..index].contains(&policies[index]);
    let own = |index: usize| {
        let place = place(policies[index]).filter(|_| !is_variant(index));
        place.map(slot)
    };
    let is_new = |slots: &[Option<usize>], slot: usize| {
        slots.iter().flatten().all(|other| other % COLORS != slot % COLORS)
    };
    let mut slots = vec![None; policies.len()];
    for index in 0..policies.len() {
        slots[index] = own(index).filter(|&slot| is_new(&slots, slot));
    }
    for index in 0..policies.len() {
        if slots[index].is_some() {
            continue;
        }
        let taken: Vec<usize> = slots.iter().flatten().copied().collect();
        let free = || (POLICIES.len()..).map(slot).filter(|slot| !taken.contains(slot));
        // Behind the policies' own slots all colours come round once more.
        let fresh = free().take(2 * COLORS).find(|&slot| is_new(&slots, slot));
        slots[index] = fresh.or_else(|| own(index)).or_else(|| free().next());
    }
    slots.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_experiment::ExperimentParams;

    /// How many colours these policies have.
    fn colors(policies: &[&str]) -> usize {
        let mut colors: Vec<usize> = slots(policies).iter().map(|slot| slot % COLORS).collect();
        colors.sort_unstable();
        colors.dedup();
        colors.len()
    }

    #[test]
    fn the_policies_of_default_runs_differ_in_colour() {
        for params in [ExperimentParams::default(), ExperimentParams::comparison()] {
            let policies: Vec<&str> = params.policies.iter().map(String::as_str).collect();
            assert_eq!(colors(&policies), policies.len());
        }
    }

    #[test]
    fn a_variant_has_a_colour_of_its_own_while_there_are_any() {
        let policies = ["random", "markov-optimal", "markov-optimal", "my own", "phased"];
        assert_eq!(colors(&policies), policies.len());
    }

    #[test]
    fn every_policy_and_variant_has_a_look_of_its_own() {
        let policies: Vec<&str> = POLICIES.iter().chain(POLICIES).map(|entry| entry.name).collect();
        let slots = slots(&policies);
        for (index, slot) in slots.iter().enumerate() {
            assert!(!slots[..index].contains(slot));
            assert_ne!(slot % COLORS, GREY);
            let look = (slot % COLORS, slot % DASHES);
            let others =
                slots[..index.min(24)].iter().map(|other| (other % COLORS, other % DASHES));
            assert!(index >= 24 || !others.clone().any(|other| other == look), "{slot}");
        }
    }
}
