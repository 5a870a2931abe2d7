"""Who trains next: policies, laws, and the two sides of a selection."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import finite, known, numbers, rows, shown, whole, within


@dataclass(frozen=True)
class Policy:
    """A selection policy that can be asked for by its name.

    >>> {policy.name: policy.decentralised for policy in policies()}["markov-optimal"]
    True
    """

    name: str
    #: What it does, in one sentence.
    summary: str
    #: The options it understands, each with its meaning, as in ``phased(reshuffle=0.05)``.
    options: dict[str, str]
    #: Whether it cannot be made without options.
    needs_options: bool
    #: How its cohorts are weighed if nothing else is said.
    weighting: str
    #: Whether clients decide on their own; None where that is not known without options.
    decentralised: bool | None


def policies() -> list[Policy]:
    """All policies.

    >>> [policy.name for policy in policies()][:3]
    ['random', 'probabilistic', 'markov-optimal']
    """
    rows = _agewise.policies()
    return [
        Policy(name, summary, dict(options), needs, weighting, decentralised)
        for name, summary, options, needs, weighting, decentralised in rows
    ]


@dataclass(frozen=True, eq=False)
class AgeLaw:
    """With which probability a client of some age takes part, and what follows (Theorem 2)."""

    #: p_0, p_1, ...; older clients keep the last.
    probabilities: NDArray[np.float64]
    #: The share of clients of each age after many rounds.
    steady_state: NDArray[np.float64]
    #: The share of clients that take part in a round.
    rate: float
    #: E[X]; X is the number of rounds from one selection of a client to its next.
    mean_interval: float
    #: Var[X].
    var_interval: float
    #: The longest possible X, None if there is no bound.
    longest_wait: int | None


def age_law(
    law: str | ArrayLike = "optimal", *, clients: int = 100, cohort: int = 15, max_age: int = 10
) -> AgeLaw:
    """The ``optimal`` or ``linear`` law for a setting, or the law of given probabilities.

    >>> law = age_law("optimal", clients=100, cohort=15)
    >>> law.probabilities.round(3)[4:8]
    array([0.   , 0.333, 1.   , 1.   ])
    >>> round(law.var_interval, 3)
    0.222
    >>> age_law([0.0, 0.5, 1.0]).longest_wait
    3
    """
    name = law if isinstance(law, str) else ""
    given = None if isinstance(law, str) else numbers("law", law).tolist()
    most = (1 << 32) - 1
    per_round = within("cohort", cohort, 1, within("clients", clients, 1, most))
    ages = within("max_age", max_age, 1, most)
    return AgeLaw(*_agewise.age_law(name, clients / per_round, ages, given))


@dataclass(frozen=True, eq=False)
class Cohort:
    """The clients of a round."""

    #: Who, in increasing order.
    ids: NDArray[np.uint32]
    #: What the update of each counts for; they add up to 1, except with ``unbiased``.
    weights: NDArray[np.float64]
    #: The round, from 0.
    round: int
    #: Whether nobody was selected and one client was forced.
    forced: bool

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Participation:
    """How evenly the clients took part. What is not known yet is NaN."""

    rounds: int
    #: E[X]; X is the number of rounds from one participation of a client to its next.
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
    #: Jain's index: 1 if all took part equally often.
    jain: float
    never_selected: int
    #: The longest X, or the age of a client that still waits.
    longest_wait: int
    #: sqrt(Var Y)/T for windows of T rounds, Y being the participations of a client.
    window_sd: dict[int, float]
    #: The share of pairs of clients that never shared a round.
    never_met: float
    #: The spread over pairs of the number of shared rounds, relative to its mean.
    meeting_spread: float


class Selector:
    """Chooses the clients of one round after the other, and keeps their ages.

    Everything random follows from (seed, round, client), so the same calls give the same cohorts, here and in every other
    part of agewise.

    >>> selector = Selector("oldest-first", clients=100, cohort=15, seed=1)
    >>> for _ in range(20):
    ...     cohort = selector.select()
    ...     selector.report(cohort.ids)  # all of them came back
    >>> len(cohort), int(selector.ages.max())
    (15, 6)
    >>> Selector("markov-optimal", clients=10, cohort=11)
    Traceback (most recent call last):
        ...
    ValueError: cohort = 11: expected a whole number from 1 to the number of clients, 10
    """

    def __init__(
        self,
        policy: str = "markov-optimal",
        clients: int = 100,
        cohort: int = 15,
        seed: int = 0,
        *,
        max_age: int = 10,
        start: str = "stationary",
        weighting: str | None = None,
        sizes: ArrayLike | None = None,
        empty_cohort: str = "force-one",
    ) -> None:
        """A run of a policy with its options, as in ``phased(reshuffle=0.05)``.

        ``max_age`` is the age at which age laws stop changing. ``start`` is ``stationary`` (first ages as after many rounds) or
        ``cold`` (all 0). ``weighting`` is ``uniform``, ``data-size``, ``draw-count`` or ``unbiased``, or the policy's own.
        ``sizes`` are the data sizes of all clients, equal if not given. If nobody is selected, ``empty_cohort`` forces one
        client (``force-one``) or leaves the round empty (``skip``).
        """
        #: The policy with its options.
        self.policy = policy
        #: The number of clients.
        self.clients = clients
        #: How many of them take part in a round, on average.
        self.cohort = cohort
        #: What all draws depend on.
        self.seed = seed
        self._options = _options(
            policy, clients, cohort, seed, max_age, start, weighting, sizes, empty_cohort
        )
        self._inner = _agewise.Selector(self._options)
        # Calls from several threads take turns.
        self._lock = threading.Lock()

    @property
    def round(self) -> int:
        """The round that is about to be played, from 0."""
        with self._lock:
            return self._inner.round

    @property
    def ages(self) -> NDArray[np.uint64]:
        """The age of every client: the rounds since it was last credited. A copy."""
        with self._lock:
            return self._inner.ages

    def select(
        self,
        available: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        losses: ArrayLike | None = None,
    ) -> Cohort:
        """The cohort of the present round. Asking again gives the same answer.

        ``available``: who can take part, as client numbers or as a mask with one entry for each client; everyone if not given.
        ``sizes``: the data sizes of all clients, from now on. ``losses``: what is known of the losses of all clients, NaN for
        unknown, for policies that look at them.

        >>> selector = Selector("random", clients=6, cohort=3)
        >>> selector.select(available=[1, 2]).ids
        array([1, 2], dtype=uint32)
        """
        mask = None if available is None else _mask(available, self.clients)
        given = None if sizes is None else numbers("sizes", sizes)
        heard = None if losses is None else numbers("losses", losses).astype(np.float32)
        with self._lock:
            return Cohort(*self._inner.select(mask, given, heard))

    @property
    def wants_sketches(self) -> bool:
        """Whether the policy looks at sketches of updates: then reports should bring them (:func:`agewise.sketch`).

        >>> Selector("age-herding").wants_sketches, Selector("oldest-first").wants_sketches
        (True, False)
        """
        with self._lock:
            return self._inner.wants_sketches

    @property
    def wants_root_mean_squares(self) -> bool:
        """Whether the policy looks at the root mean squares of losses.

        >>> Selector("oort").wants_root_mean_squares
        True
        """
        with self._lock:
            return self._inner.wants_root_mean_squares

    @property
    def wants_whole_losses(self) -> bool:
        """Whether a reported loss should be that of all samples of a client under the model that it was sent, and not that of
        the samples it met while training.

        >>> Selector("active").wants_whole_losses
        True
        """
        with self._lock:
            return self._inner.wants_whole_losses

    @property
    def asks_whole_rounds(self) -> bool:
        """Whether the sketches of :meth:`asks_sketches` should be of a whole round's work; otherwise one step is enough.

        >>> Selector("divfl").asks_whole_rounds, Selector("age-herding").asks_whole_rounds
        (True, False)
        """
        with self._lock:
            return self._inner.asks_whole_rounds

    def asks(self, available: ArrayLike | None = None) -> NDArray[np.uint32]:
        """The clients whose loss under the present model the policy wants to know before it chooses.

        Whoever can find that out tells :meth:`note`, before :meth:`select`. Nobody has to: otherwise the last reports have to
        do. ``available`` is as in :meth:`select`.

        >>> selector = Selector("power-of-choice(d=4)", clients=50, cohort=2)
        >>> asked = selector.asks()
        >>> selector.note(asked, losses=[0.1, 0.4, 0.3, 0.2])
        >>> selector.select().ids.tolist() == asked[[1, 2]].tolist()
        True
        """
        mask = None if available is None else _mask(available, self.clients)
        with self._lock:
            return self._inner.asks(mask)

    def asks_sketches(self, available: ArrayLike | None = None) -> NDArray[np.uint32]:
        """The clients of whom the policy wants a sketch of what they would do under the present model, before it chooses.

        Like :meth:`asks`, a wish. In ``agewise compare`` such a client trains for one step.

        >>> selector = Selector("age-herding", clients=4, cohort=2)
        >>> selector.asks_sketches()
        array([0, 1, 2, 3], dtype=uint32)
        >>> selector.note([0, 1, 2, 3], sketches=[[1, 0], [1, 0], [-1, 0], [-1, 0]])
        >>> selector.asks_sketches()
        array([], dtype=uint32)
        """
        mask = None if available is None else _mask(available, self.clients)
        with self._lock:
            return self._inner.asks_sketches(mask)

    def note(
        self,
        clients: ArrayLike,
        *,
        losses: ArrayLike | None = None,
        durations: ArrayLike | None = None,
        root_mean_squares: ArrayLike | None = None,
        sketches: ArrayLike | None = None,
    ) -> None:
        """Keeps what clients say about themselves; nobody is credited and the round goes on. Lists are those of :meth:`report`.
        Before the first round of a stationary start a policy may deal out the first ages anew, by what it knows now.

        >>> selector = Selector("age-herding", clients=6, cohort=3)
        >>> selector.note([0, 1], sketches=[[1, 2], [3, float("nan")]])
        Traceback (most recent call last):
            ...
        ValueError: sketch of client 1 = NaN: expected finite numbers only
        """
        said = _figures(losses, durations, root_mean_squares, sketches)
        numbered = _clients("clients", clients)
        with self._lock:
            self._inner.note(numbered, *said)

    def report(
        self,
        clients: ArrayLike,
        *,
        losses: ArrayLike | None = None,
        durations: ArrayLike | None = None,
        root_mean_squares: ArrayLike | None = None,
        sketches: ArrayLike | None = None,
    ) -> None:
        """Ends the round: the clients whose updates were accepted are credited, so that their age is 0; all others grow older.

        ``losses``, ``durations`` (seconds) and ``root_mean_squares`` (of the losses of all samples) belong to the clients, in
        their order; NaN where there is none. ``sketches`` has one row for each client: a sketch of its update
        (:func:`agewise.sketch`), all of one width in the whole run. Where some clients have none, those of the others go to
        :meth:`note` afterwards. A client that was selected and did not report keeps its age and comes back soon. After an error
        nothing has changed.

        >>> selector = Selector("age-herding", clients=6, cohort=2)
        >>> selector.report([2, 5], losses=[0.3, float("nan")], sketches=np.eye(2))
        >>> selector.report([7])
        Traceback (most recent call last):
            ...
        ValueError: credited = 7: expected clients from 0 to 5
        """
        said = _figures(losses, durations, root_mean_squares, sketches)
        numbered = _clients("clients", clients)
        with self._lock:
            self._inner.report(numbered, *said)

    def metrics(self) -> Participation:
        """How evenly clients were credited so far.

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
        """All that is needed to go on exactly, metrics and sketches included: JSON in UTF-8.

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
        """Goes on where :meth:`state` was taken. The selector has to be made with the same policy and numbers; after an error
        it is as it was."""
        with self._lock:
            self._inner.load_state(bytes(state))

    def __reduce__(self) -> tuple[Any, ...]:
        return _selector_again, (self._options, self.state())

    def __copy__(self) -> Selector:
        return _selector_again(*self.__reduce__()[1])

    def __repr__(self) -> str:
        return (
            f"Selector({self.policy!r}, clients={self.clients}, cohort={self.cohort}, "
            f"seed={self.seed}, round={self.round})"
        )


def _selector_again(options: str, state: bytes) -> Selector:
    selector = Selector(**json.loads(options))
    selector.load_state(state)
    return selector


class Client:
    """One client's own side of a policy in which clients decide alone.

    With the same seed its decisions are those of :class:`Selector`, except that nobody forces it.

    >>> clients = [Client("markov-optimal", 100, 15, number, seed=1) for number in range(100)]
    >>> willing = [k for k, client in enumerate(clients) if client.takes_part(0, client.first_age)]
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
        max_age: int = 10,
        start: str = "stationary",
    ) -> None:
        """The client with this number, from 0, of so many."""
        #: The policy with its options.
        self.policy = policy
        #: Which client it is.
        self.client = client
        options = _options(policy, clients, cohort, seed, max_age, start, None, None, "skip")
        self._inner = _agewise.Client(options, whole("client", client))

    @property
    def first_age(self) -> int:
        """Its age before round 0."""
        return self._inner.first_age

    def takes_part(self, round: int, age: int) -> bool:
        """Whether it takes part in a round (from 0), given its age: the rounds since it last did."""
        return self._inner.takes_part(whole("round", round), whole("age", age))


