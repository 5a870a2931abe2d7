//! What `agewise compare` and `agewise simulate` share: a new run, one that goes on, or one that is asked for more.

use super::progress_table::ProgressTable;
use super::run_args::{ExperimentArgs, RunArgs};
use super::{Failure, print, table};
use agewise_core::Error;
use agewise_experiment::run_dir;
use agewise_experiment::{
    Difference, Experiment, ExperimentError, ExperimentParams, RunDir, RunDirError, play,
    read_params,
};
use agewise_report::{ReportError, ReportSection};
use agewise_train::aggregation::AggregationParams;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use toml::{Table, Value};

/// Which of the two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With a task.
    Compare,
    /// Without one.
    Simulate,
}

impl Kind {
    fn of(params: &ExperimentParams) -> Self {
        if params.training.is_some() { Self::Compare } else { Self::Simulate }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Compare => "compare",
            Self::Simulate => "simulate",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Compare => "a comparison by training",
            Self::Simulate => "a simulation without training",
        }
    }

    /// The parameters that need not be given.
    pub(crate) fn defaults(self) -> ExperimentParams {
        match self {
            Self::Compare => ExperimentParams::comparison(),
            Self::Simulate => ExperimentParams::default(),
        }
    }

    /// Refuses parameters of the other kind, which `what` has.
    fn check(self, params: &ExperimentParams, what: &str, flag: &str) -> Result<(), Failure> {
        let other = Self::of(params);
        if self == other {
            return Ok(());
        }
        let is_file = self == Self::Compare && flag.is_empty();
        let hint = if is_file { ", or give it a table [training]" } else { "" };
        Err(Failure::BadInput(format!(
            "{what}: is {}; expected {} (use `agewise {}{flag} {what}`{hint})",
            other.noun(),
            self.noun(),
            other.command()
        )))
    }

    /// Reads the parameters of a file.
    pub(crate) fn read_file(self, path: &Path) -> Result<ExperimentParams, Failure> {
        let shown = path.display();
        let wrong =
            |error: &dyn std::fmt::Display| Failure::BadInput(format!("config = {shown}: {error}"));
        let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let params = read_params(&text, None).map_err(|error| wrong(&error))?;
        self.check(&params, &shown.to_string(), "")?;
        Ok(params)
    }
}

/// What was asked for on the command line.
pub(crate) struct Request<'a> {
    pub(crate) kind: Kind,
    pub(crate) run: &'a RunArgs,
    /// The parameters of a file or a preset, if one was named.
    pub(crate) params: Option<ExperimentParams>,
    pub(crate) experiment: &'a ExperimentArgs,
    /// What all flags say instead.
    pub(crate) flags: Table,
    /// Where data sets are looked for.
    pub(crate) folders: Vec<PathBuf>,
}

/// An experiment, its directory, and the lock on that.
type Opened = (Experiment, RunDir, File);

