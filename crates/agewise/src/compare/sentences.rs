//! What the figures say, in words.

use super::figures::capitalised;
use crate::format::number;
use crate::sim::study::{ContenderSummary, Measure, Pair, RoundsTo, StudySummary, Verdict};
use crate::sim::{Estimate, Interval};
use std::fmt::Write as _;

/// One sentence about a pair: what was seen, and whether the data support a difference.
pub(super) fn about(pair: &Pair, comparisons: usize) -> String {
    let Pair { policy, other, effect, .. } = pair;
    let amount = match pair.measure {
        Measure::RoundsTo(_) => format!("{}%", signed(*effect)),
        _ => format!("{} percentage points", signed(*effect)),
    };
    let seen = match pair.measure {
        measure @ Measure::RoundsTo(_) => {
            let fewer = if *effect <= 0.0 { "fewer" } else { "more" };
            format!("{policy} needs {fewer} {measure} than {other}")
        }
        measure => {
            let better = if *effect >= 0.0 { "higher" } else { "lower" };
            format!("the {measure} is {better} with {policy} than with {other}")
        }
    };
    let interval = pair.interval.map_or(String::new(), |Interval { low, high }| {
        format!(" [{}, {}]", signed(low), signed(high))
    });
    let evidence = format!("{amount}{interval} over {} {}", pair.pairs, seeds(pair.pairs));
    let chance = |p: Option<f64>| p.map_or(String::new(), p_value);
    if pair.at_limit == pair.pairs && pair.effect == 0.0 {
        return format!(
            "Neither {policy} nor {other} reached the target under any of {} {}: nothing can be said about the {}.",
            pair.pairs,
            seeds(pair.pairs),
            pair.measure
        );
    }
    let sentence = match pair.verdict {
        Verdict::Supported if comparisons > 1 => format!(
            "The data support that {seen}: {evidence} ({}, {} when all {comparisons} comparisons are allowed for).",
            chance(pair.p_value),
            chance(pair.p_adjusted)
        ),
        Verdict::Supported => {
            format!("The data support that {seen}: {evidence} ({}).", chance(pair.p_value))
        }
        Verdict::OnlyAlone => format!(
            "Taken alone, the data support that {seen}: {evidence} ({}); among {comparisons} comparisons that may be \
             chance ({}).",
            chance(pair.p_value),
            chance(pair.p_adjusted)
        ),
        Verdict::NotSupported => format!(
            "The data do not support a difference between {policy} and {other} in the {}: {evidence}.",
            pair.measure
        ),
        Verdict::TooFew => format!(
            "{}: {evidence}; one pair cannot tell whether that is chance.",
            capitalised(&seen)
        ),
    };
    if pair.at_limit == 0 {
        return sentence;
    }
    let runs = if pair.at_limit == 1 { "pair" } else { "pairs" };
    format!(
        "{sentence} In {} {runs} a run never got there and counts as if it had in the last round.",
        pair.at_limit
    )
}

/// What matters most, in a paragraph.
pub(crate) fn verdict(summary: &StudySummary) -> String {
    let Some(measure) = summary.main_measure() else {
        return "There is nothing to compare yet.".to_string();
    };
    let with_baseline: Vec<&Pair> = summary
        .pairs
        .iter()
        .filter(|pair| pair.measure == measure && pair.other == summary.baseline)
        .collect();
    let nobody = |pair: &&Pair| pair.at_limit == pair.pairs && pair.effect == 0.0;
    if !with_baseline.is_empty() && with_baseline.iter().all(nobody) {
        let nothing = format!("Nobody got there: nothing can be said about the {measure}.");
        return nothing + &even_load(summary);
    }
    let (good, bad) = supported(&with_baseline);
    let open = with_baseline.len() - good.len() - bad.len();
    let found = differences(&good, &bad, usize::MAX);
    let mut text = format!(
        "Measured by {measure}, against {}: {}.",
        summary.baseline,
        found.unwrap_or_else(|| no_difference(summary, &with_baseline))
    );
    if open > 0 && open < with_baseline.len() {
        let noun = if open == 1 { "policy" } else { "policies" };
        let _ = write!(text, " For {open} {noun} the data support no difference.");
    }
    if with_baseline.iter().any(|pair| pair.verdict == Verdict::TooFew) {
        text += " One seed cannot tell chance from difference: use --seeds.";
    }
    let elsewhere = in_other_measures(summary, measure);
    if !elsewhere.is_empty() {
        let _ =
            write!(text, " In other measures they support differences: {}.", elsewhere.join("; "));
    }
    text + &even_load(summary)
}

