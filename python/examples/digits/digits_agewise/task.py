"""The model, the data and the way between the trainer and Flower's records."""

from dataclasses import dataclass
from functools import cache

import agewise
from flwr.app import Array, ArrayRecord, Context, Message


@dataclass(frozen=True)
class Settings:
    """The run config, with the types that it has to have."""

    rounds: int
    policy: str
    clients: int
    cohort: int
    seed: int
    decentralised: bool
    wait_for: int
    model: str
    partition: str
    epochs: int
    batch: int
    lr: float

    @classmethod
    def of(cls, context: Context) -> "Settings":
        """Reads them from the run config of a server or client."""
        config = context.run_config
        return cls(
            rounds=int(config["num-server-rounds"]),
            policy=str(config["agewise-policy"]),
            clients=int(config["agewise-clients"]),
            cohort=int(config["agewise-cohort"]),
            seed=int(config["agewise-seed"]),
            decentralised=bool(config["decentralised"]),
            wait_for=int(config["wait-for"]) or int(config["agewise-clients"]),
            model=str(config["model"]),
            partition=str(config["partition"]),
            epochs=int(config["local-epochs"]),
            batch=int(config["batch-size"]),
            lr=float(config["learning-rate"]),
        )


@cache
def digits() -> agewise.Dataset:
    """6,000 digits to learn from and 1,000 to test with; they are part of agewise."""
    return agewise.load_data("digits")


@cache
def split(clients: int, law: str, seed: int) -> agewise.Partition:
    """Who has which digits: a function of its arguments, so that every process finds the same."""
    return agewise.partition(digits().train, clients=clients, law=law, seed=seed)


@cache
def trainer(model: str, seed: int) -> agewise.Trainer:
    """A model in memory. A process needs one of them, whoever's turn it is."""
    return agewise.Trainer(model, seed=seed)


def to_record(model: agewise.Trainer) -> ArrayRecord:
    """The parameters as Flower sends them, under the names that PyTorch would give them."""
    return ArrayRecord({name: Array(array) for name, array in model.state_dict().items()})


def from_record(arrays: ArrayRecord, model: agewise.Trainer) -> None:
    """Puts parameters that were sent into the model."""
    model.load_state_dict({name: array.numpy() for name, array in arrays.items()})


def round_of(message: Message) -> int:
    """The round that a message belongs to, from 1 on."""
    number = message.content.config_records["config"]["server-round"]
    if not isinstance(number, int):
        raise ValueError(f"server-round: {number!r}, expected a whole number")
    return number
