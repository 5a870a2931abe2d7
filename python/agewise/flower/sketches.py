"""Sketches of the updates in replies, for policies that look at updates."""

from collections.abc import Sequence

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from agewise import sketch
from agewise.flower.keys import LOGGER
from agewise.flower.replies import Update

#: The weights and biases of the output layer are the last arrays of most models.
_LAST_ARRAYS = 2


def sketched_arrays(model: ArrayRecord, names: Sequence[str] | None) -> list[str]:
    """The arrays of a model that are sketched: those named, or the last two."""
    existing = list(model)
    if names is None:
        return existing[-_LAST_ARRAYS:]
    missing = [name for name in names if name not in existing]
    if missing:
        raise ValueError(
            f"sketch_arrays = {missing[0]!r}: expected arrays of the model, {existing}"
        )
    return list(names)


def sketches_of(
    updates: Sequence[Update], model: ArrayRecord, names: Sequence[str], seed: int
) -> dict[int, NDArray[np.float32]]:
    """The sketch of each update, by client. A change that does not fit into 32 bits has none."""
    before = _joined(model, names)
    sketches = {}
    for update in updates:
        (trained,) = update.reply.content.array_records.values()
        try:
            sketches[update.client] = sketch(before, _joined(trained, names), seed=seed)
        except ValueError as error:
            LOGGER.warning("agewise: no sketch of client %d: %s", update.client, error)
    return sketches


def _joined(arrays: ArrayRecord, names: Sequence[str]) -> NDArray[np.float32]:
    """Some arrays as one flat array, in row-major order."""
    with np.errstate(over="ignore"):
        parts = [arrays[name].numpy().astype(np.float32).reshape(-1) for name in names]
    return np.concatenate(parts)
