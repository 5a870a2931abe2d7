//! How far from the global model an update may be.

use agewise_core::{Error, Result};
use agewise_train::aggregation::NormBound;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

const AUTO: &str = "auto";

/// How far from the global model an update may be: `"auto"` or a number, of which 0 is for no bound.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum MaxNorm {
    /// A multiple of the median of the updates that were accepted last ([`NormBound`]).
    #[default]
    Auto,
    /// Always this far; 0 for any distance.
    Fixed(f64),
}

impl MaxNorm {
    /// Any distance will do.
    pub const OFF: Self = Self::Fixed(0.0);

    pub(super) fn check(self) -> Result<()> {
        match self {
            Self::Fixed(norm) if !(norm.is_finite() && norm >= 0.0) => {
                let expected = "\"auto\", a number above 0, or 0 for no bound";
                Err(Error::new("updates.max_norm", norm, expected))
            }
            _ => Ok(()),
        }
    }

    /// The bound for updates as they come in, if there is one.
    pub(crate) fn bound(self, known: &NormBound) -> Option<f64> {
        match self {
            Self::Auto => known.bound(),
            Self::Fixed(norm) => Some(norm).filter(|&norm| norm > 0.0),
        }
    }

    /// The bound that can be told only when the updates of a round are there, if it has to be.
    pub(crate) fn among(self, known: &NormBound, round: &[f64]) -> Option<f64> {
        match self {
            Self::Auto => known.among(round),
            Self::Fixed(_) => None,
        }
    }
}

impl Serialize for MaxNorm {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str(AUTO),
            Self::Fixed(norm) => serializer.serialize_f64(*norm),
        }
    }
}

impl<'de> Deserialize<'de> for MaxNorm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(MaxNormVisitor)
    }
}

struct MaxNormVisitor;

impl Visitor<'_> for MaxNormVisitor {
    type Value = MaxNorm;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"auto\" or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<MaxNorm, E> {
        if text == AUTO {
            return Ok(MaxNorm::Auto);
        }
        Err(E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_f64<E>(self, norm: f64) -> std::result::Result<MaxNorm, E> {
        Ok(MaxNorm::Fixed(norm))
    }

    fn visit_i64<E>(self, norm: i64) -> std::result::Result<MaxNorm, E> {
        Ok(MaxNorm::Fixed(norm as f64))
    }

    fn visit_u64<E>(self, norm: u64) -> std::result::Result<MaxNorm, E> {
        Ok(MaxNorm::Fixed(norm as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UpdateParams;

    #[test]
    fn it_is_auto_or_a_number() {
        let read = |text: &str| toml::from_str::<UpdateParams>(text).map(|read| read.max_norm);
        assert_eq!(read("").unwrap(), MaxNorm::Auto);
        assert_eq!(read("max_norm = \"auto\"").unwrap(), MaxNorm::Auto);
        assert_eq!(read("max_norm = 0").unwrap(), MaxNorm::OFF);
        assert_eq!(read("max_norm = 2.5").unwrap(), MaxNorm::Fixed(2.5));
        assert!(read("max_norm = \"off\"").unwrap_err().to_string().contains("\"auto\""));
        assert!(MaxNorm::Fixed(f64::NAN).check().is_err() && MaxNorm::Fixed(-1.0).check().is_err());
        for norm in [MaxNorm::Auto, MaxNorm::Fixed(2.5)] {
            let params = UpdateParams { max_norm: norm, ..UpdateParams::default() };
            assert_eq!(read(&toml::to_string(&params).unwrap()).unwrap(), norm);
        }
    }
}
