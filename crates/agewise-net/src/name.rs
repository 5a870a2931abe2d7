//! What clients may call themselves.

use agewise_core::{Error, Result};

/// What a client calls itself.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if (1..=64).contains(&name.len()) && name.chars().all(good) {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    let expected = "1 to 64 letters, digits, dots, dashes and underscores";
    Err(Error::new("name", format!("{shown:?}"), expected))
}
