"""The model, the data and the loops, all in PyTorch; the embedded digits come from agewise."""

from dataclasses import dataclass
from functools import cache

import agewise
import torch
from flwr.app import Context, Message
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass(frozen=True)
class Settings:
    """The run config, with the types that it has to have."""

    rounds: int
    policy: str
    clients: int
    cohort: int
    seed: int
    decentralised: bool
    wait_for: int
    partition: str
    epochs: int
    batch: int
    lr: float

    @classmethod
    def of(cls, context: Context) -> "Settings":
        """Reads them from the run config of a server or client."""
        config = context.run_config
        return cls(
            rounds=int(config["num-server-rounds"]),
            policy=str(config["agewise-policy"]),
            clients=int(config["agewise-clients"]),
            cohort=int(config["agewise-cohort"]),
            seed=int(config["agewise-seed"]),
            decentralised=bool(config["decentralised"]),
            wait_for=int(config["wait-for"]) or int(config["agewise-clients"]),
            partition=str(config["partition"]),
            epochs=int(config["local-epochs"]),
            batch=int(config["batch-size"]),
            lr=float(config["learning-rate"]),
        )


class Net(nn.Module):
    """A small convolutional network for images of 28 x 28."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 5, padding=2)
        self.hidden = nn.Linear(16 * 7 * 7, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        """The scores of a batch."""
        x = F.max_pool2d(F.relu(self.conv(images)), 4)
        scores: Tensor = self.out(F.relu(self.hidden(x.flatten(1))))
        return scores


def build(seed: int) -> Net:
    """The model with first values that follow from the seed."""
    torch.manual_seed(seed)
    return Net()


@cache
def digits() -> agewise.Dataset:
    """6,000 digits to learn from and 1,000 to test with; they are part of agewise."""
    return agewise.load_data("digits")


@cache
def split(clients: int, law: str, seed: int) -> agewise.Partition:
    """Who has which digits: a function of its arguments, so that every process finds the same."""
    return agewise.partition(digits().train, clients=clients, law=law, seed=seed)


def tensors(images: agewise.Images) -> TensorDataset:
    """Images as PyTorch wants them: (n, 1, 28, 28) in [0, 1], and labels."""
    pixels = torch.from_numpy(images.pixels).permute(0, 3, 1, 2).float() / 255.0
    return TensorDataset(pixels, torch.from_numpy(images.labels).long())


def train(net: Net, data: TensorDataset, epochs: int, batch: int, lr: float, seed: int) -> float:
    """Local SGD; gives the mean loss of a batch. The order of the batches follows from the seed."""
    order = torch.Generator().manual_seed(seed)
    loader = DataLoader(data, batch_size=batch, shuffle=True, generator=order)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    net.train()
    total, batches = 0.0, 0
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images), labels)
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
        return accuracy, F.cross_entropy(scores, labels).item()


def round_of(message: Message) -> int:
    """The round that a message belongs to, from 1 on."""
    number = message.content.config_records["config"]["server-round"]
    if not isinstance(number, int):
        raise ValueError(f"server-round: {number!r}, expected a whole number")
    return number
