"""Which policy, for your own PyTorch model and clients? `pip install ./python torch`, and then
`python torch_model.py visits.csv site outcome`.
"""

import csv
import sys
from pathlib import Path

import numpy as np
import torch

import agewise
from agewise.torch import TorchTask

path, client_column, label_column = sys.argv[1:]
with Path(path).open() as file:
    rows = list(csv.DictReader(file))
features = [name for name in rows[0] if name not in (client_column, label_column)]
x = np.array([[row[name] for name in features] for row in rows], dtype=np.float32)
y = np.array([row[label_column] for row in rows], dtype=np.int64)
clients = np.array([row[client_column] for row in rows])
test = np.random.default_rng(0).random(len(rows)) < 0.2


def model() -> torch.nn.Module:
    """Your model."""
    hidden = torch.nn.Linear(len(features), 16)
    return torch.nn.Sequential(hidden, torch.nn.ReLU(), torch.nn.Linear(16, y.max() + 1))


own = {name: ~test & (clients == name) for name in np.unique(clients[~test])}
datasets = {name: (x[rows], y[rows]) for name, rows in own.items()}
loss = torch.nn.functional.cross_entropy
task = TorchTask(model, loss, datasets, (x[test], y[test]), batch=8, local="2 epochs")
result = agewise.compare(task=task, cohort=4, rounds=30, seeds=5, targets=[0.7])
print(result, result.report, sep="\n")
