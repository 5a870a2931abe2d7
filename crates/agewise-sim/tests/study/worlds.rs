//! Small problems, and a watcher that keeps everything in memory.

use agewise_core::{Error, Lots, Result, Seed, Stream};
use agewise_learn::data::{Dataset, ImageShape, Images};
use agewise_sim::study::{
    Checkpoint, Record, RoundLog, RunId, Study, StudyParams, TrainingRun, Watcher, play_all,
};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Classes of the made-up images.
pub(crate) const CLASSES: usize = 4;
/// Parameters of one dense layer from their 16 pixels to their 4 classes.
pub(crate) const PARAMETERS: usize = 16 * 4 + 4;

/// Images of 4 x 4 pixels: the rows of a class are brighter than the noise, so that they can be learned in a few rounds
/// but not at once.
fn made_up_images(count: usize, stream: u16) -> Images {
    let lots = Lots::new(Seed(11), Stream::custom(stream.into()), 0);
    let label = |image: usize| image % CLASSES;
    let pixel = |place: usize| {
        let (image, row) = (place / 16, place % 16 / 4);
        let bright = if row == label(image) { 70.0 } else { 0.0 };
        (bright + 180.0 * lots.of(place as u64).unit()) as u8
    };
    let pixels: Vec<u8> = (0..16 * count).map(pixel).collect();
    let labels: Vec<u8> = (0..count).map(|image| label(image) as u8).collect();
    Images::new(ImageShape::new(1, 4, 4), CLASSES as u32, pixels, labels).unwrap()
}

/// Policies that ask before they choose, or look at sketches, losses, their squares or durations.
pub(crate) const FIELD: [&str; 6] =
    ["age-herding", "oort", "power-of-choice", "clustered(by=2)", "divfl", "active"];

/// A comparison of those, with clients that differ in size and speed.
pub(crate) fn field() -> StudyParams {
    StudyParams {
        sizes: "lognormal:0.5".to_string(),
        speeds: "lognormal:1".to_string(),
        ..small(&FIELD)
    }
}

/// 480 images to learn from and 200 to be tested on.
pub(crate) fn made_up() -> Dataset {
    let (train, test) = (made_up_images(480, 1_001), made_up_images(200, 1_002));
    Dataset { name: "made-up".to_string(), train, test }
}

/// 12 clients, 4 of them per round, 7 rounds of a few steps.
pub(crate) fn small(policies: &[&str]) -> StudyParams {
    StudyParams {
        data: "made-up".to_string(),
        clients: 12,
        cohort: 4,
        max_age: 6,
        policies: policies.iter().map(ToString::to_string).collect(),
        baseline: policies[0].to_string(),
        model: "softmax".to_string(),
        local_work: "3 steps".to_string(),
        batch: 5,
        learning_rate: 0.05,
        rounds: 7,
        targets: vec![0.4, 0.7],
        seed: 5,
        seeds: 2,
        ..StudyParams::default()
    }
}

/// The study of these parameters on the made-up images.
pub(crate) fn study(params: StudyParams) -> Study {
    Study::new(params, made_up()).unwrap()
}

/// A model by its bits: -0 is not 0 here.
pub(crate) fn bits(model: &[f32]) -> Vec<u32> {
    model.iter().map(|value| value.to_bits()).collect()
}

/// What a store knows of a run.
#[derive(Default, Clone)]
pub(crate) struct Kept {
    pub(crate) logs: Vec<RoundLog>,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// The last model by its bits, once the run is finished.
    pub(crate) model: Option<Vec<u32>>,
}

/// Keeps logs of every round and a checkpoint of every few, and stops or fails when so many rounds were played.
pub(crate) struct Store {
    pub(crate) runs: Mutex<BTreeMap<RunId, Kept>>,
    pub(crate) played: AtomicUsize,
    pub(crate) stop_at: AtomicUsize,
    pub(crate) fail_at: AtomicUsize,
    keep_every: usize,
}

impl Store {
    pub(crate) fn new(keep_every: usize) -> Self {
        Self {
            runs: Mutex::default(),
            played: AtomicUsize::new(0),
            stop_at: AtomicUsize::new(usize::MAX),
            fail_at: AtomicUsize::new(usize::MAX),
            keep_every,
        }
    }

    /// The models of all finished runs.
    pub(crate) fn models(&self) -> BTreeMap<RunId, Option<Vec<u32>>> {
        let runs = self.runs.lock().unwrap();
        runs.iter().map(|(&id, kept)| (id, kept.model.clone())).collect()
    }
}

impl Watcher for Store {
    type Failure = Error;

    fn known(&self, id: RunId) -> Result<(Vec<RoundLog>, Option<Checkpoint>)> {
        let kept = self.runs.lock().unwrap().get(&id).cloned().unwrap_or_default();
        Ok((kept.logs, kept.checkpoint))
    }

    fn begun(&self, id: RunId, logs: &[RoundLog]) -> Result<()> {
        let mut runs = self.runs.lock().unwrap();
        let kept = runs.entry(id).or_default();
        assert_eq!(logs, &kept.logs[..logs.len()], "{id:?} goes on with what it was given");
        Ok(())
    }

    fn round(&self, id: RunId, run: &TrainingRun<'_>) -> Result<()> {
        let mut runs = self.runs.lock().unwrap();
        let kept = runs.entry(id).or_default();
        kept.logs = run.logs().to_vec();
        if kept.logs.len().is_multiple_of(self.keep_every) {
            kept.checkpoint = Some(checkpoint(run));
        }
        if self.played.fetch_add(1, Ordering::SeqCst) + 1 == self.fail_at.load(Ordering::SeqCst) {
            return Err(Error::new("disk", "full", "room"));
        }
        Ok(())
    }

    fn finished(&self, id: RunId, run: Option<&TrainingRun<'_>>) -> Result<()> {
        if let Some(run) = run {
            self.runs.lock().unwrap().entry(id).or_default().model = Some(bits(run.global()));
        }
        Ok(())
    }

    fn wants_model(&self, _: RunId) -> bool {
        false
    }

    fn should_stop(&self) -> bool {
        self.played.load(Ordering::SeqCst) >= self.stop_at.load(Ordering::SeqCst)
    }
}

/// What is needed to go on with a run.
pub(crate) fn checkpoint(run: &TrainingRun<'_>) -> Checkpoint {
    let (sketched, sketches) = run.sketches();
    Checkpoint {
        rounds: run.logs().len() as u64,
        global: run.global().to_vec(),
        server: run.server().clone(),
        sketched,
        sketches,
    }
}

/// All runs of a study in one go, with their last models.
pub(crate) fn play(study: &Study, threads: usize) -> (Vec<Record>, BTreeMap<RunId, Vec<u32>>) {
    let store = Store::new(1);
    let records = play_all(study, threads, &store).unwrap();
    let models = store.models().into_iter().map(|(id, model)| (id, model.unwrap())).collect();
    (records, models)
}
