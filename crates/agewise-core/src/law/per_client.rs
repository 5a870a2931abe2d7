//! Which client follows which law: one for all, or each its own from a target rate.

use super::{AgeLaw, MaxAge, check_interval};
use crate::error::{Error, Result};
use crate::random::Draw;
use std::collections::HashMap;

/// A way to make a law from a target interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LawFamily {
    /// Theorem 2.
    Optimal,
    /// p_a = min(1, s (a + 1)).
    Linear,
    /// The optimal law with intervals that vary a little, so that clients do not stay in step.
    Mixing {
        /// The least Var\[X\].
        variance: f64,
    },
    /// The best law of which no probability exceeds a multiple of m/n.
    Capped {
        /// That multiple.
        factor: f64,
    },
}

impl LawFamily {
    /// The law of this family for a target interval.
    pub fn law(self, interval: f64, max_age: impl Into<MaxAge>) -> Result<AgeLaw> {
        let max_age = max_age.into().at(check_interval(interval)?)?;
        match self {
            Self::Optimal => AgeLaw::optimal(interval, max_age),
            Self::Linear => AgeLaw::linear(interval, max_age),
            Self::Mixing { variance } => AgeLaw::mixing(interval, max_age, variance),
            Self::Capped { factor } => AgeLaw::capped(interval, max_age, factor),
        }
    }
}

/// The laws of a population.
#[derive(Debug, Clone, PartialEq)]
pub struct Laws {
    laws: Vec<AgeLaw>,
    /// Which of `laws` a client follows; empty where all follow the first.
    law_of: Vec<u32>,
}

impl Laws {
    /// One law for everyone.
    pub fn shared(law: AgeLaw) -> Self {
        Self { laws: vec![law], law_of: Vec::new() }
    }

    /// For a client with target rate r its own law for the interval 1/r; clients of the same rate
    /// share one.
    pub fn from_rates(
        family: LawFamily,
        rates: &[f64],
        max_age: impl Into<MaxAge>,
    ) -> Result<Self> {
        let max_age = max_age.into();
        let mut laws = Vec::new();
        let mut known = HashMap::new();
        let mut law_of = Vec::with_capacity(rates.len());
        for (client, &rate) in rates.iter().enumerate() {
            check_rate(client, rate)?;
            let index = *known.entry(rate.to_bits()).or_insert(laws.len() as u32);
            if index as usize == laws.len() {
                laws.push(family.law(1.0 / rate, max_age)?);
            }
            law_of.push(index);
        }
        Ok(Self { laws, law_of })
    }

    /// The law of one client.
    pub fn of(&self, client: u32) -> &AgeLaw {
        match self.law_of.get(client as usize) {
            Some(&index) => &self.laws[index as usize],
            None => &self.laws[0],
        }
    }

    /// The one law that everyone follows, if there is one.
    pub fn common(&self) -> Option<&AgeLaw> {
        match &self.laws[..] {
            [law] => Some(law),
            _ => None,
        }
    }

    /// The different laws, each with the number of clients that follow it, of `clients` in all.
    pub fn classes(&self, clients: u32) -> Vec<(&AgeLaw, u32)> {
        if self.law_of.is_empty() {
            return vec![(&self.laws[0], clients)];
        }
        let mut counts = vec![0; self.laws.len()];
        for &index in &self.law_of {
            counts[index as usize] += 1;
        }
        self.laws.iter().zip(counts).collect()
    }

    /// The decision of one client of the population.
    pub fn takes_part(&self, client: u32, age: u64, draw: Draw) -> bool {
        self.of(client).takes_part(age, draw)
    }
}

/// Checks the target rate of one client.
pub(crate) fn check_rate(client: usize, rate: f64) -> Result<()> {
    if rate > 0.0 && rate <= 1.0 {
        Ok(())
    } else {
        Err(Error::new(format!("rates[{client}]"), rate, "a rate above 0 and at most 1"))
    }
}

/// Target rates in proportion to `weights`, none above 1, that add up to `cohort`.
///
/// A client that would get more than 1 gets 1, and the others share what is left, until none is above.
pub fn proportional_rates(weights: &[f64], cohort: f64) -> Result<Vec<f64>> {
    for (client, &weight) in weights.iter().enumerate() {
        if !(weight.is_finite() && weight > 0.0) {
            let field = format!("weights[{client}]");
            return Err(Error::new(field, weight, "a finite weight above 0"));
        }
    }
    if !(cohort > 0.0 && cohort <= weights.len() as f64) {
        let expected = format!("above 0 and at most the number of clients, {}", weights.len());
        return Err(Error::new("cohort", cohort, expected));
    }
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
    // Sums from the smallest up: subtracting the large weights again would lose the small ones.
    let mut sums: Vec<f64> = Vec::with_capacity(order.len());
    for &client in order.iter().rev() {
        sums.push(sums.last().unwrap_or(&0.0) + weights[client]);
    }
    sums.reverse();
    if sums[0].is_infinite() {
        return Err(Error::new("weights", sums[0], "weights with a finite sum"));
    }
    let left = |capped: usize| cohort - capped as f64;
    let is_capped = |&(rank, &client): &(usize, &usize)| left(rank) * weights[client] > sums[rank];
    let capped = order.iter().enumerate().take_while(is_capped).count();
    let mut rates = vec![1.0; weights.len()];
    for &client in &order[capped..] {
        rates[client] = (left(capped) * weights[client] / sums[capped]).min(1.0);
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rate_gets_its_own_optimal_law() {
        let rates = [0.5, 0.15, 0.5, 1.0];
        let laws = Laws::from_rates(LawFamily::Optimal, &rates, 10).unwrap();
        for (client, rate) in rates.iter().enumerate() {
            assert_eq!(laws.of(client as u32), &AgeLaw::optimal(1.0 / rate, 10).unwrap());
        }
        let classes: Vec<u32> = laws.classes(4).into_iter().map(|(_, count)| count).collect();
        assert_eq!(classes, [2, 1, 1]);
        assert!(laws.common().is_none());
    }

    #[test]
    fn refuses_rates_that_are_none() {
        for bad in [0.0, -0.1, 1.1, f64::NAN] {
            let error = Laws::from_rates(LawFamily::Optimal, &[0.5, bad], 10).unwrap_err();
            assert_eq!(error.field(), "rates[1]");
        }
    }

    #[test]
    fn proportional_rates_add_up_and_keep_the_order() {
        let weights = [1.0, 2.0, 3.0, 100.0];
        let rates = proportional_rates(&weights, 2.0).unwrap();
        assert!((rates.iter().sum::<f64>() - 2.0).abs() < 1e-12);
        assert_eq!(rates[3], 1.0);
        assert!((rates[0] - 1.0 / 6.0).abs() < 1e-12 && (rates[1] - 2.0 / 6.0).abs() < 1e-12);
        assert_eq!(proportional_rates(&weights, 4.0).unwrap(), [1.0; 4]);
        let steep = proportional_rates(&[1e18, 1.0, 1.0], 1.5).unwrap();
        assert_eq!(steep, [1.0, 0.25, 0.25]);
        assert_eq!(proportional_rates(&weights, 5.0).unwrap_err().field(), "cohort");
        assert_eq!(proportional_rates(&[0.0], 1.0).unwrap_err().field(), "weights[0]");
    }
}
