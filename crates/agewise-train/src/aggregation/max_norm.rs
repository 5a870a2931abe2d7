//! How far from the global model an update may be.

use super::NormBound;
use agewise_core::{Error, Result};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

const AUTO: &str = "auto";
const EXPECTED: &str = "\"auto\", a number above 0, or 0 for no bound";

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

    /// Checks the number.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Fixed(norm) if !(norm.is_finite() && norm >= 0.0) => {
                Err(Error::new("max_norm", norm, EXPECTED))
            }
            _ => Ok(()),
        }
    }

    /// Whether any distance will do.
    pub fn is_off(&self) -> bool {
        *self == Self::OFF
    }

    /// The bound for updates as they come in, if there is one.
    pub fn bound(self, known: &NormBound) -> Option<f64> {
        match self {
            Self::Auto => known.bound(),
            Self::Fixed(norm) => Some(norm).filter(|&norm| norm > 0.0),
        }
    }

    /// The bound that can be told only when the updates of a round are there, if it has to be.
    pub fn among(self, known: &NormBound, round: &[f64]) -> Option<f64> {
        match self {
            Self::Auto => known.among(round),
            Self::Fixed(_) => None,
        }
    }
}

impl fmt::Display for MaxNorm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str(AUTO),
            Self::Fixed(norm) => norm.fmt(f),
        }
    }
}

impl FromStr for MaxNorm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == AUTO {
            return Ok(Self::Auto);
        }
        let number = text.parse().map(Self::Fixed);
        number.map_err(|_| Error::new("max_norm", text, EXPECTED))
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

    #[test]
    fn it_is_auto_or_a_number() {
        let read = |text: &str| serde_json::from_str::<MaxNorm>(text);
        for (text, expected) in [
            ("\"auto\"", MaxNorm::Auto),
            ("0", MaxNorm::OFF),
            ("0.0", MaxNorm::OFF),
            ("2.5", MaxNorm::Fixed(2.5)),
        ] {
            assert_eq!(read(text).unwrap(), expected);
            assert_eq!(text.trim_matches('"').parse::<MaxNorm>().unwrap(), expected);
            let written = serde_json::to_string(&expected).unwrap();
            assert_eq!(read(&written).unwrap(), expected);
            assert_eq!(expected.to_string().parse::<MaxNorm>().unwrap(), expected);
        }
        assert!(read("\"off\"").unwrap_err().to_string().contains("\"auto\""));
        assert!("off".parse::<MaxNorm>().unwrap_err().to_string().contains("\"auto\""));
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(MaxNorm::Fixed(wrong).check().unwrap_err().field(), "max_norm");
        }
    }
}
