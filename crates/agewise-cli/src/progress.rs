//! Progress on standard error: a bar in a terminal, a line now and then elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

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
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal && !quiet {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        // A template that does not parse would be a bar without one: nothing worth failing for.
        if let Ok(style) = ProgressStyle::with_template(
            "{msg} {wide_bar:.cyan/black} {percent:>3}%  {human_pos} of {human_len} rounds, {eta} left",
        ) {
            bar.set_style(style);
        }
        bar.set_message(label);
        let started = Instant::now();
        let lines = (!terminal && !quiet).then(|| Mutex::new((0, started)));
        Self { bar, total, started, lines }
    }

    /// So many more rounds are done.
    pub(crate) fn advance(&self, rounds: u64) {
        self.bar.inc(rounds);
        let Some(lines) = &self.lines else {
            return;
        };
        // A poisoned lock means that another thread is panicking; its message matters more.
        let Ok(mut lines) = lines.lock() else {
            return;
        };
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
