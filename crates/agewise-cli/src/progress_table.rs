//! How an experiment goes: in a terminal a table that fills in and a bar for each run under way, elsewhere a line now
//! and then.

use super::progress::{LINE_EVERY, style, writes_lines};
use super::time_left::TimeLeft;
use agewise_experiment::{Callbacks, Experiment, RoundLog, RunId};
use agewise_train::Metric;
use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows how an experiment goes, on standard error.
pub(crate) struct ProgressTable {
    experiment: Experiment,
    /// In a terminal.
    screen: Option<Screen>,
    /// Where there is none: nothing if quiet.
    writes_lines: bool,
    state: Mutex<State>,
}

struct Screen {
    all: MultiProgress,
    /// A line of the table for each variant.
    lines: Vec<ProgressBar>,
    total: ProgressBar,
}

struct State {
    started: Instant,
    last_line: Instant,
    /// Rounds that are behind, and those that are left at most.
    behind: u64,
    left: u64,
    time_left: TimeLeft,
    /// Rounds that are behind each run under way.
    under_way: BTreeMap<RunId, u64>,
    bars: BTreeMap<RunId, ProgressBar>,
    variants: Vec<VariantProgress>,
}

/// What is known of a variant so far.
#[derive(Clone, Default)]
struct VariantProgress {
    finished: u32,
    /// The last score of each seed.
    scores: BTreeMap<u32, f64>,
    /// Rounds to the last target, of the runs that reached it.
    reached: BTreeMap<u32, u64>,
}

impl ProgressTable {
    /// For an experiment that is about to be played with so many threads.
    pub(crate) fn new(experiment: &Experiment, threads: usize, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal() && !quiet;
        let (params, variants) = (experiment.params(), experiment.variants().len());
        let steps = experiment.variants().iter().map(|variant| experiment.steps_of(variant));
        let of_variants: Vec<u64> =
            steps.map(|steps| u64::from(params.seeds).saturating_mul(steps)).collect();
        let left = of_variants.iter().fold(0u64, |sum, steps| sum.saturating_add(*steps));
        let workers = experiment.runs_at_once(threads).min(experiment.runs().len());
        let now = Instant::now();
        let state = State {
            started: now,
            last_line: now,
            behind: 0,
            left,
            time_left: TimeLeft::new(workers, of_variants),
            under_way: BTreeMap::new(),
            bars: BTreeMap::new(),
            variants: vec![VariantProgress::default(); variants],
        };
        let table = Self {
            experiment: experiment.clone(),
            screen: terminal.then(|| Screen::new(variants, left)),
            writes_lines: writes_lines(quiet),
            state: Mutex::new(state),
        };
        table.with(|state| (0..variants).for_each(|place| table.show(state, place)));
        table
    }

    /// Removes everything that was shown in a terminal.
    pub(crate) fn finish(&self) {
        if let Some(screen) = &self.screen {
            // A terminal that is gone needs no clearing.
            let _ = screen.all.clear();
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock())
    }

    /// The most steps of a run.
    fn steps_of(&self, id: RunId) -> u64 {
        let variant = self.experiment.variants().get(id.variant);
        variant.map_or(0, |variant| self.experiment.steps_of(variant))
    }

    fn name(&self, id: RunId) -> String {
        let name = self.experiment.variants()[id.variant].name();
        format!("{name}, seed {}", self.experiment.seed(id.seed).0)
    }

