"""Metrics of participation, the sample of clients that evaluate, and round numbers of results."""

import dataclasses
import hashlib
import math

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Result

from agewise import Selector


def add_participation(metrics: MetricRecord, selector: Selector) -> None:
    """Adds metrics of participation so far, except those that are not known yet."""
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


def evaluation_draw(seed: int, group: str, client: int) -> bytes:
    """The random draw of a client for the evaluation of a round: a function of its arguments."""
    text = f"agewise evaluate {seed} {group} {client}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def later_rounds(result: Result, before: int, initial: ArrayRecord) -> Result:
    """A result with round numbers that start after `before`, and with arrays in any case."""

    def shift(metrics: dict[int, MetricRecord]) -> dict[int, MetricRecord]:
        return {before + finished: record for finished, record in metrics.items()}

    return dataclasses.replace(
        result,
        arrays=result.arrays or initial,
        train_metrics_clientapp=shift(result.train_metrics_clientapp),
        evaluate_metrics_clientapp=shift(result.evaluate_metrics_clientapp),
        evaluate_metrics_serverapp=shift(result.evaluate_metrics_serverapp),
    )
