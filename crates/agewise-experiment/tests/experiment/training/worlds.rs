//! Small problems, and ways to play them.

use agewise_core::{Draws, MaxAge, Seed, Stream};
use agewise_experiment::run_dir::CHECKPOINTS;
use agewise_experiment::{
    Callbacks, Experiment, ExperimentParams, NoCallbacks, Record, RoundLog, RunDir, RunId,
    TrainingParams, TrainingRun,
};
use agewise_train::checkpoint::{Checkpoint, Metadata};
use agewise_train::data::{Dataset, ImageShape, Images};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tempfile::TempDir;

/// Classes of the made-up images.
pub(crate) const CLASSES: usize = 4;
/// Parameters of one dense layer from their 16 pixels to their 4 classes.
pub(crate) const PARAMETERS: usize = 16 * 4 + 4;

/// Images of 4 x 4 pixels: the rows of a class are brighter than the noise, so that they can be learned in a few rounds
/// but not at once.
fn made_up_images(count: usize, stream: u16) -> Images {
    let draws = Draws::new(Seed(11), Stream::custom(stream.into()), 0);
    let label = |image: usize| image % CLASSES;
    let pixel = |place: usize| {
        let (image, row) = (place / 16, place % 16 / 4);
        let bright = if row == label(image) { 70.0 } else { 0.0 };
        (bright + 180.0 * draws.of(place as u64).unit()) as u8
    };
    let pixels: Vec<u8> = (0..16 * count).map(pixel).collect();
    let labels: Vec<u8> = (0..count).map(|image| label(image) as u8).collect();
    Images::new(ImageShape::new(1, 4, 4), CLASSES as u32, pixels, labels).unwrap()
}

/// Policies that probe before they select, or look at sketches, losses, their squares or durations.
pub(crate) const FIELD: [&str; 6] =
    ["age-herding", "oort", "power-of-choice", "clustered(by=2)", "divfl", "active"];

/// A comparison of those, with clients that differ in size and speed.
pub(crate) fn field() -> ExperimentParams {
    let params = ExperimentParams { sizes: "lognormal:0.5".into(), ..small(&FIELD) };
    trained(params, |training| training.speeds = "lognormal:1".into())
}

/// 480 images to learn from and 200 to be tested on.
pub(crate) fn made_up() -> Dataset {
    let (train, test) = (made_up_images(480, 1_001), made_up_images(200, 1_002));
    Dataset::new("made-up", train, test)
}

/// 12 clients, 4 of them per round, 7 rounds of a few steps.
pub(crate) fn small(policies: &[&str]) -> ExperimentParams {
    ExperimentParams {
        clients: 12,
        cohort: 4,
        max_age: MaxAge::Fixed(6),
        policies: policies.iter().map(ToString::to_string).collect(),
        baseline: Some(policies[0].to_string()),
        rounds: 7,
        seed: 5,
        seeds: 2,
        training: Some(TrainingParams {
            data: "made-up".to_string(),
            model: "softmax".to_string(),
            local_work: "3 steps".to_string(),
            batch: 5,
            learning_rate: 0.05,
            targets: vec![0.4, 0.7],
            ..TrainingParams::default()
        }),
        ..ExperimentParams::comparison()
    }
}

/// The same with another training.
pub(crate) fn trained(
    mut params: ExperimentParams,
    change: impl FnOnce(&mut TrainingParams),
) -> ExperimentParams {
    change(params.training.as_mut().unwrap());
    params
}

/// The experiment of these parameters on the made-up images.
pub(crate) fn experiment(params: ExperimentParams) -> Experiment {
    Experiment::with_data(params, made_up()).unwrap()
}

pub(crate) fn run(seed: u32, variant: usize) -> RunId {
    RunId { seed, variant }
}

/// What was logged of a training run.
pub(crate) fn logs(record: &Record) -> &[RoundLog] {
    &record.training.as_ref().unwrap().logs
}

