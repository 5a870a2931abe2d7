"""The compiled part. Everything public is in the modules beside it."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from agewise.own import Parts
from agewise.policy import OwnPolicy

__all__ = [
    "Client",
    "Images",
    "Job",
    "Outcome",
    "Partition",
    "Selector",
    "Sketcher",
    "Trainer",
    "__version__",
    "age_law",
    "average",
    "draws",
    "load_data",
    "max_age_cost",
    "partition",
    "policies",
    "presets",
    "spelled",
    "theory",
]

__version__: str

#: Losses, durations, root mean squares of losses, and sketches.
_List = NDArray[np.float32] | None
_Lists = tuple[_List, _List, _List, _List]

@final
class Selector:
    def __new__(cls, options: str, own: OwnPolicy | None = None) -> Selector: ...
    @property
    def round(self) -> int: ...
    @property
    def ages(self) -> NDArray[np.uint64]: ...
    def select(
        self,
        available: NDArray[np.bool_] | None = None,
        sizes: NDArray[np.float64] | None = None,
        losses: NDArray[np.float32] | None = None,
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64], int, bool]: ...
    @property
    def needs(
        self,
    ) -> tuple[bool, Literal["while-training", "whole-data"] | None, bool, bool]: ...
    def probes(
        self, available: NDArray[np.bool_] | None = None
    ) -> list[tuple[Literal["loss", "update-step", "update-round"], NDArray[np.uint32]]]: ...
    def observe(self, clients: NDArray[np.uint32], lists: _Lists) -> None: ...
    @property
    def failed(self) -> list[tuple[int, int, int]]: ...
    def report(
        self,
        clients: NDArray[np.uint32],
        lists: _Lists,
        failed: NDArray[np.uint32] | None = None,
    ) -> None: ...
    def metrics(self) -> str: ...
    def state(self) -> bytes: ...
    def load_state(self, state: bytes) -> None: ...

@final
class Client:
    def __new__(cls, options: str, client: int) -> Client: ...
    @property
    def first_age(self) -> int: ...
    def takes_part(self, round: int, age: int) -> bool: ...

@final
class Sketcher:
    def __new__(cls, length: int, width: int, seed: int) -> Sketcher: ...
    def sketch(
        self, before: NDArray[np.float32], after: NDArray[np.float32]
    ) -> NDArray[np.float32] | None: ...

@final
class Images:
    def __new__(
        cls,
        pixels: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        classes: int,
        scale: str,
        like: Images | None = None,
    ) -> Images: ...
    def __len__(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int, int]: ...
    @property
    def classes(self) -> int: ...
    @property
    def labels(self) -> NDArray[np.uint8]: ...
    @property
    def pixels(self) -> NDArray[np.uint8]: ...
    def take(self, indices: list[int]) -> Images: ...

@final
class Partition:
    @property
    def clients(self) -> int: ...
    @property
    def sizes(self) -> NDArray[np.uint64]: ...
    @property
    def histograms(self) -> NDArray[np.uint32]: ...
    def indices(self, client: int) -> NDArray[np.uint32]: ...
    def of(self, client: int) -> Images: ...

@final
class Trainer:
    def __new__(
        cls, model: str, shape: tuple[int, int, int], classes: int, seed: int
    ) -> Trainer: ...
    @property
    def parameters(self) -> NDArray[np.float32]: ...
    @property
    def tensors(self) -> list[tuple[str, list[int], int]]: ...
    @property
    def output_layer(self) -> tuple[int, int]: ...
    def reset(self, seed: int) -> None: ...
    def train(self, data: Images, task: str) -> tuple[int, int, float, float]: ...
    def evaluate(self, data: Images) -> tuple[list[int], list[int], float]: ...
    def scores(self, data: Images) -> NDArray[np.float32]: ...
    def tensors_for_pytorch(self) -> list[tuple[str, NDArray[np.float32]]]: ...
    def load_from_pytorch(self, tensors: list[NDArray[np.float32]]) -> None: ...

@final
class Job:
    def __new__(
        cls,
        params: str,
        trains: bool,
        keep: bool,
        out: str | PathLike[str] | None,
        force: bool,
        data_folder: str | PathLike[str] | None,
        own: Parts | None = None,
    ) -> Job: ...
    @staticmethod
    def open(
        path: str | PathLike[str],
        data_folder: str | PathLike[str] | None,
        own: Parts | None = None,
    ) -> Job: ...
    @staticmethod
    def extend(
        path: str | PathLike[str],
        changes: str,
        data_folder: str | PathLike[str] | None,
        own: Parts | None = None,
    ) -> Job: ...
    @property
    def path(self) -> Path | None: ...
    @property
    def params(self) -> str: ...
    def max_age_costs(self) -> list[str]: ...
    def play(
        self,
        threads: int | None,
        progress: Callable[[int, int, int, float | None], object] | None = None,
    ) -> Outcome: ...
    def read(self) -> Outcome: ...

@final
class Outcome:
    @property
    def finished(self) -> bool: ...
    @property
    def summary(self) -> str: ...
    @property
    def table(self) -> str: ...
    def figures(self) -> list[tuple[str, str]]: ...
    def arrays(
        self, variant: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]: ...

def draws(seed: int, round: int, stream: int, clients: int) -> NDArray[np.float64]: ...
def policies() -> list[tuple[str, str, list[tuple[str, str]], bool, str, bool | None]]: ...
def spelled(policy: str) -> str: ...
def age_law(
    family: str, interval: float, max_age: int | None, probabilities: list[float] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], float, float, float, int | None]: ...
def max_age_cost(policy: str, clients: int, cohort: int, max_age: int) -> str | None: ...
def theory(
    options: str,
) -> tuple[str, list[tuple[NDArray[np.uint64], NDArray[np.float64]]], str]: ...
def load_data(
    name: str, folder: str | PathLike[str] | None = None, scale: str = "standardised"
) -> tuple[Images, Images]: ...
def partition(
    images: Images, clients: int, distribution: str, sizes: str, least: int, seed: int
) -> Partition: ...
def average(
    model: NDArray[np.float32], updates: list[NDArray[np.float32]], weights: list[float]
) -> None: ...
def presets() -> list[tuple[str, str, str]]: ...
