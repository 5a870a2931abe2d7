//! Data and figures that the benchmarks of choosing share.

use agewise_core::{Availability, Report, Selector};
use agewise_experiment::{Experiment, RunId, TrainingRun};
use agewise_train::Threads;
use agewise_train::data::{Dataset, ImageShape, Images};
use std::time::Instant;

const TEST_IMAGES: usize = 10_000;

/// So many training images, with labels that can be learned from one pixel.
pub(crate) fn data(train: usize) -> agewise_core::Result<Dataset> {
    let shape = ImageShape { channels: 1, height: 28, width: 28 };
    let make = |count: usize| {
        let labels: Vec<u8> = (0..count).map(|index| (index % 10) as u8).collect();
        let mut pixels = vec![0u8; count * 784];
        for (image, &label) in pixels.chunks_exact_mut(784).zip(&labels) {
            image[usize::from(label) * 70] = 255;
        }
        Images::new(shape, 10, pixels, labels)
    };
    let (train, test) = (make(train)?, make(TEST_IMAGES)?);
    Ok(Dataset::new("made-up", train, test))
}

/// Seconds that a round of a policy takes with everything: the median of some.
pub(crate) fn training(
    experiment: &Experiment,
    threads: Threads,
    variant: usize,
    rounds: usize,
) -> agewise_core::Result<f64> {
    let mut run = TrainingRun::new(experiment, RunId { seed: 0, variant })?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        run.play_round(threads)?;
        times.push(begin.elapsed().as_secs_f64());
    }
    Ok(median(&mut times))
}

/// Seconds that a policy needs in a round to select, weigh and credit, if clients send these sketches or none: the median
/// of some.
pub(crate) fn choosing(
    experiment: &Experiment,
    variant: usize,
    rounds: usize,
    sketches: &[Vec<f32>],
) -> agewise_core::Result<f64> {
    let context = experiment.context(0)?;
    let policy = experiment.variants()[variant].policy();
    let mut selector = Selector::from_variant(policy, context.setting.clone(), context.seed)?;
    let report = |client: u32| Report {
        sketch: sketches.get(client as usize).map(Vec::as_slice),
        ..Report::plain(client)
    };
    selector.observe(&(0..sketches.len() as u32).map(report).collect::<Vec<_>>())?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        let cohort = selector.select(Availability::Everyone)?;
        let reports: Vec<Report<'_>> =
            cohort.clients.iter().map(|&client| report(client)).collect();
        selector.finish(&reports)?;
        times.push(begin.elapsed().as_secs_f64());
    }
    Ok(median(&mut times))
}

/// The median of some times.
fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
