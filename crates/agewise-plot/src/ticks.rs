//! Where the ticks of an axis stand, and how their numbers are written.

/// Values beyond this size are treated as this size, so that differences stay finite.
const LARGEST: f64 = 1e300;
/// Ranges narrower than this, absolutely or next to the values themselves, count as one value:
/// labels could not tell their ticks apart.
const SMALLEST_RANGE: f64 = 1e-290;
const SMALLEST_RELATIVE_RANGE: f64 = 1e-10;

/// Round numbers at equal distances that cover `low..=high`: the first is not above `low`, the
/// last not below `high`. There are at most `target + 2` of them, and at least two.
pub(crate) fn linear_ticks(low: f64, high: f64, target: usize, integers_only: bool) -> Vec<f64> {
    let (low, high) = widen_if_flat(low.clamp(-LARGEST, LARGEST), high.clamp(-LARGEST, LARGEST));
    let step = RoundStep::at_least((high - low) / target.max(1) as f64, integers_only);
    // The small shift keeps a bound that is a tick, up to rounding, from adding one more tick.
    let first = (low / step.size() + 1e-6).floor();
    let last = (high / step.size() - 1e-6).ceil();
    let count = (last - first).max(1.0) as usize;
    (0..=count).map(|index| step.multiple(first + index as f64)).collect()
}

/// Moves the ends of a range apart when it holds only one value.
fn widen_if_flat(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > (size * SMALLEST_RELATIVE_RANGE).max(SMALLEST_RANGE) {
        (low, high)
    } else if size < SMALLEST_RANGE {
        (0.0, 1.0)
    } else {
        (low - size / 2.0, high + size / 2.0)
    }
}

/// A distance of 1, 2 or 5 times a power of ten.
struct RoundStep {
    digit: f64,
    exponent: i32,
}

impl RoundStep {
    /// The smallest such distance that is not below `size` (nor below one, for whole numbers).
    fn at_least(size: f64, integers_only: bool) -> Self {
        let size = if integers_only { size.max(1.0) } else { size };
        let exponent = libm::log10(size).floor() as i32;
        let digit = [1.0, 2.0, 5.0].into_iter().find(|&digit| {
            let step = Self { digit, exponent };
            step.size() >= size * (1.0 - 1e-9)
        });
        match digit {
            Some(digit) => Self { digit, exponent },
            None => Self { digit: 1.0, exponent: exponent + 1 },
        }
    }

    fn size(&self) -> f64 {
        self.multiple(1.0)
    }

    /// `factor` steps. Dividing by a power of ten, rather than multiplying by a rounded fraction,
    /// gives 0.3 and not 0.30000000000000004.
    fn multiple(&self, factor: f64) -> f64 {
        let whole = factor * self.digit;
        if self.exponent < 0 {
            whole / power_of_ten(-self.exponent)
        } else {
            whole * power_of_ten(self.exponent)
        }
    }
}

/// Ticks of a logarithmic axis stand about within these bounds: far beyond them, rounding outwards
/// to a multiple of several decades would leave the range of `f64`.
const LOG_BOUNDS: (f64, f64) = (1e-200, 1e200);
/// Ticks rounded outwards to less or more than ten to this power stand there.
const LARGEST_EXPONENT: i32 = 300;
/// Up to this many decades, ticks stand at 1, 2 and 5 of each decade instead of the decades only.
const FEW_DECADES: f64 = 1.5;
/// From this many ticks on there is room for more than the decades.
const TARGET_WITHIN_DECADES: usize = 4;

/// Powers of ten (for a narrow range also their multiples by 2 and 5) that cover `low..=high`,
/// both above zero. Decades are left out so that there are about `target` of them.
pub(crate) fn log_ticks(low: f64, high: f64, target: usize) -> Vec<f64> {
    let low = low.clamp(LOG_BOUNDS.0, LOG_BOUNDS.1);
    let high = high.clamp(LOG_BOUNDS.0, LOG_BOUNDS.1);
    let (low, high) = if high / low < 1.01 { (low / 2.0, high * 2.0) } else { (low, high) };
    let first = (libm::log10(low) + 1e-9).floor() as i32;
    let last = (libm::log10(high) - 1e-9).ceil() as i32;
    if libm::log10(high / low) > FEW_DECADES || target < TARGET_WITHIN_DECADES {
        let stride = (f64::from(last - first) / target.max(1) as f64).ceil().max(1.0) as i32;
        let start = first.div_euclid(stride) * stride;
        let end = -(-last).div_euclid(stride) * stride;
        return (start..=end)
            .step_by(stride as usize)
            .map(|decade| power_of_ten(decade.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT)))
            .collect();
    }
    let candidates: Vec<f64> = (first..=last)
        .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * power_of_ten(decade)))
        .collect();
    let from = candidates.partition_point(|&tick| tick <= low * (1.0 + 1e-9)).saturating_sub(1);
    let to = candidates.partition_point(|&tick| tick < high * (1.0 - 1e-9));
    candidates[from..=to.min(candidates.len() - 1)].to_vec()
}

/// Multiples of the powers of ten strictly inside `low..high` that have no tick, for faint lines.
/// Empty where they would crowd.
pub(crate) fn minor_log_ticks(low: f64, high: f64) -> Vec<f64> {
    const MOST_DECADES_WITH_MINOR_LINES: f64 = 5.0;
    if libm::log10(high / low) > MOST_DECADES_WITH_MINOR_LINES {
        return Vec::new();
    }
    let decades = libm::log10(low).floor() as i32..=libm::log10(high).ceil() as i32;
    decades
        .flat_map(|decade| (2..=9).map(move |digit| f64::from(digit) * power_of_ten(decade)))
        .filter(|&value| value > low && value < high)
        .collect()
}

