//! The selection simulator's run folder: tables, figures and a report around [`agewise_sim`].

mod figures;
mod page;
mod tables;

pub(crate) use figures::lorenz_curve;

use crate::core::{Result, Start};
use crate::report::DrawError;
use crate::run_folder::{CONFIG, FolderError, RunFolder, fingerprint};
use crate::sim::{Run, RunRecord, Simulation, Summary, play};
use rayon::prelude::*;
use std::fmt;

/// Runs that are finished while others are not, one file each; gone when the simulation is complete.
const FINISHED: &str = "finished-runs";
/// Larger populations are run one after the other: each run uses all cores, and memory counts.
const SIDE_BY_SIDE: u64 = 1_000_000;
/// The last but one of the files that are written: where it is, everything else is.
const REPORT: &str = "report.html";

/// Everything that a simulation writes beside its configuration.
pub(crate) const RESULTS: [&str; 7] =
    ["summary.json", "rounds.csv", "intervals.csv", "windows.csv", "figures", REPORT, FINISHED];

/// Why a simulation could not be finished.
#[derive(Debug)]
pub enum SimulateError {
    /// Its parameters.
    Input(crate::core::Error),
    /// Its folder.
    Folder(FolderError),
    /// A figure.
    Draw(DrawError),
    /// A file that this program wrote and cannot read again.
    Unreadable(String),
    /// Whoever hears of the rounds did not want to go on.
    Stopped,
}

impl fmt::Display for SimulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::Folder(error) => error.fmt(f),
            Self::Draw(error) => error.fmt(f),
            Self::Unreadable(message) => f.write_str(message),
            Self::Stopped => f.write_str("stopped before the last round"),
        }
    }
}

impl std::error::Error for SimulateError {}

impl From<crate::core::Error> for SimulateError {
    fn from(error: crate::core::Error) -> Self {
        Self::Input(error)
    }
}

impl From<FolderError> for SimulateError {
    fn from(error: FolderError) -> Self {
        Self::Folder(error)
    }
}

impl From<DrawError> for SimulateError {
    fn from(error: DrawError) -> Self {
        Self::Draw(error)
    }
}

/// A finished simulation.
#[derive(Debug)]
pub struct Finished {
    /// What was simulated.
    pub simulation: Simulation,
    /// The runs: by policy, then by seed.
    pub runs: Vec<Vec<RunRecord>>,
    /// The figures.
    pub summary: Summary,
    /// For age laws, the first rounds from the other start: what a cold start does, side by side.
    other_start: Vec<Option<Vec<u64>>>,
}

impl Finished {
    /// Plays all runs, or takes those from the folder that are finished already.
    ///
    /// `on_rounds` hears of every round that is played or taken over, and says whether to go on. Each finished run is
    /// stored at once, so that a simulation that is interrupted loses at most the runs that were under way.
    pub fn play(
        simulation: Simulation,
        folder: Option<&RunFolder>,
        on_rounds: &(dyn Fn(u64) -> bool + Sync),
    ) -> std::result::Result<Self, SimulateError> {
        let seeds = simulation.params().seeds;
        let units: Vec<(usize, u32)> = (0..simulation.policies().len())
            .flat_map(|policy| (0..seeds).map(move |seed| (policy, seed)))
            .collect();
        let stored = format!("{FINISHED}/{:016x}", fingerprint(&config_text(&simulation)?));
        let play = |&(policy, seed): &(usize, u32)| {
            let name = format!("{stored}-{policy:03}-{seed:05}.json");
            finish_run(&simulation, policy, seed, folder.map(|folder| (folder, name)), on_rounds)
        };
        let records: Vec<RunRecord> = if simulation.params().clients <= SIDE_BY_SIDE {
            units.par_iter().map(play).collect::<std::result::Result<_, _>>()?
        } else {
            units.iter().map(play).collect::<std::result::Result<_, _>>()?
        };
        let mut records = records.into_iter();
        let runs: Vec<Vec<RunRecord>> = (0..simulation.policies().len())
            .map(|_| records.by_ref().take(seeds as usize).collect())
            .collect();
        let summary = Summary::new(&simulation, &runs)?;
        let other_start = (0..simulation.policies().len())
            .map(|policy| other_start(&simulation, policy))
            .collect::<Result<_>>()?;
        Ok(Self { simulation, runs, summary, other_start })
    }

