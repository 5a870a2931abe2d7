//! Numbers for people.

use agewise_experiment::Estimate;

/// Four significant digits, without an exponent where people can do without.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let magnitude = libm::log10(value.abs()).floor();
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
pub fn with_half_width(value: f64, half_width: Option<f64>) -> String {
    match half_width {
        // Less than the digits that are shown is rounding, not spread.
        Some(half) if half > 1e-6 * value.abs() => {
            format!("{} ± {}", number(value), two_digits(half))
        }
        _ => number(value),
    }
}

/// Two significant digits: more would pretend to know the error better than anyone does.
pub(crate) fn two_digits(value: f64) -> String {
    let magnitude = libm::log10(value.abs()).floor();
    if !(-5.0..9.0).contains(&magnitude) {
        return format!("{value:.1e}");
    }
    format!("{value:.0$}", (1.0 - magnitude).max(0.0) as usize)
}

/// A number with its sign, with the digits that an effect deserves.
pub(crate) fn signed(value: f64) -> String {
    if !value.is_finite() {
        return if value > 0.0 { "+∞" } else { "-∞" }.to_string();
    }
    let decimals = match value.abs() {
        v if v >= 9.95 => 0,
        v if v >= 0.095 => 1,
        _ => 2,
    };
    let text = format!("{value:+.decimals$}");
    if text[1..].chars().all(|c| matches!(c, '0' | '.')) { "0".to_string() } else { text }
}

/// A mean with half of its interval, where it is known.
pub(crate) fn estimate(estimate: Option<&Estimate>) -> String {
    estimate.map_or("-".to_string(), |e| with_half_width(e.mean, e.half_width))
}

/// A share as percent with half of its interval.
pub(crate) fn percent(estimate: Option<&Estimate>) -> String {
    let Some(Estimate { mean, half_width }) = estimate else {
        return "-".to_string();
    };
    match half_width {
        Some(half) => format!("{:.1} ± {:.1}", 100.0 * mean, 100.0 * half),
        None => format!("{:.1}", 100.0 * mean),
    }
}

/// Bytes, in the unit that leaves few digits.
pub(crate) fn bytes(count: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let power = ((libm::log10(count.max(1.0)) / 3.0).floor() as usize).min(units.len() - 1);
    let value = (100.0 * count / libm::pow(1000.0, power as f64)).round() / 100.0;
    format!("{} {}", number(value), units[power])
}

/// A target: a share in percent without digits that say nothing, or a loss.
pub(crate) fn target_name(target: f64, by_accuracy: bool) -> String {
    if by_accuracy {
        format!("{}%", (target * 1e4).round() / 1e2)
    } else {
        format!("loss of {target}")
    }
}

/// A text that begins with a capital letter.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Names as people list them: `a, b and c`.
pub(crate) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_string(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A count with the word that it counts, such as `1 seed`.
pub(crate) fn counted(count: impl Into<u64>, word: &str) -> String {
    match count.into() {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    }
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

    #[test]
    fn effects_have_a_sign_and_few_digits() {
        for (value, text) in [
            (-3.52, "-3.5"),
            (12.3, "+12"),
            (0.0, "0"),
            (-0.001, "0"),
            (0.04, "+0.04"),
            (f64::INFINITY, "+∞"),
            (f64::NAN, "-∞"),
        ] {
            assert_eq!(signed(value), text);
        }
    }

    #[test]
    fn bytes_have_a_unit() {
        assert_eq!(bytes(999.0), "999 B");
        assert_eq!(bytes(1_234_567.0), "1.23 MB");
    }
}
