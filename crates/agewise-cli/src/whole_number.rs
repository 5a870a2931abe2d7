//! Whole numbers as people write them: `1000000`, `1_000_000`, `1e6`.

/// Reads a count; the error says what would be right.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    // Configuration files have no greater whole numbers.
    const MOST: u64 = i64::MAX as u64;
    let digits = text.replace('_', "");
    let too_large = || format!("`{text}`: expected a whole number of at most {MOST}");
    if let Ok(count) = digits.parse::<u64>() {
        return (count <= MOST).then_some(count).ok_or_else(too_large);
    }
    let wrong = || format!("`{text}`: expected a whole number such as 1000000, 1_000_000 or 1e6");
    // A bare exponent form, or more digits than fit; anything with a fraction left over is not a count.
    let value: f64 = digits.parse().map_err(|_| wrong())?;
    match value {
        value if !(value >= 0.0 && value.is_finite() && value.fract() == 0.0) => Err(wrong()),
        value if value >= MOST as f64 => Err(too_large()),
        value => Ok(value as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn people_write_numbers_in_many_ways() {
        assert_eq!(parse("100"), Ok(100));
        assert_eq!(parse("1_000"), Ok(1_000));
        assert_eq!(parse("1e9"), Ok(1_000_000_000));
        assert_eq!(parse("2.5e3"), Ok(2_500));
        assert_eq!(parse("9223372036854775807"), Ok(i64::MAX as u64));
        assert!(parse("18446744073709551615").unwrap_err().contains("at most 9223372036854775807"));
        assert_eq!(parse("1e18"), Ok(1_000_000_000_000_000_000));
        for text in ["99999999999999999999999", "1e300"] {
            assert!(parse(text).unwrap_err().contains("at most 9223372036854775807"), "{text}");
        }
        for text in ["", "-1", "1.5", "1e-3", "nan", "inf", "ten"] {
            assert!(parse(text).unwrap_err().contains("expected a whole number"), "{text}");
        }
    }
}
