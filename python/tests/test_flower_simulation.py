"""Flower for real: 20 nodes on Ray train the embedded digits for 5 rounds."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import Result
from flwr.simulation import run_simulation

from agewise import Selector, Trainer, load_data, partition
from agewise.flower import AgeStrategy, age_mod, identify

NODES, COHORT, ROUNDS, SEED = 20, 5, 5, 7
POLICY = "markov-optimal"

pytestmark = pytest.mark.flower_run


def arrays_of(trainer: Trainer) -> ArrayRecord:
    return ArrayRecord({"parameters": Array(trainer.parameters.copy())})


def digits_app(*mods: Mod) -> ClientApp:
    """Softmax regression on the digits of a node's partition."""
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        number = int(context.node_config["partition-id"])
        server_round = message.content.config_records["config"]["server-round"]
        assert isinstance(server_round, int)
        images = load_data("digits").train
        own = partition(images, NODES, seed=SEED).of(number)
        trainer = Trainer("softmax", seed=SEED)
        trainer.parameters[:] = message.content.array_records["arrays"]["parameters"].numpy()
        report = trainer.train(
            own, epochs=2, batch=50, lr=0.1, seed=SEED, round=server_round, client=number
        )
        metrics = MetricRecord({"num-examples": len(own), "train_loss": report.loss})
        content = RecordDict({"arrays": arrays_of(trainer), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


@dataclass
class Run:
    """What a simulation left behind."""

    cohorts: list[list[int]] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    states: list[dict[str, int | str]] = field(default_factory=list)
    result: Result = field(default_factory=Result)


def simulate(
    app: ClientApp, rounds: int = ROUNDS, state: Any = None, arrays: Any = None, **settings: Any
) -> Run:
    """Runs Flower's simulation with an AgeStrategy."""
    run, server = Run(), ServerApp()
    strategy = AgeStrategy(
        fraction_evaluate=0.0,
        min_available_nodes=NODES,
        policy=POLICY,
        clients=NODES,
        cohort=COHORT,
        seed=SEED,
        **settings,
    )
    if state is not None:
        strategy.load_state_dict(state)

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        trainer = Trainer("softmax", seed=SEED)
        trainer.parameters[:] = arrays["parameters"].numpy()
        run.accuracy.append(trainer.evaluate(load_data("digits").test).accuracy)
        run.states.append(strategy.state_dict())
        if len(run.accuracy) > 1:
            ages = strategy._selector.ages
            run.cohorts.append([number for number in range(NODES) if ages[number] == 0])
        return MetricRecord({"accuracy": run.accuracy[-1]})

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        initial = arrays_of(Trainer("softmax", seed=SEED)) if arrays is None else arrays
        run.result = strategy.start(grid, initial, rounds, timeout=300, evaluate_fn=evaluate)

    # Ray's own dashboard is of no use here.
    backend: dict[str, dict[str, Any]] = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False},
    }
    run_simulation(server, app, NODES, backend_config=backend)
    return run


def expected_cohorts() -> list[list[int]]:
    selector = Selector(POLICY, NODES, COHORT, SEED)
    cohorts = []
    for _ in range(ROUNDS):
        cohorts.append(selector.select().ids.tolist())
        selector.report(cohorts[-1])
    return cohorts


@pytest.fixture(scope="module")
def central() -> Run:
    """The run in which the server chooses, with names given at once."""
    return simulate(identify(digits_app()))


def bytes_of(run: Run) -> bytes:
    return run.result.arrays["parameters"].data


def test_the_server_chooses(central: Run) -> None:
    assert central.cohorts == expected_cohorts()
    assert len(central.accuracy) == ROUNDS + 1
    assert central.accuracy[-1] > max(0.75, central.accuracy[0] + 0.5)
    for number, cohort in enumerate(central.cohorts, 1):
        metrics = central.result.train_metrics_clientapp[number]
        assert metrics["agewise-asked"] == metrics["agewise-reported"] == len(cohort)


def test_a_second_run_is_the_same_to_the_byte(central: Run) -> None:
    again = simulate(identify(digits_app()))
    assert again.cohorts == central.cohorts
    assert bytes_of(again) == bytes_of(central)


def test_clients_that_decide_alone_give_the_same_model(central: Run) -> None:
    app = digits_app(age_mod(POLICY, NODES, COHORT, SEED))
    alone = simulate(app, decentralised=True)
    assert alone.cohorts == central.cohorts
    assert bytes_of(alone) == bytes_of(central)
    for number, cohort in enumerate(alone.cohorts, 1):
        metrics = alone.result.train_metrics_clientapp[number]
        assert metrics["agewise-asked"] == NODES
        assert metrics["agewise-cohort"] == metrics["agewise-reported"] == len(cohort)


@pytest.mark.parametrize("decentralised", [False, True])
def test_a_run_that_was_stopped_goes_on(central: Run, decentralised: bool) -> None:
    mods = [age_mod(POLICY, NODES, COHORT, SEED)] if decentralised else []
    first = simulate(identify(digits_app(*mods)), rounds=2, decentralised=decentralised)
    second = simulate(
        identify(digits_app(*mods)),
        rounds=ROUNDS - 2,
        state=first.states[-1],
        arrays=first.result.arrays,
        decentralised=decentralised,
    )
    assert second.cohorts == central.cohorts[2:]
    assert list(second.result.train_metrics_clientapp) == [3, 4, 5]
    assert bytes_of(second) == bytes_of(central)
