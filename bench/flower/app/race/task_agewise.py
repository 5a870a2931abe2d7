"""The agewise side: the same workload with agewise's trainer and data."""

from functools import cache

import agewise
from flwr.app import Array, ArrayRecord

SPLIT_SEED = 1


@cache
def trainer() -> agewise.Trainer:
    """One per process, as the model's memory can be used again."""
    return agewise.Trainer("cnn", seed=1)


@cache
def dataset(folder: str) -> agewise.Dataset:
    """MNIST with pixels in [0, 1], read once per process."""
    return agewise.load_data("mnist", folder, scale="unit")


@cache
def split(folder: str, partitions: int) -> agewise.Partition:
    """Equal shares, labels spread evenly."""
    return agewise.partition(dataset(folder).train, clients=partitions, distribution="iid", seed=SPLIT_SEED)


def to_record(trainer: agewise.Trainer) -> ArrayRecord:
    """The model as Flower sends it."""
    return ArrayRecord({name: Array(array) for name, array in trainer.state_dict().items()})


def from_record(arrays: ArrayRecord, trainer: agewise.Trainer) -> None:
    """The model that was sent, into the trainer's memory."""
    trainer.load_state_dict({name: array.numpy() for name, array in arrays.items()})