def _options(
    policy: str,
    clients: int,
    cohort: int,
    seed: int,
    max_age: int,
    start: str,
    weighting: str | None,
    sizes: ArrayLike | None,
    empty_cohort: str,
) -> str:
    return json.dumps(
        {
            "policy": _text("policy", policy),
            "clients": whole("clients", clients),
            "cohort": whole("cohort", cohort),
            "seed": whole("seed", seed),
            "max_age": whole("max_age", max_age),
            "start": _text("start", start),
            "weighting": None if weighting is None else _text("weighting", weighting),
            "sizes": None if sizes is None else finite("sizes", sizes),
            "empty_cohort": _text("empty_cohort", empty_cohort),
        }
    )


def _text(field: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{field} = {shown(value)}: expected a text")


def _figures(
    losses: ArrayLike | None,
    durations: ArrayLike | None,
    root_mean_squares: ArrayLike | None,
    sketches: ArrayLike | None,
) -> tuple[NDArray[np.float32] | None, ...]:
    """What clients say, as the core keeps it: with 32 bits."""
    lists = {"losses": losses, "durations": durations, "root_mean_squares": root_mean_squares}
    figures = [
        None if given is None else numbers(field, given).astype(np.float32)
        for field, given in lists.items()
    ]
    return *figures, None if sketches is None else rows("sketches", sketches)


def _clients(field: str, given: ArrayLike) -> NDArray[np.uint32]:
    array = np.asarray(given)
    if array.size == 0:
        return np.empty(0, dtype=np.uint32)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{field} = {shown(given)}: expected a list of client numbers")
    wrong = array[(array < 0) | (array >= 1 << 32)]
    if wrong.size:
        raise ValueError(f"{field} = {wrong[0]}: expected client numbers, 0 or more")
    return array.astype(np.uint32)


def _mask(available: ArrayLike, clients: int) -> NDArray[np.bool_]:
    array = np.asarray(available)
    if array.dtype == np.bool_ and array.ndim == 1:
        return np.ascontiguousarray(array)
    mask = np.zeros(clients, dtype=np.bool_)
    present = _clients("available", available)
    wrong = present[present >= clients]
    if wrong.size:
        raise ValueError(f"available = {wrong[0]}: expected clients from 0 to {clients - 1}")
    mask[present] = True
    return mask
