//! Golden hashes: the bits of training and evaluation on every backend of this machine, against the table in the
//! repository, through which machines check each other.

use super::reference::cases::noise;
use agewise_core::Seed;
use agewise_train::aggregation::{Aggregation, Contribution};
use agewise_train::data::{Dataset, ImageShape, embedded_digits};
use agewise_train::local::{LocalTrainingParams, LocalWork, Samples};
use agewise_train::task::{PartitionKey, Task};
use agewise_train::{Backend, NativeTask, RoundEngine, RoundPlan, Threads};
use sha2::{Digest, Sha256};

const TABLE: &str = include_str!("../../../../golden-hashes.txt");

/// The hash that the table has for a name.
fn golden(name: &str) -> Option<&'static str> {
    TABLE.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Images for a model: the digits, or colours of noise, of which a crop is seen.
fn data(model: &str) -> Dataset {
    if model == "cnn-cifar" {
        let images = |seed| noise(ImageShape::new(3, 28, 28), 10, 60, seed);
        return Dataset::new("noise", images(1), images(2));
    }
    embedded_digits().unwrap()
}

/// Three rounds of two clients with ten samples each, and an evaluation of 25 test images.
fn hash(model: &str, backend: Backend, params: LocalTrainingParams) -> String {
    let data = data(model);
    let clients = (data.train.len() / 10) as u32;
    let key = PartitionKey { seed: Seed(3), clients };
    let task = NativeTask::named(data, model, params.check().unwrap()).unwrap();
    let task = task.with_backend(backend).unwrap();
    let mut server =
        RoundEngine::new(task.initial(Seed(3)).unwrap(), &Aggregation::default()).unwrap();
    let mut sum = Sha256::new();
    for round in 0..3 {
        let cohort = [0, 1].map(|client| Contribution::new(client + 2 * round, 0.5));
        let plan = RoundPlan::new(key, u64::from(round));
        server.round(&task, plan, &cohort, Threads::ONE).unwrap();
    }
    for value in server.global() {
        sum.update(value.to_bits().to_le_bytes());
    }
    let indices: Vec<u32> = (0..25).collect();
    let images = task.images().unwrap().1;
    let samples = Samples::of_images(images, Some(&indices), task.pixels());
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
    for model in ["softmax", "2nn", "cnn", "cnn-cifar"] {
        let small = model == "softmax" || model == "2nn";
        let pulled_and_augmented = LocalTrainingParams { augment: true, ..pulled };
        let decayed = LocalTrainingParams { augment: true, weight_decay: 0.01, ..plain };
        for (name, params, is_played) in [
            ("plain", plain, true),
            ("augmented, decayed", decayed, small),
            ("momentum, proximal", pulled, small),
            ("momentum, proximal, augmented", pulled_and_augmented, true),
        ] {
            // In portable code a convolution takes its time.
            if !is_played {
                continue;
            }
            let name = format!("{model}, {name}");
            for backend in Backend::available() {
                let found = hash(model, backend, params);
                if golden(&name) != Some(&found) {
                    missing.push(format!("{name}: {found} ({backend})"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "not in golden-hashes.txt:\n{}", missing.join("\n"));
}
