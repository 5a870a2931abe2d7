//! A training step allocates nothing: many steps take as many allocations as few.

#![allow(unsafe_code)] // Only an allocator of our own can count.
#![allow(clippy::unwrap_used)] // A test that fails is what it is for.

use agewise_core::Seed;
use agewise_train::data::{PixelNormalization, PixelScale, embedded_digits};
use agewise_train::local::{LocalTask, LocalTrainingParams, LocalWork, Samples, Trainer};
use agewise_train::model::{Model, ModelSpec};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test in this file: tests of one program run side by side, and would count each other.
#[test]
fn a_training_step_allocates_nothing() {
    let digits = embedded_digits().unwrap();
    let pixels = PixelNormalization::new(PixelScale::Unit, &digits.train);
    let indices: Vec<u32> = (0..60).collect();
    let samples = Samples::of_images(&digits.train, Some(&indices), &pixels);
    for name in ["softmax", "2nn", "cnn"] {
        let spec = ModelSpec::named(name, digits.train.shape(), 10).unwrap();
        let trainer = Trainer::new(Model::new(spec).unwrap());
        let mut worker = trainer.worker();
        let mut parameters = trainer.initial(Seed(1));
        let mut allocations = |steps: u32, client: u32| {
            let params = LocalTrainingParams {
                work: LocalWork::Steps(steps),
                momentum: 0.5,
                proximal: 0.1,
                ..LocalTrainingParams::default()
            };
            let training = params.check().unwrap();
            let task = LocalTask { training: &training, samples, seed: Seed(1), round: 0, client };
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            worker.train(&task, &mut parameters).unwrap();
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        allocations(1, 0);
        // The buffers are there now, and serve the next client too.
        assert_eq!((allocations(1, 1), allocations(9, 2)), (0, 0), "{name}");
    }
}