/// Why there is no difference to speak of.
fn no_difference(summary: &StudySummary, with_baseline: &[&Pair]) -> String {
    let alone = with_baseline.iter().filter(|pair| pair.verdict == Verdict::OnlyAlone).count();
    let Some(pair) = with_baseline.first().filter(|_| alone > 0) else {
        return "the data support no difference".to_string();
    };
    let all = summary.pairs.iter().filter(|other| other.measure == pair.measure).count();
    format!(
        "no difference holds when all {all} comparisons are allowed for, though {alone} would alone"
    )
}

/// A sentence about who has the most even load. Var[X] alone would praise a policy that calls the same few clients at
/// even intervals and all others never, so the shares of the work have to be as even as any.
fn even_load(summary: &StudySummary) -> String {
    let loads: Vec<(f64, f64, &str)> = summary
        .policies
        .iter()
        .filter_map(|policy| {
            let mean = |name: &str| Some(policy.means.get(name)?.mean);
            Some((mean("jain")?, mean("var_interval")?, policy.policy.as_str()))
        })
        .collect();
    // Within a hundredth a finite run cannot tell them apart.
    let fairest = loads.iter().map(|load| load.0).fold(0.0, f64::max);
    let fair = || loads.iter().filter(|load| load.0 >= 0.99 * fairest);
    let least = fair().map(|load| load.1).fold(f64::INFINITY, f64::min);
    let even: Vec<&str> = fair().filter(|load| load.1 <= 1.01 * least).map(|load| load.2).collect();
    if even.is_empty() {
        return String::new();
    }
    let (names, least) = (even.join(" and "), number(least));
    format!(" The most even load: {names}, with Var[X] = {least} rounds squared.")
}

/// The pairs with a difference that the data support: where the first is better, and where it is worse; the largest
/// differences first.
fn supported<'a>(pairs: &[&'a Pair]) -> (Vec<&'a Pair>, Vec<&'a Pair>) {
    let mut found: Vec<&Pair> =
        pairs.iter().filter(|pair| pair.verdict == Verdict::Supported).copied().collect();
    found.sort_by(|a, b| b.effect.abs().total_cmp(&a.effect.abs()));
    found.into_iter().partition(|pair| is_better(pair))
}

/// Who is better and who is worse, with at most so many names of each.
fn differences(good: &[&Pair], bad: &[&Pair], most: usize) -> Option<String> {
    let names = |pairs: &[&Pair]| {
        let amount = |pair: &&Pair| {
            let unit = if matches!(pair.measure, Measure::RoundsTo(_)) { "%" } else { " points" };
            format!("{} ({}{unit})", pair.policy, signed(pair.effect))
        };
        let named: Vec<String> = pairs.iter().take(most).map(amount).collect();
        match pairs.len() - named.len() {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    };
    match (good.is_empty(), bad.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("better is {}", names(good))),
        (true, false) => Some(format!("worse is {}", names(bad))),
        (false, false) => Some(format!("better is {}, worse is {}", names(good), names(bad))),
    }
}

/// A few words about each measure but the main one, where the data support a difference with the baseline.
fn in_other_measures(summary: &StudySummary, main: Measure) -> Vec<String> {
    const MOST_NAMES: usize = 3;
    let mut measures: Vec<Measure> = Vec::new();
    for pair in &summary.pairs {
        if pair.measure != main && !measures.contains(&pair.measure) {
            measures.push(pair.measure);
        }
    }
    let words = |measure: Measure| {
        let of = |pair: &&Pair| pair.measure == measure && pair.other == summary.baseline;
        let (good, bad) = supported(&summary.pairs.iter().filter(of).collect::<Vec<_>>());
        Some(format!("in {measure} {}", differences(&good, &bad, MOST_NAMES)?))
    };
    measures.into_iter().filter_map(words).collect()
}

