//! The report of a comparison: one page that explains itself, for one run folder or several.

use super::figures::{NamedFigure, share};
use super::sentences::{about, percent, rejected, rounds, signed, verdict};
use super::{CompareError, Comparison, config_text};
use crate::format::{number, with_half_width};
use crate::report::{Cell, Column, KeyFigure, Page, Table};
use crate::sim::study::{
    ContenderSummary, Measure, Pair, RoundsTo, SpeedLaw, StudySummary, Verdict,
};

/// The most sentences about one measure that are all shown; of more, only those about the baseline are.
const MOST_SENTENCES: usize = 15;

/// With more, a table of rounds and changes would be wider than the page.
const MOST_TARGETS_IN_A_TABLE: usize = 2;

/// A comparison with everything that a page shows of it.
pub(super) struct Chapter<'a> {
    /// The name of its folder.
    pub(super) name: &'a str,
    pub(super) comparison: &'a Comparison,
    pub(super) summary: &'a StudySummary,
    pub(super) figures: &'a [NamedFigure],
}

/// The report of one comparison.
pub(super) fn single(chapter: &Chapter<'_>) -> Result<Page, CompareError> {
    let page = Page::new("Which policy learns faster?").lead(chapter.lead());
    let page = chapter.fill(page, true)?;
    Ok(page.footer(footer()))
}

