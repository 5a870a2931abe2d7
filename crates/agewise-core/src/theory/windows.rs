//! Y, the selections of a client in a window of T rounds, in the steady state.
//!
//! The paper plots sqrt(Var Y)/T and gives no formula. Selections that follow an age law are a renewal
//! process: with u_k the probability of a selection k rounds after one,
//! E\[Y^2\] = E\[Y\] + 2 r sum over k < T of (T - k) u_k, where r is the rate.

use crate::law::AgeLaw;
use crate::math::square;
use std::collections::BTreeMap;

/// sqrt(Var Y)/T for clients that follow an age law.
pub fn renewal_window_sd(law: &AgeLaw, lengths: &[u32]) -> BTreeMap<u32, f64> {
    let rate = law.rate();
    let longest = lengths.iter().copied().max().unwrap_or(0) as usize;
    let mut interval = vec![0.0; longest + 1];
    for (x, p) in law.interval_distribution().take_while(|(x, _)| *x <= longest as u64) {
        interval[x as usize] = p;
    }
    let mut selected_after = vec![0.0; longest + 1];
    selected_after[0] = 1.0;
    for k in 1..=longest {
        let ways = (1..=k).map(|x| interval[x] * selected_after[k - x]);
        selected_after[k] = ways.sum();
    }
    let variance = |length: u32| {
        let t = f64::from(length);
        let pairs: f64 =
            (1..length).map(|k| (t - f64::from(k)) * (selected_after[k as usize] - rate)).sum();
        // Subtracting r from u_k first leaves E[Y]^2 nothing to cancel but its diagonal.
        t * rate * (1.0 - rate) + 2.0 * rate * pairs
    };
    sd_by_length(lengths, variance)
}

/// sqrt(Var Y)/T where Y is one of the two whole numbers around T r: participation with a fixed period.
pub fn periodic_window_sd(rate: f64, lengths: &[u32]) -> BTreeMap<u32, f64> {
    mixed_periodic_window_sd(&[rate], lengths)
}

/// sqrt(Var Y)/T of clients that each participate with a fixed period at a rate of their own.
pub fn mixed_periodic_window_sd(rates: &[f64], lengths: &[u32]) -> BTreeMap<u32, f64> {
    let clients = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / clients;
    sd_by_length(lengths, |length| {
        let t = f64::from(length);
        let spread = |&rate: &f64| {
            let part = (t * rate).fract();
            // A product such as 20 * 0.15 may fall a rounding error short of a whole number.
            let within = if 1.0 - part < 1e-9 { 0.0 } else { part * (1.0 - part) };
            within + square(t * (rate - mean))
        };
        rates.iter().map(spread).sum::<f64>() / clients
    })
}

/// sqrt(Var Y)/T of a population in which client classes of (rate, count) are selected independently
/// in each round: the spread within a client and the spread between clients.
pub fn mixed_window_sd(classes: &[(f64, u32)], lengths: &[u32]) -> BTreeMap<u32, f64> {
    let clients: f64 = classes.iter().map(|&(_, count)| f64::from(count)).sum();
    let average = |value: &dyn Fn(f64) -> f64| {
        classes.iter().map(|&(rate, count)| f64::from(count) * value(rate)).sum::<f64>() / clients
    };
    let mean = average(&|rate| rate);
    let within = average(&|rate| rate * (1.0 - rate));
    let between = average(&|rate| square(rate - mean));
    sd_by_length(lengths, |length| {
        let t = f64::from(length);
        t * within + t * t * between
    })
}

fn sd_by_length(lengths: &[u32], variance: impl Fn(u32) -> f64) -> BTreeMap<u32, f64> {
    let sd = |&length: &u32| (length, variance(length).max(0.0).sqrt() / f64::from(length));
    lengths.iter().map(sd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_law_is_binomial() {
        let law = AgeLaw::new(&[0.15, 0.15]).unwrap();
        for (length, sd) in renewal_window_sd(&law, &[1, 2, 10, 100]) {
            let t = f64::from(length);
            assert!((sd - (t * 0.15 * 0.85).sqrt() / t).abs() < 1e-12, "T = {length}: {sd}");
            let mixed = mixed_window_sd(&[(0.15, 7)], &[length])[&length];
            assert!((sd - mixed).abs() < 1e-12);
        }
    }

    #[test]
    fn a_whole_interval_is_periodic() {
        let law = AgeLaw::optimal(5.0, 10).unwrap();
        let renewal = renewal_window_sd(&law, &[1, 3, 5, 7, 10]);
        let periodic = periodic_window_sd(0.2, &[1, 3, 5, 7, 10]);
        for (length, sd) in &renewal {
            assert!((sd - periodic[length]).abs() < 1e-7, "T = {length}: {sd}");
        }
        assert_eq!(periodic[&5], 0.0);
    }

    /// All 2^8 selection patterns of a window of 8 rounds, each with its probability from the age chain.
    #[test]
    fn renewal_agrees_with_enumerating_the_chain() {
        let law = AgeLaw::new(&[0.1, 0.0, 0.6, 0.3, 0.8]).unwrap();
        let pi = law.steady_state();
        let (mut mean, mut square) = (0.0, 0.0);
        for pattern in 0u32..256 {
            let mut probability = 0.0;
            for (first, share) in pi.iter().enumerate() {
                let mut age = first as u64;
                let mut p = *share;
                for round in 0..8 {
                    let selected = pattern >> round & 1 == 1;
                    let chance = law.probability(age);
                    p *= if selected { chance } else { 1.0 - chance };
                    age = if selected { 0 } else { age + 1 };
                }
                probability += p;
            }
            let y = f64::from(pattern.count_ones());
            mean += probability * y;
            square += probability * y * y;
        }
        let sd = renewal_window_sd(&law, &[8])[&8] * 8.0;
        assert!((sd * sd - (square - mean * mean)).abs() < 1e-12);
    }
}
