//! What the figures say, in words.

use crate::format::{capitalised, listed, number, signed, two_digits};
use crate::section::ReportSection;
use agewise_experiment::{
    Interval, Measure, Pair, RoundsTo, Significance, Summary, VariantSummary,
};
use std::fmt::Write as _;

/// With fewer seeds, Student's intervals are several times wider than with many.
const FEW_SEEDS: u32 = 4;

/// An effect with its unit.
fn amount(pair: &Pair, points: &str) -> String {
    let unit = match pair.measure {
        measure if measure.is_cost() => "%",
        measure if measure.is_in_points() => points,
        _ => "",
    };
    format!("{}{unit}", signed(pair.effect))
}

/// Whether neither of a pair ever reached the target: that is no measured zero.
pub(crate) fn is_without_result(pair: &Pair) -> bool {
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
    let seen = if measure.is_cost() {
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
        Significance::Significant if comparisons > 1 => format!(
            "Significant: {seen}: {evidence} ({alone}; {adjusted} after Holm correction for {comparisons} comparisons)."
        ),
        Significance::Significant => format!("Significant: {seen}: {evidence} ({alone})."),
        Significance::OnlyUncorrected => format!(
            "Not significant after Holm correction for {comparisons} comparisons ({adjusted}), but without it ({alone}): \
             {seen}: {evidence}."
        ),
        Significance::NotSignificant => format!(
            "No significant difference between {policy} and {other} in the {measure}: {evidence}."
        ),
        Significance::TooFew => {
            format!(
                "{}: {evidence}; one pair of runs is not enough for a significance test.",
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
        let seeds = if self.trains() || self.summary.seeds < 2 { "" } else { self.advice().trim() };
        let parts = [learning, load, sigma, self.world_finding(), seeds.to_string()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn learning_finding(&self, measure: Measure) -> String {
        let pairs: Vec<&Pair> =
            self.with_baseline().filter(|pair| pair.measure == measure).collect();
        let mut text = if !pairs.is_empty() && pairs.iter().all(|pair| is_without_result(pair)) {
            format!(
                "No run reached the target, so the {measure} cannot be compared: lower --target or raise --rounds."
            )
        } else {
            let (good, bad) = supported(&pairs);
            let open = pairs.len() - good.len() - bad.len();
            let found = differences(&good, &bad, usize::MAX);
            let found = found.unwrap_or_else(|| self.no_difference(&pairs));
            let text =
                format!("Measured by {measure}, against {}: {found}.", self.summary.baseline);
            let noun = if open == 1 { "policy" } else { "policies" };
            match open {
                open if open > 0 && open < pairs.len() => {
                    format!("{text} For {open} {noun} there is no significant difference.")
                }
                _ => text,
            }
        };
        text += self.advice();
        let elsewhere = self.in_other_measures(measure);
        if !elsewhere.is_empty() {
            let elsewhere = elsewhere.join("; ");
            let _ = write!(text, " Significant in other measures: {elsewhere}.");
        }
        text
    }

    /// What to do where there are too few seeds for intervals that say anything.
    fn advice(&self) -> &'static str {
        match self.summary.seeds {
            1 => " One seed cannot tell a difference from chance: use --seeds 5 or more.",
            2..FEW_SEEDS => {
                " So few seeds give intervals that are too wide to decide anything: use --seeds 5 or more \
                 (--extend adds seeds to this run)."
            }
            _ => "",
        }
    }

    /// Why there is no difference to speak of.
    fn no_difference(&self, pairs: &[&Pair]) -> String {
        let alone =
            pairs.iter().filter(|pair| pair.verdict == Significance::OnlyUncorrected).count();
        let Some(pair) = pairs.first().filter(|_| alone > 0) else {
            return "no significant difference".to_string();
        };
        let of_measure = |other: &&Pair| other.measure == pair.measure;
        let all = self.summary.pairs.iter().filter(of_measure).count();
        let verb = if alone == 1 { "is" } else { "are" };
        format!(
            "no significant difference after Holm correction for {all} comparisons; {alone} {verb} significant without it"
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
            let clients = if never == 1.0 { "client" } else { "clients" };
            let count = format!("{} ({} {clients} per run)", policy.policy, number(never));
            (never > 0.0).then_some(count)
        };
        let left_out: Vec<String> = self.summary.policies.iter().filter_map(of).collect();
        if left_out.is_empty() {
            return "Every client was reached in every run.".to_string();
        }
        format!("Some clients were never reached with {}.", left_out.join(", "))
    }

    /// A caution where updates were not taken, or where results cannot be repeated; nothing where neither is so.
    pub(crate) fn caution(&self) -> Option<String> {
        let left_out = [false, true].into_iter().filter_map(|is_bounded| self.left_out(is_bounded));
        let cautions: Vec<String> = left_out.chain(self.varied()).collect();
        (!cautions.is_empty()).then(|| cautions.join(" "))
    }

    /// A caution where the task does not give the same results again.
    fn varied(&self) -> Option<String> {
        let records = self.results.records.iter().filter_map(|record| record.training.as_ref());
        let varied = records.flat_map(|training| &training.logs).any(|log| log.not_deterministic);
        varied.then(|| {
            "The task is not deterministic: a client that was trained twice came back with different results. Differences \
             between policies under one seed include this randomness, and a run that is resumed or repeated gives other \
             bytes."
                .to_string()
        })
    }

    /// A caution where updates were not taken: with a bound on norms most of them were too far away, without one they were
    /// not finite.
    fn left_out(&self, is_bounded: bool) -> Option<String> {
        let of = |policy: &VariantSummary| {
            let has_bound = |rule: &String| rule.contains("max_norm");
            let mean = policy.means.get("rejected")?.mean;
            (mean > 0.0 && policy.aggregation.as_ref().is_some_and(has_bound) == is_bounded)
                .then(|| format!("{} ({} per run)", policy.policy, number(mean)))
        };
        let policies: Vec<String> = self.summary.policies.iter().filter_map(of).collect();
        let policies = (!policies.is_empty()).then(|| policies.join(", "))?;
        Some(if is_bounded {
            format!(
                "Updates beyond max_norm were left out, and their clients not credited, with {policies}. A larger bound, or \
                 max_norm=auto, takes more of them."
            )
        } else {
            format!(
                "Training diverged: updates that were not finite were not taken, and their clients not credited, with \
                 {policies}. A smaller learning rate may help."
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

/// A sentence about the policy with the most even load, by the measure that decides: Jain's index of how often clients took part,
/// and among those that are equal in it, Var[X]. Var[X] alone would praise a policy that calls the same few clients at even
/// intervals and all others never. Under different schedules X counts different steps, so Var[X] in seconds decides there.
fn even_load(summary: &Summary) -> String {
    let of = |name| move |policy: &'_ VariantSummary| mean(policy, name);
    let jain = of("jain");
    let fairest = summary.policies.iter().filter_map(jain).fold(0.0, f64::max);
    let is_fair =
        |policy: &&VariantSummary| jain(policy).is_some_and(|jain| jain >= 0.99 * fairest);
    let fair: Vec<&VariantSummary> = summary.policies.iter().filter(is_fair).collect();
    let names: Vec<&str> = fair.iter().map(|policy| policy.policy.as_str()).collect();
    let index = format!("the highest Jain's index ({})", number((1e3 * fairest).round() / 1e3));
    let differ = fair.iter().any(|policy| policy.schedule != fair[0].schedule);
    let (variance_of, unit) = match fair.first() {
        _ if differ => ("var_interval_seconds", "seconds"),
        Some(first) if first.schedule.is_some() => ("var_interval", "steps"),
        _ => ("var_interval", "rounds"),
    };
    let variances =
        fair.iter().filter_map(|policy| Some((mean(policy, variance_of)?, policy.policy.as_str())));
    match (names.len(), least(&variances.collect::<Vec<_>>())) {
        (0, _) => String::new(),
        (1, _) | (_, None) => format!("The most even load: {}, with {index}.", listed(&names)),
        (_, Some((variance, best))) => format!(
            "The most even load: {best}, with the least Var[X] ({} {unit} squared) of the {} policies with {index}.",
            number(variance),
            names.len()
        ),
    }
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

/// The least value, and the policies that have it.
fn least(values: &[(f64, &str)]) -> Option<(f64, String)> {
    let least = values.iter().map(|(value, _)| *value).reduce(f64::min)?;
    let names = values.iter().filter(|(value, _)| is_as_good(*value, least));
    Some((least, listed(&names.map(|(_, name)| *name).collect::<Vec<_>>())))
}

/// The pairs with a difference that the data support: where the first is better, and where it is worse; the largest
/// differences first.
fn supported<'a>(pairs: &[&'a Pair]) -> (Vec<&'a Pair>, Vec<&'a Pair>) {
    let mut found: Vec<&Pair> =
        pairs.iter().filter(|pair| pair.verdict == Significance::Significant).copied().collect();
    found.sort_by(|a, b| b.effect.abs().total_cmp(&a.effect.abs()));
    found.into_iter().partition(|pair| pair.measure.lower_is_better() == (pair.effect < 0.0))
}

/// The policies that are better and those that are worse, with at most so many names of each.
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

/// What a target costs: median, interval, and who got there.
pub(crate) fn cost_in(to: &RoundsTo, number: fn(f64) -> String) -> String {
    let all = &to.rounds;
    let value = |cost: f64| if cost.is_finite() { number(cost) } else { "never".to_string() };
    let median = all.median.map_or("never".to_string(), number);
    // Where no run got there, the interval says nothing that "never" does not say.
    let interval = all.interval.filter(|interval| interval.low.is_finite());
    let interval = interval.map_or(String::new(), |Interval { low, high }| {
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
        Significance::Significant => "yes",
        Significance::OnlyUncorrected => "only without correction",
        Significance::NotSignificant => "no",
        Significance::TooFew => "too few seeds",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(verdict: Significance, effect: f64) -> Pair {
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
            finding(&pair(Significance::Significant, -3.5), 4),
            "Significant: a needs fewer rounds to 90% than b: -3.5% [-4.5, -2.5] over 10 common seeds \
             (p = 0.0030; p = 0.012 after Holm correction for 4 comparisons)."
        );
        assert_eq!(
            finding(&pair(Significance::NotSignificant, 0.5), 4),
            "No significant difference between a and b in the rounds to 90%: +0.5% [-0.5, +1.5] over 10 common seeds."
        );
        let limited = Pair { at_limit: 2, ..pair(Significance::OnlyUncorrected, 12.3) };
        let sentence = finding(&limited, 6);
        assert!(
            sentence.starts_with(
                "Not significant after Holm correction for 6 comparisons (p = 0.012), but without it (p = 0.0030): a \
                 needs more rounds"
            ),
            "{sentence}"
        );
        assert!(sentence.ends_with(
            "In 2 pairs a run never got there and counts as if it had in the last round."
        ));
        let loss = Pair { measure: Measure::MeanLoss, ..pair(Significance::Significant, -0.5) };
        let sentence = finding(&loss, 1);
        assert!(sentence.starts_with("Significant: the mean loss over the rounds is lower"));
        assert!(sentence.contains(": -0.5 [-1.5, +0.5] over"), "{sentence}");
        assert!(supported(&[&loss]).1.is_empty(), "a lower loss is better");
    }

    #[test]
    fn never_is_a_word_and_not_an_interval() {
        let to = |each: &[Option<u64>]| {
            let rounds = agewise_experiment::RoundsToTarget::of(each);
            cost_in(&RoundsTo { target: 0.9, rounds }, number)
        };
        assert_eq!(to(&[None, None, None]), "never (0 of 3)");
        assert_eq!(to(&[Some(10), None, Some(20), Some(30), None]), "30 [10, never] (3 of 5)");
        assert_eq!(to(&[Some(7), Some(7)]), "7 [7, 7]");
    }

    fn load(policy: &str, jain: f64, variance: f64) -> VariantSummary {
        let mean = |mean| agewise_experiment::Estimate { mean, half_width: None };
        VariantSummary {
            policy: policy.to_string(),
            weighting: agewise_core::Weighting::Uniform,
            start: agewise_core::Start::Cold,
            aggregation: None,
            runs: 1,
            rounds_to: Vec::new(),
            costs_to: Vec::new(),
            schedule: None,
            means: [("jain", mean(jain)), ("var_interval", mean(variance))].into(),
            cohort_min: None,
            cohort_max: None,
            longest_wait: None,
            window_sd: [].into(),
            theory: None,
        }
    }

    /// The measure that is quoted is the one by which the policies that are named are the best.
    #[test]
    fn the_most_even_load_quotes_what_decided() {
        let summary = |policies: Vec<VariantSummary>| Summary {
            data: None,
            model: None,
            clients: 10,
            cohort: 2,
            max_age: 5,
            rounds: 5,
            seeds: 1,
            baseline: String::new(),
            unit: None,
            finished_runs: 1,
            runs: 1,
            policies,
            pairs: Vec::new(),
        };
        // The first one has the least Var[X], for it calls the same few.
        let few = summary(vec![load("few", 0.3, 0.0), load("all", 0.9, 4.0)]);
        assert_eq!(
            even_load(&few),
            "The most even load: all, with the highest Jain's index (0.9)."
        );
        let both = summary(vec![load("a", 0.9, 4.0), load("b", 0.899, 3.0), load("c", 0.5, 1.0)]);
        let words =
            "The most even load: b, with the least Var[X] (3 rounds squared) of the 2 policies";
        assert!(even_load(&both).starts_with(words), "{}", even_load(&both));
        assert_eq!(even_load(&summary(Vec::new())), "");
        // Steps of a schedule without rounds are shorter than rounds, so seconds decide.
        let timed = |policy: &str, steps: f64, seconds: f64, schedule: Option<&str>| {
            let mut load = load(policy, 0.9, steps);
            let estimate = agewise_experiment::Estimate { mean: seconds, half_width: None };
            load.means.insert("var_interval_seconds", estimate);
            load.schedule = schedule.map(str::to_string);
            load
        };
        let mixed = vec![timed("a", 1.0, 9.0, None), timed("a/async", 40.0, 2.0, Some("async"))];
        let words = "The most even load: a/async, with the least Var[X] (2 seconds squared)";
        assert!(even_load(&summary(mixed)).starts_with(words));
    }
}
