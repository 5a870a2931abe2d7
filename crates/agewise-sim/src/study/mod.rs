//! The federated training simulator: policies side by side on real data, paired by design.
//!
//! A [`Study`] is a comparison whose parameters fit its data. For one seed every policy gets the same split, the same
//! first model and, for the same client and round, the same batches, so that differences come from selection alone. A
//! [`TrainingRun`] is one policy under one seed; [`play_all`] plays all of them on a number of threads. Everything that
//! a run says about itself is in its [`RoundLog`]s: a [`Record`] is made from them alone, so a run that was read from a
//! file counts as much as one that was just played, and resuming is exact.

mod contender;
mod gaps;
mod lanes;
mod log;
mod params;
mod questions;
mod record;
mod run;
mod speeds;
mod summary;

pub use contender::Contender;
pub use gaps::{GapLog, GapRecord, Optima};
pub use lanes::{RunId, Unwatched, Watcher, play_all};
pub use log::{RoundLog, TestScore};
pub use params::StudyParams;
pub use record::{ClientRecord, CurvePoint, Record};
pub use run::{Checkpoint, TrainingRun};
pub use speeds::SpeedLaw;
pub use summary::{ContenderSummary, Measure, Pair, RoundsTo, StudySummary, Verdict};

use agewise_core::{Error, Result, Seed, Setting, SettingParams, Sizes, build_policy};
use agewise_learn::aggregate::Server;
use agewise_learn::data::{Dataset, Partition, PartitionLaw, PartitionParams, PixelTable};
use agewise_learn::model::{Model, ModelSpec};
use agewise_learn::train::{Learner, LocalTraining, Samples, Trainer};
use std::sync::{Arc, Mutex, OnceLock};

/// A comparison that can be run.
pub struct Study {
    params: StudyParams,
    dataset: Dataset,
    pixels: PixelTable,
    contenders: Vec<Contender>,
    baseline: usize,
    trainer: Trainer,
    training: LocalTraining,
    speeds: SpeedLaw,
    /// Without the sizes of the split, which depend on the seed.
    setting: SettingParams,
    scenes: Vec<OnceLock<Scene>>,
}

/// What all policies share under one seed.
pub struct Scene {
    /// The seed.
    pub seed: Seed,
    /// Who has which images.
    pub partition: Partition,
    /// The selection problem, with the sizes of the split.
    pub setting: Setting,
    /// The first model.
    pub first: Vec<f32>,
    /// How long each client trains in a round, in simulated seconds.
    pub durations: Vec<f32>,
    /// What is known about the objectives, once it was looked for.
    optima: Mutex<Option<Arc<Optima>>>,
}

impl Scene {
    /// How long a round took in simulated time: as long as the slowest client of its cohort.
    pub fn seconds(&self, log: &RoundLog) -> f64 {
        let durations =
            log.clients.iter().filter_map(|&client| self.durations.get(client as usize));
        durations.fold(0.0, |slowest, &duration| f64::from(duration).max(slowest))
    }
}

impl Study {
    /// Checks the parameters against the data.
    pub fn new(params: StudyParams, dataset: Dataset) -> Result<Self> {
        let classes = dataset.train.classes() as usize;
        let spec = ModelSpec::named(&params.model, dataset.train.shape(), classes)?;
        Self::with_model(params, dataset, spec)
    }

    /// The same with a model of your own.
    pub fn with_model(params: StudyParams, dataset: Dataset, spec: ModelSpec) -> Result<Self> {
        let contenders = params.contenders()?;
        let training = params.training()?;
        let speeds = params.speeds.parse()?;
        let setting = SettingParams {
            empty_cohort: params.empty_cohort,
            ..SettingParams::new(params.clients, params.cohort, params.max_age)
        };
        let checked = setting.clone().check()?;
        for contender in &contenders {
            build_policy(&contender.spec, &checked)?;
        }
        let labels = contenders.iter().map(|contender| contender.label.as_str());
        let spelled = Contender::parse(&params.baseline, params.start, params.weighting)
            .map_or_else(|_| params.baseline.clone(), |contender| contender.label);
        let baseline = labels.clone().position(|label| label == spelled);
        let baseline =
            baseline.ok_or_else(|| Error::unknown("baseline", &params.baseline, labels))?;
        let trainer = Trainer::new(Model::new(spec)?);
        Server::new(params.server, trainer.parameters())?;
        let pixels = PixelTable::new(params.pixels, &dataset.train);
        let scenes = (0..params.seeds).map(|_| OnceLock::new()).collect();
        let study = Self {
            params,
            dataset,
            pixels,
            contenders,
            baseline,
            trainer,
            training,
            speeds,
            setting,
            scenes,
        };
        study.check_bound()?;
        study.split(0)?;
        Ok(study)
    }

