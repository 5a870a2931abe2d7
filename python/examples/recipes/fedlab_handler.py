"""FedLab: a server handler whose clients agewise selects. `pip install fedlab torch`."""

import torch
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.core.standalone import StandalonePipeline
from torch.utils.data import DataLoader, TensorDataset

from agewise import Selector


class AgeHandler(SyncServerHandler):
    """FedLab's synchronous server, with another choice of clients."""

    def __init__(self, model, global_round, selector):
        super().__init__(model, global_round, sample_ratio=1.0)
        self.selector = selector
        self.cohort = []

    @property
    def num_clients_per_round(self):
        """The round is over when this many updates have arrived."""
        return len(self.cohort)

    def sample_clients(self):
        """The clients of the next round."""
        self.cohort = list(self.selector.select())
        return self.cohort

    def global_update(self, buffer):
        """Averages as FedLab does, and credits the clients."""
        super().global_update(buffer)
        self.selector.report(self.cohort)


class Clouds:
    """The data of each client, as FedLab asks for it."""

    def get_dataloader(self, client, batch_size):
        """Batches of a client."""
        generator = torch.Generator().manual_seed(client)
        labels = torch.randint(3, (24,), generator=generator)
        centres = torch.tensor([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0]])
        points = centres[labels] + torch.randn(24, 2, generator=generator)
        return DataLoader(TensorDataset(points, labels), batch_size=batch_size)


class Quiet(StandalonePipeline):
    """A run without an evaluation in each round."""

    def evaluate(self):
        """Nothing."""


torch.manual_seed(1)
model, selector = torch.nn.Linear(2, 3), Selector("oldest-first", clients=20, cohort=5, seed=1)
handler = AgeHandler(model, 12, selector)
trainer = SGDSerialClientTrainer(model, 20)
trainer.setup_dataset(Clouds())
trainer.setup_optim(epochs=1, batch_size=8, lr=0.1)
Quiet(handler, trainer).main()
metrics = selector.metrics()
print(f"rounds {metrics.rounds}, longest wait {metrics.longest_wait}, jain {metrics.jain:.2f}")