/// Ten to a whole power.
pub(crate) fn power_of_ten(exponent: i32) -> f64 {
    let power = libm::pow(10.0, f64::from(exponent.abs()));
    if exponent < 0 { 1.0 / power } else { power }
}

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
        return labels_with_power(ticks, libm::log10(largest).floor() as i32);
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
    let exponent = (libm::log10(tick) + 1e-9).floor() as i32;
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

/// Labels of all ticks of a logarithmic axis: where some are between the powers of ten, all are plain as far as people
/// read that easily.
pub(crate) fn log_labels(ticks: &[f64]) -> Vec<String> {
    let exponent = |tick: f64| (libm::log10(tick) + 1e-9).floor() as i32;
    let is_power = |tick: &f64| (tick / power_of_ten(exponent(*tick))).round() <= 1.0;
    let has_others = !ticks.iter().all(is_power);
    let label = |&tick: &f64| match exponent(tick) {
        exponent @ -3..=3 if has_others => fixed(tick, (-exponent).max(0) as usize),
        _ => log_label(tick),
    };
    ticks.iter().map(label).collect()
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
    use proptest::prelude::*;

    #[test]
    fn powers_of_ten_are_exact_where_there_are_exact_ones() {
        for exponent in 0..=22 {
            let exact: f64 = format!("1e{exponent}").parse().unwrap();
            assert_eq!(power_of_ten(exponent), exact, "10^{exponent}");
            assert_eq!(libm::log10(exact), f64::from(exponent));
        }
    }

    fn is_sorted(ticks: &[f64]) -> bool {
        ticks.windows(2).all(|pair| pair[0] < pair[1])
    }

    #[test]
    fn common_ranges_get_the_expected_ticks() {
        assert_eq!(linear_ticks(0.0, 1.0, 5, false), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(linear_ticks(1.0, 30.0, 6, true), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(linear_ticks(0.0, 2.0, 8, true), [0.0, 1.0, 2.0]);
        assert_eq!(linear_ticks(0.3, 0.9, 3, false), [0.2, 0.4, 0.6, 0.8, 1.0]);
    }

    #[test]
    fn one_value_still_gets_an_axis() {
        assert_eq!(linear_ticks(0.0, 0.0, 5, false), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        let ticks = linear_ticks(0.15, 0.15, 5, false);
        assert!(ticks[0] < 0.15 && ticks[ticks.len() - 1] > 0.15);
        assert!(log_ticks(1.0, 1.0, 5).len() >= 2);
    }

    #[test]
    fn extreme_values_do_not_break_the_ticks() {
        for (low, high) in
            [(f64::MIN, f64::MAX), (0.0, f64::MIN_POSITIVE), (1e15, 1e15 + 1.0), (-5e-324, 5e-324)]
        {
            let ticks = linear_ticks(low, high, 5, false);
            assert!(ticks.len() >= 2 && ticks.len() <= 7, "{low} {high}: {ticks:?}");
            assert!(is_sorted(&ticks) && ticks.iter().all(|tick| tick.is_finite()));
        }
    }

    #[test]
    fn decades_are_thinned_and_narrow_ranges_get_more_ticks() {
        assert_eq!(log_ticks(0.002, 50.0, 6), [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]);
        assert_eq!(log_ticks(3.0, 8.0, 5), [2.0, 5.0, 10.0]);
        assert_eq!(log_ticks(3.0, 8.0, 2), [1.0, 10.0]);
        assert_eq!(log_ticks(1.0, 10.0, 5), [1.0, 2.0, 5.0, 10.0]);
        assert!(log_ticks(1e-30, 1e30, 7).len() <= 9);
        let widest = log_ticks(5e-324, f64::MAX, 1);
        assert!(widest.len() == 3 && widest[0] > 0.0 && widest[2].is_finite(), "{widest:?}");
        assert_eq!(minor_log_ticks(1.0, 5.0), [2.0, 3.0, 4.0]);
        assert!(minor_log_ticks(1e-9, 1.0).is_empty());
    }

    proptest! {
        #[test]
        fn linear_ticks_cover_the_range(
            low in -1e9_f64..1e9,
            range in 1e-3_f64..1e9,
            target in 1_usize..12,
            integers_only: bool,
        ) {
            let high = low + range;
            let ticks = linear_ticks(low, high, target, integers_only);
            prop_assert!(is_sorted(&ticks));
            prop_assert!(ticks.len() >= 2 && ticks.len() <= target + 2, "{ticks:?}");
            let slack = 1e-5 * (ticks[1] - ticks[0]);
            prop_assert!(ticks[0] <= low + slack);
            prop_assert!(ticks[ticks.len() - 1] >= high - slack);
            if integers_only {
                prop_assert!(ticks.iter().all(|tick| tick.fract() == 0.0));
            }
        }

        #[test]
        fn log_ticks_cover_the_range(
            exponent in -190_f64..90.0,
            decades in 0.0_f64..100.0,
            target in 1_usize..12,
        ) {
            let (low, high) = (10_f64.powf(exponent), 10_f64.powf(exponent + decades));
            let ticks = log_ticks(low, high, target);
            prop_assert!(is_sorted(&ticks));
            prop_assert!(ticks.len() >= 2 && ticks.len() <= target + 3, "{ticks:?}");
            prop_assert!(ticks[0] <= low * 1.001 && ticks[ticks.len() - 1] >= high * 0.999);
        }
    }

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
        assert_eq!(log_labels(&[0.1, 1.0]), ["10⁻¹", "1"]);
        assert_eq!(log_labels(&[0.1, 0.2, 1.0]), ["0.1", "0.2", "1"]);
    }
}
