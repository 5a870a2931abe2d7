"""Small figures of a round: how clients have taken part, who evaluates, and which round it was."""

import dataclasses
import hashlib
import math

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Result

from agewise import Selector


def add_participation(metrics: MetricRecord, selector: Selector) -> None:
    """Adds how clients have taken part so far. A figure that is not known yet is left out."""
    participation = selector.metrics()
    metrics["agewise-max-age"] = int(selector.ages.max())
    figures = {
        "agewise-var-interval": participation.var_interval,
        "agewise-jain": participation.jain,
        "agewise-longest-wait": participation.longest_wait,
    }
    for name, value in figures.items():
        if math.isfinite(value):
            metrics[name] = value


def evaluation_draw(seed: int, group: str, number: int) -> bytes:
    """What a client draws for the evaluation of a round: the same in every run with this seed."""
    text = f"agewise evaluate {seed} {group} {number}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def later_rounds(result: Result, before: int, initial: ArrayRecord) -> Result:
    """A result whose rounds are counted from before its run; the initial arrays if it has none."""

    def shift(metrics: dict[int, MetricRecord]) -> dict[int, MetricRecord]:
        return {before + number: record for number, record in metrics.items()}

    return dataclasses.replace(
        result,
        arrays=result.arrays or initial,
        train_metrics_clientapp=shift(result.train_metrics_clientapp),
        evaluate_metrics_clientapp=shift(result.evaluate_metrics_clientapp),
        evaluate_metrics_serverapp=shift(result.evaluate_metrics_serverapp),
    )
