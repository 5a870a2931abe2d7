"""The model, the data and the training loops in PyTorch; the digits come from agewise."""

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import agewise


class Net(nn.Module):
    """A small convolutional network for images of 28 x 28."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 5, padding=2)
        self.hidden = nn.Linear(16 * 7 * 7, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        """The logits of a batch."""
        x = functional.max_pool2d(functional.relu(self.conv(images)), 4)
        scores: Tensor = self.out(functional.relu(self.hidden(x.flatten(1))))
        return scores


def build(seed: int) -> Net:
    """The model with initial parameters that follow from the seed."""
    torch.manual_seed(seed)
    return Net()


@cache
def digits() -> agewise.Dataset:
    """6,000 training and 1,000 test images of digits, which are part of agewise."""
    return agewise.load_data("digits")


@cache
def split(clients: int, distribution: str, seed: int) -> agewise.Partition:
    """The digits of each client: a function of its arguments, so every process finds the same."""
    return agewise.partition(digits().train, clients, distribution, seed=seed)


def tensors(images: agewise.Images) -> TensorDataset:
    """Images as tensors of shape (n, 1, 28, 28) in [0, 1], and labels."""
    pixels = torch.from_numpy(images.pixels).permute(0, 3, 1, 2).float() / 255.0
    return TensorDataset(pixels, torch.from_numpy(images.labels).long())


def train(net: Net, data: TensorDataset, epochs: int, batch: int, lr: float, seed: int) -> float:
    """Local SGD; returns the mean loss of a batch. The order of batches follows from the seed."""
    order = torch.Generator().manual_seed(seed)
    loader = DataLoader(data, batch_size=batch, shuffle=True, generator=order)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    net.train()
    total, batches = 0.0, 0
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(images), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.item()
            batches += 1
    return total / batches


def test(net: Net, data: TensorDataset) -> tuple[float, float]:
    """The accuracy and the mean loss on some images."""
    images, labels = data.tensors
    net.eval()
    with torch.inference_mode():
        scores = net(images)
        accuracy = (scores.argmax(1) == labels).float().mean().item()
        return accuracy, functional.cross_entropy(scores, labels).item()
