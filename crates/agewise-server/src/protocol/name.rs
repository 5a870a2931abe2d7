//! The names of clients.

use agewise_core::{Error, Result};

/// Checks the name of a client.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    // A name may become that of a folder, and `.` and `..` are other folders than one's own.
    let has_letter = name.chars().any(|c| c.is_ascii_alphanumeric());
    // 16 hexadecimal digits are the public part of a token: revoking one must not mean the other.
    let is_token = name.len() == 16 && name.chars().all(|c| c.is_ascii_hexdigit());
    if (1..=64).contains(&name.len()) && name.chars().all(good) && has_letter && !is_token {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    let expected = "1 to 64 letters, digits, dots, dashes and underscores, at least one letter or digit, and not 16 \
                    hexadecimal digits";
    Err(Error::new("name", format!("{shown:?}"), expected))
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_name_is_never_another_folder_nor_a_token() {
        for name in ["a", "7", "site-7", ".hidden", "a..b", "0123456789abcde", &"x".repeat(64)] {
            check_name(name).unwrap();
        }
        let long = "x".repeat(65);
        let slash = "a/b";
        for name in [
            "",
            ".",
            "..",
            "...",
            "-",
            "--",
            "_._",
            slash,
            "a\\b",
            "a b",
            "ä",
            "0123456789abcdef",
            &long,
        ] {
            let error = check_name(name).unwrap_err();
            assert_eq!(error.field(), "name", "{name}");
            assert!(error.to_string().contains("at least one letter or digit"), "{error}");
        }
    }
}
