"""The registered policies, and age laws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import max_age_or_auto, numbers, within


@dataclass(frozen=True)
class Policy:
    """A registered selection policy.

    >>> {policy.name: policy.decentralised for policy in policies()}["markov-optimal"]
    True
    """

    name: str
    #: A one-sentence description.
    summary: str
    #: Its options with their meanings, written as in ``phased(reshuffle=0.05)``.
    options: dict[str, str]
    #: Whether it requires options.
    needs_options: bool
    #: The default weighting of its cohorts.
    weighting: str
    #: Whether clients decide on their own; None if that depends on the options.
    decentralised: bool | None


def policies() -> list[Policy]:
    """All registered policies.

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
    """The probability that a client of each age takes part, and what follows from it (Theorem
    2).
    """

    #: p_0, p_1, ...; the last one holds for all greater ages.
    probabilities: NDArray[np.float64]
    #: The share of clients of each age in the steady state.
    steady_state: NDArray[np.float64]
    #: The share of clients that take part in a round.
    rate: float
    #: E[X]; X is the number of rounds between two selections of a client.
    mean_interval: float
    #: Var[X].
    var_interval: float
    #: The longest possible X; None if there is no bound.
    longest_wait: int | None


def age_law(
    law: str | ArrayLike = "optimal",
    *,
    clients: int = 100,
    cohort: int = 15,
    max_age: int | str = "auto",
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
    ages = max_age_or_auto(max_age)
    bound = None if isinstance(ages, str) else ages
    return AgeLaw(*_agewise.age_law(name, clients / per_round, bound, given))
