//! The names of clients.

use agewise_core::{Error, Result};

/// Checks the name of a client.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    // 16 hexadecimal digits are the public part of a token: revoking one must not mean the other.
    let is_token = name.len() == 16 && name.chars().all(|c| c.is_ascii_hexdigit());
    if (1..=64).contains(&name.len()) && name.chars().all(good) && !is_token {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    let expected =
        "1 to 64 letters, digits, dots, dashes and underscores, and not 16 hexadecimal digits";
    Err(Error::new("name", format!("{shown:?}"), expected))
}
