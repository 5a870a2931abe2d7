//! How the numbers along an axis are written.

use crate::ticks::power_of_ten;

/// A factor taken out of large numbers, and its sign behind each of them.
struct Unit {
    size: f64,
    suffix: &'static str,
}

const PLAIN: Unit = Unit { size: 1.0, suffix: "" };

/// Labels of the ticks of a linear axis: all with the same number of decimals, `k` and `M` for
/// thousands and millions, powers of ten for what is far larger or far below one.
pub(crate) fn linear_labels(ticks: &[f64]) -> Vec<String> {
    let largest = ticks.iter().fold(0.0_f64, |largest, tick| largest.max(tick.abs()));
    let unit = if largest == 0.0 || (1e-3..1e4).contains(&largest) {
        PLAIN
    } else if (1e4..1e6).contains(&largest) {
        Unit { size: 1e3, suffix: "k" }
    } else if (1e6..1e9).contains(&largest) {
        Unit { size: 1e6, suffix: "M" }
    } else {
        return labels_with_power(ticks, largest.log10().floor() as i32);
    };
    // Ticks close together but far from zero need their digits, not a unit.
    let unit = if decimals(ticks, unit.size) > 2 { PLAIN } else { unit };
    let decimals = decimals(ticks, unit.size);
    ticks
        .iter()
        .map(|tick| match fixed(tick / unit.size, decimals) {
            zero if zero == "0" => zero,
            digits => digits + unit.suffix,
        })
        .collect()
}

fn labels_with_power(ticks: &[f64], exponent: i32) -> Vec<String> {
    let size = power_of_ten(exponent);
    let decimals = decimals(ticks, size);
    ticks
        .iter()
        .map(|tick| match fixed(tick / size, decimals) {
            zero if zero == "0" => zero,
            digits => format!("{digits}×{}", ten_to_the(exponent)),
        })
        .collect()
}

/// Label of a tick of a logarithmic axis: `10⁻³`, `1`, `10`, `10²`; `0.2`, `50` or `2×10⁶` for
/// what is between the powers of ten.
pub(crate) fn log_label(tick: f64) -> String {
    let exponent = (tick.log10() + 1e-9).floor() as i32;
    let digit = (tick / power_of_ten(exponent)).round();
    if digit > 1.0 {
        return if (-3..=3).contains(&exponent) {
            fixed(tick, (-exponent).max(0) as usize)
        } else {
            format!("{digit}×{}", ten_to_the(exponent))
        };
    }
    match exponent {
        0 => "1".to_owned(),
        1 => "10".to_owned(),
        _ => ten_to_the(exponent),
    }
}

/// How many decimals tell all ticks apart exactly, in units of `size`.
fn decimals(ticks: &[f64], size: f64) -> usize {
    const MOST: i32 = 10;
    let enough = |decimals: &i32| {
        ticks.iter().all(|tick| {
            let shifted = tick / size * power_of_ten(*decimals);
            (shifted - shifted.round()).abs() < 1e-4
        })
    };
    (0..MOST).find(enough).unwrap_or(MOST) as usize
}

/// `value` with a fixed number of decimals, a true minus sign, and a bare `0`.
fn fixed(value: f64, decimals: usize) -> String {
    let digits = format!("{:.decimals$}", value.abs());
    if digits.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
        "0".to_owned()
    } else if value < 0.0 {
        format!("−{digits}")
    } else {
        digits
    }
}

fn ten_to_the(exponent: i32) -> String {
    let digits = exponent.to_string();
    let raised = digits.chars().map(|character| match character {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    });
    "10".chars().chain(raised).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_labels_share_their_decimals() {
        assert_eq!(linear_labels(&[0.0, 0.25, 0.5]), ["0", "0.25", "0.50"]);
        assert_eq!(linear_labels(&[-10.0, 0.0, 10.0]), ["−10", "0", "10"]);
        assert_eq!(linear_labels(&[0.0, 2000.0, 4000.0]), ["0", "2000", "4000"]);
    }

    #[test]
    fn large_and_small_numbers_stay_short() {
        assert_eq!(linear_labels(&[0.0, 50_000.0, 100_000.0]), ["0", "50k", "100k"]);
        assert_eq!(linear_labels(&[0.0, 2.5e6, 5e6]), ["0", "2.5M", "5.0M"]);
        assert_eq!(linear_labels(&[0.0, 5e9, 1e10]), ["0", "0.5×10¹⁰", "1.0×10¹⁰"]);
        assert_eq!(linear_labels(&[0.0, 2e-5, 4e-5]), ["0", "2×10⁻⁵", "4×10⁻⁵"]);
        assert_eq!(linear_labels(&[10_000.1, 10_000.2]), ["10000.1", "10000.2"]);
    }

    #[test]
    fn no_ticks_have_no_labels() {
        assert!(linear_labels(&[]).is_empty());
        assert_eq!(linear_labels(&[0.0]), ["0"]);
    }

    #[test]
    fn log_labels_are_powers_of_ten() {
        let labels: Vec<String> =
            [1e-3, 0.1, 1.0, 10.0, 100.0, 1e12, 0.02, 0.5, 20.0, 5e6].map(log_label).into();
        assert_eq!(
            labels,
            ["10⁻³", "10⁻¹", "1", "10", "10²", "10¹²", "0.02", "0.5", "20", "5×10⁶"]
        );
    }
}
