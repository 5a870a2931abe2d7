"""The four models of the training benchmark as PyTorch modules, and the data they learn from.

The layers are named as agewise names them in a checkpoint: convolutions conv1, conv2, dense layers fc1, fc2, fc3.
"""

import gzip
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

PARAMETERS = {"softmax": 7_850, "2nn": 199_210, "cnn": 1_663_370, "cnn-cifar": 1_068_298}
INPUT = {"softmax": (1, 28, 28), "2nn": (1, 28, 28), "cnn": (1, 28, 28), "cnn-cifar": (3, 24, 24)}
CONVOLUTIONAL = ("cnn", "cnn-cifar")


class Dense(nn.Module):
    """softmax and 2nn: dense layers with ReLU between them."""

    def __init__(self, *widths):
        super().__init__()
        self.layers = len(widths) - 1
        for i in range(self.layers):
            self.add_module(f"fc{i + 1}", nn.Linear(widths[i], widths[i + 1]))

    def forward(self, x):
        x = x.flatten(1)
        for i in range(1, self.layers):
            x = F.relu(getattr(self, f"fc{i}")(x))
        return getattr(self, f"fc{self.layers}")(x)


class Convolutional(nn.Module):
    """cnn and cnn-cifar: two 5x5 convolutions, each with ReLU and max-pool, then dense layers.

    `pool_first` takes the maximum before the ReLU instead of after it. The values and gradients are the same, since
    ReLU is monotone, but the ReLU then sees a quarter of the values.
    """

    def __init__(self, channels, maps, pool, widths, pool_first=False):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, maps[0], 5, padding=2)
        self.conv2 = nn.Conv2d(maps[0], maps[1], 5, padding=2)
        self.dense = len(widths) - 1
        for i in range(self.dense):
            self.add_module(f"fc{i + 1}", nn.Linear(widths[i], widths[i + 1]))
        self.pool = pool
        self.pool_first = pool_first

    def block(self, x):
        if self.pool_first:
            return F.relu_(F.max_pool2d(x, *self.pool))
        return F.max_pool2d(F.relu(x), *self.pool)

    def forward(self, x):
        x = self.block(self.conv1(x))
        x = self.block(self.conv2(x))
        x = x.flatten(1)
        for i in range(1, self.dense):
            x = F.relu(getattr(self, f"fc{i}")(x))
        return getattr(self, f"fc{self.dense}")(x)


def build(name, pool_first=False):
    """The model with PyTorch's default initialisation."""
    if name == "softmax":
        model = Dense(784, 10)
    elif name == "2nn":
        model = Dense(784, 200, 200, 10)
    elif name == "cnn":
        model = Convolutional(1, (32, 64), (2,), (7 * 7 * 64, 512, 10), pool_first)
    elif name == "cnn-cifar":
        model = Convolutional(3, (64, 64), (3, 2, 1), (6 * 6 * 64, 384, 192, 10), pool_first)
    else:
        raise SystemExit(f"no model {name!r}: one of {', '.join(PARAMETERS)}")
    count = sum(p.numel() for p in model.parameters())
    assert count == PARAMETERS[name], f"{name} has {count} parameters, not {PARAMETERS[name]}"
    return model


def data_folder(given=None):
    """The folder with the data: an argument, or AGEWISE_DATA."""
    folder = given or os.environ.get("AGEWISE_DATA")
    if not folder:
        raise SystemExit("no data: give a folder with the MNIST files (idx, gzip or not), or set AGEWISE_DATA to it")
    return Path(folder)


def idx(folder, name):
    """The bytes of an idx file as an array; a folder mnist inside the given one will do too."""
    for place in (folder, folder / "mnist"):
        for path, opener in ((place / f"{name}.gz", gzip.open), (place / name, open)):
            if path.exists():
                with opener(path, "rb") as file:
                    raw = file.read()
                dimensions = raw[3]
                shape = np.frombuffer(raw, ">i4", dimensions, 4)
                return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    raise SystemExit(f"{folder} has no {name}.gz: the four MNIST files are needed")


def mnist(folder, part="train"):
    """Images (n, 1, 28, 28) as f32 in [0, 1], and labels."""
    images = idx(folder, f"{part}-images-idx3-ubyte")
    labels = idx(folder, f"{part}-labels-idx1-ubyte")
    images = torch.from_numpy(images.astype(np.float32) / 255.0).unsqueeze(1)
    return images, torch.from_numpy(labels.astype(np.int64))


def cifar(folder, limit):
    """Central 24x24 crops (n, 3, 24, 24) as f32 in [0, 1] and labels, or nothing if the files are not there."""
    for place in (folder, folder / "cifar10", folder / "cifar-10-batches-bin"):
        path = place / "data_batch_1.bin"
        if path.exists():
            records = np.fromfile(path, np.uint8, limit * 3073).reshape(-1, 3073)
            images = records[:, 1:].reshape(-1, 3, 32, 32)[:, :, 4:28, 4:28].astype(np.float32) / 255.0
            return torch.from_numpy(images.copy()), torch.from_numpy(records[:, 0].astype(np.int64))
    return None


def samples(model, folder, limit):
    """Real pixels of the shape the model takes, labels, and where they come from."""
    if model == "cnn-cifar":
        found = cifar(folder, limit)
        if found:
            return *found, "CIFAR-10"
        images, labels = mnist(folder)
        # Three different corners of each digit stand in for the three colours.
        crops = [images[:limit, 0, i : i + 24, i : i + 24] for i in (0, 2, 4)]
        return torch.stack(crops, 1), labels[:limit], "MNIST crops (no CIFAR-10 here)"
    images, labels = mnist(folder)
    return images[:limit].clone(), labels[:limit].clone(), "MNIST"
