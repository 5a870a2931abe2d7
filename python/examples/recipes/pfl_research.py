"""pfl-research: a user sampler that asks agewise. `pip install pfl torch`."""

import numpy as np
from pfl.data.federated_dataset import FederatedDataset

from agewise import Selector


class AgeSampler:
    """Gives the users of one cohort after the other.

    In a simulation of pfl every user of a cohort reports, so a cohort is credited when the next one
    is asked for. The cohort size of the algorithm has to be that of the selector, whose cohorts
    have one size ("oldest-first", "age-herding", "round-robin").
    """

    def __init__(self, selector):
        self.selector = selector
        self.cohort = []
        self.left = []

    def __call__(self):
        """The next user."""
        if not self.left:
            if self.cohort:
                self.selector.report(self.cohort)
            self.cohort = list(self.selector.select())
            self.left = list(self.cohort)
        return self.left.pop(0)


users = {f"user {k}": [np.full((20 + k, 2), float(k)), np.zeros(20 + k)] for k in range(20)}
selector = Selector("oldest-first", clients=users, cohort=5, seed=1)
dataset = FederatedDataset.from_slices(users, AgeSampler(selector))
seen = set()
for _ in range(12):  # the rounds of `FederatedAveraging.run`, which calls get_cohort in each
    seen.update(user.user_id for user, seed in dataset.get_cohort(5))
metrics = selector.metrics()
print(f"rounds {metrics.rounds}, longest wait {metrics.longest_wait}, users {len(seen)}")