    /// Writes everything into the folder of the run.
    pub fn write(&self, folder: &RunFolder) -> std::result::Result<(), SimulateError> {
        folder.write("summary.json", pretty(&self.summary)?.as_bytes())?;
        folder.write("rounds.csv", self.rounds_csv().as_bytes())?;
        folder.write("intervals.csv", self.intervals_csv()?.as_bytes())?;
        folder.write("windows.csv", self.windows_csv().as_bytes())?;
        let figures = self.figures()?;
        for figure in &figures {
            let svg = figure.figure.to_svg();
            folder.write(&format!("figures/{}.svg", figure.name), svg.as_bytes())?;
        }
        let pictures: Vec<_> = figures.par_iter().map(|figure| figure.figure.to_png(2.0)).collect();
        for (figure, picture) in figures.iter().zip(pictures) {
            folder.write(&format!("figures/{}.png", figure.name), &picture?)?;
        }
        folder.write(REPORT, self.page(&figures)?.to_html().as_bytes())?;
        folder.remove(FINISHED)?;
        Ok(())
    }
}

/// Stores the configuration; the first thing that is written, so that a folder that cannot be written to is
/// noticed before the work.
pub fn write_config(
    simulation: &Simulation,
    folder: &RunFolder,
) -> std::result::Result<(), SimulateError> {
    folder.write(CONFIG, config_text(simulation)?.as_bytes())?;
    Ok(())
}

fn config_text(simulation: &Simulation) -> std::result::Result<String, SimulateError> {
    let text = toml::to_string(simulation.params());
    text.map_err(|error| SimulateError::Unreadable(format!("cannot write {CONFIG}: {error}")))
}

/// Removes what an earlier simulation left in the folder, so that its results cannot be taken for the new ones.
pub fn clear(folder: &RunFolder) -> std::result::Result<(), SimulateError> {
    for name in RESULTS {
        folder.remove(name)?;
    }
    Ok(())
}

/// Whether the simulation of a folder is finished.
pub fn is_complete(folder: &RunFolder) -> std::result::Result<bool, SimulateError> {
    Ok(folder.read(REPORT)?.is_some() && !folder.path().join(FINISHED).exists())
}

/// How many runs are played at the same time.
pub fn side_by_side(simulation: &Simulation) -> u64 {
    if simulation.params().clients <= SIDE_BY_SIDE {
        rayon::current_num_threads() as u64
    } else {
        1
    }
}

fn finish_run(
    simulation: &Simulation,
    policy: usize,
    seed: u32,
    stored: Option<(&RunFolder, String)>,
    on_rounds: &(dyn Fn(u64) -> bool + Sync),
) -> std::result::Result<RunRecord, SimulateError> {
    let Some((folder, name)) = stored else {
        return play_out(simulation, policy, seed, on_rounds);
    };
    let unreadable = |error: &dyn fmt::Display| {
        SimulateError::Unreadable(format!("{name}: cannot be read ({error}); remove it to go on"))
    };
    if let Some(text) = folder.read(&name)? {
        let record: RunRecord = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
        if record.rounds.len() as u64 != simulation.params().rounds {
            return Err(unreadable(&"it has another number of rounds"));
        }
        if !on_rounds(simulation.params().rounds) {
            return Err(SimulateError::Stopped);
        }
        return Ok(record);
    }
    let record = play_out(simulation, policy, seed, on_rounds)?;
    let text = serde_json::to_string(&record).map_err(|error| unreadable(&error))?;
    folder.write(&name, text.as_bytes())?;
    Ok(record)
}

/// Plays a run to its end, unless somebody stops it.
fn play_out(
    simulation: &Simulation,
    policy: usize,
    seed: u32,
    on_rounds: &(dyn Fn(u64) -> bool + Sync),
) -> std::result::Result<RunRecord, SimulateError> {
    let mut run = Run::new(simulation.run(policy, seed))?;
    run.play_while(|_| on_rounds(1))?;
    if !run.is_finished() {
        return Err(SimulateError::Stopped);
    }
    Ok(RunRecord::from(run.outcome()))
}

/// The cohort sizes of an age law's first rounds from the start that was not asked for.
fn other_start(simulation: &Simulation, policy: usize) -> Result<Option<Vec<u64>>> {
    const ROUNDS: u64 = 60;
    let mut spec = simulation.run(policy, 0);
    let is_law = crate::core::build_policy(&spec.policy, &spec.setting)?.law_family().is_some();
    if !is_law || simulation.params().clients > SIDE_BY_SIDE {
        return Ok(None);
    }
    spec.start = match spec.start {
        Start::Stationary => Start::Cold,
        Start::Cold => Start::Stationary,
    };
    spec.rounds = spec.rounds.min(ROUNDS);
    spec.warmup = 0;
    let outcome = play(spec, |_| {})?;
    Ok(Some(outcome.rows.iter().map(|row| row.reported).collect()))
}

/// One JSON document, for people and programs.
pub fn pretty(summary: &Summary) -> std::result::Result<String, SimulateError> {
    let text = serde_json::to_string_pretty(summary);
    let text = text.map_err(|error| SimulateError::Unreadable(format!("summary.json: {error}")))?;
    Ok(text + "\n")
}
