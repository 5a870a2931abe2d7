"""Selection policies of one's own: classes that name the clients of a round."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import client_numbers, numbers, shown, whole

#: A kind of probe: the loss of all samples of a client, or a sketch of what one step or a whole
#: round of training would change, each under the current model.
ProbeKind = Literal["loss", "update-step", "update-round"]

_LOSSES = ("while-training", "whole-data", None)


@dataclass(frozen=True)
class Needs:
    """What reports should contain so that a policy works as intended."""

    #: Whether its cohorts depend on training; without training it is a different policy.
    training: bool = False
    #: Which loss it looks at: the mean over the samples seen ``while-training``, the mean over the
    #: ``whole-data`` of a client under the model it was sent, or None.
    loss: Literal["while-training", "whole-data"] | None = None
    #: Whether it looks at root mean squares of losses.
    loss_squares: bool = False
    #: Whether it looks at sketches of updates (:func:`agewise.sketch`).
    update_sketches: bool = False


@dataclass(frozen=True, eq=False)
class Round:
    """What a policy knows when it selects. All arrays have one entry for each client."""

    #: The number of the round, from 0.
    number: int
    #: The number of clients.
    clients: int
    #: The mean number of clients that should be selected.
    cohort: int
    #: The seed of the run.
    seed: int
    #: The number of rounds since each client was last credited.
    ages: NDArray[np.uint64]
    #: The numbers of the clients that can be selected, in increasing order.
    available: NDArray[np.uint32]
    #: The data sizes.
    sizes: NDArray[np.float64]
    #: The last reported losses; NaN for clients that have reported none.
    losses: NDArray[np.float32]
    #: The last reported durations of training in seconds; NaN if unknown.
    durations: NDArray[np.float32]
    #: The last reported root mean squares of losses; NaN if unknown.
    root_mean_squares: NDArray[np.float32]
    #: A row for each client with the sketch of its last update, NaN if unknown; None before the
    #: first sketch, and for a policy whose :class:`Needs` do not ask for sketches.
    sketches: NDArray[np.float32] | None = None

    def draws(self, stream: int = 0) -> NDArray[np.float64]:
        """A random number from 0 to under 1 for each client.

        It depends on the seed, the round, the client and ``stream`` only, so a policy that takes
        all its randomness from here gives the same cohorts on every machine, and after a resume.
        """
        return _agewise.draws(self.seed, self.number, whole("stream", stream), self.clients)

    def rng(self, stream: int = 0) -> np.random.Generator:
        """A NumPy generator that is seeded with the seed, the round and ``stream``.

        Its numbers are those of the installed version of NumPy.
        """
        return np.random.default_rng([self.seed, self.number, whole("stream", stream)])


@dataclass(frozen=True, eq=False)
class Reports:
    """What the clients said that were credited in a round. Unknown values are NaN."""

    #: The credited clients, in the order of their reports.
    clients: NDArray[np.uint32]
    losses: NDArray[np.float32]
    durations: NDArray[np.float32]
    root_mean_squares: NDArray[np.float32]


class Selects(Protocol):
    """A selection policy of one's own: any object with a method ``select``.

    A class is made once for each run; an object is copied (:func:`copy.deepcopy`) for each run.
    These attributes and methods are optional:

    - ``name``: what tables call it; the default is the name of the class.
    - ``needs``: a :class:`Needs`, or a dict of its fields.
    - ``probes(round)``: whom it would ask before it selects, as a dict of :data:`ProbeKind` to
      client numbers. The answers are in the ``losses`` and ``sketches`` of the round.
    - ``observe(reports)``: hears the :class:`Reports` of the credited clients at the end of a
      round. What a policy remembers has to follow from these calls, because a comparison that is
      resumed repeats them and not those of ``select``.
    - ``state()`` and ``load_state(numbers)``: what it remembers as a list of numbers, for
      :meth:`Selector.state`.
    - ``initial_ages(clients, cohort, seed)``: the ages of a stationary start; the default is 0.
    - ``inclusion(clients, round)``: the probability that each of these clients is selected in the
      long run, for ``weighting="unbiased"``.
    - ``start`` and ``weighting``: as the arguments of :class:`Selector`; the default weighting is
      ``uniform``.
    """

    def select(self, round: Round) -> ArrayLike:
        """The numbers of the clients that train in this round, in any order."""
        ...


#: A policy by name with its options, or a policy of one's own: a class, an object or a function
#: that makes one.
PolicyLike: TypeAlias = "str | Selects | Callable[[], Selects] | OwnPolicy"

_NAME = re.compile(r"[A-Za-z0-9_.-]+(\([^()@+]*\))?")


class OwnPolicy:
    """A policy of one's own with its name; makes one checked object for each run."""

    def __init__(self, given: Selects | Callable[[], Selects]) -> None:
        self._given = given
        self.name = identifier("policy", given)
        if self.name.split("(")[0] in {row[0] for row in _agewise.policies()}:
            expected = "another name, as this is a policy of agewise"
            raise ValueError(f"name of the policy = {self.name!r}: expected {expected}")
        self.start: str | None = _attribute(given, "start", None)
        self.weighting: str | None = _attribute(given, "weighting", None)

    @property
    def has_inclusion(self) -> bool:
        """Whether the policy knows how often it selects each client."""
        return hasattr(self._object(), "inclusion")

    def _object(self) -> Selects:
        """An object for one run, which no other run uses."""
        if hasattr(self._given, "select") and not isinstance(self._given, type):
            return copy.deepcopy(self._given)
        made = self._given()
        if not callable(getattr(made, "select", None)):
            raise ValueError(f"{self.name} = {shown(made)}: expected a method select(round)")
        return made

    def make(self, clients: int, cohort: int) -> Guarded:
        """The policy for one run."""
        return Guarded(self.name, self._object())