/// A model by its bits: -0 is not 0 here.
pub(crate) fn bits(model: &[f32]) -> Vec<u32> {
    model.iter().map(|value| value.to_bits()).collect()
}

/// A run directory that goes when it is dropped.
pub(crate) struct Dir {
    pub(crate) dir: RunDir,
    pub(crate) temporary: TempDir,
}

impl Dir {
    /// For an experiment, of which nothing is played yet.
    pub(crate) fn new(experiment: &Experiment) -> Self {
        let temporary = TempDir::new().unwrap();
        let dir = RunDir::create(Some(temporary.path()), "test", true).unwrap();
        dir.write_config(experiment.params()).unwrap();
        Self { dir, temporary }
    }

    /// The bytes of all files by name, but for the times.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.temporary.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(self.temporary.path()).unwrap();
                let name = name.to_string_lossy().into_owned();
                if name != "timing.csv" && name != "provenance.json" {
                    files.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
        files
    }

    /// The last models of all runs by their bits.
    pub(crate) fn models(&self, experiment: &Experiment) -> BTreeMap<RunId, Vec<u32>> {
        let tensors = experiment.task().unwrap().tensors();
        let model = |id: RunId| {
            let newest = [0, 1].iter().filter_map(|turn| {
                let (variant, seed) = (id.variant, id.seed);
                let name = format!("{CHECKPOINTS}/{variant:03}-{seed:05}-{turn}.safetensors");
                let bytes = self.dir.read_bytes(&name).unwrap()?;
                Checkpoint::decode(&bytes, &tensors).ok()
            });
            let newest = newest.max_by_key(|checkpoint| checkpoint.metadata.round)?;
            Some((id, bits(&newest.parameters)))
        };
        experiment.runs().into_iter().filter_map(model).collect()
    }

    /// Plays what is left.
    pub(crate) fn play(&self, experiment: &Experiment, threads: usize) -> Vec<Record> {
        self.play_until(experiment, threads, usize::MAX)
    }

    /// Plays until so many rounds more are behind it.
    pub(crate) fn play_until(
        &self,
        experiment: &Experiment,
        threads: usize,
        rounds: usize,
    ) -> Vec<Record> {
        let stopper = Stopper { left: AtomicUsize::new(rounds), stop: AtomicBool::new(false) };
        let dir = Some(&self.dir);
        let played = agewise_experiment::play(experiment, dir, threads, &stopper, &stopper.stop);
        played.unwrap().records
    }
}

/// Stops when so many rounds were played.
struct Stopper {
    left: AtomicUsize,
    stop: AtomicBool,
}

impl Callbacks for Stopper {
    fn on_rounds(&self, _: RunId, rounds: u64, _: &[RoundLog]) {
        let rounds = rounds as usize;
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            Some(left.saturating_sub(rounds))
        });
        if left.unwrap() <= rounds {
            self.stop.store(true, Ordering::SeqCst);
        }
    }
}

/// All runs in one go, with their last models.
pub(crate) fn play(
    experiment: &Experiment,
    threads: usize,
) -> (Vec<Record>, BTreeMap<RunId, Vec<u32>>) {
    let dir = Dir::new(experiment);
    let records = dir.play(experiment, threads);
    (records, dir.models(experiment))
}

/// All runs in one go, without a run directory.
pub(crate) fn play_in_memory(experiment: &Experiment, threads: usize) -> Vec<Record> {
    let stop = AtomicBool::new(false);
    agewise_experiment::play(experiment, None, threads, &NoCallbacks, &stop).unwrap().records
}

/// What is needed to go on with a run.
pub(crate) fn checkpoint(run: &TrainingRun<'_>) -> Checkpoint {
    let (sketched, sketches) = run.sketches();
    let state = run.server_state().into_iter();
    Checkpoint {
        metadata: Metadata { round: run.logs().len() as u64, ..Metadata::default() },
        parameters: run.global().to_vec(),
        server: state.map(|(name, values)| (name.to_string(), values.to_vec())).collect(),
        sketched,
        sketches,
    }
}
