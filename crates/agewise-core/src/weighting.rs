//! Aggregation weights: what a chosen client's update counts for.
//!
//! The paper ties one weighting to each policy, so that its comparison mixes two questions: policies
//! that weigh by size and policies that weigh equally optimise different objectives when sizes differ.
//! Here the weighting is a setting of its own, and the paper's pairing is only the default.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How the members of a cohort are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weighting {
    /// 1/|S| each.
    Uniform,
    /// d_i over the sum of d in the cohort.
    DataSize,
    /// The number of times the client was drawn, over the number of draws. Where no client can be drawn
    /// twice this is the same as uniform.
    DrawCount,
    /// q_i over the probability that the client is in a cohort (Horvitz-Thompson), so that the
    /// expected update is that of the data-size objective. These weights add up to 1 on average, not in
    /// each round: they are meant for updates (differences to the global model), not for models.
    Unbiased,
}

impl Weighting {
    /// All weightings.
    pub const ALL: [Self; 4] = [Self::Uniform, Self::DataSize, Self::DrawCount, Self::Unbiased];

    /// The name, as it is written in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::DataSize => "data-size",
            Self::DrawCount => "draw-count",
            Self::Unbiased => "unbiased",
        }
    }

    /// Whether the weights of every cohort add up to exactly 1.
    pub fn is_normalised(self) -> bool {
        self != Self::Unbiased
    }
}

impl fmt::Display for Weighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Weighting {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|weighting| weighting.name() == text);
        known.ok_or_else(|| Error::unknown("weighting", text, Self::ALL.iter().map(|w| w.name())))
    }
}

/// What a weighting has to know of a member of a cohort.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CohortMember {
    /// How often it was drawn.
    pub draws: u32,
    /// d_i.
    pub size: f64,
    /// q_i.
    pub share: f64,
    /// The probability of being in a cohort.
    pub inclusion: f64,
}

impl Weighting {
    /// What a member counts for before normalisation.
    pub fn raw_weight(self, member: &CohortMember) -> f64 {
        match self {
            Self::Uniform => 1.0,
            Self::DataSize => member.size,
            Self::DrawCount => f64::from(member.draws),
            Self::Unbiased => member.share / member.inclusion,
        }
    }

    /// The weights of a cohort, in its order.
    pub fn weights(self, members: impl IntoIterator<Item = CohortMember>) -> Vec<f64> {
        let mut weights: Vec<f64> =
            members.into_iter().map(|member| self.raw_weight(&member)).collect();
        let (sum, count) = (weights.iter().sum::<f64>(), weights.len() as f64);
        if self.is_normalised() {
            for weight in &mut weights {
                // In a cohort without any data no update counts for more than another.
                *weight = if sum > 0.0 { *weight / sum } else { 1.0 / count };
            }
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_weighting_is_its_formula() {
        let members = [
            CohortMember { draws: 1, size: 1.0, share: 0.1, inclusion: 0.5 },
            CohortMember { draws: 3, size: 4.0, share: 0.4, inclusion: 0.8 },
        ];
        assert_eq!(Weighting::Uniform.weights(members), [0.5, 0.5]);
        assert_eq!(Weighting::DataSize.weights(members), [0.2, 0.8]);
        assert_eq!(Weighting::DrawCount.weights(members), [0.25, 0.75]);
        assert_eq!(Weighting::Unbiased.weights(members), [0.2, 0.5]);
        assert!(Weighting::DataSize.weights([]).is_empty());
    }

    #[test]
    fn a_cohort_without_data_is_weighed_equally() {
        let nobody = CohortMember { draws: 1, size: 0.0, share: 0.0, inclusion: 0.5 };
        assert_eq!(Weighting::DataSize.weights([nobody; 4]), [0.25; 4]);
    }

    #[test]
    fn names_parse_back() {
        for weighting in Weighting::ALL {
            assert_eq!(weighting.name().parse::<Weighting>().unwrap(), weighting);
        }
        let error = "datasize".parse::<Weighting>().unwrap_err();
        assert!(error.to_string().contains("did you mean data-size?"), "{error}");
    }
}
