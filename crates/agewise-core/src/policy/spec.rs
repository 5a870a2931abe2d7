//! How a policy is written in a command line or a configuration: `name` or `name(option=value, ...)`.
//!
//! Examples: `random`, `phased(reshuffle=0.05)`, `markov-custom(p=[0, 0, 0.5, 1])`. The same text is
//! the policy's label in tables and figures, so two variants of one policy can stand side by side.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The value of an option.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// A number.
    Number(f64),
    /// A list of numbers.
    List(Vec<f64>),
}

/// A policy's name with its options.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySpec {
    name: String,
    options: BTreeMap<String, OptionValue>,
}

impl PolicySpec {
    /// A policy without options.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), options: BTreeMap::new() }
    }

    /// The same with one more option.
    #[must_use]
    pub fn with(mut self, option: impl Into<String>, value: OptionValue) -> Self {
        self.options.insert(option.into(), value);
        self
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number given for an option, if any.
    pub fn number(&self, option: &str) -> Result<Option<f64>> {
        match self.options.get(option) {
            None => Ok(None),
            Some(OptionValue::Number(value)) => Ok(Some(*value)),
            Some(OptionValue::List(_)) => Err(self.wrong(option, "a list", "one number")),
        }
    }

    /// The list given for an option, if any.
    pub fn list(&self, option: &str) -> Result<Option<&[f64]>> {
        match self.options.get(option) {
            None => Ok(None),
            Some(OptionValue::List(values)) => Ok(Some(values)),
            Some(OptionValue::Number(value)) => {
                Err(self.wrong(option, value, "a list such as [0, 0.5, 1]"))
            }
        }
    }

    /// An error about one option of this policy.
    pub fn wrong(&self, option: &str, value: impl fmt::Display, expected: &str) -> Error {
        Error::new(format!("{}({option})", self.name), value, expected)
    }

    /// Checks that every option is one of those that the policy knows.
    pub(crate) fn check_options(&self, known: &[(&str, &str)]) -> Result<()> {
        let unknown = self.options.keys().find(|key| known.iter().all(|(name, _)| name != key));
        match unknown {
            None => Ok(()),
            Some(key) if known.is_empty() => {
                Err(Error::new("policy option", key, format!("none: {} has no options", self.name)))
            }
            Some(key) => {
                let names = known.iter().map(|(name, _)| *name);
                Err(Error::unknown(format!("option of {}", self.name), key, names))
            }
        }
    }

    /// Reads a list of policies separated by commas (commas inside brackets do not separate).
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        Self::split_list(text).into_iter().map(str::parse).collect()
    }

    /// The entries of such a list, as they are written.
    pub fn split_list(text: &str) -> Vec<&str> {
        split_outside_brackets(text)
    }
}

const SYNTAX: &str =
    "a policy such as random, phased(reshuffle=0.05) or markov-custom(p=[0, 0.5, 1])";

impl FromStr for PolicySpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let wrong = || Error::new("policy", format!("{text:?}"), SYNTAX);
        let (name, options) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => (name.trim(), rest.strip_suffix(')').ok_or_else(wrong)?),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(wrong());
        }
        let mut spec = Self::named(name);
        for option in split_outside_brackets(options) {
            if option.trim().is_empty() {
                continue;
            }
            let (key, value) = option.split_once('=').ok_or_else(wrong)?;
            let key = key.trim();
            if key.is_empty() || !key.chars().all(|c| is_name(c) || c == '_') {
                return Err(wrong());
            }
            if spec.options.contains_key(key) {
                return Err(spec.wrong(key, "given twice", "each option once"));
            }
            let value = parse_value(value.trim()).ok_or_else(|| {
                spec.wrong(key, format!("{:?}", value.trim()), "a number, or a list like [0, 0.5]")
            })?;
            spec = spec.with(key, value);
        }
        Ok(spec)
    }
}

fn parse_value(text: &str) -> Option<OptionValue> {
    let Some(list) = text.strip_prefix('[') else {
        return text.parse().ok().map(OptionValue::Number);
    };
    let items = list.strip_suffix(']')?.split(',');
    let numbers: Option<Vec<f64>> = items.map(|item| item.trim().parse().ok()).collect();
    numbers.map(OptionValue::List)
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut depth = 0i64;
    text.split(|c: char| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    })
    .collect()
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        for (index, (key, value)) in self.options.iter().enumerate() {
            write!(f, "{}{key}=", if index == 0 { "(" } else { ", " })?;
            match value {
                OptionValue::Number(number) => write!(f, "{number}")?,
                OptionValue::List(numbers) => write!(f, "{numbers:?}")?,
            }
        }
        if self.options.is_empty() { Ok(()) } else { write!(f, ")") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["random", "phased(reshuffle=0.05)", "a-b(p=[0.0, 0.5], x=2)"] {
            assert_eq!(text.parse::<PolicySpec>().unwrap().to_string(), text);
        }
        let spaced: PolicySpec = " markov-custom( p = [0, 1 ] ) ".parse().unwrap();
        assert_eq!(spaced.list("p").unwrap(), Some(&[0.0, 1.0][..]));
        assert_eq!(spaced.number("q").unwrap(), None);
    }

    #[test]
    fn lists_split_only_outside_brackets() {
        let list = PolicySpec::parse_list("random,x(p=[0, 1],y=2), oldest-first").unwrap();
        let names: Vec<&str> = list.iter().map(PolicySpec::name).collect();
        assert_eq!(names, ["random", "x", "oldest-first"]);
    }

    #[test]
    fn nonsense_is_refused_with_the_text() {
        for text in ["", "a b", "a(", "a(b)", "a(b=c)", "a(b=[1,)", "a(b=1", "a,b)", "ä", "a)("] {
            assert!(text.parse::<PolicySpec>().is_err(), "{text}");
        }
        assert!("a(b=1,b=2)".parse::<PolicySpec>().unwrap_err().to_string().contains("twice"));
        let spec: PolicySpec = "a(b=1)".parse().unwrap();
        assert_eq!(spec.list("b").unwrap_err().field(), "a(b)");
        let error = spec.check_options(&[("c", "")]).unwrap_err();
        assert_eq!((error.field(), error.value()), ("option of a", "b"));
    }
}