/// Fewer rounds, or more accuracy.
fn is_better(pair: &Pair) -> bool {
    match pair.measure {
        Measure::RoundsTo(_) => pair.effect < 0.0,
        _ => pair.effect > 0.0,
    }
}

/// A caution where updates were not taken; nothing where all were.
pub(crate) fn rejected(summary: &StudySummary) -> Option<String> {
    let of = |policy: &ContenderSummary| {
        let mean = policy.means.get("rejected")?.mean;
        (mean > 0.0).then(|| format!("{} ({} per run)", policy.policy, number(mean)))
    };
    let policies: Vec<String> = summary.policies.iter().filter_map(of).collect();
    (!policies.is_empty()).then(|| {
        format!(
            "Training diverged: updates that were not finite were not taken, and their clients not credited, with {}. A smaller \
             learning rate may help.",
            policies.join(", ")
        )
    })
}

fn seeds(count: usize) -> &'static str {
    if count == 1 { "seed" } else { "common seeds" }
}

fn p_value(p: f64) -> String {
    if p < 0.0001 { "p < 0.0001".to_string() } else { format!("p = {}", two_digits(p)) }
}

fn two_digits(value: f64) -> String {
    let magnitude = value.abs().log10().floor().clamp(-12.0, 3.0);
    format!("{value:.0$}", (1.0 - magnitude).max(0.0) as usize)
}

/// A number with its sign, with the digits that an effect deserves.
pub(super) fn signed(value: f64) -> String {
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

/// Rounds to a target: median, interval, and who got there.
pub(crate) fn rounds(rounds: &RoundsTo) -> String {
    let all = &rounds.rounds;
    let value = |rounds: f64| if rounds.is_finite() { number(rounds) } else { "∞".to_string() };
    let median = all.median.map_or("never".to_string(), number);
    let interval = all.interval.map_or(String::new(), |Interval { low, high }| {
        format!(" [{}, {}]", value(low), value(high))
    });
    let reached = if all.reached == all.runs {
        String::new()
    } else {
        format!(" ({} of {})", all.reached, all.runs)
    };
    if all.runs == 0 { "-".to_string() } else { format!("{median}{interval}{reached}") }
}

/// A share as percent with half its interval.
pub(crate) fn percent(estimate: Option<&Estimate>) -> String {
    let Some(Estimate { mean, half_width }) = estimate else {
        return "-".to_string();
    };
    match half_width {
        Some(half) => format!("{:.1} ± {:.1}", 100.0 * mean, 100.0 * half),
        None => format!("{:.1}", 100.0 * mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(verdict: Verdict, effect: f64) -> Pair {
        Pair {
            measure: Measure::RoundsTo(0.9),
            policy: "a".to_string(),
            other: "b".to_string(),
            pairs: 10,
            effect,
            interval: Some(Interval { low: effect - 1.0, high: effect + 1.0 }),
            p_value: Some(0.003),
            p_adjusted: Some(0.012),
            at_limit: 0,
            verdict,
        }
    }

    #[test]
    fn a_sentence_says_what_the_data_support() {
        assert_eq!(
            about(&pair(Verdict::Supported, -3.5), 4),
            "The data support that a needs fewer rounds to 90% than b: -3.5% [-4.5, -2.5] over 10 common seeds \
             (p = 0.0030, p = 0.012 when all 4 comparisons are allowed for)."
        );
        assert_eq!(
            about(&pair(Verdict::NotSupported, 0.5), 4),
            "The data do not support a difference between a and b in the rounds to 90%: +0.5% [-0.5, +1.5] over 10 \
             common seeds."
        );
        let limited = Pair { at_limit: 2, ..pair(Verdict::OnlyAlone, 12.3) };
        let sentence = about(&limited, 6);
        assert!(sentence.starts_with("Taken alone, the data support that a needs more rounds"));
        assert!(
            sentence.contains("among 6 comparisons that may be chance (p = 0.012)"),
            "{sentence}"
        );
        assert!(sentence.ends_with(
            "In 2 pairs a run never got there and counts as if it had in the last round."
        ));
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
}