impl Request<'_> {
    /// Plays what was asked for, draws it, and prints it.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let threads = self.run.threads.map_or_else(cores, usize::from);
        // For the drawing of figures; there is no pool yet that could be in the way.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
        let (kind, run) = (self.kind, self.run);
        // The lock is held until the end.
        let (experiment, dir, _lock) = self.open(threads)?;
        for file in experiment.altered_data() {
            // If standard error is closed too, there is nowhere left to write.
            let _ = writeln!(std::io::stderr(), "caution: {file}");
        }
        warn_of_max_age(&experiment)?;
        let stop = stop_on_interrupt()?;
        let progress = ProgressTable::new(&experiment, threads, run.quiet);
        let results = play(&experiment, Some(&dir), threads, &progress, &stop);
        progress.finish();
        let go_on =
            || format!("go on with `agewise {} --resume {}`", kind.command(), dir.path().display());
        let failed = |error: ReportError| hint(error, &go_on());
        let results = results.map_err(|error| failed(error.into()))?;
        let section = ReportSection::new("", &results)?;
        section.write(&dir).map_err(failed)?;
        if run.json {
            print(&section.summary.to_json()?)?;
        } else {
            print(&table::summary(&section.summary_table(), &dir))?;
        }
        if results.is_finished() {
            return Ok(());
        }
        Err(Failure::Interrupted(format!("stopped early; {}", go_on())))
    }

    fn open(self, threads: usize) -> Result<Opened, Failure> {
        match (&self.run.resume, &self.run.extend) {
            (Some(path), _) => self.resume(path),
            (None, Some(path)) => self.extend(path),
            (None, None) => self.begin(threads),
        }
    }

    fn begin(mut self, threads: usize) -> Result<Opened, Failure> {
        let mut params = self.params.take().unwrap_or_else(|| self.kind.defaults());
        // The baseline of a file or a preset may not be among the policies that were named instead.
        let policies = self.experiment.policies();
        if policies
            .is_some_and(|names| params.baseline.as_ref().is_some_and(|b| !names.contains(b)))
        {
            params.baseline = None;
        }
        if self.flags.contains_key("aggregation") {
            params.aggregation = AggregationParams::default();
        }
        let mut params = params.with(&self.flags)?;
        let flags = self.flags.get("training").and_then(Value::as_table);
        let brings_data = ["data", "test", "label", "client"];
        if let Some(training) = &mut params.training
            && flags.is_some_and(|flags| brings_data.iter().any(|key| flags.contains_key(*key)))
        {
            // Those of a file were of the data that it named.
            training.checksums.clear();
        }
        let experiment = Experiment::new(params, &self.folders)?;
        if self.kind == Kind::Simulate {
            check_memory(&experiment, threads)?;
        }
        let RunArgs { out, force, .. } = self.run;
        let (dir, lock) =
            RunDir::begin(out.as_deref(), self.kind.command(), *force, experiment.params())?;
        Ok((experiment, dir, lock))
    }

    fn resume(self, path: &Path) -> Result<Opened, Failure> {
        let (params, dir, lock) = self.begun_before(path, " --resume")?;
        // Data may have been moved: they are known by their checksums.
        let asked = params.with(&self.flags)?;
        if let Some(Difference { key, before, now }) =
            params.difference(&asked.with_files_of(&params))?
        {
            let expected =
                format!("{before}: a resumed run keeps its settings (--extend asks for more)");
            return Err(Error::new(key, now, expected).into());
        }
        let params = params.with_files_of(&asked);
        Ok((Experiment::new(params, &self.folders)?, dir, lock))
    }

    fn extend(self, path: &Path) -> Result<Opened, Failure> {
        let (before, dir, lock) = self.begun_before(path, " --extend")?;
        let mut flags = self.flags.clone();
        flags.remove("policies");
        let more = self.experiment.policies().unwrap_or_default();
        let params = before.with(&flags)?.with_more_policies(more);
        // Everything that can be wrong is found before the run is changed.
        let experiment = Experiment::new(params, &self.folders)?;
        run_dir::extend(&dir, experiment.params())?;
        Ok((experiment, dir, lock))
    }

    fn begun_before(
        &self,
        path: &Path,
        flag: &str,
    ) -> Result<(ExperimentParams, RunDir, File), Failure> {
        let dir = RunDir::open(path)?;
        // Another process may be extending the run: what it was asked for is known only when that one has let go.
        let lock = dir.lock()?;
        let params = dir.read_config()?;
        self.kind.check(&params, &path.display().to_string(), flag)?;
        Ok((params, dir, lock))
    }
}

/// The cores of this machine.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What a directory that cannot be written to means for the run, and what to do.
fn hint(error: ReportError, go_on: &str) -> Failure {
    match error {
        ReportError::Experiment(ExperimentError::RunDir(RunDirError::Io { .. })) => {
            Failure::Io(format!("{error}\nNothing that was written is lost: {go_on}"))
        }
        error => error.into(),
    }
}

/// Warns where a maximum age costs variance that `auto` would not.
fn warn_of_max_age(experiment: &Experiment) -> Result<(), Failure> {
    for (name, cost) in experiment.max_age_costs()? {
        // If standard error is closed too, there is nowhere left to write.
        let _ =
            writeln!(std::io::stderr(), "{}", table::prose(&format!("caution: {name}: {cost}")));
    }
    Ok(())
}

/// A flag that is set by the first Ctrl-C; the second one ends the program at once.
fn stop_on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::Io(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(stop)
}

/// Refuses what cannot fit, before it takes the machine down; says nothing where the memory is not known.
fn check_memory(experiment: &Experiment, threads: usize) -> Result<(), Failure> {
    let needed = experiment.memory(threads);
    let Some(available) = available_memory().filter(|&available| needed > available) else {
        return Ok(());
    };
    let params = experiment.params();
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    let expected = format!(
        "less: it needs about {:.1} GB of memory, and {:.1} GB are free",
        gigabytes(needed),
        gigabytes(available)
    );
    let value = format!(
        "{}, rounds = {}, policies = {}, seeds = {}",
        params.clients,
        params.rounds,
        params.policies.len(),
        params.seeds
    );
    Err(Error::new("clients", value, expected).into())
}

/// What the system says can be used without swapping.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}
