"""The arrays that travel: those of agewise's `cnn` on MNIST, as float32."""

import numpy as np

SHAPES = [
    (32, 1, 5, 5),
    (32,),
    (64, 32, 5, 5),
    (64,),
    (512, 64 * 7 * 7),
    (512,),
    (10, 512),
    (10,),
]
PARAMETERS = 1_663_370


def initial_arrays():
    """Small random values: nothing on the way can shorten them, as it could zeros."""
    generator = np.random.default_rng(1)
    arrays = [generator.normal(0.0, 0.05, shape).astype(np.float32) for shape in SHAPES]
    if sum(array.size for array in arrays) != PARAMETERS:
        raise ValueError(f"the shapes do not add up to {PARAMETERS} parameters")
    return arrays
