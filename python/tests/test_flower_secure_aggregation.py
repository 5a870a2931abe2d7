"""Secure aggregation of Flower with clients by age: SecAgg and SecAgg+, with their real mods and
workflows.
"""

from __future__ import annotations

import copy
import logging
from typing import Any

import numpy as np
import pytest
from bad_calls import refused
from flower_world import World
from flwr.app import Context, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secagg_mod, secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow, SecAggWorkflow

from agewise import Selector
from agewise.flower.workflow import WorkflowSelection

CLIENTS, COHORT, ROUNDS, SEED = 9, 3, 6, 5


class Adds(NumPyClient):
    """Adds its number to the model."""

    def __init__(self, number: int) -> None:
        self.number = number

    def fit(self, parameters: Any, config: Any) -> Any:
        return [parameters[0] + 0.1 * self.number], 10, {}


class Node(World):
    """A world whose workflows have a run."""

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
        # Messages that are sent are copies; here they would share their records.
        return super().send_and_receive(map(copy.deepcopy, messages), timeout=timeout)

    @property
    def run(self) -> Any:
        return type("Run", (), {"run_id": 1})()


def app(mod: Any = secaggplus_mod) -> ClientApp:
    def client(context: Context) -> Any:
        return Adds(int(context.node_config["partition-id"])).to_client()

    return ClientApp(client_fn=client, mods=[mod])


#: The protocols, each with the mod of clients and the workflow of the server.
PROTOCOLS: dict[str, tuple[Any, Any]] = {
    "SecAgg+": (
        secaggplus_mod,
        SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2, timeout=30.0),
    ),
    "SecAgg": (secagg_mod, SecAggWorkflow(reconstruction_threshold=2, timeout=30.0)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_secure_aggregation_trains_the_cohorts_of_the_policy(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, logger="flwr")
    mod, secure = PROTOCOLS[protocol]
    nodes = Node(app(mod), CLIENTS, 1)
    first = ndarrays_to_parameters([np.zeros(2, dtype=np.float32)])
    inner = FedAvg(fraction_evaluate=0.0, initial_parameters=first)
    chosen = WorkflowSelection(inner, cohort=COHORT, seed=SEED, min_available_nodes=CLIENTS)
    context = LegacyContext(
        Context(1, 0, {}, RecordDict(), {}),
        config=ServerConfig(num_rounds=ROUNDS),
        strategy=chosen,
    )
    DefaultWorkflow(fit_workflow=secure)(nodes, context)
    assert chosen.selector is not None
    metrics = chosen.selector.metrics()
    assert metrics.rounds == ROUNDS and metrics.never_selected == 0
    assert metrics.longest_wait == 3, "nine clients, three in a round, the oldest first"
    expected = Selector("oldest-first", sorted(map(str, nodes.contexts), key=int), COHORT, SEED)
    total = 0.0
    for _ in range(ROUNDS):
        cohort = expected.select()
        numbers = [nodes.contexts[int(name)].node_config["partition-id"] for name in cohort]
        total += 0.1 * float(np.mean([int(number) for number in numbers]))
        expected.report(cohort)
    assert chosen.selector.ages.tolist() == expected.ages.tolist()
    [arrays] = context.state.array_records.values()
    # Secure aggregation rounds: it works with whole numbers.
    np.testing.assert_allclose(next(iter(arrays.values())).numpy(), total, atol=0.02)


@pytest.mark.filterwarnings("ignore")
def test_a_node_that_fails_does_not_stop_all_rounds() -> None:
    """SecAgg+ gives a round up without saying whose fault it was; suspects are halved."""
    nodes = Node(app(), CLIENTS, 1)
    broken = min(nodes.contexts)
    nodes.mutations[broken] = lambda _: None
    first = ndarrays_to_parameters([np.zeros(2, dtype=np.float32)])
    inner = FedAvg(fraction_evaluate=0.0, initial_parameters=first)
    chosen = WorkflowSelection(inner, cohort=4, seed=SEED, min_available_nodes=CLIENTS)
    config = ServerConfig(num_rounds=20)
    context = LegacyContext(Context(1, 0, {}, RecordDict(), {}), config=config, strategy=chosen)
    secure = SecAggPlusWorkflow(num_shares=4, reconstruction_threshold=3, timeout=30.0)
    DefaultWorkflow(fit_workflow=secure)(nodes, context)
    assert chosen.selector is not None
    assert list(chosen.selector.failed) == [str(broken)]
    assert chosen.selector.metrics().never_selected == 1


def test_wrong_arguments() -> None:
    refused(lambda: WorkflowSelection("FedAvg", cohort=3), "expected a strategy of flwr.server")
    few = {"cohort": 3, "min_available_nodes": 2}
    refused(lambda: WorkflowSelection(FedAvg(), **few), "min_available_nodes = 2: expected at")