    /// How well the time that is left is known.
    fn about(&self) -> &'static str {
        let stops = self.experiment.training().is_some_and(|training| training.stop_at_target);
        if stops { "at most" } else { "about" }
    }

    /// Shows how long it will take, in a terminal.
    fn show_time_left(&self, state: &State) {
        if let (Some(screen), Some(seconds)) = (&self.screen, state.time_left.seconds()) {
            let left = HumanDuration(Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
            screen.total.set_message(format!("{} {left:#} left", self.about()));
        }
    }

    /// A score as it is shown.
    fn score_text(&self, score: f64) -> String {
        match self.experiment.metric() {
            Metric::Accuracy => format!("{:>5.1}%", 100.0 * score),
            Metric::Loss => format!("{score:.4}"),
        }
    }

    fn score_name(&self) -> &'static str {
        match self.experiment.metric() {
            Metric::Accuracy => "accuracy",
            Metric::Loss => "loss",
        }
    }

    fn reaches_last_target(&self, score: f64) -> bool {
        self.experiment.targets().last().is_some_and(|&target| match self.experiment.metric() {
            Metric::Accuracy => score >= target,
            Metric::Loss => score <= target,
        })
    }

    /// Takes rounds of a run into what is known of its variant.
    fn take(&self, state: &mut State, id: RunId, logs: &[RoundLog]) {
        let known = &mut state.variants[id.variant];
        for log in logs {
            let Some(score) = self.experiment.score(log) else {
                continue;
            };
            known.scores.insert(id.seed, score);
            if self.reaches_last_target(score) {
                known.reached.entry(id.seed).or_insert(log.round + 1);
            }
        }
    }

    /// Writes the line of a variant.
    fn show(&self, state: &State, place: usize) {
        let Some(screen) = &self.screen else {
            return;
        };
        let known = &state.variants[place];
        let names = self.experiment.variants().iter().map(agewise_experiment::Variant::name);
        let widest = names.clone().map(|name| name.chars().count()).max().unwrap_or(0);
        let (name, seeds) =
            (self.experiment.variants()[place].name(), self.experiment.params().seeds);
        let mut line = format!("{name:<widest$}  {:>3} of {seeds} runs", known.finished);
        if !known.scores.is_empty() {
            let mean = mean(known.scores.values().copied());
            let _ = write!(line, "   {} {}", self.score_name(), self.score_text(mean));
        }
        if let (Some(&target), false) = (self.experiment.targets().last(), known.reached.is_empty())
        {
            let mean = mean(known.reached.values().map(|&round| round as f64));
            let target = self.score_text(target);
            let _ = write!(
                line,
                "   {} after {mean:>5.1} rounds ({})",
                target.trim(),
                known.reached.len()
            );
        }
        screen.lines[place].set_message(line);
    }

    /// Writes how far everything is, now and then.
    fn write_line(&self, state: &mut State, id: RunId, last: Option<&RoundLog>) {
        if !self.writes_lines || state.last_line.elapsed() < LINE_EVERY {
            return;
        }
        state.last_line = Instant::now();
        let total = state.behind + state.left;
        let percent = 100.0 * state.behind as f64 / total as f64;
        let Some(seconds) = state.time_left.seconds() else {
            return;
        };
        let round = state.under_way.get(&id).copied().unwrap_or(0);
        let mut line = format!(
            "{} of {total} rounds ({percent:.0}%), {} {seconds:.0} s left; {}: round {round}",
            state.behind,
            self.about(),
            self.name(id)
        );
        if let Some(score) = last.and_then(|log| self.experiment.score(log)) {
            let _ = write!(line, ", {} {}", self.score_name(), self.score_text(score).trim());
        }
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

impl Screen {
    fn new(variants: usize, rounds: u64) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let line = |_| all.add(ProgressBar::new(1).with_style(style("  {msg}")));
        let lines = (0..variants).map(line).collect();
        let total = ProgressBar::new(rounds);
        let total = all
            .add(total.with_style(style(
                "  {wide_bar:.cyan/black} {percent:>3}%  {elapsed} gone  {msg}",
            )));
        Self { all, lines, total }
    }
}

impl Callbacks for ProgressTable {
    fn on_begin(&self, id: RunId, rounds: u64, logs: &[RoundLog]) {
        self.with(|state| {
            state.behind += rounds;
            state.left = state.left.saturating_sub(rounds);
            state.under_way.insert(id, rounds);
            state.time_left.begin(id, rounds, state.started.elapsed());
            self.take(state, id, logs);
            self.show(state, id.variant);
            if let Some(screen) = &self.screen {
                screen.total.inc(rounds);
                let bar = ProgressBar::new(self.steps_of(id)).with_position(rounds);
                let bar = screen.all.insert_before(&screen.total, bar);
                bar.set_style(style(
                    "    {prefix} {wide_bar:.green/black} round {pos} of {len}  {msg}  {eta} left",
                ));
                bar.set_prefix(self.name(id));
                state.bars.insert(id, bar);
            }
        });
    }

    fn on_rounds(&self, id: RunId, rounds: u64, logs: &[RoundLog]) {
        self.with(|state| {
            state.behind += rounds;
            state.left = state.left.saturating_sub(rounds);
            state.time_left.advance(id, rounds, state.started.elapsed());
            *state.under_way.entry(id).or_default() += rounds;
            let last = logs.last();
            self.take(state, id, last.map_or(&[], std::slice::from_ref));
            self.show(state, id.variant);
            if let Some(screen) = &self.screen {
                screen.total.inc(rounds);
            }
            if let Some(bar) = state.bars.get(&id) {
                bar.inc(rounds);
                if let Some(score) = last.and_then(|log| self.experiment.score(log)) {
                    bar.set_message(self.score_text(score));
                }
            }
            self.show_time_left(state);
            self.write_line(state, id, last);
        });
    }

    fn on_end(&self, id: RunId) {
        self.with(|state| {
            state.variants[id.variant].finished += 1;
            // What an early end saves is not left any more.
            let behind = state.under_way.remove(&id).unwrap_or(0);
            let saved = self.steps_of(id).saturating_sub(behind);
            state.left = state.left.saturating_sub(saved);
            state.time_left.end(id, saved);
            if let (Some(screen), Some(bar)) = (&self.screen, state.bars.remove(&id)) {
                screen.total.set_length(state.behind + state.left);
                screen.all.remove(&bar);
            }
            self.show(state, id.variant);
        });
    }
}
