//! The one error of the core: an input that cannot be used, named so that a person can fix it.

use std::fmt;

/// The result of everything in the core that checks an input.
pub type Result<T> = std::result::Result<T, Error>;

/// An input that cannot be used: which field, which value, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    field: String,
    value: String,
    expected: String,
}

impl Error {
    /// Says that `field` had `value`, where `expected` describes what would be right.
    pub fn new(
        field: impl Into<String>,
        value: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), value: value.to_string(), expected: expected.into() }
    }

    /// Says that `field` had a name that is not one of the known ones, and suggests the nearest.
    pub fn unknown<'a>(
        field: impl Into<String>,
        value: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        Self::new(field, value, suggest(value, known))
    }

    /// The field that was wrong, as the user wrote it (`cohort`, `sizes[3]`, ...).
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The value that was found.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// What would have been right.
    pub fn expected(&self) -> &str {
        &self.expected
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: expected {}", self.field, self.value, self.expected)
    }
}

impl std::error::Error for Error {}

/// Ends an "unknown name" message with the nearest known one, if any is near.
fn suggest<'a>(unknown: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    // Capital letters are no other name.
    let written = unknown.to_lowercase();
    let nearest = known
        .clone()
        .map(|name| (strsim::damerau_levenshtein(&written, &name.to_lowercase()), name))
        .filter(|(distance, name)| {
            // A typing error or two, or a name that was only begun.
            *distance <= 2.max(name.len() / 3) || (written.len() > 2 && name.starts_with(&written))
        })
        .min();
    let list = known.collect::<Vec<_>>().join(", ");
    match nearest {
        Some((_, name)) => format!("one of {list} (did you mean {name}?)"),
        None => format!("one of {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_field_value_and_remedy() {
        let error = Error::new("cohort", 200, "a whole number from 1 to 100");
        assert_eq!(error.to_string(), "cohort = 200: expected a whole number from 1 to 100");
        assert_eq!((error.field(), error.value()), ("cohort", "200"));
        assert_eq!(error.expected(), "a whole number from 1 to 100");
    }

    #[test]
    fn suggests_only_what_is_near() {
        let known = ["random", "markov-optimal"];
        assert!(suggest("markov-optimum", known.into_iter()).contains("did you mean markov-opt"));
        assert!(suggest("markov", known.into_iter()).contains("did you mean markov-opt"));
        assert!(suggest("MARKOV-OPTIMAL", known.into_iter()).contains("did you mean markov-opt"));
        assert!(!suggest("zzz", known.into_iter()).contains("did you mean"));
    }
}
