//! Training and evaluation with one trainer per core, for `bench/training/run`.
//!
//! `cargo bench -p agewise-train --bench training -- MODEL MODE SECONDS`, MODE being `train` (batches of 50, plain SGD) or
//! `eval` (forward only), prints `MODEL MODE SAMPLES_PER_SECOND EXECUTED_GFLOP_PER_SECOND`. `-- gemm` prints the rate of
//! large matrix products on all cores, and `-- aggregate` the bandwidth of summing up 15 updates of `cnn` beside that
//! of a copy. The images are MNIST where AGEWISE_DATA names a folder that has it, and the embedded digits otherwise;
//! `cnn-cifar` gets the same pixels in three channels unless CIFAR-10 is found.

#![allow(clippy::disallowed_methods, reason = "no result comes of it")]

use agewise_core::Seed;
use agewise_train::aggregation::{Aggregation, Contribution, MemoryUpdates};
use agewise_train::data::{self, Dataset, ImageShape, Images, PixelNormalization, PixelScale};
use agewise_train::local::{LocalTask, LocalTrainingParams, LocalWork, Samples, Trainer};
use agewise_train::model::{Model, ModelSpec};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["gemm"] => println!("gemm f32 {:.1} 0", matrix_rate() / 1e9),
        ["aggregate"] => aggregate()?,
        [model, mode @ ("train" | "eval"), seconds] => {
            let (samples, operations) = rates(model, mode == "train", seconds.parse()?)?;
            println!("{model} {mode} {samples:.0} {:.1}", operations / 1e9);
        }
        _ => {
            for model in ["softmax", "2nn", "cnn", "cnn-cifar"] {
                for mode in ["train", "eval"] {
                    let (samples, operations) = rates(model, mode == "train", 2.0)?;
                    println!("{model} {mode} {samples:.0} {:.1}", operations / 1e9);
                }
            }
        }
    }
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn load(model: &str) -> Result<Dataset, Box<dyn Error>> {
    let folders: Vec<PathBuf> =
        std::env::var_os("AGEWISE_DATA").map(PathBuf::from).into_iter().collect();
    if model == "cnn-cifar" {
        if let Ok(dataset) = data::load("cifar-10", &folders) {
            return Ok(dataset);
        }
        let digits = digits(&folders)?;
        return Ok(Dataset { train: in_colour(&digits.train)?, ..digits });
    }
    digits(&folders)
}

fn digits(folders: &[PathBuf]) -> Result<Dataset, Box<dyn Error>> {
    match data::load("mnist", folders) {
        Ok(dataset) => Ok(dataset),
        Err(_) => Ok(data::embedded_digits()?),
    }
}

/// The same pixels in three channels.
fn in_colour(images: &Images) -> Result<Images, Box<dyn Error>> {
    let shape = ImageShape { channels: 3, ..images.shape() };
    let pixels: Vec<u8> = images.pixels().iter().flat_map(|&pixel| [pixel; 3]).collect();
    Ok(Images::new(shape, images.classes(), pixels, images.labels().to_vec())?)
}

