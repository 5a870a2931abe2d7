//! Layers that are large enough for the faster kernels: blocks, tiles and what is left over at their ends.

use crate::reference::cases::{RELU, convolution, dense, noise, pool, spec, standardised};
use crate::reference::check::check_paths;
use crate::reference::{Batch, Network};
use agewise_core::Seed;
use agewise_train::local::Samples;
use agewise_train::model::{Layer, Model};

/// Gradient and scores on noise, against the chain rule written out.
fn check(name: &str, input: (u32, u32, u32), layers: &[Layer], count: usize) {
    let spec = spec(name, input, layers);
    let images = noise(spec.input, 3, count, 5);
    let pixels = standardised(&images);
    let samples = Samples::all(&images, &pixels);
    let model = Model::new(spec.clone()).unwrap();
    let parameters = model.initial(Seed(3));
    let network = Network::new(&model, &parameters);
    let expected = network.gradient(&Batch::middle(&model, &samples));
    check_paths(&spec, &network, &parameters, &samples, &expected).unwrap();
}

#[test]
fn convolutions_of_5_by_5_with_many_channels() {
    // Planes whose sides are all rests by 2 and by 4, and numbers of tiles with all rests by 5 and by 6.
    for (height, width) in
        [(8, 8), (13, 15), (14, 14), (15, 18), (16, 16), (17, 19), (18, 13), (20, 8), (5, 40)]
    {
        let name = format!("{height} x {width}");
        check(
            &name,
            (16, height, width),
            &[convolution(5, 5, 2), RELU, pool(3, 2, 1), dense(3)],
            2,
        );
    }
    for (channels, outputs) in [(16, 1), (17, 4), (23, 3), (24, 17), (32, 33), (40, 16)] {
        let name = format!("{channels} to {outputs} channels");
        check(
            &name,
            (channels, 15, 16),
            &[convolution(outputs, 5, 2), RELU, pool(2, 2, 0), dense(3)],
            1,
        );
    }
    for padding in [0, 1, 3, 4] {
        check(
            &format!("padding {padding}"),
            (16, 13, 14),
            &[convolution(3, 5, padding), dense(3)],
            2,
        );
    }
}

#[test]
fn gradients_go_back_through_convolutions_of_5_by_5() {
    let layers = [
        convolution(16, 3, 1),
        RELU,
        pool(2, 2, 0),
        convolution(24, 5, 2),
        convolution(6, 5, 1),
        RELU,
        dense(3),
    ];
    check("three", (2, 26, 30), &layers, 2);
}

#[test]
fn dense_layers_of_all_sizes() {
    // Around blocks of 1024 inputs, 128 columns and 64 outputs, and around registers.
    for (width, hidden) in [
        (1, 1),
        (7, 2),
        (8, 3),
        (9, 5),
        (127, 63),
        (128, 64),
        (129, 65),
        (1023, 4),
        (1024, 130),
        (1025, 6),
        (2050, 67),
    ] {
        for count in [1, 2, 3, 4, 5, 7, 8, 13] {
            check(
                &format!("{width} to {hidden}"),
                (1, 1, width),
                &[dense(hidden), RELU, dense(11), RELU, dense(3)],
                count,
            );
        }
    }
    for count in [50, 64, 65, 101] {
        check("large batch", (1, 1, 40), &[dense(140), RELU, dense(70), dense(3)], count);
    }
}