    /// The parameters it was made from.
    pub fn params(&self) -> &StudyParams {
        &self.params
    }

    /// The policies, in the order in which they were named.
    pub fn contenders(&self) -> &[Contender] {
        &self.contenders
    }

    /// The policy of a run.
    fn contender(&self, id: RunId) -> Result<&Contender> {
        self.contenders.get(id.contender).ok_or_else(|| {
            let expected = format!("a number under {}", self.contenders.len());
            Error::new("contender", id.contender, expected)
        })
    }

    /// The place of the policy with which the others are compared.
    pub fn baseline(&self) -> usize {
        self.baseline
    }

    /// The data.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The learning engine with its model.
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    /// How clients train.
    pub fn training(&self) -> &LocalTraining {
        &self.training
    }

    /// How fast clients are.
    pub fn speeds(&self) -> SpeedLaw {
        self.speeds
    }

    /// How pixels become numbers.
    pub fn pixels(&self) -> &PixelTable {
        &self.pixels
    }

    /// The seed of a number.
    pub fn seed(&self, index: u32) -> Seed {
        Seed(self.params.seed + u64::from(index))
    }

    /// What all policies share under one seed; made when it is first asked for.
    pub fn scene(&self, seed: u32) -> Result<&Scene> {
        let place = self.scenes.get(seed as usize).ok_or_else(|| {
            Error::new("seed", seed, format!("a number under {}", self.params.seeds))
        })?;
        if let Some(scene) = place.get() {
            return Ok(scene);
        }
        let (partition, sizes) = self.split(seed)?;
        let setting = SettingParams { sizes: Some(sizes), ..self.setting.clone() }.check()?;
        let first = self.trainer.initial(self.seed(seed));
        let durations = self.durations(&partition, self.seed(seed))?;
        // Another thread may have been faster; its scene is the same.
        let (seed, optima) = (self.seed(seed), Mutex::default());
        Ok(place.get_or_init(|| Scene { seed, partition, setting, first, durations, optima }))
    }

    /// The samples that each client trains in a round, divided by its speed.
    fn durations(&self, partition: &Partition, seed: Seed) -> Result<Vec<f32>> {
        let speeds = self.speeds.draw(partition.clients() as u32, seed)?;
        let samples = partition.sizes().into_iter().map(|size| self.training.samples(size));
        Ok(samples.zip(speeds).map(|(samples, speed)| (samples as f64 / speed) as f32).collect())
    }

    fn split(&self, seed: u32) -> Result<(Partition, Sizes)> {
        let partition = PartitionParams {
            law: self.params.partition.parse::<PartitionLaw>()?,
            sizes: self.params.sizes.parse()?,
            clients: self.params.clients,
            least: 1,
            seed: self.seed(seed),
        };
        let partition = partition.check(&self.dataset.train)?.split();
        let sizes = partition.core_sizes()?;
        Ok((partition, sizes))
    }

    /// The images of a client.
    pub fn samples<'a>(&'a self, scene: &'a Scene, client: u32) -> Samples<'a> {
        let indices = Some(scene.partition.of(client as usize));
        Samples { images: &self.dataset.train, indices, pixels: &self.pixels }
    }

    /// The test images.
    pub fn test_samples(&self) -> Samples<'_> {
        Samples::all(&self.dataset.test, &self.pixels)
    }

    /// How many test images of each class there are.
    pub fn test_counts(&self) -> Vec<u32> {
        self.dataset.test.class_counts()
    }

    /// Bytes that selections, and questions to clients that are not chosen, move: the model to the client, and back where
    /// it was trained.
    pub fn bytes_moved(&self, selections: u64, asked: u64) -> u64 {
        (2 * selections + asked) * 4 * self.trainer.parameters() as u64
    }

    /// Whether a round (from 0) ends with an evaluation.
    pub fn evaluates(&self, round: u64) -> bool {
        let StudyParams { rounds, eval_every, eval_from, .. } = self.params;
        let played = round + 1;
        let due = played >= eval_from && (played - eval_from).is_multiple_of(eval_every);
        due || played == rounds
    }

    /// Whether a run with these logs is at its end.
    pub fn is_finished(&self, logs: &[RoundLog]) -> bool {
        let counts = self.test_counts();
        let reached = |log: &RoundLog| {
            let accuracy = log.test.as_ref().and_then(|test| test.accuracy(&counts));
            // The targets increase, so the last one counts.
            accuracy >= self.params.targets.last().copied() && accuracy.is_some()
        };
        logs.len() as u64 >= self.params.rounds
            || (self.params.stop_at_target && logs.last().is_some_and(reached))
    }
}