/// Samples and floating-point operations per second, of all cores.
fn rates(name: &str, train: bool, seconds: f64) -> Result<(f64, f64), Box<dyn Error>> {
    let dataset = load(name)?;
    let images = &dataset.train;
    let pixels = PixelNormalization::new(PixelScale::Unit, images);
    let spec = ModelSpec::named(name, images.shape(), images.classes() as usize)?;
    let trainer = Trainer::new(Model::new(spec)?);
    let params = LocalTrainingParams { work: LocalWork::Epochs(1), ..Default::default() };
    let training = params.check()?;
    let barrier = Barrier::new(cores());
    let work = |thread: usize| {
        let mut worker = trainer.worker();
        let mut parameters = trainer.initial(Seed(1));
        // A client of 600 samples, as in the paper; each thread has its own.
        let first = thread * 600 % (images.len() - 600 + 1);
        let indices: Vec<u32> = (first as u32..).take(600).collect();
        let samples = Samples::of_images(images, Some(&indices), &pixels);
        let mut one_pass = |round: u64| {
            if train {
                let client = thread as u32;
                let task = LocalTask { training: &training, samples, seed: Seed(1), round, client };
                worker.train(&task, &mut parameters).map(|report| report.samples)
            } else {
                worker.evaluate(&parameters, &samples).map(|evaluation| evaluation.samples)
            }
        };
        let warm_up = one_pass(0).map_err(|error| error.to_string())?;
        barrier.wait();
        let begin = Instant::now();
        let mut count = 0;
        let mut round = 1;
        while begin.elapsed() < Duration::from_secs_f64(seconds) {
            count += one_pass(round).map_err(|error| error.to_string())?;
            round += 1;
        }
        let elapsed = begin.elapsed().as_secs_f64();
        let operations =
            2.0 * worker.multiply_adds() as f64 * count as f64 / (count + warm_up) as f64;
        Ok::<_, String>((count as f64 / elapsed, operations / elapsed))
    };
    let results: Vec<Result<(f64, f64), String>> = std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> =
            (0..cores()).map(|thread| scope.spawn(move || work(thread))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or(Err("panic".into()))).collect()
    });
    let mut sums = (0.0, 0.0);
    for result in results {
        let (samples, operations) = result?;
        sums.0 += samples;
        sums.1 += operations;
    }
    Ok(sums)
}

/// Floating-point operations per second of large matrix products, of all cores.
fn matrix_rate() -> f64 {
    const SIDE: usize = 1024;
    let work = || {
        let (left, right) = (vec![1.0f32; SIDE * SIDE], vec![1.0f32; SIDE * SIDE]);
        let mut target = vec![0.0f32; SIDE * SIDE];
        let mut best: f64 = 0.0;
        for _ in 0..20 {
            let begin = Instant::now();
            agewise_train::matrix_product(&mut target, &left, &right, SIDE);
            let rate = 2.0 * (SIDE as f64).powi(3) / begin.elapsed().as_secs_f64();
            best = best.max(rate);
        }
        best
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores()).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
    })
}

/// The bandwidth of summing up 15 updates of `cnn`, beside that of a copy.
fn aggregate() -> Result<(), Box<dyn Error>> {
    const UPDATES: usize = 15;
    const REPETITIONS: usize = 20;
    let parameters = 1_663_370;
    let updates: Vec<Vec<f32>> = (0..UPDATES).map(|index| vec![index as f32; parameters]).collect();
    let mut copy = vec![0.0f32; parameters];
    let mut mean = Aggregation::default().build(parameters)?;
    let cohort: Vec<Contribution> =
        (0..UPDATES as u32).map(|client| Contribution::new(client, 1.0 / UPDATES as f64)).collect();
    let mut global = vec![0.0; parameters];
    let (mut best_copy, mut best_sum) = (0.0f64, 0.0f64);
    for _ in 0..REPETITIONS {
        let begin = Instant::now();
        for update in &updates {
            copy.copy_from_slice(std::hint::black_box(update));
            std::hint::black_box(&mut copy);
        }
        // A copy reads and writes every float.
        let bytes = (8 * parameters * UPDATES) as f64;
        best_copy = best_copy.max(bytes / begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        let mut source = MemoryUpdates(std::hint::black_box(&updates[..]));
        mean.aggregate(&cohort, &mut source, usize::MAX, &mut global)?;
        // A sum reads the update and the sum, and writes the sum.
        let bytes = (12 * parameters * UPDATES) as f64;
        best_sum = best_sum.max(bytes / begin.elapsed().as_secs_f64());
    }
    println!(
        "aggregate 15 x cnn: {:.1} GB/s, copy {:.1} GB/s, ratio {:.2}",
        best_sum / 1e9,
        best_copy / 1e9,
        best_sum / best_copy
    );
    Ok(())
}
