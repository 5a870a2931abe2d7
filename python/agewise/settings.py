"""The arguments of selectors and clients, as the compiled part takes them."""

from __future__ import annotations

import json
import warnings

from numpy.typing import ArrayLike

from agewise import _agewise
from agewise.checks import finite, max_age_or_auto, shown, switch, whole


def settings(
    policy: str,
    clients: object,
    cohort: int,
    seed: int,
    max_age: int | str,
    start: str,
    weighting: str | None,
    sizes: ArrayLike | None,
    empty_cohort: str,
    backoff: bool,
) -> str:
    """The arguments as JSON, after a check of their types."""
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
