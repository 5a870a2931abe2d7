//! What the figures say, in words.

use crate::format::{capitalised, listed, number, signed, two_digits};
use crate::section::ReportSection;
use agewise_experiment::{Interval, Measure, Pair, RoundsTo, Summary, VariantSummary, Verdict};
use std::fmt::Write as _;

/// An effect with its unit.
fn amount(pair: &Pair, points: &str) -> String {
    let unit = match pair.measure {
        measure if measure.is_rounds() => "%",
        measure if measure.is_in_points() => points,
        _ => "",
    };
    format!("{}{unit}", signed(pair.effect))
}

/// Whether neither of a pair ever reached the target: that is no measured zero.
fn is_without_result(pair: &Pair) -> bool {
    pair.at_limit == pair.pairs && pair.effect == 0.0
}

/// An effect with its interval, for a table.
pub(crate) fn effect(pair: &Pair) -> String {
    if is_without_result(pair) {
        return "-".to_string();
    }
    // Equal differences in all pairs leave no interval worth the name.
    let interval = pair.interval.filter(|interval| interval.low < interval.high);
    let limit = match pair.at_limit {
        0 => String::new(),
        count => format!(" ({count} at the limit)"),
    };
    format!("{}{}{limit}", amount(pair, ""), bracketed(interval))
}

fn bracketed(interval: Option<Interval>) -> String {
    interval.map_or(String::new(), |Interval { low, high }| {
        format!(" [{}, {}]", signed(low), signed(high))
    })
}

