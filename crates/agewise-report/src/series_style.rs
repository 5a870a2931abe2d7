//! Which look a policy has in figures: the same one everywhere, in every report, whatever stands beside it.

/// The drawing code has seven colours; the last is grey.
const COLORS: usize = 7;
/// The look of what is no policy (a closed form, a diagonal): grey, which no policy has.
pub(crate) const REFERENCE: usize = COLORS - 1;
/// It has five kinds of lines.
const DASHES: usize = 5;

/// The slot of each policy of the registry. No two have the same colour and the same line; those that are drawn together
/// by default have colours that differ, and those with the same colour have lines that differ much.
const LOOKS: [(&str, usize); 16] = [
    ("random", look(0, 0)),
    ("probabilistic", look(1, 1)),
    ("markov-optimal", look(2, 2)),
    ("markov-linear", look(3, 3)),
    ("oldest-first", look(4, 4)),
    ("phased", look(5, 0)),
    ("age-herding", look(5, 2)),
    ("round-robin", look(0, 1)),
    ("power-of-choice", look(1, 0)),
    ("active", look(2, 0)),
    ("clustered", look(3, 0)),
    ("divfl", look(4, 0)),
    ("oort", look(0, 3)),
    ("markov-custom", look(1, 2)),
    ("markov-mixing", look(2, 3)),
    ("markov-capped", look(3, 1)),
];

/// The first slot with a colour and a line; there is one for each pair, for the numbers of both share no factor.
const fn look(color: usize, dash: usize) -> usize {
    let mut slot = color;
    while slot % DASHES != dash {
        slot += COLORS;
    }
    slot
}

/// The slot of each variant, given by its name and that of its policy. A policy looks the same everywhere; where it is
/// there only with options, the first of its variants looks like it. What else a variant looks like follows from its
/// name, and another look is taken only where two would look alike.
pub(crate) fn slots(variants: &[(&str, &str)]) -> Vec<usize> {
    let known = |index: usize| {
        let (name, policy) = variants[index];
        let is_alone = || {
            let is_other = |(other, of): &(&str, &str)| *of != policy || other == of;
            variants[..index].iter().all(is_other) && !variants.contains(&(policy, policy))
        };
        let (_, slot) = LOOKS.iter().find(|(known, _)| *known == policy)?;
        (name == policy || is_alone()).then_some(*slot)
    };
    let mut slots: Vec<Option<usize>> = (0..variants.len()).map(known).collect();
    for index in 0..variants.len() {
        if slots[index].is_none() {
            slots[index] = Some(free_slot(variants[index].0, &slots));
        }
    }
    slots.into_iter().flatten().collect()
}

/// A slot that no policy has and no other variant, from the name: the same name has the same slot in another report.
fn free_slot(name: &str, taken: &[Option<usize>]) -> usize {
    let is_open =
        |slot: &usize| slot % COLORS != REFERENCE && LOOKS.iter().all(|(_, known)| known != slot);
    let open: Vec<usize> = (0..COLORS * DASHES).filter(is_open).collect();
    // FNV-1a: even, and the same on every machine.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let first = (hash % open.len() as u64) as usize;
    let mut candidates = open.iter().cycle().skip(first).take(open.len()).copied();
    let free = candidates.find(|slot| !taken.contains(&Some(*slot)));
    // With more variants than looks, markers still differ.
    free.unwrap_or_else(|| {
        let more = (COLORS * DASHES..).filter(|slot| slot % COLORS != REFERENCE);
        more.into_iter().find(|slot| !taken.contains(&Some(*slot))).unwrap_or(first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use agewise_core::POLICIES;
    use agewise_experiment::ExperimentParams;
    use std::collections::BTreeSet;

    fn alone<'a>(names: &[&'a str]) -> Vec<usize> {
        slots(&names.iter().map(|name| (*name, *name)).collect::<Vec<(&'a str, &'a str)>>())
    }

    #[test]
    fn every_policy_of_the_registry_has_a_look_of_its_own() {
        let known: BTreeSet<&str> = LOOKS.iter().map(|(name, _)| *name).collect();
        let all: BTreeSet<&str> = POLICIES.iter().map(|entry| entry.name).collect();
        assert_eq!(known, all);
        let looks: BTreeSet<_> =
            LOOKS.iter().map(|(_, slot)| (slot % COLORS, slot % DASHES)).collect();
        assert_eq!(looks.len(), LOOKS.len());
        assert!(LOOKS.iter().all(|(_, slot)| slot % COLORS != REFERENCE));
    }

    #[test]
    fn the_policies_of_default_runs_differ_in_colour() {
        for params in [ExperimentParams::default(), ExperimentParams::comparison()] {
            let policies: Vec<&str> = params.policies.iter().map(String::as_str).collect();
            let colors: BTreeSet<usize> =
                alone(&policies).iter().map(|slot| slot % COLORS).collect();
            assert_eq!(colors.len(), policies.len());
        }
    }

    /// The look of a policy does not depend on its place, nor on what stands beside it.
    #[test]
    fn a_policy_looks_the_same_in_every_report() {
        let all: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
        let reversed: Vec<&str> = all.iter().rev().copied().collect();
        let together = alone(&all);
        assert!(alone(&reversed).iter().rev().eq(&together));
        for (name, slot) in all.iter().zip(&together) {
            assert_eq!(alone(&[name]), [*slot], "{name}");
        }
        let variants = [("random", "random"), ("random+median", "random"), ("phased", "phased")];
        let [plain, median, _] = slots(&variants)[..] else { panic!("three slots") };
        assert_eq!(alone(&["random"]), [plain]);
        assert_eq!(slots(&[variants[1], variants[0]]), [median, plain]);
        let options = ("markov-capped(factor=2)", "markov-capped");
        assert_eq!(slots(&[options]), alone(&["markov-capped"]));
    }

    #[test]
    fn variants_do_not_look_alike() {
        let names: Vec<String> = (0..30).map(|number| format!("random@{number}")).collect();
        let variants = names.iter().map(|name| (name.as_str(), "random"));
        let variants: Vec<(&str, &str)> = variants.collect();
        let slots = slots(&variants);
        assert_eq!(slots.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(slots.iter().all(|slot| slot % COLORS != REFERENCE));
    }
}
