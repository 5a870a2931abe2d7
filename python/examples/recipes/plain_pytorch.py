"""A training loop with PyTorch, in which agewise says who trains, by what updates look like."""

import copy

import torch

from agewise import Selector, sketch

generator = torch.Generator().manual_seed(1)
centres = torch.tensor([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0]])
phones = {}
for number in range(20):
    # 64-bit numbers as names, and two of the three classes on each phone.
    labels = (torch.randint(2, (24,), generator=generator) + number) % 3
    points = centres[labels] + torch.randn(24, 2, generator=generator)
    phones[10**15 + number] = points, labels

torch.manual_seed(1)
layers = [torch.nn.Linear(2, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 3)]
model = torch.nn.Sequential(*layers)
selector = Selector("age-herding", clients=phones, cohort=5, seed=1)


def train(phone, steps=10):
    """The state of the model after a phone has trained, and the mean loss."""
    local, (points, labels) = copy.deepcopy(model), phones[phone]
    optimiser, losses = torch.optim.SGD(local.parameters(), lr=0.1), []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(local(points), labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return local.state_dict(), sum(losses) / len(losses)


for _ in range(12):
    before = model.state_dict()
    for clients in selector.probes().values():  # before the first round, what one step would change
        probes = [sketch(before, train(phone, steps=1)[0], seed=1) for phone in clients]
        selector.observe(clients, sketches=probes)
    cohort = selector.select()
    states, losses = zip(*map(train, cohort), strict=True)
    sketches = [sketch(before, state, seed=1) for state in states]
    selector.report(cohort, losses=losses, sketches=sketches)
    weighted = list(zip(cohort.weights.tolist(), states, strict=True))
    mean = {name: sum(w * state[name] for w, state in weighted) for name in before}
    model.load_state_dict(mean)

model.eval()
points, labels = (torch.cat(part) for part in zip(*phones.values(), strict=True))
accuracy = (model(points).argmax(1) == labels).float().mean()
print(f"accuracy {accuracy:.2f}, longest wait {selector.metrics().longest_wait}")