/// One sentence about a pair: what was seen, and whether the data support a difference.
pub(crate) fn finding(pair: &Pair, comparisons: usize) -> String {
    let Pair { policy, other, measure, .. } = pair;
    let seeds = if pair.pairs == 1 { "seed" } else { "common seeds" };
    if is_without_result(pair) {
        return format!(
            "Neither {policy} nor {other} reached the target under any of {} {seeds}: nothing can be said about the \
             {measure}.",
            pair.pairs
        );
    }
    let seen = if measure.is_rounds() {
        let fewer = if pair.effect <= 0.0 { "fewer" } else { "more" };
        format!("{policy} needs {fewer} {measure} than {other}")
    } else {
        let higher = if pair.effect >= 0.0 { "higher" } else { "lower" };
        format!("the {measure} is {higher} with {policy} than with {other}")
    };
    let evidence = format!(
        "{}{} over {} {seeds}",
        amount(pair, " percentage points"),
        bracketed(pair.interval),
        pair.pairs
    );
    let chance = |p: Option<f64>| p.map_or(String::new(), p_value);
    let (alone, adjusted) = (chance(pair.p_value), chance(pair.p_adjusted));
    let sentence = match pair.verdict {
        Verdict::Supported if comparisons > 1 => format!(
            "The data support that {seen}: {evidence} ({alone}, {adjusted} when all {comparisons} comparisons are allowed \
             for)."
        ),
        Verdict::Supported => format!("The data support that {seen}: {evidence} ({alone})."),
        Verdict::OnlyAlone => format!(
            "Taken alone, the data support that {seen}: {evidence} ({alone}); among {comparisons} comparisons that may be \
             chance ({adjusted})."
        ),
        Verdict::NotSupported => format!(
            "The data do not support a difference between {policy} and {other} in the {measure}: {evidence}."
        ),
        Verdict::TooFew => {
            format!(
                "{}: {evidence}; one pair cannot tell whether that is chance.",
                capitalised(&seen)
            )
        }
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

impl ReportSection<'_> {
    /// What matters most, in a paragraph.
    pub(crate) fn main_finding(&self) -> String {
        let load = even_load(&self.summary);
        let learning = match (self.summary.main_measure(), self.trains()) {
            (Some(measure), _) => self.learning_finding(measure),
            (None, true) => "There is nothing to compare yet.".to_string(),
            (None, false) if load.is_empty() => {
                "No client was selected in the recorded rounds of a finished run.".to_string()
            }
            (None, false) => String::new(),
        };
        let sigma = if self.trains() { String::new() } else { least_sigma(&self.summary) };
        let parts = [learning, load, sigma, self.world_finding()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn learning_finding(&self, measure: Measure) -> String {
        let pairs: Vec<&Pair> =
            self.with_baseline().filter(|pair| pair.measure == measure).collect();
        if !pairs.is_empty() && pairs.iter().all(|pair| is_without_result(pair)) {
            return format!("Nobody got there: nothing can be said about the {measure}.");
        }
        let (good, bad) = supported(&pairs);
        let open = pairs.len() - good.len() - bad.len();
        let found = differences(&good, &bad, usize::MAX);
        let mut text = format!(
            "Measured by {measure}, against {}: {}.",
            self.summary.baseline,
            found.unwrap_or_else(|| self.no_difference(&pairs))
        );
        if open > 0 && open < pairs.len() {
            let noun = if open == 1 { "policy" } else { "policies" };
            let _ = write!(text, " For {open} {noun} the data support no difference.");
        }
        if pairs.iter().any(|pair| pair.verdict == Verdict::TooFew) {
            text += " One seed cannot tell chance from difference: use --seeds.";
        }
        let elsewhere = self.in_other_measures(measure);
        if !elsewhere.is_empty() {
            let elsewhere = elsewhere.join("; ");
            let _ = write!(text, " In other measures they support differences: {elsewhere}.");
        }
        text
    }

    /// Why there is no difference to speak of.
    fn no_difference(&self, pairs: &[&Pair]) -> String {
        let alone = pairs.iter().filter(|pair| pair.verdict == Verdict::OnlyAlone).count();
        let Some(pair) = pairs.first().filter(|_| alone > 0) else {
            return "the data support no difference".to_string();
        };
        let of_measure = |other: &&Pair| other.measure == pair.measure;
        let all = self.summary.pairs.iter().filter(of_measure).count();
        format!(
            "no significant difference after Holm correction for {all} comparisons; {alone} would be without it"
        )
    }

    /// A few words about each measure but the main one, where the data support a difference with the baseline.
    fn in_other_measures(&self, main: Measure) -> Vec<String> {
        const MOST_NAMES: usize = 3;
        let words = |measure: Measure| {
            let pairs = self.with_baseline().filter(|pair| pair.measure == measure);
            let (good, bad) = supported(&pairs.collect::<Vec<_>>());
            Some(format!("in {measure} {}", differences(&good, &bad, MOST_NAMES)?))
        };
        self.measures().into_iter().filter(|measure| *measure != main).filter_map(words).collect()
    }

    /// Which variants left clients out, where clients are not always there.
    fn world_finding(&self) -> String {
        if self.experiment().is_calm() {
            return String::new();
        }
        let of = |policy: &VariantSummary| {
            let never = policy.means.get("never_reached")?.mean;
            (never > 0.0).then(|| format!("{} ({} clients per run)", policy.policy, number(never)))
        };
        let left_out: Vec<String> = self.summary.policies.iter().filter_map(of).collect();
        if left_out.is_empty() {
            return "Every client was reached in every run.".to_string();
        }
        format!("Some clients were never reached with {}.", left_out.join(", "))
    }

    /// A caution where updates were not taken; nothing where all were.
    pub(crate) fn caution(&self) -> Option<String> {
        let of = |policy: &VariantSummary| {
            let mean = policy.means.get("rejected")?.mean;
            (mean > 0.0).then(|| format!("{} ({} per run)", policy.policy, number(mean)))
        };
        let policies: Vec<String> = self.summary.policies.iter().filter_map(of).collect();
        (!policies.is_empty()).then(|| {
            format!(
                "Training diverged: updates that were not finite were not taken, and their clients not credited, with {}. A \
                 smaller learning rate may help.",
                policies.join(", ")
            )
        })
    }
}

/// Within a hundredth of the least: what a finite run cannot tell apart.
pub(crate) fn is_as_good(value: f64, least: f64) -> bool {
    value <= least * 1.01
}

fn mean(policy: &VariantSummary, name: &str) -> Option<f64> {
    policy.means.get(name).map(|estimate| estimate.mean)
}

/// A sentence about who has the most even load. Var[X] alone would praise a policy that calls the same few clients at
/// even intervals and all others never, so the shares of the work have to be as even as any.
fn even_load(summary: &Summary) -> String {
    let load =
        |policy: &VariantSummary| Some((mean(policy, "jain")?, mean(policy, "var_interval")?));
    let loads: Vec<((f64, f64), &str)> = summary
        .policies
        .iter()
        .filter_map(|policy| Some((load(policy)?, policy.policy.as_str())))
        .collect();
    let fairest = loads.iter().map(|((jain, _), _)| *jain).fold(0.0, f64::max);
    let fair: Vec<(f64, &str)> = loads
        .into_iter()
        .filter(|((jain, _), _)| *jain >= 0.99 * fairest)
        .map(|((_, variance), name)| (variance, name))
        .collect();
    let Some((least, names)) = least(&fair) else {
        return String::new();
    };
    format!("The most even load: {names}, with Var[X] = {} rounds squared.", number(least))
}

fn least_sigma(summary: &Summary) -> String {
    let sigmas = summary.policies.iter();
    let sigmas: Vec<(f64, &str)> = sigmas
        .filter_map(|policy| Some((mean(policy, "sigma")?, policy.policy.as_str())))
        .collect();
    let Some((least, names)) = least(&sigmas) else {
        return String::new();
    };
    format!("The least Sigma: {names}, with {}.", number(least))
}

/// The least value, and who has it.
fn least(values: &[(f64, &str)]) -> Option<(f64, String)> {
    let least = values.iter().map(|(value, _)| *value).reduce(f64::min)?;
    let names = values.iter().filter(|(value, _)| is_as_good(*value, least));
    Some((least, listed(&names.map(|(_, name)| *name).collect::<Vec<_>>())))
}

/// The pairs with a difference that the data support: where the first is better, and where it is worse; the largest
/// differences first.
fn supported<'a>(pairs: &[&'a Pair]) -> (Vec<&'a Pair>, Vec<&'a Pair>) {
    let mut found: Vec<&Pair> =
        pairs.iter().filter(|pair| pair.verdict == Verdict::Supported).copied().collect();
    found.sort_by(|a, b| b.effect.abs().total_cmp(&a.effect.abs()));
    found.into_iter().partition(|pair| pair.measure.lower_is_better() == (pair.effect < 0.0))
}

/// Who is better and who is worse, with at most so many names of each.
fn differences(good: &[&Pair], bad: &[&Pair], most: usize) -> Option<String> {
    let names = |pairs: &[&Pair]| {
        let named = |pair: &&Pair| format!("{} ({})", pair.policy, amount(pair, " points"));
        let named: Vec<String> = pairs.iter().take(most).map(named).collect();
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

fn p_value(p: f64) -> String {
    if p < 0.0001 { "p < 0.0001".to_string() } else { format!("p = {}", two_digits(p)) }
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

/// Whether the data support a difference, in a word or two.
pub(crate) fn support(pair: &Pair) -> &'static str {
    match pair.verdict {
        Verdict::Supported => "yes",
        Verdict::OnlyAlone => "only alone",
        Verdict::NotSupported => "no",
        Verdict::TooFew => "too few seeds",
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
            finding(&pair(Verdict::Supported, -3.5), 4),
            "The data support that a needs fewer rounds to 90% than b: -3.5% [-4.5, -2.5] over 10 common seeds \
             (p = 0.0030, p = 0.012 when all 4 comparisons are allowed for)."
        );
        assert_eq!(
            finding(&pair(Verdict::NotSupported, 0.5), 4),
            "The data do not support a difference between a and b in the rounds to 90%: +0.5% [-0.5, +1.5] over 10 \
             common seeds."
        );
        let limited = Pair { at_limit: 2, ..pair(Verdict::OnlyAlone, 12.3) };
        let sentence = finding(&limited, 6);
        assert!(sentence.starts_with("Taken alone, the data support that a needs more rounds"));
        assert!(
            sentence.contains("among 6 comparisons that may be chance (p = 0.012)"),
            "{sentence}"
        );
        assert!(sentence.ends_with(
            "In 2 pairs a run never got there and counts as if it had in the last round."
        ));
        let loss = Pair { measure: Measure::MeanLoss, ..pair(Verdict::Supported, -0.5) };
        let sentence = finding(&loss, 1);
        assert!(
            sentence.starts_with("The data support that the mean loss over the rounds is lower")
        );
        assert!(sentence.contains(": -0.5 [-1.5, +0.5] over"), "{sentence}");
        assert!(supported(&[&loss]).1.is_empty(), "a lower loss is better");
    }
}
