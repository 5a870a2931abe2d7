//! How long a round waits for the reports of its last members.

use agewise_core::{Error, Result};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

const ADAPTIVE: &str = "adaptive";
const FIXED: &str = "fixed";
const EXPECTED: &str =
    "\"adaptive\", \"fixed\" or a quantile of durations above 0 and up to 1, such as 0.8";

/// When a round stops waiting for reports: `"adaptive"`, `"fixed"` or a quantile. `round.report_seconds` is the limit of all three.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum ReportDeadline {
    /// A multiple of how long reports have taken, once few members are awaited. A client that is known to be slow has longer.
    #[default]
    Adaptive,
    /// `round.report_seconds` after the announcement.
    Fixed,
    /// The time within which this share of the last reports came.
    Quantile(f64),
}

impl ReportDeadline {
    pub(super) fn check(self) -> Result<()> {
        match self {
            Self::Quantile(share) if !(share > 0.0 && share <= 1.0) => {
                Err(Error::new("round.report_deadline", share, EXPECTED))
            }
            _ => Ok(()),
        }
    }
}

impl Serialize for ReportDeadline {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Adaptive => serializer.serialize_str(ADAPTIVE),
            Self::Fixed => serializer.serialize_str(FIXED),
            Self::Quantile(share) => serializer.serialize_f64(*share),
        }
    }
}

impl<'de> Deserialize<'de> for ReportDeadline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(DeadlineVisitor)
    }
}

struct DeadlineVisitor;

impl Visitor<'_> for DeadlineVisitor {
    type Value = ReportDeadline;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<ReportDeadline, E> {
        match text {
            ADAPTIVE => Ok(ReportDeadline::Adaptive),
            FIXED => Ok(ReportDeadline::Fixed),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_f64<E>(self, share: f64) -> std::result::Result<ReportDeadline, E> {
        Ok(ReportDeadline::Quantile(share))
    }

    fn visit_i64<E>(self, share: i64) -> std::result::Result<ReportDeadline, E> {
        Ok(ReportDeadline::Quantile(share as f64))
    }

    fn visit_u64<E>(self, share: u64) -> std::result::Result<ReportDeadline, E> {
        Ok(ReportDeadline::Quantile(share as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CoordinatorParams, RoundParams};

    #[test]
    fn it_is_a_word_or_a_quantile() {
        let read =
            |text: &str| toml::from_str::<RoundParams>(text).map(|read| read.report_deadline);
        assert_eq!(read("").unwrap(), ReportDeadline::Adaptive);
        assert_eq!(read("report_deadline = \"fixed\"").unwrap(), ReportDeadline::Fixed);
        assert_eq!(read("report_deadline = 1").unwrap(), ReportDeadline::Quantile(1.0));
        let error = read("report_deadline = \"never\"").unwrap_err().to_string();
        assert!(error.contains("never") && error.contains("\"adaptive\""), "{error}");
        for deadline in
            [ReportDeadline::Adaptive, ReportDeadline::Fixed, ReportDeadline::Quantile(0.75)]
        {
            let round = RoundParams { report_deadline: deadline, ..RoundParams::default() };
            assert_eq!(read(&toml::to_string(&round).unwrap()).unwrap(), deadline);
        }
    }

    #[test]
    fn a_share_that_is_none_is_refused() {
        for share in [0.0, -0.5, 1.5, 80.0, f64::NAN] {
            let report_deadline = ReportDeadline::Quantile(share);
            let round = RoundParams { report_deadline, ..RoundParams::default() };
            let params = CoordinatorParams { round, ..CoordinatorParams::default() };
            let error = params.check().unwrap_err().to_string();
            assert!(error.contains("round.report_deadline") && error.contains("0.8"), "{error}");
        }
    }
}
