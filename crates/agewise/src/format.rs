//! Numbers for people.

/// Four significant digits, without an exponent where people can do without.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let magnitude = value.abs().log10().floor();
    if !(-5.0..9.0).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = (3.0 - magnitude).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text
    }
}

/// A value with half the width of its interval, if there is one.
pub(crate) fn with_half_width(value: f64, half_width: Option<f64>) -> String {
    match half_width {
        // Less than the digits that are shown is rounding, not spread.
        Some(half) if half > 1e-6 * value.abs() => {
            format!("{} ± {}", number(value), two_digits(half))
        }
        _ => number(value),
    }
}

/// Two significant digits: more would pretend to know the error better than anyone does.
fn two_digits(value: f64) -> String {
    let magnitude = value.abs().log10().floor();
    if !(-5.0..9.0).contains(&magnitude) {
        return format!("{value:.1e}");
    }
    format!("{value:.0$}", (1.0 - magnitude).max(0.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (15.0, "15"),
            (37.777_777, "37.78"),
            (0.056_666_6, "0.05667"),
            (999_000.0, "999000"),
            (1e12, "1.000e12"),
            (8.74e-8, "8.740e-8"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn errors_have_two() {
        assert_eq!(with_half_width(0.0610, Some(0.000_123)), "0.061 ± 0.00012");
        assert_eq!(with_half_width(15.0, Some(0.0)), "15");
        assert_eq!(with_half_width(0.2222, Some(3e-17)), "0.2222");
        assert_eq!(with_half_width(15.0, None), "15");
        assert_eq!(with_half_width(1500.0, Some(12.3)), "1500 ± 12");
    }
}
