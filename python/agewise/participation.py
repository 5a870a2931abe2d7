"""What a selector says: cohorts, failures and metrics of participation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Cohort:
    """The clients of a round and their weights. Iterating over it gives the clients.

    >>> import agewise
    >>> selector = agewise.Selector("oldest-first", clients=["ann", "bob"], cohort=2)
    >>> [client for client in selector.select()]
    ['ann', 'bob']
    """

    #: The clients: their numbers in increasing order, or their names in the same order.
    ids: NDArray[Any]
    #: The aggregation weights of their updates. They sum to 1, except with ``unbiased``.
    weights: NDArray[np.float64]
    #: The round, from 0.
    round: int
    #: Whether no client was selected and one was forced.
    forced: bool

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.ids.tolist())

    def __contains__(self, client: object) -> bool:
        return client in self.ids.tolist()


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
