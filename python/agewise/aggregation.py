"""Aggregation rules of one's own: how the updates of a cohort become the next model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise.checks import shown
from agewise.policy import identifier


class Aggregates(Protocol):
    """An aggregation rule of one's own: any object with a method ``aggregate``.

    A class is made once for each run; an object is copied for each run. An attribute ``name`` is
    optional, and so are ``state()`` and ``load_state(numbers)``: what the rule remembers from round
    to round as one array of float32, which is stored so that a resumed run has the same bytes.
    """

    def aggregate(
        self,
        parameters: NDArray[np.float32],
        updates: NDArray[np.float32],
        weights: NDArray[np.float64],
        clients: NDArray[np.uint32],
    ) -> ArrayLike:
        """The next model.

        ``parameters`` are the present model. ``updates`` has a row for each client that reported,
        with its new parameters; ``weights`` and ``clients`` are in the same order.
        """
        ...


#: A rule as text such as ``"median+momentum(beta=0.9)"``, or a rule of one's own.
RuleLike: TypeAlias = "str | Aggregates | Callable[[], Aggregates]"


class OwnRule:
    """A rule of one's own with its name; makes one checked object for each run."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self.name = identifier("rule", given)

    def make(self, parameters: int) -> GuardedRule:
        """The rule for one run, with models of so many parameters."""
        is_object = hasattr(self._given, "aggregate") and not isinstance(self._given, type)
        rule = copy.deepcopy(self._given) if is_object else self._given()
        if not callable(getattr(rule, "aggregate", None)):
            raise ValueError(f"{self.name} = {shown(rule)}: expected a method aggregate")
        return GuardedRule(self.name, rule, parameters)


class GuardedRule:
    """Passes calls on to a rule, and checks what it returns."""

    def __init__(self, name: str, rule: Any, parameters: int) -> None:
        self._name = name
        self._rule = rule
        self._parameters = parameters

    def aggregate(self, *arrays: Any) -> NDArray[np.float32]:
        """The next model."""
        found = self._rule.aggregate(*arrays)
        model = _numbers(f"model of {self._name}", found)
        if model.size != self._parameters:
            expected = f"one array of {self._parameters} numbers"
            shape = list(np.shape(found))
            raise ValueError(f"model of {self._name} = {shape}: expected {expected}")
        return model

    def state(self) -> NDArray[np.float32]:
        """What the rule remembers; nothing if it does not say so."""
        if not hasattr(self._rule, "state"):
            return np.empty(0, dtype=np.float32)
        return _numbers(f"state of {self._name}", self._rule.state())

    def load_state(self, state: NDArray[np.float32]) -> None:
        """Takes back what it remembered."""
        self._rule.load_state(state)


def own_rule(given: object) -> OwnRule | None:
    """The rule of one's own; None for one of agewise."""
    if given is None or isinstance(given, str):
        return None
    if callable(getattr(given, "aggregate", None)) or callable(given):
        return OwnRule(given)
    expected = "the text of a rule, or a class with a method aggregate"
    raise ValueError(f"aggregate = {shown(given)}: expected {expected}")


def _numbers(what: str, given: object) -> NDArray[np.float32]:
    try:
        array = np.ascontiguousarray(given, dtype=np.float32)
    except (TypeError, ValueError):
        array = np.empty((0, 0), dtype=np.float32)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError(f"{what} = {shown(given)}: expected one array of finite numbers")
    return array
