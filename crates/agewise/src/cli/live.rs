//! The live view of a comparison: in a terminal a table that fills in and a bar for each run under way, elsewhere a line
//! now and then.

use crate::compare::View;
use crate::sim::study::{RoundLog, RunId, Study};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows how a comparison goes, on standard error.
pub(crate) struct Live {
    labels: Vec<String>,
    first_seed: u64,
    seeds: u32,
    rounds: u64,
    class_counts: Vec<u32>,
    targets: Vec<f64>,
    /// In a terminal.
    screen: Option<Screen>,
    /// Where there is none: nothing if quiet.
    speaks: bool,
    state: Mutex<State>,
}

struct Screen {
    all: MultiProgress,
    /// A line of the table for each policy.
    lines: Vec<ProgressBar>,
    total: ProgressBar,
}

struct State {
    started: Instant,
    said: Instant,
    /// Rounds that are behind, those of them that were played now, and those that are left at most.
    behind: u64,
    played: u64,
    left: u64,
    /// Rounds that are behind each run under way.
    under_way: BTreeMap<RunId, u64>,
    bars: BTreeMap<RunId, ProgressBar>,
    policies: Vec<Standing>,
}

/// What is known of a policy so far.
#[derive(Default)]
struct Standing {
    finished: u32,
    accuracy: BTreeMap<u32, f64>,
    /// Rounds to the last target, of the runs that reached it.
    reached: BTreeMap<u32, u64>,
}

impl Live {
    /// A view of a study that is about to be played.
    pub(crate) fn new(study: &Study, quiet: bool) -> Self {
        let params = study.params();
        let labels: Vec<String> = study.contenders().iter().map(|c| c.label.clone()).collect();
        let terminal = std::io::stderr().is_terminal() && !quiet;
        let runs = labels.len() as u64 * u64::from(params.seeds);
        let left = runs * params.rounds;
        let screen = terminal.then(|| Screen::new(&labels, left));
        let now = Instant::now();
        let policies = labels.iter().map(|_| Standing::default()).collect();
        let state = State {
            started: now,
            said: now,
            behind: 0,
            played: 0,
            left,
            under_way: BTreeMap::new(),
            bars: BTreeMap::new(),
            policies,
        };
        let live = Self {
            labels,
            first_seed: params.seed,
            seeds: params.seeds,
            rounds: params.rounds,
            class_counts: study.test_counts(),
            targets: params.targets.clone(),
            screen,
            speaks: !terminal && !quiet,
            state: Mutex::new(state),
        };
        live.with(|state| (0..live.labels.len()).for_each(|place| live.show(state, place)));
        live
    }

