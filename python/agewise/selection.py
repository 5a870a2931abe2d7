"""Client selection: the server side."""

from __future__ import annotations

import json
import threading
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import (
    client_numbers,
    known,
    number,
    numbers,
    rows,
    shown,
    whole,
)
from agewise.names import Names
from agewise.participation import Cohort, Failures, Participation
from agewise.policy import (
    Needs,
    PolicyLike,
    ProbeKind,
    own_policy,
    policy_name,
)
from agewise.settings import settings, warn_of_max_age

_Figures = tuple[
    NDArray[np.float32] | None,
    NDArray[np.float32] | None,
    NDArray[np.float32] | None,
    NDArray[np.float32] | None,
]


#: What a state begins with that has the sizes that were learnt, and what is between those and the
#: state of the compiled part.
_LEARNT, _AND_STATE = b'{"sizes_learnt":', b',"state":\n'
#: Attributes that are made anew from a pickle.
_NOT_PICKLED = ("_inner", "_lock")


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
    >>> named = Selector("oldest-first", clients=["ann", "bob", "eve"], cohort=2)
    >>> named.report(named.select(available={"ann", "eve"}))
    >>> named.ages.tolist()
    [0, 1, 0]
    >>> Selector("markov-optimal", clients=10, cohort=11)
    Traceback (most recent call last):
        ...
    ValueError: cohort = 11: expected a whole number from 1 to the number of clients, 10
    """

    def __init__(
        self,
        policy: PolicyLike = "markov-optimal",
        clients: int | Iterable[Hashable] = 100,
        cohort: int = 15,
        seed: int = 0,
        *,
        max_age: int | str = "auto",
        start: str = "stationary",
        weighting: str | None = None,
        sizes: ArrayLike | Mapping[Any, float] | None = None,
        empty_cohort: str = "force-one",
        backoff: bool = True,
    ) -> None:
        """Starts a run of a policy, written with its options as in ``phased(reshuffle=0.05)``, or
        of a class of one's own (:class:`agewise.Selects`).

        ``clients`` is their number, and they are called 0, 1, 2 and so on; or their names, which
        may be anything hashable: texts, 64-bit ids, tuples. With names, every method takes and
        returns names; arrays with one entry per client have the order of :attr:`names`.

        ``max_age`` is the age at which age laws stop changing; ``auto`` is as large as n/m asks,
        and a number that costs the law variance is a warning. ``start`` is ``stationary`` (initial
        ages as after many rounds) or ``cold`` (all 0). ``weighting`` is ``uniform``, ``data-size``,
        ``draw-count`` or ``unbiased``; the default is that of the policy. ``sizes`` are the data
        sizes of all clients, in their order or by client; the default is equal sizes, until
        :meth:`report` says others. ``empty_cohort`` decides what happens if
        no client is selected: ``force-one`` forces one client, ``skip`` leaves the round empty.
        ``backoff`` is whether clients that fail again and again are asked less often
        (:meth:`report`).
        """
        self._own = own_policy(policy)
        self._names = Names.of(clients)
        #: The sizes that reports have said, by number; NaN for those of which none has. None if
        #: no report says any.
        self._learnt: NDArray[np.float64] | None = None
        count = len(self._names) if self._names is not None else clients
        #: The policy with its options, or the name of one's own.
        self.policy = policy_name(policy)
        #: The mean number of clients in a round.
        self.cohort = cohort
        #: The seed of all random draws.
        self.seed = seed
        self._options = settings(
            self.policy,
            count,
            cohort,
            seed,
            max_age,
            start,
            weighting,
            self._sizes(sizes),
            empty_cohort,
            backoff,
        )
        self._inner = _agewise.Selector(self._options, self._own)
        if self._own is None:
            warn_of_max_age(self.policy, whole("clients", count), cohort, max_age)
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
    def names(self) -> list[Any]:
        """The clients in the order in which arrays have them, with those that have left."""
        return list(range(self.clients)) if self._names is None else self._names.all()

    @property
    def left(self) -> list[Any]:
        """The clients that have left, in increasing order of their numbers."""
        with self._lock:
            numbers = self._inner.left
        return [self._id(number) for number in numbers]

    def admit(self, size: float = 1.0, age: int = 0, *, name: Hashable = None) -> Any:
        """Admits one more client, with this data size and this age in the current round. Returns
        its number, which is the number of clients before; numbers are never used again. Where
        clients have names, ``name`` is its name, which is returned.

        A policy that cannot serve so many clients refuses with a ValueError. After an error nothing
        has changed.

        >>> selector = Selector("oldest-first", clients=6, cohort=2)
        >>> selector.admit(age=9), selector.clients
        (6, 7)
        >>> 6 in selector.select().ids
        True
        """
        return self.admit_all([(size, age)], names=None if name is None else [name])

    def admit_all(
        self, clients: Iterable[tuple[float, int]], *, names: Iterable[Hashable] | None = None
    ) -> Any:
        """Admits several clients at once, each with its data size and its age, which costs the
        policy less than one by one. Returns the first of them.

        >>> selector = Selector("markov-optimal", clients=100, cohort=15)
        >>> selector.admit_all((1.0, age) for age in range(50)), selector.clients
        (100, 150)
        """
        given = [(number("size", size), whole("age", age)) for size, age in clients]
        called = None if names is None else list(names)
        if (self._names is None) != (called is None) or len(called or given) != len(given):
            expected = "a name for each new client" if self._names is not None else "none"
            raise ValueError(f"name = {shown(called)}: expected {expected}, as in the beginning")
        if self._names is not None:
            self._names.check_new(called or [])
        with self._lock:
            first = self._inner.admit_all(given)
            if self._names is not None:
                self._names.add(called or [])
            if self._learnt is not None:
                self._learnt = np.append(self._learnt, [size for size, _ in given])
        return self._id(first) if given else first

    def leave(self, client: Any) -> None:
        """Marks a client as never available again. Its number, its size and its age stay.

        >>> selector = Selector("random", clients=4, cohort=4)
        >>> selector.leave(2)
        >>> selector.select().ids.tolist(), selector.left
        ([0, 1, 3], [2])
        """
        with self._lock:
            self._inner.leave(self._number(client))

    def set_size(self, client: Any, size: float) -> None:
        """Sets the data size of one client. ``sizes`` of :meth:`select` sets those of all."""
        with self._lock:
            place, given = self._number(client), number("size", size)
            self._inner.set_size(place, given)
            if self._learnt is not None:
                self._learnt[place] = given

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
        available: ArrayLike | Iterable[Any] | None = None,
        sizes: ArrayLike | Mapping[Any, float] | None = None,
        losses: ArrayLike | None = None,
    ) -> Cohort:
        """The cohort of the current round. A second call returns the same cohort.

        ``available`` are the clients that can take part, in any collection, or a mask with one
        entry per client; the default is all clients. ``sizes`` are the data sizes of all clients
        from now on. ``losses`` are the losses of all clients, with NaN for unknown ones, for
        policies that look at losses.

        >>> selector = Selector("random", clients=6, cohort=3)
        >>> selector.select(available={1, 2}).ids
        array([1, 2])
        """
        mask = None if available is None else self._mask(available)
        given = self._sizes(sizes)
        if given is not None:
            self._learnt = None
        known_losses = None if losses is None else numbers("losses", losses).astype(np.float32)
        with self._lock:
            ids, weights, number, forced = self._inner.select(mask, given, known_losses)
        return Cohort(self._ids(ids), weights, number, forced)

    @property
    def needs(self) -> Needs:
        """What reports should contain so that the policy works as intended.

        >>> Selector("age-herding").needs.update_sketches, Selector("active").needs.loss
        (True, 'whole-data')
        """
        with self._lock:
            return Needs(*self._inner.needs)

    def probes(
        self, available: ArrayLike | Iterable[Any] | None = None
    ) -> dict[ProbeKind, NDArray[Any]]:
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
        mask = None if available is None else self._mask(available)
        with self._lock:
            asked = self._inner.probes(mask)
        return {kind: self._ids(clients) for kind, clients in asked}

    def observe(
        self,
        clients: ArrayLike | Iterable[Any],
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
        {'update-step': array([0, 1, 2, 3])}
        >>> selector.observe([0, 1, 2, 3], sketches=[[1, 0], [1, 0], [-1, 0], [-1, 0]])
        >>> selector.probes()
        {}
        """
        figures = _figures(losses, durations, root_mean_squares, sketches)
        numbered = self._numbers("clients", clients)
        with self._lock:
            self._inner.observe(numbered, figures)

    def report(
        self,
        clients: ArrayLike | Iterable[Any],
        *,
        losses: ArrayLike | None = None,
        durations: ArrayLike | None = None,
        root_mean_squares: ArrayLike | None = None,
        sketches: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        failed: ArrayLike | Iterable[Any] | None = None,
    ) -> None:
        """Ends the round: the clients whose updates were accepted are credited, so their age
        becomes 0. The age of every other client grows by one.

        ``losses``, ``durations`` (in seconds) and ``root_mean_squares`` (of the losses of all
        samples) are in the order of ``clients``, with NaN for unknown values. ``sketches`` has one
        row per client: a sketch of its update (:func:`agewise.sketch`), of the same width in the
        whole run. If only some clients have a sketch, pass those to :meth:`observe` afterwards. A
        client that was selected and did not report keeps its age, so it is selected again soon.
        After an error nothing has changed.

        ``sizes`` are the data sizes that the clients state, such as their ``num-examples``, with
        NaN for those that state none. Until
        the others have stated theirs, they count as large as the mean of those that have.

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
        numbered = self._numbers("clients", clients)
        missing = None if failed is None else self._numbers("failed", failed)
        stated = None if sizes is None else _stated_sizes(sizes, len(numbered))
        with self._lock:
            self._inner.report(numbered, figures, missing)
            if stated is not None and len(stated):
                self._learn(numbered, stated)

    @property
    def failed(self) -> dict[Any, Failures]:
        """The clients that have failed since they were last credited.

        >>> selector = Selector("oldest-first", clients=8, cohort=1)
        >>> for _ in range(2):
        ...     selector.report([], failed=selector.select().ids)
        >>> list(selector.failed.values())
        [Failures(in_a_row=2, eligible_from=3)]
        """
        with self._lock:
            failed = self._inner.failed
        return {
            self._id(client): Failures(in_a_row, eligible_from)
            for client, in_a_row, eligible_from in failed
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
        It has no names of clients, which are arguments of the selector that loads it.

        >>> first = Selector("random", clients=50, cohort=5, seed=3)
        >>> first.report(first.select().ids)
        >>> second = Selector("random", clients=50, cohort=5, seed=3)
        >>> second.load_state(first.state())
        >>> second.select().ids.tolist() == first.select().ids.tolist()
        True
        """
        with self._lock:
            state = bytes(self._inner.state())
            if self._learnt is None:
                return state
            known = [None if np.isnan(size) else size for size in self._learnt.tolist()]
            return _LEARNT + json.dumps(known).encode() + _AND_STATE + state

    def load_state(self, state: bytes) -> None:
        """Continues from a :meth:`state` of a selector that was created with the same arguments.

        Clients that were admitted since are among the names of the selector that loads it, if
        clients have names. After an error nothing has changed.
        """
        state, learnt = bytes(state), None
        if state.startswith(_LEARNT):
            found, _, state = state[len(_LEARNT) :].partition(_AND_STATE)
            try:
                learnt = np.array(json.loads(found), dtype=np.float64)
            except ValueError as error:
                raise ValueError(f"state = {error}: expected what state() returned") from None
        with self._lock:
            self._inner.load_state(state)
            self._learnt = learnt

    def __getstate__(self) -> dict[str, Any]:
        kept = {key: value for key, value in self.__dict__.items() if key not in _NOT_PICKLED}
        return kept | {"_state": self.state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        inner = state.pop("_state")
        self.__dict__.update(state)
        self._names = None if self._names is None else self._names.copy()
        self._inner = _agewise.Selector(self._options, self._own)
        self._lock = threading.Lock()
        self.load_state(inner)

    # Names and numbers

    def _id(self, number: int) -> Any:
        return number if self._names is None else self._names.name(number)

    def _ids(self, numbers: NDArray[np.uint32]) -> NDArray[Any]:
        if self._names is None:
            return numbers.astype(np.int64)
        return self._names.array(numbers)

    def _number(self, client: Any) -> int:
        if self._names is None:
            return whole("client", client)
        return self._names.number("client", client)

    def _numbers(self, field: str, clients: Any) -> NDArray[np.uint32]:
        if isinstance(clients, Cohort):
            clients = clients.ids
        if self._names is None:
            return client_numbers(field, clients)
        return self._names.numbers(field, clients)

    def _mask(self, available: Any) -> NDArray[np.bool_]:
        count = self.clients
        given = np.asarray(available)
        if given.dtype == np.bool_ and given.ndim == 1:
            return np.ascontiguousarray(given)
        mask = np.zeros(count, dtype=np.bool_)
        present = self._numbers("available", available)
        wrong = present[present >= count]
        if wrong.size:
            raise ValueError(f"available = {wrong[0]}: expected clients from 0 to {count - 1}")
        mask[present] = True
        return mask

    def _sizes(self, sizes: ArrayLike | Mapping[Any, float] | None) -> NDArray[np.float64] | None:
        """The sizes of all clients, in their order."""
        if not isinstance(sizes, Mapping):
            return None if sizes is None else numbers("sizes", sizes)
        everyone = self._names.all() if self._names is not None else range(len(sizes))
        missing = [client for client in everyone if client not in sizes]
        if missing or len(sizes) != len(everyone):
            what = f"none of client {missing[0]!r}" if missing else f"{len(sizes)} sizes"
            raise ValueError(f"sizes = {what}: expected one for each of {len(everyone)} clients")
        return numbers("sizes", [sizes[client] for client in everyone])

    def _learn(self, clients: NDArray[np.uint32], stated: NDArray[np.float64]) -> None:
        """Notes the sizes that clients have stated."""
        if self._learnt is None:
            self._learnt = np.full(self._inner.clients, np.nan)
        known = ~np.isnan(stated)
        self._learnt[clients[known]] = stated[known]
        if np.isnan(self._learnt).all():
            return
        mean = float(np.nanmean(self._learnt))
        for place, size in enumerate(self._learnt.tolist()):
            self._inner.set_size(place, mean if np.isnan(size) else size)

    def __repr__(self) -> str:
        return (
            f"Selector({self.policy!r}, clients={self.clients}, cohort={self.cohort}, "
            f"seed={self.seed}, round={self.round})"
        )


def _stated_sizes(sizes: ArrayLike, clients: int) -> NDArray[np.float64]:
    stated = numbers("sizes", sizes)
    if len(stated) != clients:
        raise ValueError(f"sizes = {len(stated)} numbers: expected {clients}, one for each client")
    wrong = stated[~(np.isnan(stated) | (np.isfinite(stated) & (stated > 0)))]
    if wrong.size:
        raise ValueError(f"sizes = {wrong[0]}: expected finite numbers above 0")
    return stated


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
