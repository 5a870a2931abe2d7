//! Aggregation weights: what a chosen client's update counts for.
//!
//! The paper ties one weighting to each policy, so that its comparison mixes two questions: policies
//! that weigh by size and policies that weigh equally optimise different objectives when sizes differ.
//! Here the weighting is a setting of its own, and the paper's pairing is only the default.

use crate::error::{Error, Result, suggest};
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
    /// The number of times the client was drawn, over the number of draws. Where nobody can be drawn
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
        known.ok_or_else(|| {
            Error::new("weighting", text, suggest(text, Self::ALL.iter().map(|w| w.name())))
        })
    }
}

/// What [`weigh`] has to know of a chosen client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weighed {
    /// How often it was drawn.
    pub(crate) draws: u32,
    /// d_i.
    pub(crate) size: f64,
    /// q_i.
    pub(crate) share: f64,
    /// The probability of being in a cohort.
    pub(crate) inclusion: f64,
}

/// The weights of a cohort, in its order.
pub(crate) fn weigh(weighting: Weighting, members: &[Weighed]) -> Vec<f64> {
    let normalised = |value: fn(&Weighed) -> f64| -> Vec<f64> {
        let total: f64 = members.iter().map(value).sum();
        if total > 0.0 {
            members.iter().map(|member| value(member) / total).collect()
        } else {
            // A cohort without any data: nobody's update has a better claim than another's.
            vec![1.0 / members.len() as f64; members.len()]
        }
    };
    match weighting {
        Weighting::Uniform => normalised(|_| 1.0),
        Weighting::DataSize => normalised(|member| member.size),
        Weighting::DrawCount => normalised(|member| f64::from(member.draws)),
        Weighting::Unbiased => members.iter().map(|m| m.share / m.inclusion).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_weighting_is_its_formula() {
        let members = [
            Weighed { draws: 1, size: 1.0, share: 0.1, inclusion: 0.5 },
            Weighed { draws: 3, size: 4.0, share: 0.4, inclusion: 0.8 },
        ];
        assert_eq!(weigh(Weighting::Uniform, &members), [0.5, 0.5]);
        assert_eq!(weigh(Weighting::DataSize, &members), [0.2, 0.8]);
        assert_eq!(weigh(Weighting::DrawCount, &members), [0.25, 0.75]);
        assert_eq!(weigh(Weighting::Unbiased, &members), [0.2, 0.5]);
        assert!(weigh(Weighting::DataSize, &[]).is_empty());
    }

    #[test]
    fn a_cohort_without_data_is_weighed_equally() {
        let nobody = Weighed { draws: 1, size: 0.0, share: 0.0, inclusion: 0.5 };
        assert_eq!(weigh(Weighting::DataSize, &[nobody; 4]), [0.25; 4]);
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
