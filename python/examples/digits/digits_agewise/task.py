"""The model and the data, and the conversion between the trainer and Flower's records."""

from functools import cache

from flwr.app import Array, ArrayRecord

import agewise


@cache
def digits() -> agewise.Dataset:
    """6,000 training and 1,000 test images of digits, which are part of agewise."""
    return agewise.load_data("digits")


@cache
def split(clients: int, distribution: str, seed: int) -> agewise.Partition:
    """The digits of each client: a function of its arguments, so every process finds the same."""
    return agewise.partition(digits().train, clients, distribution, seed=seed)


@cache
def trainer(model: str, seed: int) -> agewise.Trainer:
    """A model in memory. One per process is enough for all clients."""
    return agewise.Trainer(model, seed=seed)


def to_record(model: agewise.Trainer) -> ArrayRecord:
    """The parameters as a Flower record, with the names of PyTorch."""
    return ArrayRecord({name: Array(array) for name, array in model.state_dict().items()})


def from_record(arrays: ArrayRecord, model: agewise.Trainer) -> None:
    """Loads the parameters of a Flower record into the model."""
    model.load_state_dict({name: array.numpy() for name, array in arrays.items()})
