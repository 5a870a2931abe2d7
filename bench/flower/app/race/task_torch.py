"""The PyTorch side: model, data and loops in the form of Flower's PyTorch quickstart.

Two things are faster here than in the quickstart, both in PyTorch's favour: the samples are tensors in memory
(the quickstart decodes and normalises every image again in every epoch), and clients do not evaluate.
"""

import gzip
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

Batches = DataLoader[tuple[Tensor, ...]]

PARAMETERS = 1_663_370
SPLIT_SEED = 1


class Net(nn.Module):
    """McMahan's CNN for MNIST: two 5x5 convolutions with max-pool, and two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(64 * 7 * 7, 512)
        self.fc2 = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.flatten(1)
        x = F.relu(self.fc1(x))
        out: Tensor = self.fc2(x)
        return out


def build() -> Net:
    """The model with PyTorch's own first values, the same in every run."""
    torch.manual_seed(1)
    net = Net()
    count = sum(parameter.numel() for parameter in net.parameters())
    if count != PARAMETERS:
        raise ValueError(f"the model has {count} parameters, not {PARAMETERS}")
    return net


def idx(folder: str, name: str) -> np.ndarray:
    """An idx file of MNIST as an array of bytes."""
    for place in (Path(folder), Path(folder) / "mnist"):
        for path, opener in ((place / f"{name}.gz", gzip.open), (place / name, open)):
            if path.exists():
                with opener(path, "rb") as file:
                    raw = file.read()
                shape = np.frombuffer(raw, ">i4", raw[3], 4)
                return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)
    raise ValueError(f"data: {folder!r} has no {name}.gz: a folder with the four MNIST files is needed")


@cache
def samples(folder: str, part: str) -> tuple[Tensor, Tensor]:
    """All images (n, 1, 28, 28) in [0, 1] and labels; read once per process, as the quickstart keeps its dataset."""
    images = idx(folder, f"{part}-images-idx3-ubyte").astype(np.float32) / 255.0
    labels = idx(folder, f"{part}-labels-idx1-ubyte").astype(np.int64)
    return torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels)


def load_data(folder: str, partition: int, partitions: int, batch: int) -> Batches:
    """The shuffled batches of one client: an equal share of a seeded permutation."""
    images, labels = samples(folder, "train")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
    mine = order[partition::partitions]
    return DataLoader(TensorDataset(images[mine], labels[mine]), batch_size=batch, shuffle=True)


def train(net: Net, loader: Batches, epochs: int, lr: float) -> float:
    """Local SGD; gives the mean loss of a batch."""
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    net.train()
    running_loss = 0.0
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(net(images), labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
    return running_loss / (epochs * len(loader))


def train_tuned(net: Net, loader: Batches, epochs: int, lr: float) -> float:
    """The same training as fast as we can write it in PyTorch: one thread, channels-last, tensors that are sliced
    without a DataLoader, the fused form of the SGD step. (The script raises glibc's malloc thresholds too.)
    """
    torch.set_num_threads(1)
    dataset = loader.dataset
    if not isinstance(dataset, TensorDataset) or loader.batch_size is None:
        raise ValueError("the loader has to be that of load_data")
    images, labels = dataset.tensors
    net.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, foreach=True)
    total, batches = torch.zeros(()), 0
    for _ in range(epochs):
        for part in torch.split(torch.randperm(len(labels)), loader.batch_size):
            x = images[part].contiguous(memory_format=torch.channels_last)
            loss = F.cross_entropy(net(x), labels[part])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            total += loss.detach()
            batches += 1
    return total.item() / batches


def accuracy(net: Net, folder: str) -> float:
    """The share of the test digits that are recognised."""
    images, labels = samples(folder, "t10k")
    net.eval()
    right = 0
    with torch.inference_mode():
        for first in range(0, len(labels), 500):
            part = slice(first, first + 500)
            right += int((net(images[part]).argmax(1) == labels[part]).sum())
    return right / len(labels)