/// The report of several comparisons, one after the other.
pub(super) fn several(chapters: &[Chapter<'_>]) -> Result<Page, CompareError> {
    let mut page = Page::new("Which policy learns faster?").lead(format!(
        "{} comparisons side by side. Each was paired by design: for one seed every policy got the same split, the same \
         first model and the same client batches.",
        chapters.len()
    ));
    page = page.heading("All comparisons").table(overview(chapters));
    for chapter in chapters {
        page = page.heading(chapter.name).paragraph(chapter.lead());
        page = chapter.fill(page, false)?;
    }
    Ok(page.footer(footer()))
}

fn footer() -> String {
    format!("agewise {}", env!("CARGO_PKG_VERSION"))
}

/// One row for each policy of each comparison.
fn overview(chapters: &[Chapter<'_>]) -> Table {
    let columns = [
        Column::text("comparison"),
        Column::text("policy"),
        Column::text("target"),
        Column::number("rounds"),
        Column::number("against the baseline"),
        Column::text("supported?"),
    ];
    let mut table = Table::new(columns).caption(
        "Rounds to the last target: median and 95% interval; the change against the baseline over common seeds. The other \
         targets are below, with each comparison.",
    );
    for chapter in chapters {
        for policy in &chapter.summary.policies {
            let last = policy.rounds_to.last();
            let measure = last.map(|last| Measure::RoundsTo(last.target));
            let pair = measure.and_then(|measure| chapter.with_baseline(measure, &policy.policy));
            table = table.row([
                Cell::new(chapter.name),
                Cell::new(policy.policy.clone()),
                Cell::new(last.map_or("-".to_string(), |last| format!("{}%", share(last.target)))),
                Cell::new(last.map_or("-".to_string(), rounds)),
                Cell::new(pair.map_or("baseline".to_string(), effect)),
                Cell::new(pair.map_or("", supported)),
            ]);
        }
    }
    table
}

fn supported(pair: &Pair) -> &'static str {
    match pair.verdict {
        Verdict::Supported => "yes",
        Verdict::OnlyAlone => "only alone",
        Verdict::NotSupported => "no",
        Verdict::TooFew => "too few seeds",
    }
}

/// An effect with its interval.
pub(crate) fn effect(pair: &Pair) -> String {
    if pair.at_limit == pair.pairs && pair.effect == 0.0 {
        // Nobody got there: that is no measured zero.
        return "-".to_string();
    }
    let unit = if matches!(pair.measure, Measure::RoundsTo(_)) { "%" } else { "" };
    // Equal differences in all pairs leave no interval worth the name.
    let interval = pair.interval.filter(|interval| interval.low < interval.high);
    let interval = interval.map_or(String::new(), |interval| {
        format!(" [{}, {}]", signed(interval.low), signed(interval.high))
    });
    let limit = match pair.at_limit {
        0 => String::new(),
        count => format!(" ({count} at the limit)"),
    };
    format!("{}{unit}{interval}{limit}", signed(pair.effect))
}

impl Chapter<'_> {
    fn lead(&self) -> String {
        let params = self.comparison.study.params();
        format!(
            "{} policies trained {} on {} ({}), {} of {} clients per round, {} of local training. Paired by design: for \
             one seed every policy got the same split, the same first model and the same client batches, so differences \
             come from selection{} alone.",
            self.comparison.study.contenders().len(),
            params.model,
            params.data,
            params.partition,
            params.cohort,
            params.clients,
            params.local_work,
            if params.weighting.is_some() { "" } else { " and each policy's own weights" },
        )
    }

    fn with_baseline(&self, measure: Measure, policy: &str) -> Option<&Pair> {
        self.summary.pair(measure, policy, &self.summary.baseline)
    }

    /// Adds everything about the comparison.
    fn fill(&self, page: Page, headings: bool) -> Result<Page, CompareError> {
        let heading = |page: Page, text: &str| {
            if headings { page.heading(text) } else { page.subheading(text) }
        };
        let mut page = page.key_figures(self.key_figures());
        if self.summary.finished_runs < self.summary.runs {
            page = page.note(format!(
                "Not finished: {} of {} runs are at their end, and the tables count only those. Go on with agewise compare \
                 --resume.",
                self.summary.finished_runs, self.summary.runs
            ));
        }
        page = heading(page, "Results").paragraph(verdict(self.summary));
        if let Some(text) = rejected(self.summary) {
            page = page.note(text);
        }
        for table in self.rounds_tables() {
            page = page.table(table);
        }
        page = page.table(self.accuracy_table()).table(self.load_table());
        if let Some(table) = self.skew_table() {
            page = page.table(table);
        }
        if let Some(table) = self.constants_table() {
            page = page.table(table);
        }
        page = heading(page, "What the data support");
        page = self.sentences(page);
        for figure in self.figures {
            page = heading(page, figure.heading).figure(&figure.figure, &figure.reading);
        }
        let config = config_text(self.comparison.study.params())?;
        page = heading(page, "How this was measured").list(self.methods());
        Ok(page.preformatted("config.toml (agewise compare config.toml)", config))
    }

    fn key_figures(&self) -> Vec<KeyFigure> {
        let params = self.comparison.study.params();
        let parameters = self.comparison.study.trainer().model().parameters();
        let images = self.comparison.study.dataset().train.len();
        vec![
            KeyFigure::new("data", params.data.clone())
                .note(format!("{images} images, {}", params.partition)),
            KeyFigure::new("clients", params.clients.to_string())
                .note(format!("{} per round, sizes {}", params.cohort, params.sizes)),
            KeyFigure::new("model", params.model.clone()).note(format!("{parameters} parameters")),
            KeyFigure::new("rounds", format!("up to {}", params.rounds))
                .note(format!("{}, batches of {}", params.local_work, params.batch)),
            KeyFigure::new("seeds", params.seeds.to_string())
                .note(format!("{} of {} runs", self.summary.finished_runs, self.summary.runs)),
        ]
    }

    /// Rounds to the targets, and the changes against the baseline: in one table, or in two where there are many targets.
    fn rounds_tables(&self) -> Vec<Table> {
        let targets = &self.comparison.study.params().targets;
        let change = format!("vs {}", self.summary.baseline);
        let medians = "median [95% interval], and how many runs got there if not all did";
        let marked = "Marked: fewer rounds, supported when all comparisons are allowed for.";
        if targets.is_empty() {
            return Vec::new();
        }
        if targets.len() <= MOST_TARGETS_IN_A_TABLE {
            let columns = |target: f64| vec![Measure::RoundsTo(target).to_string(), change.clone()];
            let caption = format!(
                "Rounds to test accuracies: {medians}; beside it the change over common seeds. {marked}"
            );
            return vec![self.target_table(&caption, columns, |policy, to| {
                vec![Cell::new(rounds(to)), self.change(policy, to.target)]
            })];
        }
        let column = |target: f64| vec![Measure::RoundsTo(target).to_string()];
        let rounds = self.target_table(
            &format!("Rounds to test accuracies: {medians}."),
            column,
            |_, to| vec![Cell::new(rounds(to))],
        );
        let caption = format!(
            "Rounds to test accuracies against {}: the change over common seeds [95% interval]. {marked}",
            self.summary.baseline
        );
        let changes =
            self.target_table(&caption, column, |policy, to| vec![self.change(policy, to.target)]);
        vec![rounds, changes]
    }

    /// A row for each policy, and the same columns for each target.
    fn target_table(
        &self,
        caption: &str,
        columns: impl Fn(f64) -> Vec<String>,
        cells: impl Fn(&str, &RoundsTo) -> Vec<Cell>,
    ) -> Table {
        let targets = self.comparison.study.params().targets.iter();
        let columns = targets.flat_map(|&target| columns(target)).map(Column::number);
        let columns = std::iter::once(Column::text("policy")).chain(columns);
        let mut table = Table::new(columns).caption(caption);
        for policy in &self.summary.policies {
            let rest = policy.rounds_to.iter().flat_map(|to| cells(&policy.policy, to));
            table = table.row(std::iter::once(Cell::new(policy.policy.clone())).chain(rest));
        }
        table
    }

    /// The change of the rounds to a target against the baseline.
    fn change(&self, policy: &str, target: f64) -> Cell {
        let pair = self.with_baseline(Measure::RoundsTo(target), policy);
        let text = pair.map_or("-".to_string(), effect);
        let wins = pair.is_some_and(|pair| pair.verdict == Verdict::Supported && pair.effect < 0.0);
        if wins { Cell::new(text).best() } else { Cell::new(text) }
    }

    fn accuracy_table(&self) -> Table {
        let ends = !self.comparison.study.params().stop_at_target;
        let mut columns = vec![Column::text("policy")];
        if ends {
            columns.extend(["mean accuracy %", "final accuracy %"].map(Column::number));
        }
        let others = ["worst 10% of clients %", "rounds played", "moved"];
        columns.extend(others.map(Column::number));
        let caption = if ends {
            "Test accuracy: mean over all rounds, at the end, and at the end for the tenth of the clients that is served \
             worst; means over seeds ± half of the 95% interval. Moved: models to clients and back."
        } else {
            "Runs end at the last target, so the test accuracy at the end says nothing; that for the tenth of the clients that \
             is served worst does: means over seeds ± half of the 95% interval. Moved: models to clients and back."
        };
        let mut table = Table::new(columns).caption(caption);
        for policy in &self.summary.policies {
            let mut cells = vec![Cell::new(policy.policy.clone())];
            let names = ["area", "final_accuracy", "worst_tenth"];
            for name in &names[if ends { 0 } else { 2 }..] {
                cells.push(Cell::new(percent(policy.means.get(name))));
            }
            cells.push(Cell::new(mean(policy, "rounds")));
            let moved = policy.means.get("bytes_moved").map(|moved| bytes(moved.mean));
            cells.push(Cell::new(moved.unwrap_or("-".to_string())));
            table = table.row(cells);
        }
        table
    }

    fn load_table(&self) -> Table {
        let columns = [
            Column::text("policy"),
            Column::text("weights"),
            Column::number("E[X]"),
            Column::number("Var[X]"),
            Column::number("longest wait"),
            Column::number("Sigma"),
            Column::number("cohort"),
            Column::number("sd"),
            Column::number("Jain"),
            Column::number("never"),
            Column::number("forced"),
        ];
        let mut table = Table::new(columns).caption(
            "Load. X: rounds between two selections of a client; Sigma: sum of the variances of the weights; Jain: 1 if all \
             take part equally often; never: clients that never took part; forced: rounds in which nobody had decided to come. \
             Means over runs; their intervals are in summary.json.",
        );
        for policy in &self.summary.policies {
            let name = |name| {
                let estimate = policy.means.get(name);
                Cell::new(estimate.map_or("-".to_string(), |estimate| number(estimate.mean)))
            };
            table = table.row([
                Cell::new(policy.policy.clone()),
                Cell::new(policy.weighting.to_string()),
                name("mean_interval"),
                name("var_interval"),
                Cell::new(optional(policy.longest_wait)),
                name("sigma"),
                name("cohort_mean"),
                name("cohort_sd"),
                name("jain"),
                name("never_selected"),
                name("forced"),
            ]);
        }
        table
    }

    /// Definition 1, as the paper's Table II; nothing where the skew was not estimated.
    fn skew_table(&self) -> Option<Table> {
        let known = |policy: &ContenderSummary| policy.means.contains_key("skew_min");
        if !self.summary.policies.iter().any(known) {
            return None;
        }
        let columns = [
            Column::text("policy"),
            Column::number("smallest rho"),
            Column::number("mean rho"),
            Column::number("largest rho at the optimum"),
        ];
        let mut table = Table::new(columns).caption(
            "Selection skew (Definition 1). Above 1, cohorts have more to gain than the average client. The expectation is \
             over 200 cohorts that could have been drawn in the round; smallest and mean over rounds, at the model of the round; \
             largest at the optimum of all, or at the last model where that is not known. Means over seeds.",
        );
        for policy in &self.summary.policies {
            let name = |name| Cell::new(mean(policy, name));
            table = table.row([
                Cell::new(policy.policy.clone()),
                name("skew_min"),
                name("skew_mean"),
                name("skew_max"),
            ]);
        }
        Some(table)
    }

    /// The constants of Theorem 1 under the first seed.
    fn constants_table(&self) -> Option<Table> {
        if !self.comparison.study.params().bound {
            return None;
        }
        let record = self.comparison.runs_of(0).next()?;
        let constants = record.gaps.as_ref()?.constants.as_ref()?;
        let rows = [
            ("L", "smoothness", constants.smoothness),
            ("mu", "strong convexity: the weight decay", constants.convexity),
            ("G", "bound on stochastic gradients", constants.gradient_bound),
            ("sigma", "deviation of stochastic gradients", constants.gradient_sd),
            ("Gamma", "F* minus the clients' own optima", constants.objective_gap),
            ("F*", "the least value of the objective", constants.optimum_value),
            ("|theta0 - theta*|", "distance to the optimum", constants.initial_distance),
        ];
        let columns = [Column::text("constant"), Column::text("meaning"), Column::number("value")];
        let mut table = Table::new(columns).caption(
            "The constants of Theorem 1 under the first seed, estimated from the data. Bounds on gradients are those at the \
             first model and at the optimum. The learning rate was the theorem's: 1/(mu (t + gamma)).",
        );
        for (name, meaning, value) in rows {
            table = table.row([Cell::new(name), Cell::new(meaning), Cell::new(number(value))]);
        }
        Some(table)
    }

    /// One sentence for each pair: the main measure first, the others folded away by their number.
    fn sentences(&self, mut page: Page) -> Page {
        let Some(main) = self.summary.main_measure() else {
            return page.paragraph("One policy alone: there is nothing to compare.");
        };
        let of = |measure: Measure| {
            let pairs = self.summary.pairs.iter().filter(move |pair| pair.measure == measure);
            let count = pairs.clone().count();
            pairs.map(move |pair| about(pair, count)).collect::<Vec<_>>()
        };
        // Those with the baseline come first.
        let mut sentences = of(main);
        let with_baseline = self.summary.policies.len().saturating_sub(1);
        let shown = if sentences.len() > MOST_SENTENCES { with_baseline } else { sentences.len() };
        let hidden = sentences.split_off(shown.min(sentences.len()));
        page = page.list(sentences);
        if !hidden.is_empty() {
            page = page.preformatted("All other pairs of policies", hidden.join("\n"));
        }
        let mut others: Vec<Measure> = Vec::new();
        for pair in &self.summary.pairs {
            if pair.measure != main && !others.contains(&pair.measure) {
                others.push(pair.measure);
            }
        }
        if others.is_empty() {
            return page;
        }
        let text = others.into_iter().flat_map(of).collect::<Vec<_>>().join("\n");
        page.preformatted("The same for the other measures", text)
    }

    fn methods(&self) -> Vec<String> {
        let params = self.comparison.study.params();
        let mut methods = vec![
            "Rounds to a target: the first evaluation with at least that test accuracy. The median over seeds, with a \
             percentile bootstrap interval over seeds; runs that never get there count as longer than all others."
                .to_string(),
            "Changes and differences: the two policies under the same seed make a pair. Student's t on the logarithms of the \
             ratios of rounds, or on the differences of accuracies. \"All comparisons allowed for\" is Holm's method over all \
             pairs of policies."
                .to_string(),
            "Mean accuracy: the area under the accuracy curve from the first evaluation to the last, divided by the rounds. Worst 10%: the mean over the tenth of \
             the clients whose classes the last model recognises worst."
                .to_string(),
            "Moved: the model to every client of every cohort and back, in 32-bit floats, and to every client that a policy asks \
             before it chooses."
                .to_string(),
        ];
        if (2..6).contains(&params.seeds) {
            methods.push(format!(
                "With {} seeds the interval of a median cannot promise 95%: it lies between the smallest and the largest run, \
                 which hold the true median in {:.0}% of all cases.",
                params.seeds,
                100.0 * (1.0 - 0.5f64.powi(params.seeds as i32 - 1))
            ));
        }
        methods.push(
            "A stationary start draws first ages as if the policy had always run, so a wait may have begun before round 1; from a \
             cold start everyone counts as chosen just before it."
                .to_string(),
        );
        if self.comparison.study.speeds() != SpeedLaw::Equal {
            methods.push(format!(
                "Speeds: {}, with a median of 1,000 samples per second. Only policies that look at durations see them; the \
                 simulated time of a run is in rounds.csv and leaves out what is asked before a choice.",
                params.speeds
            ));
        }
        if params.bound {
            methods.push(
                "Learning rate and decay of the configuration were not used: the theorem has its own.".to_string(),
            );
        }
        methods.push(
            "Wall times are in timing.csv: they differ from run to run, and this page does not."
                .to_string(),
        );
        if params.eval_every > 1 || params.eval_from > 1 {
            methods.push(format!(
                "The model was evaluated every {} rounds from round {} on, and at the end; rounds to a target are known up \
                 to that.",
                params.eval_every, params.eval_from
            ));
        }
        methods
    }
}

fn optional(value: Option<u64>) -> String {
    value.map_or("-".to_string(), |value| value.to_string())
}

fn mean(policy: &ContenderSummary, name: &str) -> String {
    let estimate = policy.means.get(name);
    estimate.map_or("-".to_string(), |e| with_half_width(e.mean, e.half_width))
}

/// Bytes for people.
pub(crate) fn bytes(count: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let power = ((count.max(1.0).log10() / 3.0).floor() as usize).min(units.len() - 1);
    format!("{} {}", number_of(count / 1000f64.powi(power as i32)), units[power])
}

/// Three digits.
fn number_of(value: f64) -> String {
    number((value * 100.0).round() / 100.0)
}
