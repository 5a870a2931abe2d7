//! Golden hashes: the bits of training and evaluation on every backend of this machine, against the table in the
//! repository, through which machines check each other.

use super::reference::cases::noise;
use agewise_core::Seed;
use agewise_train::aggregation::{Aggregation, Contribution};
use agewise_train::data::{Data, ImageShape, Images, Labels, SampleSet, Table, embedded_digits};
use agewise_train::local::{LocalTrainingParams, LocalWork, Samples};
use agewise_train::task::{PartitionKey, Task};
use agewise_train::{Backend, NativeTask, RoundEngine, RoundPlan, Threads};
use sha2::{Digest, Sha256};

const TABLE: &str = include_str!("../../../../golden-hashes.txt");

/// The hash that the table has for a name.
fn golden(name: &str) -> Option<&'static str> {
    TABLE.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Samples for a model: the digits, colours of noise, of which a crop is seen, or numbers to be predicted.
fn data(model: &str) -> Data {
    let split = |images: fn(u64) -> SampleSet| Data::new("noise", images(1), images(2));
    match model {
        "cnn-cifar" => {
            split(|seed| SampleSet::Images(noise(ImageShape::new(3, 28, 28), 10, 60, seed)))
        }
        "linear" => split(|seed| {
            let images = noise(ImageShape::flat(17), 10, 60, seed);
            SampleSet::Table(numbers(&images))
        })
        .standardised(),
        _ => embedded_digits().unwrap().into(),
    }
}

/// Pixels as features, and a number for each image that follows from them up to noise.
fn numbers(images: &Images) -> Table {
    let pixel = |byte: &u8| f32::from(*byte) / 64.0;
    let number = |index: usize| {
        let signs = [1.0, -1.0].into_iter().cycle();
        let sum: f32 = images.image(index).iter().zip(signs).map(|(x, sign)| sign * pixel(x)).sum();
        sum + f32::from(images.label(index))
    };
    let features: Vec<f32> = (0..images.len()).flat_map(|i| images.image(i)).map(pixel).collect();
    let labels: Vec<f32> = (0..images.len()).map(number).collect();
    Table::new(images.shape(), features, Labels::Numbers(labels.into())).unwrap()
}

/// Three rounds of two clients with ten samples each, and an evaluation of 25 test samples.
fn hash(model: &str, backend: Backend, threads: usize, params: LocalTrainingParams) -> String {
    let data = data(model);
    let clients = (data.train.len() / 10) as u32;
    let key = PartitionKey { seed: Seed(3), clients };
    let threads = Threads::new(threads).unwrap();
    let task = NativeTask::named(data, model, params.check().unwrap()).unwrap();
    let task = task.with_backend(backend).unwrap();
    let mut server =
        RoundEngine::new(task.initial(Seed(3)).unwrap(), &Aggregation::default()).unwrap();
    let mut sum = Sha256::new();
    for round in 0..3 {
        let cohort = [0, 1].map(|client| Contribution::new(client + 2 * round, 0.5));
        let plan = RoundPlan::new(key, u64::from(round));
        server.round(&task, plan, &cohort, threads).unwrap();
    }
    for value in server.global() {
        sum.update(value.to_bits().to_le_bytes());
    }
    let indices: Vec<u32> = (0..25).collect();
    let samples = match &task.data().test {
        SampleSet::Images(images) => Samples::of_images(images, Some(&indices), task.pixels()),
        SampleSet::Table(table) => Samples::of_table(table, Some(&indices)),
    };
    let evaluation = task.with_worker(|worker| worker.evaluate(server.global(), &samples)).unwrap();
    sum.update(evaluation.loss_sum.to_bits().to_le_bytes());
    for count in &evaluation.class_correct {
        sum.update(count.to_le_bytes());
    }
    let bytes = sum.finalize();
    let first = bytes[..8].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{first:016x}")
}

#[test]
fn every_backend_has_the_bits_of_the_table() {
    let plain = LocalTrainingParams {
        work: LocalWork::Epochs(1),
        batch: 7,
        learning_rate: 0.05,
        ..LocalTrainingParams::default()
    };
    let pulled = LocalTrainingParams { momentum: 0.9, proximal: 0.1, ..plain };
    let mut missing = Vec::new();
    for model in ["linear", "softmax", "mlp:64,32", "2nn", "cnn", "cnn-cifar"] {
        let is_small = !model.starts_with("cnn");
        // Only images can be augmented.
        let augment = model != "linear";
        let pulled_and_augmented = LocalTrainingParams { augment, ..pulled };
        let decayed = LocalTrainingParams { augment, weight_decay: 0.01, ..plain };
        for (name, params, is_played) in [
            ("plain", plain, true),
            ("augmented, decayed", decayed, is_small && augment),
            ("decayed", decayed, is_small && !augment),
            ("momentum, proximal", pulled, is_small),
            ("momentum, proximal, augmented", pulled_and_augmented, augment),
        ] {
            // In portable code a convolution takes its time.
            if !is_played {
                continue;
            }
            let name = format!("{model}, {name}");
            let alone = Backend::available().into_iter().map(|backend| (backend, 1));
            for (backend, threads) in alone.chain([(Backend::fastest(), 2)]) {
                let found = hash(model, backend, threads, params);
                if golden(&name) != Some(&found) {
                    missing.push(format!("{name}: {found} ({backend}, {threads} threads)"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "not in golden-hashes.txt:\n{}", missing.join("\n"));
}
