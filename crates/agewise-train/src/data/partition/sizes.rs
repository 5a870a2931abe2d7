//! From relative sizes to numbers of samples.

use agewise_core::Sizes;

/// Shares `samples` in proportion to the relative sizes, with at least `least` for everyone, which the caller has
/// checked to be possible.
///
/// Who would have less gets `least`, and the others share what remains in proportion; whole numbers by largest
/// remainder. Everything is given away.
pub(crate) fn in_samples(relative: &Sizes, samples: usize, least: usize) -> Vec<usize> {
    let clients = relative.clients() as usize;
    let mut order: Vec<usize> = (0..clients).collect();
    let weight = |client: usize| relative.of(client as u32);
    order.sort_by(|&a, &b| weight(a).total_cmp(&weight(b)));

    // From the smallest on: a client with too little in proportion is raised, which leaves less for the others.
    let mut remaining = samples;
    let mut raised = 0;
    // Sums from the largest down: what is left after subtracting from a total may be all rounding error.
    let mut sums: Vec<f64> = vec![0.0; clients + 1];
    for place in (0..clients).rev() {
        sums[place] = sums[place + 1] + weight(order[place]);
    }
    while raised < clients {
        let share = remaining as f64 * weight(order[raised]) / sums[raised];
        if share >= least as f64 {
            break;
        }
        remaining -= least;
        raised += 1;
    }

    let mut sizes = vec![least; clients];
    let others = &order[raised..];
    let mut given = 0;
    let mut remainders = Vec::with_capacity(others.len());
    for &client in others {
        let share = remaining as f64 * (weight(client) / sums[raised]);
        // Rounding may take a share just below what it has to be, or the sum above what there is.
        let whole = (share.floor() as usize).max(least).min(remaining - given);
        sizes[client] = whole;
        given += whole;
        remainders.push((share - whole as f64, client));
    }
    remainders.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut left = remaining - given;
    // Everyone in turn; one turn is enough but for rounding errors.
    while left > 0 {
        for &(_, client) in remainders.iter().take(left) {
            sizes[client] += 1;
            left -= 1;
        }
        if remainders.is_empty() {
            // All were raised, which happens only by rounding: the largest takes what is left.
            sizes[order[clients - 1]] += left;
            left = 0;
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(weights: &[f64], samples: usize, least: usize) -> Vec<usize> {
        in_samples(&Sizes::new(weights.to_vec()).unwrap(), samples, least)
    }

    #[test]
    fn sizes_are_in_proportion_and_use_everything() {
        assert_eq!(shared(&[1.0, 2.0, 5.0], 80, 1), [10, 20, 50]);
        assert_eq!(in_samples(&Sizes::equal(3), 11, 1), [4, 4, 3]);
        assert_eq!(in_samples(&Sizes::equal(4), 8, 2), [2, 2, 2, 2]);
    }

    #[test]
    fn who_has_too_little_is_raised_and_the_others_pay_in_proportion() {
        // 1% of 100 is below 10: 90 are left for 33 and 66.
        assert_eq!(shared(&[1.0, 33.0, 66.0], 100, 10), [10, 30, 60]);
        // Raising the first makes the second too small as well.
        assert_eq!(shared(&[0.0, 10.5, 89.5], 100, 10), [10, 10, 80]);
        assert_eq!(shared(&[1e-180, 1.0, 1e15], 30, 10), [10, 10, 10]);
    }
}
