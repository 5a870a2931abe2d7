//! One cohort: again and again the candidate that brings the sum closest to zero.

use super::centred::Centred;

/// The places of the chosen among candidates in order of age; the first `due` have to be there, and the oldest always
/// is.
pub(super) fn choose(candidates: &Centred, cohort: usize, due: usize) -> Vec<usize> {
    let count = candidates.count();
    let cohort = cohort.min(count);
    let forced = due.max(1).min(cohort);
    // The product of each with the sum of those that are taken.
    let mut products = vec![0.0; count];
    let mut is_taken = vec![false; count];
    let mut taken = Vec::with_capacity(cohort);
    while taken.len() < cohort {
        let next = if taken.len() < forced {
            taken.len()
        } else {
            // |sum + v|^2 without |sum|^2, which is the same for all.
            let value = |&place: &usize| 2.0 * products[place] + candidates.square(place);
            let left = (0..count).filter(|&place| !is_taken[place]);
            let Some(best) = left.min_by(|a, b| value(a).total_cmp(&value(b))) else {
                break;
            };
            best
        };
        is_taken[next] = true;
        taken.push(next);
        for (place, product) in products.iter_mut().enumerate() {
            *product += candidates.product(place, next);
        }
    }
    taken
}
