"""The compiled part. Everything public is in the modules beside it."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "__version__",
    "Selector",
    "Client",
    "Sketcher",
    "Images",
    "Partition",
    "Trainer",
    "Job",
    "policies",
    "spelled",
    "age_law",
    "theory",
    "simulate",
    "load_data",
    "partition",
    "average",
    "presets",
]

__version__: str

@final
class Selector:
    def __new__(cls, options: str) -> Selector: ...
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
    def wants_sketches(self) -> bool: ...
    @property
    def wants_root_mean_squares(self) -> bool: ...
    def asks(self, available: NDArray[np.bool_] | None = None) -> NDArray[np.uint32]: ...
    def asks_sketches(self, available: NDArray[np.bool_] | None = None) -> NDArray[np.uint32]: ...
    def note(
        self,
        clients: NDArray[np.uint32],
        losses: NDArray[np.float32] | None = None,
        durations: NDArray[np.float32] | None = None,
        root_mean_squares: NDArray[np.float32] | None = None,
        sketches: NDArray[np.float32] | None = None,
    ) -> None: ...
    def report(
        self,
        clients: NDArray[np.uint32],
        losses: NDArray[np.float32] | None = None,
        durations: NDArray[np.float32] | None = None,
        root_mean_squares: NDArray[np.float32] | None = None,
        sketches: NDArray[np.float32] | None = None,
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
    def take(self, places: list[int]) -> Images: ...

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
        out: str | PathLike[str] | None,
        force: bool,
        data_folder: str | PathLike[str] | None,
    ) -> Job: ...
    @staticmethod
    def open(path: str | PathLike[str], data_folder: str | PathLike[str] | None) -> Job: ...
    @property
    def path(self) -> Path: ...
    @property
    def params(self) -> str: ...
    def play(
        self,
        threads: int | None,
        progress: Callable[[int, int, int, float | None], object] | None = None,
    ) -> tuple[bool, str, str, list[tuple[str, str]]]: ...
    def read(self) -> tuple[bool, str, str, list[tuple[str, str]]]: ...

def policies() -> list[tuple[str, str, list[tuple[str, str]], bool, str, bool | None]]: ...
def spelled(policy: str) -> str: ...
def age_law(
    family: str, interval: float, max_age: int, probabilities: list[float] | None = None
) -> tuple[
    NDArray[np.float64], NDArray[np.float64], float, float, float, int | None
]: ...
def theory(
    options: str,
) -> tuple[str, list[tuple[NDArray[np.uint64], NDArray[np.float64]]], str]: ...
def simulate(
    params: str, progress: Callable[[int], object] | None = None
) -> tuple[
    str,
    list[
        tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]
    ],
]: ...
def load_data(
    name: str, folder: str | PathLike[str] | None = None, scale: str = "standardised"
) -> tuple[Images, Images]: ...
def partition(
    images: Images, clients: int, law: str, sizes: str, least: int, seed: int
) -> Partition: ...
def average(
    model: NDArray[np.float32], updates: list[NDArray[np.float32]], weights: list[float]
) -> None: ...
def presets() -> list[tuple[str, str, str]]: ...
