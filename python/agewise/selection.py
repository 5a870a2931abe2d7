"""Client selection: the server and client sides of a selection."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import (
    client_numbers,
    finite,
    known,
    max_age_or_auto,
    number,
    numbers,
    rows,
    shown,
    switch,
    whole,
)
from agewise.policy import (
    Needs,
    OwnPolicy,
    PolicyLike,
    ProbeKind,
    decided_by_clients,
    own_policy,
    policy_name,
)

_Figures = tuple[
    NDArray[np.float32] | None,
    NDArray[np.float32] | None,
    NDArray[np.float32] | None,
    NDArray[np.float32] | None,
]


@dataclass(frozen=True, eq=False)
class Cohort:
    """The clients of a round and their weights."""

    #: The client numbers, in increasing order.
    ids: NDArray[np.uint32]
    #: The aggregation weights of their updates. They sum to 1, except with ``unbiased``.
    weights: NDArray[np.float64]
    #: The round, from 0.
    round: int
    #: Whether no client was selected and one was forced.
    forced: bool

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Participation:
    """Metrics of participation. Values that are not known yet are NaN."""

    rounds: int
    #: E[X]; X is the number of rounds between two participations of a client.
    mean_interval: float
    #: Var[X].
    var_interval: float
    #: The mean age of a client when it takes part.
    mean_peak_age: float
    #: The sum over clients of the variance of their weight.
    sigma: float
    #: The mean covariance of two clients' weights.
    mean_covariance: float
    cohort_mean: float
    cohort_sd: float
    cohort_min: int
    cohort_max: int
    #: Jain's index: 1 if all clients took part equally often.
    jain: float
    never_selected: int
    #: The longest X, or the age of a client that is still waiting.
    longest_wait: int
    #: sqrt(Var Y)/T for windows of T rounds; Y is the number of participations of a client.
    window_sd: dict[int, float]
    #: The share of pairs of clients that never shared a round.
    never_together: float
    #: The relative standard deviation, over pairs of clients, of the number of shared rounds.
    co_participation_spread: float


@dataclass(frozen=True)
class Failures:
    """The failures of a client since it was last credited."""

    #: How often it was asked and did not deliver.
    in_a_row: int
    #: The first round in which it may be asked again.
    eligible_from: int


class Selector:
    """Selects the clients of each round and keeps track of their ages.

    All randomness is a function of (seed, round, client), so the same calls give the same cohorts,
    in Python and in every other part of agewise.

    >>> selector = Selector("oldest-first", clients=100, cohort=15, seed=1)
    >>> for _ in range(20):
    ...     cohort = selector.select()
    ...     selector.report(cohort.ids)  # all of them reported
    >>> len(cohort), int(selector.ages.max())
    (15, 6)
    >>> Selector("markov-optimal", clients=10, cohort=11)
    Traceback (most recent call last):
        ...
    ValueError: cohort = 11: expected a whole number from 1 to the number of clients, 10
    """

    def __init__(
        self,
        policy: PolicyLike = "markov-optimal",
        clients: int = 100,
        cohort: int = 15,
        seed: int = 0,
        *,
        max_age: int | str = "auto",
        start: str = "stationary",
        weighting: str | None = None,
        sizes: ArrayLike | None = None,
        empty_cohort: str = "force-one",
        backoff: bool = True,
    ) -> None:
        """Starts a run of a policy, written with its options as in ``phased(reshuffle=0.05)``, or
        of a class of one's own (:class:`agewise.Selects`).

        ``max_age`` is the age at which age laws stop changing; ``auto`` is as large as n/m asks,
        and a number that costs the law variance is a warning. ``start`` is ``stationary`` (initial
        ages as after many rounds) or ``cold`` (all 0). ``weighting`` is ``uniform``, ``data-size``,
        ``draw-count`` or ``unbiased``; the default is that of the policy. ``sizes`` are the data
        sizes of all clients; the default is equal sizes. ``empty_cohort`` decides what happens if
        no client is selected: ``force-one`` forces one client, ``skip`` leaves the round empty.
        ``backoff`` is whether clients that fail again and again are asked less often
        (:meth:`report`).
        """
        self._own = own_policy(policy)
        #: The policy with its options, or the name of one's own.
        self.policy = policy_name(policy)
        #: The mean number of clients in a round.
        self.cohort = cohort
        #: The seed of all random draws.
        self.seed = seed
        self._options = _options(
            self.policy,
            clients,
            cohort,
            seed,
            max_age,
            start,
            weighting,
            sizes,
            empty_cohort,
            backoff,
        )
        self._inner = _agewise.Selector(self._options, self._own)
        if self._own is None:
            warn_of_max_age(self.policy, clients, cohort, max_age)
        # Only one thread at a time uses the compiled selector.
        self._lock = threading.Lock()

    @property
    def round(self) -> int:
        """The current round, counted from 0."""
        with self._lock:
            return self._inner.round

    @property
    def clients(self) -> int:
        """The number of clients, with those that have left."""
        with self._lock:
            return self._inner.clients

    @property
    def left(self) -> list[int]:
        """The clients that have left, in increasing order."""
        with self._lock:
            return self._inner.left

    def admit(self, size: float = 1.0, age: int = 0) -> int:
        """Admits one more client, with this data size and this age in the current round. Returns
        its number, which is the number of clients before; numbers are never used again.

        A policy that cannot serve so many clients refuses with a ValueError. After an error nothing
        has changed.

        >>> selector = Selector("oldest-first", clients=6, cohort=2)
        >>> selector.admit(age=9), selector.clients
        (6, 7)
        >>> 6 in selector.select().ids
        True
        """
        return self.admit_all([(size, age)])

    def admit_all(self, clients: Iterable[tuple[float, int]]) -> int:
        """Admits several clients at once, each with its data size and its age, which costs the
        policy less than one by one. Returns the number of the first.

        >>> selector = Selector("markov-optimal", clients=100, cohort=15)
        >>> selector.admit_all((1.0, age) for age in range(50)), selector.clients
        (100, 150)
        """
        given = [(number("size", size), whole("age", age)) for size, age in clients]
        with self._lock:
            return self._inner.admit_all(given)

    def leave(self, client: int) -> None:
        """Marks a client as never available again. Its number, its size and its age stay.

        >>> selector = Selector("random", clients=4, cohort=4)
        >>> selector.leave(2)
        >>> selector.select().ids.tolist(), selector.left
        ([0, 1, 3], [2])
        """
        with self._lock:
            self._inner.leave(whole("client", client))

    def set_size(self, client: int, size: float) -> None:
        """Sets the data size of one client. ``sizes`` of :meth:`select` sets those of all."""
        with self._lock:
            self._inner.set_size(whole("client", client), number("size", size))

    def set_interval(self, interval: float) -> None:
        """Sets the target number of rounds between two selections of a client, which age laws
        follow; until then it is clients / cohort.

        >>> selector = Selector("markov-optimal", clients=100, cohort=15)
        >>> selector.set_interval(20)
        >>> selector.select().forced  # no client has waited for long enough
        True
        """
        with self._lock:
            self._inner.set_interval(number("interval", interval))

    @property
    def ages(self) -> NDArray[np.uint64]:
        """The age of every client, which is the number of rounds since it was last credited. A
        copy.
        """
        with self._lock:
            return self._inner.ages

    def select(
        self,
        available: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        losses: ArrayLike | None = None,
    ) -> Cohort:
        """The cohort of the current round. A second call returns the same cohort.

        ``available`` are the clients that can take part, as client numbers or as a mask with one
        entry per client; the default is all clients. ``sizes`` are the data sizes of all clients
        from now on. ``losses`` are the losses of all clients, with NaN for unknown ones, for
        policies that look at losses.

        >>> selector = Selector("random", clients=6, cohort=3)
        >>> selector.select(available=[1, 2]).ids
        array([1, 2], dtype=uint32)
        """
        mask = None if available is None else _mask(available, self.clients)
        given = None if sizes is None else numbers("sizes", sizes)
        known_losses = None if losses is None else numbers("losses", losses).astype(np.float32)
        with self._lock:
            return Cohort(*self._inner.select(mask, given, known_losses))

    @property
    def needs(self) -> Needs:
        """What reports should contain so that the policy works as intended.

        >>> Selector("age-herding").needs.update_sketches, Selector("active").needs.loss
        (True, 'whole-data')
        """
        with self._lock:
            return Needs(*self._inner.needs)

    def probes(self, available: ArrayLike | None = None) -> dict[ProbeKind, NDArray[np.uint32]]:
        """What the policy wants to know about the current model before it selects: for each kind of
        probe the clients it would ask. Empty if it wants to know nothing.

        Pass the answers to :meth:`observe` before :meth:`select`. Probes are optional: without
        answers the policy uses the latest reports. ``available`` is as in :meth:`select`.

        >>> selector = Selector("power-of-choice(d=4)", clients=50, cohort=2)
        >>> clients = selector.probes()["loss"]
        >>> selector.observe(clients, losses=[0.1, 0.4, 0.3, 0.2])
        >>> selector.select().ids.tolist() == clients[[1, 2]].tolist()
        True
        >>> list(Selector("divfl").probes()), Selector("random").probes()
        (['update-round'], {})
        """
        mask = None if available is None else _mask(available, self.clients)
        with self._lock:
            return dict(self._inner.probes(mask))

    def observe(
        self,
        clients: ArrayLike,
        *,
        losses: ArrayLike | None = None,
        durations: ArrayLike | None = None,
        root_mean_squares: ArrayLike | None = None,
        sketches: ArrayLike | None = None,
    ) -> None:
        """Records what clients say about themselves, for example answers to :meth:`probes`, without
        crediting them or ending the round. The lists are those of :meth:`report`.

        Before the first round of a stationary start, a policy may reassign the initial ages based
        on this information.

        >>> selector = Selector("age-herding", clients=4, cohort=2)
        >>> selector.probes()
        {'update-step': array([0, 1, 2, 3], dtype=uint32)}
        >>> selector.observe([0, 1, 2, 3], sketches=[[1, 0], [1, 0], [-1, 0], [-1, 0]])
        >>> selector.probes()
        {}
        """
        figures = _figures(losses, durations, root_mean_squares, sketches)
        numbered = client_numbers("clients", clients)
        with self._lock:
            self._inner.observe(numbered, figures)

    def report(
        self,
        clients: ArrayLike,
        *,
        losses: ArrayLike | None = None,
        durations: ArrayLike | None = None,
        root_mean_squares: ArrayLike | None = None,
        sketches: ArrayLike | None = None,
        failed: ArrayLike | None = None,
    ) -> None:
        """Ends the round: the clients whose updates were accepted are credited, so their age
        becomes 0. The age of every other client grows by one.

        ``losses``, ``durations`` (in seconds) and ``root_mean_squares`` (of the losses of all
        samples) are in the order of ``clients``, with NaN for unknown values. ``sketches`` has one
        row per client: a sketch of its update (:func:`agewise.sketch`), of the same width in the
        whole run. If only some clients have a sketch, pass those to :meth:`observe` afterwards. A
        client that was selected and did not report keeps its age, so it is selected again soon.
        After an error nothing has changed.

        ``failed`` are the clients that were asked and did not deliver. One failure costs a client
        nothing; after further ones in a row it is selected again only after a wait that grows up to
        two intervals of clients / cohort rounds (:attr:`failed`). It is of no effect for policies
        such as ``random``, whose rounds are independent, and with ``backoff=False``.

        >>> selector = Selector("age-herding", clients=6, cohort=2)
        >>> selector.report([2, 5], losses=[0.3, float("nan")], sketches=np.eye(2))
        >>> selector.report([7])
        Traceback (most recent call last):
            ...
        ValueError: clients = 7: expected clients from 0 to 5
        """
        figures = _figures(losses, durations, root_mean_squares, sketches)
        numbered = client_numbers("clients", clients)
        missing = None if failed is None else client_numbers("failed", failed)
        with self._lock:
            self._inner.report(numbered, figures, missing)

    @property
    def failed(self) -> dict[int, Failures]:
        """The clients that have failed since they were last credited.

        >>> selector = Selector("oldest-first", clients=8, cohort=1)
        >>> for _ in range(2):
        ...     selector.report([], failed=selector.select().ids)
        >>> list(selector.failed.values())
        [Failures(in_a_row=2, eligible_from=3)]
        """
        with self._lock:
            return {
                client: Failures(in_a_row, eligible_from)
                for client, in_a_row, eligible_from in self._inner.failed
            }

    def metrics(self) -> Participation:
        """Metrics of participation so far.

        >>> selector = Selector("oldest-first", clients=10, cohort=5)
        >>> for _ in range(10):
        ...     selector.report(selector.select().ids)
        >>> selector.metrics().jain
        1.0
        """
        with self._lock:
            found: dict[str, Any] = json.loads(self._inner.metrics())
        windows = {int(length): known(sd) for length, sd in found.pop("window_sd").items()}
        figures: dict[str, Any] = {key: known(value) for key, value in found.items()}
        return Participation(**figures, window_sd=windows)

    def state(self) -> bytes:
        """Everything needed to continue exactly, including metrics and sketches, as JSON in UTF-8.

        >>> first = Selector("random", clients=50, cohort=5, seed=3)
        >>> first.report(first.select().ids)
        >>> second = Selector("random", clients=50, cohort=5, seed=3)
        >>> second.load_state(first.state())
        >>> second.select().ids.tolist() == first.select().ids.tolist()
        True
        """
        with self._lock:
            return bytes(self._inner.state())

    def load_state(self, state: bytes) -> None:
        """Continues from a :meth:`state` of a selector that was created with the same arguments.

        After an error nothing has changed.
        """
        with self._lock:
            self._inner.load_state(bytes(state))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored_selector, (self._options, self.state(), self._own)

    def __copy__(self) -> Selector:
        return _restored_selector(*self.__reduce__()[1])

    def __repr__(self) -> str:
        return (
            f"Selector({self.policy!r}, clients={self.clients}, cohort={self.cohort}, "
            f"seed={self.seed}, round={self.round})"
        )


def _restored_selector(options: str, state: bytes, own: OwnPolicy | None = None) -> Selector:
    arguments = json.loads(options)
    selector = Selector(**(arguments if own is None else arguments | {"policy": own}))
    selector.load_state(state)
    return selector


class Client:
    """The client side of a policy in which clients decide on their own.

    With the same seed the decisions are those of :class:`Selector`, except that no client is
    forced.

    >>> clients = [Client("markov-optimal", 100, 15, number, seed=1) for number in range(100)]
    >>> ages = [client.initial_age for client in clients]
    >>> willing = [k for k, client in enumerate(clients) if client.takes_part(0, ages[k])]
    >>> willing == Selector("markov-optimal", 100, 15, seed=1).select().ids.tolist()
    True
    >>> Client("random", 100, 15, 0)
    Traceback (most recent call last):
        ...
    ValueError: policy = random: expected a policy in which clients decide on their own
    """

    def __init__(
        self,
        policy: str,
        clients: int,
        cohort: int,
        client: int,
        seed: int = 0,
        *,
        max_age: int | str = "auto",
        start: str = "stationary",
    ) -> None:
        """The client with the number ``client``, counted from 0."""
        #: The policy with its options.
        self.policy = decided_by_clients(policy)
        #: The number of the client.
        self.client = client
        options = _options(policy, clients, cohort, seed, max_age, start, None, None, "skip", True)
        self._inner = _agewise.Client(options, whole("client", client))

    @property
    def initial_age(self) -> int:
        """The age of the client before round 0."""
        return self._inner.initial_age

    def takes_part(self, round: int, age: int) -> bool:
        """Whether the client takes part in a round (counted from 0).

        ``age`` is the number of rounds since it last took part.
        """
        return self._inner.takes_part(whole("round", round), whole("age", age))


def _options(
    policy: str,
    clients: int,
    cohort: int,
    seed: int,
    max_age: int | str,
    start: str,
    weighting: str | None,
    sizes: ArrayLike | None,
    empty_cohort: str,
    backoff: bool,
) -> str:
    return json.dumps(
        {
            "policy": _text("policy", policy),
            "clients": whole("clients", clients),
            "cohort": whole("cohort", cohort),
            "seed": whole("seed", seed),
            "max_age": max_age_or_auto(max_age),
            "start": _text("start", start),
            "weighting": None if weighting is None else _text("weighting", weighting),
            "sizes": None if sizes is None else finite("sizes", sizes),
            "empty_cohort": _text("empty_cohort", empty_cohort),
            "backoff": switch("backoff", backoff),
        }
    )


def warn_of_max_age(policy: str, clients: int, cohort: int, max_age: int | str) -> None:
    """Warns the caller of the caller if this maximum age costs the policy variance."""
    if isinstance(max_age, str):
        return
    cost = _agewise.max_age_cost(policy, clients, cohort, max_age)
    if cost is not None:
        warnings.warn(cost, stacklevel=3)


def _text(field: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{field} = {shown(value)}: expected a string")


def _figures(
    losses: ArrayLike | None,
    durations: ArrayLike | None,
    root_mean_squares: ArrayLike | None,
    sketches: ArrayLike | None,
) -> _Figures:
    """What clients say, with 32 bits as in the core."""

    def single(field: str, given: ArrayLike | None) -> NDArray[np.float32] | None:
        return None if given is None else numbers(field, given).astype(np.float32)

    return (
        single("losses", losses),
        single("durations", durations),
        single("root_mean_squares", root_mean_squares),
        None if sketches is None else rows("sketches", sketches),
    )


def _mask(available: ArrayLike, clients: int) -> NDArray[np.bool_]:
    array = np.asarray(available)
    if array.dtype == np.bool_ and array.ndim == 1:
        return np.ascontiguousarray(array)
    mask = np.zeros(clients, dtype=np.bool_)
    present = client_numbers("available", available)
    wrong = present[present >= clients]
    if wrong.size:
        raise ValueError(f"available = {wrong[0]}: expected clients from 0 to {clients - 1}")
    mask[present] = True
    return mask