    /// Removes everything that was shown in a terminal.
    pub(crate) fn finish(&self) {
        if let Some(screen) = &self.screen {
            // A terminal that is gone needs no clearing.
            let _ = screen.all.clear();
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // A lane that panicked has left only what is shown.
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn accuracy(&self, log: &RoundLog) -> Option<f64> {
        log.test.as_ref().and_then(|test| test.accuracy(&self.class_counts))
    }

    /// Takes rounds of a run into the standing of its policy.
    fn take(&self, state: &mut State, id: RunId, logs: &[RoundLog]) {
        let standing = &mut state.policies[id.contender];
        for log in logs {
            let Some(accuracy) = self.accuracy(log) else {
                continue;
            };
            standing.accuracy.insert(id.seed, accuracy);
            if self.targets.last().is_some_and(|&target| accuracy >= target) {
                standing.reached.entry(id.seed).or_insert(log.round + 1);
            }
        }
    }

    /// Writes the line of a policy.
    fn show(&self, state: &State, place: usize) {
        let Some(screen) = &self.screen else {
            return;
        };
        let standing = &state.policies[place];
        let widest = self.labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let mut line = format!(
            "{:<widest$}  {:>3} of {} runs",
            self.labels[place], standing.finished, self.seeds
        );
        if !standing.accuracy.is_empty() {
            let mean = mean(standing.accuracy.values().copied());
            let _ = write!(line, "   accuracy {:>5.1}%", 100.0 * mean);
        }
        if let (Some(target), false) = (self.targets.last(), standing.reached.is_empty()) {
            let mean = mean(standing.reached.values().map(|&round| round as f64));
            let target = 100.0 * target;
            let _ =
                write!(line, "   {target}% after {mean:>5.1} rounds ({})", standing.reached.len());
        }
        screen.lines[place].set_message(line);
    }

    /// Says how far everything is, now and then.
    fn say(&self, state: &mut State, id: RunId, log: Option<&RoundLog>) {
        if !self.speaks || state.said.elapsed() < LINE_EVERY || state.played == 0 {
            return;
        }
        state.said = Instant::now();
        let total = state.behind + state.left;
        let percent = 100.0 * state.behind as f64 / total as f64;
        let seconds = state.started.elapsed().as_secs_f64() * state.left as f64;
        let seconds = seconds / state.played as f64;
        let mut line = format!(
            "{} of {total} rounds ({percent:.0}%), at most {seconds:.0} s left; {}, seed {}",
            state.behind,
            self.labels[id.contender],
            self.first_seed + u64::from(id.seed)
        );
        if let Some(log) = log {
            let _ = write!(line, ": round {}", log.round + 1);
            if let Some(accuracy) = self.accuracy(log) {
                let _ = write!(line, ", accuracy {:.1}%", 100.0 * accuracy);
            }
        }
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

impl Screen {
    fn new(labels: &[String], rounds: u64) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let line = |_| all.add(ProgressBar::new(1).with_style(style("  {msg}")));
        let lines = labels.iter().map(line).collect();
        let total = ProgressBar::new(rounds);
        let total = all.add(total.with_style(style(
            "  {wide_bar:.cyan/black} {percent:>3}%  {elapsed} gone, {eta} left",
        )));
        Self { all, lines, total }
    }
}

fn style(template: &str) -> ProgressStyle {
    // A template that does not parse would be a bar without one: nothing worth failing for.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl View for Live {
    fn begun(&self, id: RunId, logs: &[RoundLog]) {
        self.with(|state| {
            let known = logs.len() as u64;
            state.behind += known;
            state.left = state.left.saturating_sub(known);
            state.under_way.insert(id, known);
            self.take(state, id, logs);
            self.show(state, id.contender);
            if let Some(screen) = &self.screen {
                screen.total.inc(known);
                let bar = ProgressBar::new(self.rounds).with_position(known);
                let bar = screen.all.insert_before(&screen.total, bar);
                bar.set_style(style(
                    "    {prefix} {wide_bar:.green/black} round {pos} of {len}  {msg}  {eta} left",
                ));
                let seed = self.first_seed + u64::from(id.seed);
                bar.set_prefix(format!("{}, seed {seed}", self.labels[id.contender]));
                state.bars.insert(id, bar);
            }
        });
    }

    fn round(&self, id: RunId, logs: &[RoundLog]) {
        self.with(|state| {
            state.behind += 1;
            state.played += 1;
            state.left = state.left.saturating_sub(1);
            state.under_way.insert(id, logs.len() as u64);
            let last = logs.last();
            self.take(state, id, last.map_or(&[], std::slice::from_ref));
            self.show(state, id.contender);
            if let Some(screen) = &self.screen {
                screen.total.inc(1);
            }
            if let Some(bar) = state.bars.get(&id) {
                bar.inc(1);
                if let Some(accuracy) = last.and_then(|log| self.accuracy(log)) {
                    bar.set_message(format!("{:>5.1}%", 100.0 * accuracy));
                }
            }
            self.say(state, id, last);
        });
    }

    fn finished(&self, id: RunId) {
        self.with(|state| {
            state.policies[id.contender].finished += 1;
            // What an early end saves is not left any more.
            let behind = state.under_way.remove(&id).unwrap_or(0);
            state.left = state.left.saturating_sub(self.rounds.saturating_sub(behind));
            if let (Some(screen), Some(bar)) = (&self.screen, state.bars.remove(&id)) {
                screen.total.set_length(state.behind + state.left);
                screen.all.remove(&bar);
            }
            self.show(state, id.contender);
        });
    }
}