def own_policy(given: object, field: str = "policy") -> OwnPolicy | None:
    """The policy of one's own; None for the name of a built-in one."""
    if isinstance(given, str):
        return None
    if isinstance(given, OwnPolicy):
        return given
    if callable(getattr(given, "select", None)) or callable(given):
        return OwnPolicy(given)  # type: ignore[arg-type]
    expected = "the name of a policy, or a class with a method select(round)"
    raise ValueError(f"{field} = {shown(given)}: expected {expected}")


def policy_name(given: object) -> str:
    """The name of a policy that may be one's own."""
    own = own_policy(given)
    return str(given) if own is None else own.name


def decided_by_clients(given: object) -> str:
    """The name of a built-in policy; one of one's own has no part that clients could run."""
    own = own_policy(given)
    if own is None:
        return str(given)
    expected = "a policy in which clients decide on their own"
    raise ValueError(f"policy = {own.name}: expected {expected}")


class Guarded:
    """Passes the calls of the compiled part on to a policy, and checks what it returns."""

    def __init__(self, name: str, policy: Any) -> None:
        self._name = name
        self._policy = policy
        self._needs = _needs(name, getattr(policy, "needs", None))
        self.observes = hasattr(policy, "observe")

    @property
    def needs(self) -> tuple[bool, str | None, bool, bool]:
        """The fields of its needs."""
        needs = self._needs
        looks = needs.loss is not None or needs.loss_squares or needs.update_sketches
        return needs.training or looks, needs.loss, needs.loss_squares, needs.update_sketches

    def select(self, *parts: Any) -> NDArray[np.uint32]:
        """The cohort in increasing order. Its members are checked by the core."""
        found = self._policy.select(Round(*parts))
        return np.sort(self._clients("cohort", found))

    def probes(self, *parts: Any) -> list[tuple[str, NDArray[np.uint32]]]:
        """For each kind of probe the clients."""
        if not hasattr(self._policy, "probes"):
            return []
        view = Round(*parts)
        asked: list[tuple[str, NDArray[np.uint32]]] = []
        for kind, clients in dict(self._policy.probes(view)).items():
            if kind not in get_args(ProbeKind):
                expected = f"one of {', '.join(get_args(ProbeKind))}"
                raise ValueError(f"probe of {self._name} = {shown(kind)}: expected {expected}")
            if kind != "loss" and not self._needs.update_sketches:
                expected = "needs with update_sketches=True, as these probes are sketches"
                raise ValueError(f"probe of {self._name} = {shown(kind)}: expected {expected}")
            numbered = np.unique(self._clients(f"{kind} probes", clients))
            wrong = np.setdiff1d(numbered, view.available)
            if wrong.size:
                field = f"{kind} probes of {self._name}"
                raise ValueError(f"{field} = client {wrong[0]}: expected available clients")
            asked.append((kind, numbered))
        return asked

    def observe(self, *lists: Any) -> None:
        """The reports of a round."""
        self._policy.observe(Reports(*lists))

    def state(self) -> NDArray[np.float64]:
        """What it remembers."""
        if not hasattr(self._policy, "state"):
            return np.empty(0)
        return numbers(f"state of {self._name}", self._policy.state())

    def load_state(self, state: NDArray[np.float64]) -> None:
        """Takes back what it remembered."""
        if hasattr(self._policy, "load_state"):
            self._policy.load_state(state)
        elif state.size:
            found = f"{state.size} numbers"
            raise ValueError(f"state of {self._name} = {found}: expected a method load_state")

    def initial_ages(self, clients: int, cohort: int, seed: int) -> NDArray[np.uint64]:
        """The ages of a stationary start."""
        if not hasattr(self._policy, "initial_ages"):
            return np.zeros(clients, dtype=np.uint64)
        ages = np.asarray(self._policy.initial_ages(clients, cohort, seed))
        fits = ages.shape == (clients,) and np.issubdtype(ages.dtype, np.integer)
        if not fits or (ages < 0).any():
            expected = f"{clients} whole numbers, 0 or more"
            raise ValueError(f"initial_ages of {self._name} = {shown(ages)}: expected {expected}")
        return ages.astype(np.uint64)

    def inclusion(self, clients: NDArray[np.uint32], parts: Any) -> NDArray[np.float64]:
        """How likely each of these clients is in a cohort."""
        view = Round(*parts)
        found = self._policy.inclusion(clients, view)
        chances = numbers(f"inclusion of {self._name}", found)
        if chances.shape != clients.shape or not ((chances > 0) & (chances <= 1)).all():
            expected = f"{len(clients)} probabilities above 0, at most 1"
            raise ValueError(f"inclusion of {self._name} = {shown(found)}: expected {expected}")
        return chances

    def _clients(self, what: str, given: object) -> NDArray[np.uint32]:
        if given is None:
            raise ValueError(f"{what} of {self._name} = None: expected a list of client numbers")
        return client_numbers(f"{what} of {self._name}", given)  # type: ignore[arg-type]


