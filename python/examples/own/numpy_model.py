"""Which policy, for your own model and clients? A softmax regression in NumPy.

Usage: python numpy_model.py visits.csv
"""

import csv
import sys
from pathlib import Path

import numpy as np

import agewise

with Path(sys.argv[1]).open() as file:
    rows = list(csv.DictReader(file))
features = [name for name in rows[0] if name not in ("site", "outcome")]
x = np.array([[1.0] + [float(row[name]) for name in features] for row in rows])
y = np.array([int(row["outcome"]) for row in rows])
site = np.array([row["site"] for row in rows])
test = np.random.default_rng(0).random(len(rows)) < 0.2


class Softmax:
    """The task: clients, a first model, local training, evaluation."""

    def __init__(self):
        self.clients = {name: int((site[~test] == name).sum()) for name in np.unique(site[~test])}

    def initial(self, seed):
        """The first model: all 0."""
        return np.zeros(x.shape[1] * 3)

    def train(self, client, parameters, round, seed):
        """One step over all samples of a client; returns the new parameters and metrics."""
        own = ~test & (site == client)
        p, weights = self.probabilities(parameters, own), parameters.reshape(-1, 3)
        loss = -np.log(p[np.arange(len(p)), y[own]]).mean()
        return (weights - 0.2 * x[own].T @ (p - np.eye(3)[y[own]]) / len(p)).ravel(), {"loss": loss}

    def evaluate(self, parameters):
        """How good a model is on the test rows."""
        p = self.probabilities(parameters, test)
        loss = -np.log(p[np.arange(len(p)), y[test]]).mean()
        return {"loss": loss, "accuracy": (p.argmax(1) == y[test]).mean(), "samples": len(p)}

    def probabilities(self, parameters, rows):
        """Of the outcomes."""
        e = np.exp(x[rows] @ parameters.reshape(-1, 3))
        return e / e.sum(axis=1, keepdims=True)


result = agewise.compare(task=Softmax(), cohort=4, rounds=30, seeds=5, targets=[0.7])
print(result, result.report, sep="\n")
