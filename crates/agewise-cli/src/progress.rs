//! Progress on standard error: a bar in a terminal, a line now and then elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

/// A bar on standard error, if that is a terminal.
pub(crate) fn bar(total: u64, template: &str, quiet: bool) -> ProgressBar {
    let shown = !quiet && std::io::stderr().is_terminal();
    let target =
        if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
    ProgressBar::with_draw_target(Some(total), target).with_style(style(template))
}

/// The look of a bar.
pub(crate) fn style(template: &str) -> ProgressStyle {
    // A template that does not parse would be a bar without one: nothing worth failing for.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Whether lines tell how it goes, because no bar does.
pub(crate) fn writes_lines(quiet: bool) -> bool {
    !quiet && !std::io::stderr().is_terminal()
}

/// How often a line is written where there is no terminal.
pub(crate) const LINE_EVERY: Duration = Duration::from_secs(5);

/// Counts work that is done.
pub(crate) struct Progress {
    bar: ProgressBar,
    total: u64,
    started: Instant,
    /// Where there is no terminal: what is done, and when it was last said.
    lines: Option<Mutex<(u64, Instant)>>,
}

impl Progress {
    /// For so many rounds in all.
    pub(crate) fn new(total: u64, label: &'static str, quiet: bool) -> Self {
        let template = "{msg} {wide_bar:.cyan/black} {percent:>3}%  {human_pos} of {human_len} rounds, {eta} left";
        let bar = bar(total, template, quiet).with_message(label);
        let started = Instant::now();
        let lines = writes_lines(quiet).then(|| Mutex::new((0, started)));
        Self { bar, total, started, lines }
    }

    /// So many more rounds are done.
    pub(crate) fn advance(&self, rounds: u64) {
        self.bar.inc(rounds);
        let Some(lines) = &self.lines else {
            return;
        };
        let mut lines = lines.lock();
        lines.0 += rounds;
        if lines.1.elapsed() >= LINE_EVERY {
            lines.1 = Instant::now();
            let share = lines.0 as f64 / self.total as f64;
            let left = self.started.elapsed().as_secs_f64() * (1.0 - share) / share;
            let percent = 100.0 * share;
            let _ = writeln!(
                std::io::stderr(),
                "{} of {} rounds ({percent:.0}%), about {left:.0} s left",
                lines.0,
                self.total
            );
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
