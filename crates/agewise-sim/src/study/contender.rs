//! A policy in a comparison: its name and options, its start and its weighting.

use agewise_core::{Error, PolicySpec, Result, Start, Weighting, find_policy};

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    /// What it is called: the text that it was made from, in one spelling.
    pub label: String,
    /// The policy with its options.
    pub spec: PolicySpec,
    /// The first ages.
    pub start: Start,
    /// How its cohorts are weighed.
    pub weighting: Weighting,
}

impl Contender {
    /// Reads `POLICY`, `POLICY@cold` or `POLICY@stationary`.
    pub(super) fn parse(text: &str, start: Start, weighting: Option<Weighting>) -> Result<Self> {
        let (policy, own_start) = match text.rsplit_once('@') {
            None => (text, None),
            Some((policy, name)) => (policy, Some(name.trim())),
        };
        let spec: PolicySpec = policy.parse()?;
        let start = match own_start {
            None => start,
            Some("cold") => Start::Cold,
            Some("stationary") => Start::Stationary,
            Some(other) => {
                return Err(Error::unknown("start", other, ["cold", "stationary"].into_iter()));
            }
        };
        let weighting = weighting.unwrap_or(find_policy(spec.name())?.weighting);
        let label = match own_start {
            None => spec.to_string(),
            Some(name) => format!("{spec}@{name}"),
        };
        Ok(Self { label, spec, start, weighting })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_of_its_own_is_part_of_the_label() {
        let parse = |text| Contender::parse(text, Start::Stationary, None);
        let plain = parse("markov-optimal").unwrap();
        assert_eq!((plain.label.as_str(), plain.start), ("markov-optimal", Start::Stationary));
        let cold = parse("phased(reshuffle=0.1)@cold").unwrap();
        assert_eq!(cold.label, "phased(reshuffle=0.1)@cold");
        assert_eq!(cold.start, Start::Cold);
        assert_eq!(parse("random@warm").unwrap_err().field(), "start");
        assert_eq!(parse("rnd").unwrap_err().field(), "policy");
    }
}
