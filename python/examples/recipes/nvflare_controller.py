"""NVFlare: the FedAvg controller with the clients that agewise selects. `pip install nvflare`.

A job uses it in place of `nvflare.app_common.workflows.fedavg.FedAvg`, with the same arguments.
"""

from nvflare.app_common.workflows.fedavg import FedAvg

from agewise import Selector


class AgeFedAvg(FedAvg):
    """FedAvg of NVFlare: who trains next is decided by age, and who answers is credited."""

    def __init__(self, *args, policy="oldest-first", seed=0, **kwargs):
        super().__init__(*args, **kwargs)
        self._policy = policy, seed
        self._selector = None
        self._cohort = []
        self._answered = []

    def sample_clients(self, num_clients=None):
        """The names of the clients of the next round, of those that are connected."""
        connected = [client.name for client in self.engine.get_clients()]
        if self._selector is None:
            policy, seed = self._policy
            cohort = min(num_clients or len(connected), len(connected))
            self._selector = Selector(policy, sorted(connected), cohort, seed)
        else:
            missing = [name for name in self._cohort if name not in self._answered]
            self._selector.report(self._answered, failed=missing)
            for name in sorted(set(connected) - set(self._selector.names)):
                self._selector.admit(name=name)
        self._cohort, self._answered = list(self._selector.select(available=connected)), []
        self.info(f"Selected clients: {self._cohort}")
        return self._cohort

    def _aggregate_one_result(self, result):
        taken = super()._aggregate_one_result(result)
        if taken is not False:
            self._answered.append(result.meta["client_name"])
        return taken
