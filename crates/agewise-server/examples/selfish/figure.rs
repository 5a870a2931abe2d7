//! The figure of docs/security.md.

use crate::measures::Outcome;
use agewise_core::AgeLaw;
use agewise_plot::{
    Axis, Figure, IntervalPlot, IntervalRow, Panel, ReferenceLine, Series, SeriesStyle,
};

const HONEST: usize = 0;
const SELFISH: usize = 1;
/// Grey, as everywhere for closed forms.
const THEORY: usize = 6;

/// What is drawn.
pub(crate) struct Shown {
    pub(crate) law: AgeLaw,
    pub(crate) rounds: u32,
    pub(crate) checked: Outcome,
    pub(crate) unchecked: Outcome,
}

impl Shown {
    /// The waits of honest clients with the check and without it, and how often all clients take part.
    pub(crate) fn figure(&self) -> Figure {
        let longest = self.unchecked.histogram(false).into_keys().max().unwrap_or(0).max(8);
        let waits = |title, run| Self::waits(title, run, &self.law, longest);
        let (checked, unchecked) = (&self.checked, &self.unchecked);
        Figure::new("When 30 of 100 clients ask to join in every round")
            .subtitle(format!(
                "markov-optimal, 15 clients per round, {} rounds over loopback",
                self.rounds
            ))
            .panel(waits("With the check: waits as in theory", checked))
            .panel(waits("Without the check: longer waits", unchecked))
            .panel(self.credits())
            .columns(3)
            .width(1240.0)
            .caption(format!(
                "Left and middle: rounds from one credit of an honest client to its next. Var[X] is {:.2} with \
                 the check and {:.2} without it; theory says {:.2}. Right: means over clients with 95% \
                 intervals. Cohorts have {:.1} clients on average with the check and {:.1} without it, where \
                 the selfish ones have {:.0}% of the credits.",
                checked.wait_variance().value,
                unchecked.wait_variance().value,
                self.law.interval().variance,
                checked.mean_size().value,
                unchecked.mean_size().value,
                100.0 * unchecked.selfish_share(),
            ))
    }

    fn waits(title: &str, run: &Outcome, law: &AgeLaw, longest: u64) -> Panel {
        let counts = run.histogram(false);
        let total: u64 = counts.values().sum();
        let shares = counts.iter().map(|(&x, &count)| (x as f64, count as f64 / total as f64));
        let theory = law.interval_distribution().filter(|(_, p)| *p > 0.0);
        let theory = theory.map(|(x, p)| (x as f64, p));
        let x = Axis::linear("X (rounds between two credits)");
        let shortest = law.interval_distribution().find(|(_, p)| *p > 0.0).map_or(1, |(x, _)| x);
        let seen = counts.keys().next().copied().unwrap_or(shortest).min(shortest);
        let x = x.range(seen as f64 - 1.5, longest as f64 + 0.5).integer_ticks();
        Panel::new(title, x, Axis::linear("share of honest clients' waits").range(0.0, 0.8))
            .series(Series::new("honest clients", SeriesStyle::Bars, shares).slot(HONEST))
            .series(Series::new("theory", SeriesStyle::Markers, theory).slot(THEORY))
    }

    fn credits(&self) -> IntervalPlot {
        let axis = Axis::linear("rounds of 100").range(0.0, 100.0);
        let rate = 100.0 * self.law.rate();
        let plot = IntervalPlot::new("How often a client takes part", axis)
            .reference(ReferenceLine::vertical(rate, "theory"));
        let rows = [
            ("honest, with the check", &self.checked, false),
            ("selfish, with the check", &self.checked, true),
            ("honest, without it", &self.unchecked, false),
            ("selfish, without it", &self.unchecked, true),
        ];
        rows.into_iter().fold(plot, |plot, (name, run, selfish)| {
            let credits = run.credits(selfish);
            let (low, high) =
                (credits.value - credits.half_width, credits.value + credits.half_width);
            let row = IntervalRow::new(name, credits.value).interval(low, high);
            let slot = if selfish { SELFISH } else { HONEST };
            plot.row(row.slot(slot).note(format!("{:.1}", credits.value)))
        })
    }
}