def identifier(what: str, given: object) -> str:
    """What a class, an object or a function calls itself."""
    kind = given if hasattr(given, "__name__") else type(given)
    name: str = _attribute(given, "name", getattr(kind, "__name__", ""))
    if not _NAME.fullmatch(name):
        expected = f"letters, digits, '-' and '_' (the attribute `name` of the {what})"
        raise ValueError(f"name of the {what} = {name!r}: expected {expected}")
    return name


def _attribute(given: object, name: str, default: Any) -> Any:
    """A text that the policy states about itself, if it does."""
    value = getattr(given, name, None)
    return value if isinstance(value, str) else default


def _needs(name: str, given: object) -> Needs:
    if given is None:
        return Needs()
    if isinstance(given, Mapping):
        known = [field.name for field in fields(Needs)]
        wrong = [key for key in given if key not in known]
        if wrong:
            expected = f"one of {', '.join(known)}"
            raise ValueError(f"needs of {name} = {shown(wrong[0])}: expected {expected}")
        given = Needs(**given)
    if not isinstance(given, Needs):
        raise ValueError(f"needs of {name} = {shown(given)}: expected a Needs or a dict")
    if given.loss not in _LOSSES:
        expected = "'while-training', 'whole-data' or None"
        raise ValueError(f"needs of {name} (loss) = {shown(given.loss)}: expected {expected}")
    return given
