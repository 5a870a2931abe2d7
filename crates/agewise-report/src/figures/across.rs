//! Figures across several experiments: what a policy is worth in each of them, and how it loads the clients of each.

use super::ReportFigure;
use crate::section::ReportSection;
use agewise_experiment::{Measure, Unit, VariantSummary};
use agewise_plot::{Axis, Figure, IntervalPlot, IntervalRow, ReferenceLine};

/// A row is about a policy in an experiment.
type Row<'a> = (&'a str, &'a str, IntervalRow);

/// A value of a policy with half of its interval, if there are any.
type ValueOf = fn(&VariantSummary) -> Option<(f64, Option<f64>)>;

/// Every figure for which at least two experiments have something to show.
pub(crate) fn figures(sections: &[ReportSection<'_>]) -> Vec<ReportFigure> {
    let figures = [learning(sections), advantages(sections), load(sections)];
    figures.into_iter().flatten().collect()
}

/// Rows grouped by policy, in the order in which policies come first; nothing where all are about one experiment.
fn plot(
    title: &str,
    axis: Axis,
    rows: Vec<Row<'_>>,
    reference: Option<ReferenceLine>,
) -> Option<IntervalPlot> {
    let first = rows.first()?.1;
    if rows.iter().all(|(_, run, _)| *run == first) {
        return None;
    }
    let mut policies: Vec<&str> = Vec::new();
    for (policy, ..) in &rows {
        if !policies.contains(policy) {
            policies.push(policy);
        }
    }
    let plot = IntervalPlot::new(title, axis);
    let plot = match reference {
        Some(line) => plot.reference(line),
        None => plot,
    };
    let mut rows = rows;
    // A stable sort: within a policy, experiments stay in the order of the page.
    rows.sort_by_key(|(policy, ..)| policies.iter().position(|other| other == policy));
    Some(rows.into_iter().fold(plot, |plot, (_, _, row)| plot.row(row)))
}

/// The row of a policy in a section, of this value.
fn row<'a>(section: &'a ReportSection<'_>, policy: &'a str, value: f64) -> Option<Row<'a>> {
    let (_, slot) = section.styles().into_iter().find(|(name, _)| *name == policy)?;
    let name = format!("{policy}, {}", section.name);
    let row = IntervalRow::new(name, value).of_series(policy).slot(slot);
    Some((policy, section.name.as_str(), row))
}

/// Every policy against the baseline of its own experiment.
fn learning(sections: &[ReportSection<'_>]) -> Option<ReportFigure> {
    let against = |is_it: fn(&ReportSection<'_>, Measure) -> bool| {
        let mut rows = Vec::new();
        for section in sections {
            for pair in section.with_baseline().filter(|pair| is_it(section, pair.measure)) {
                let found = row(section, &pair.policy, pair.effect);
                rows.extend(found.map(|(policy, run, row)| match pair.interval {
                    Some(interval) => (policy, run, row.interval(interval.low, interval.high)),
                    None => (policy, run, row),
                }));
            }
        }
        rows
    };
    let zero = || Some(ReferenceLine::vertical(0.0, "baseline"));
    let points = plot(
        "Mean accuracy over the rounds",
        Axis::linear("percentage points (better to the right)"),
        against(|_, measure| measure == Measure::Area),
        zero(),
    );
    let loss = plot(
        "Mean loss over the rounds",
        Axis::linear("difference (better to the left)"),
        against(|_, measure| measure == Measure::MeanLoss),
        zero(),
    );
    // Experiments may count in different units; a change in percent is comparable all the same.
    let in_rounds = sections.iter().all(|section| section.unit() == Unit::Rounds);
    let title = if in_rounds { "Rounds to the last target" } else { "Cost of the last target" };
    let costs = plot(
        title,
        Axis::linear("change in percent (less to the left)"),
        against(|section, measure| {
            let last = section.experiment().targets().last();
            last.is_some_and(|&target| measure == section.target_measure(target))
        }),
        zero(),
    );
    let plots: Vec<IntervalPlot> = [points, loss, costs].into_iter().flatten().collect();
    if plots.is_empty() {
        return None;
    }
    let figure = Figure::new("Against the baseline of each experiment");
    let figure = plots.into_iter().fold(figure, Figure::panel);
    Some(ReportFigure::new(
        "across-learning",
        "Does it hold everywhere?",
        figure,
        "Each policy against the baseline of its own experiment over common seeds, with the 95% interval of the paired \
         difference. Rows of one policy stand together: a difference that holds everywhere lies on one side of 0 in all of them.",
    ))
}

/// The differences from the baselines round by round, a panel for each experiment.
fn advantages(sections: &[ReportSection<'_>]) -> Option<ReportFigure> {
    let panels: Vec<_> = (sections.iter())
        .filter(|section| section.trains() && section.experiment().variants().len() > 1)
        .map(|section| section.score_difference(&section.name))
        .collect();
    if panels.len() < 2 {
        return None;
    }
    let figure = Figure::new("Differences from the baseline, round by round");
    let figure = panels.into_iter().fold(figure.columns(2), Figure::panel);
    Some(ReportFigure::new(
        "across-rounds",
        "When does it matter, in each experiment?",
        figure,
        "What models are measured by, minus that of the baseline under the same seed: the mean over seeds, with its 95% \
         interval as a band where there are few policies.",
    ))
}

/// How policies load the clients of each experiment.
fn load(sections: &[ReportSection<'_>]) -> Option<ReportFigure> {
    let rows = |value: ValueOf| {
        let mut rows = Vec::new();
        for section in sections {
            for policy in &section.summary.policies {
                let Some((mean, half)) = value(policy) else { continue };
                let found = row(section, &policy.policy, mean);
                rows.extend(found.map(|(policy, run, row)| match half {
                    Some(half) => (policy, run, row.interval(mean - half, mean + half)),
                    None => (policy, run, row),
                }));
            }
        }
        rows
    };
    let waits = rows(|policy| Some((policy.longest_wait? as f64, None)));
    let jain = rows(|policy| {
        let jain = policy.means.get("jain")?;
        Some((jain.mean, jain.half_width))
    });
    let plots = [
        plot("The longest wait of any client", Axis::log10("rounds"), waits, None),
        plot("How evenly clients take part", Axis::linear("Jain's index (1 is even)"), jain, None),
    ];
    let plots: Vec<IntervalPlot> = plots.into_iter().flatten().collect();
    if plots.is_empty() {
        return None;
    }
    let figure = Figure::new("The load of the clients in each experiment");
    let figure = plots.into_iter().fold(figure, Figure::panel);
    Some(ReportFigure::new(
        "across-load",
        "How are the clients of each experiment loaded?",
        figure,
        "Left, the most rounds that a client of any run waited, on a logarithmic axis; right, Jain's index of how often clients \
         took part, with its 95% interval.",
    ))
}
