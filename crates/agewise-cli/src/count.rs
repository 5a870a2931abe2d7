//! Whole numbers as people write them: `1000000`, `1_000_000`, `1e6`.

/// Reads a count; the error says what would be right.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.replace('_', "");
    if let Ok(count) = digits.parse::<u64>() {
        // Configuration files have no greater whole numbers.
        let most = i64::MAX as u64;
        let too_large = || format!("`{text}`: expected a whole number of at most {most}");
        return (count <= most).then_some(count).ok_or_else(too_large);
    }
    let wrong = || format!("`{text}`: expected a whole number such as 1000000, 1_000_000 or 1e6");
    // A bare exponent form; anything with a fraction left over is not a count.
    let value: f64 = digits.parse().map_err(|_| wrong())?;
    let exact = value >= 0.0 && value.fract() == 0.0 && value <= (1u64 << 53) as f64;
    if exact { Ok(value as u64) } else { Err(wrong()) }
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
        for text in ["", "-1", "1.5", "1e-3", "nan", "inf", "1e300", "ten"] {
            assert!(parse(text).unwrap_err().contains("expected a whole number"), "{text}");
        }
    }
}
