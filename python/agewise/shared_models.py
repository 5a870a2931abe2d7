"""Memory in which worker processes find the models that they are sent."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from agewise.task import Parameters

#: A model that is sent to workers: a number that no other model has, and its parameters, which are
#: read-only.
Model: TypeAlias = tuple[int, Parameters]


class SharedModels:
    """A few models in memory that all workers see.

    The clients of a round train from one model: it is written once, and not once for each client.
    """

    def __init__(self, places: int, parameters: int) -> None:
        #: The length of a model.
        self.parameters = parameters
        size = 4 * places * parameters
        #: A descriptor of the memory.
        self.memory = shared_memory(size)
        block = np.frombuffer(mmap.mmap(self.memory, size), dtype=np.float32)
        self._rows = block.reshape(places, parameters)
        # The number of the model in each place, how many calls need it, and the places in the order
        # of their last use.
        self._numbers = [0] * places
        self._users = [0] * places
        self._order = list(range(places))
        self._lock = threading.Lock()

    @contextmanager
    def place_of(self, model: Model) -> Iterator[int]:
        """The place of a model, where it stays until the end of the block."""
        number, parameters = model
        with self._lock:
            if number in self._numbers:
                place = self._numbers.index(number)
            else:
                # There are as many places as calls can be under way.
                place = next(place for place in self._order if not self._users[place])
                self._rows[place] = parameters
                self._numbers[place] = number
            self._users[place] += 1
            self._order.remove(place)
            self._order.append(place)
        try:
            yield place
        finally:
            with self._lock:
                self._users[place] -= 1

    def close(self) -> None:
        """Gives the descriptor back; the memory is gone when the last process has ended."""
        if self.memory >= 0:
            os.close(self.memory)
            self.memory = -1


def shared_memory(size: int) -> int:
    """The descriptor of memory without a name, which is gone when the last process has ended."""
    if hasattr(os, "memfd_create"):
        memory: int = os.memfd_create("agewise")
    else:
        with tempfile.TemporaryFile() as file:
            memory = os.dup(file.fileno())
    os.truncate(memory, size)
    return memory
