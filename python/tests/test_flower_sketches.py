"""AgeStrategy with policies that look at updates: sketches are made of what replies bring."""

import json
import logging
from itertools import pairwise

import numpy as np
import pytest
from flower_world import World
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import Result

from agewise import Selector, sketch
from agewise.flower import AgeStrategy, identify

CLIENTS, COHORT, SEED, ROUNDS = 12, 3, 5, 14
SHAPES = {"hidden": (3,), "out.weight": (300, 2), "out.bias": (2,)}
LAST = ["out.weight", "out.bias"]


def first_model() -> ArrayRecord:
    return ArrayRecord(
        {name: Array(np.zeros(shape, dtype=np.float32)) for name, shape in SHAPES.items()}
    )


def change(number: int, name: str) -> np.ndarray:
    """What a client adds to an array. Four neighbours are of one kind, whose output layers change
    alike."""
    kind = np.random.default_rng([number // 4, len(name)]).normal(size=SHAPES[name])
    own = np.random.default_rng([100 + number, len(name)]).normal(size=SHAPES[name])
    return (kind + 0.1 * own).astype(np.float32)


def app() -> ClientApp:
    made = ClientApp()

    @made.train()
    def train(message: Message, context: Context) -> Message:
        number = int(context.node_config["partition-id"])
        arrays = message.content.array_records["arrays"]
        trained = {
            name: Array(array.numpy() + change(number, name)) for name, array in arrays.items()
        }
        figures = {
            "num-examples": 10 + number,
            "train_loss": 1.0 + number,
            "train_loss_rms": 2.0 + number,
        }
        content = RecordDict({"arrays": ArrayRecord(trained), "metrics": MetricRecord(figures)})
        return Message(content, reply_to=message)

    return identify(made)


def world(seed: int) -> World:
    return World(app(), CLIENTS, seed)


def strategy(policy: str = "age-herding", **more: object) -> AgeStrategy:
    settings = {
        "clients": CLIENTS,
        "cohort": COHORT,
        "policy": policy,
        "seed": SEED,
        "fraction_evaluate": 0.0,
    }
    return AgeStrategy(**{**settings, **more})


def cohorts(nodes: World, first: int = 1) -> list[list[int]]:
    return [nodes.partitions("train", number) for number in range(first, ROUNDS + 1)]


def played(policy: str, seed: int = 1, **more: object) -> tuple[list[list[int]], Result]:
    nodes = world(seed)
    result = strategy(policy, **more).start(nodes, first_model(), ROUNDS)
    return cohorts(nodes), result


def by_hand(policy: str, names: list[str], nodes: World) -> list[list[int]]:
    """The cohorts of a selector that is told what clients make of the models that were sent."""
    selector = Selector(policy, CLIENTS, COHORT, SEED)
    found = []
    for number in range(1, ROUNDS + 1):
        ids = selector.select().ids
        arrays = nodes.model_of(number)
        before = np.concatenate([arrays[name].numpy().reshape(-1) for name in names])
        changes = [[change(client, name).reshape(-1) for name in names] for client in ids.tolist()]
        sketches = [
            sketch(before, before + np.concatenate(change), seed=SEED) for change in changes
        ]
        selector.report(ids, losses=1.0 + ids, root_mean_squares=2.0 + ids, sketches=sketches)
        found.append(ids.tolist())
    return found


@pytest.mark.parametrize(
    "policy", ["age-herding", "divfl", "clustered(by=2)", "oort", "active", "power-of-choice"]
)
def test_replies_tell_what_the_policy_looks_at(policy: str) -> None:
    nodes = world(1)
    strategy(policy).start(nodes, first_model(), ROUNDS)
    assert cohorts(nodes) == by_hand(policy, LAST, nodes)


def test_cohorts_are_balanced_once_half_of_the_clients_were_heard() -> None:
    herded, result = played("age-herding")
    oldest, _ = played("oldest-first")
    # 12 clients, 3 in a round: 6 of them have a sketch after two rounds.
    assert herded[:2] == oldest[:2] and herded[2:] != oldest[2:]

    def balanced(found: list[list[int]]) -> float:
        return float(
            np.mean([{number // 4 for number in cohort} == {0, 1, 2} for cohort in found[5:]])
        )

    # One of each kind is what 4*4*4 of 220 cohorts have by chance.
    assert balanced(herded) > 0.7 > balanced(oldest)
    waits = [
        later - earlier
        for number in range(CLIENTS)
        for earlier, later in pairwise(t for t, cohort in enumerate(herded) if number in cohort)
    ]
    assert max(waits) <= 6, "the bound, 1.5 n/m"
    assert all(
        metrics["agewise-reported"] == COHORT for metrics in result.train_metrics_clientapp.values()
    )


def test_the_same_run_again_is_equal_to_the_byte() -> None:
    (first, one), (second, other) = played("age-herding", 1), played("age-herding", 2)
    assert first == second
    for name in SHAPES:
        assert one.arrays[name].data == other.arrays[name].data
    assert one.train_metrics_clientapp == other.train_metrics_clientapp


@pytest.mark.parametrize("policy", ["age-herding", "divfl", "clustered(by=2)", "oort"])
@pytest.mark.parametrize("stop", [1, 3, 7])
def test_continuing_is_exact(policy: str, stop: int) -> None:
    whole, result = played(policy)
    first = strategy(policy)
    before = first.start(world(2), first_model(), stop)
    second = strategy(policy)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.state_dict() == first.state_dict()
    nodes = world(3)
    after = second.start(nodes, before.arrays, ROUNDS - stop)
    assert cohorts(nodes, stop + 1) == whole[stop:]
    for name in SHAPES:
        assert after.arrays[name].data == result.arrays[name].data


def test_arrays_that_are_named() -> None:
    nodes = world(1)
    strategy(sketch_arrays=["hidden"]).start(nodes, first_model(), ROUNDS)
    assert (
        cohorts(nodes)
        == by_hand("age-herding", ["hidden"], nodes)
        != by_hand("age-herding", LAST, nodes)
    )
    both, _ = played("age-herding", sketch_arrays=LAST)
    assert both == played("age-herding")[0]
    with pytest.raises(
        ValueError, match=r"sketch_arrays = 'head': expected arrays of the model, .*'hidden'"
    ):
        played("age-herding", sketch_arrays=["head"])
    for wrong in ("hidden", [], [1], 3):
        with pytest.raises(ValueError, match="sketch_arrays"):
            strategy(sketch_arrays=wrong)
    # Policies that do not look at updates do not look for the arrays.
    played("oldest-first", sketch_arrays=["head"])


def test_a_state_belongs_to_the_arrays_that_were_named() -> None:
    named = strategy(sketch_arrays=["hidden"])
    named.start(world(1), first_model(), 2)
    state = json.loads(json.dumps(named.state_dict()))
    strategy(sketch_arrays=["hidden"]).load_state_dict(state)
    for other in (strategy(), strategy(sketch_arrays=LAST)):
        with pytest.raises(ValueError, match="state"):
            other.load_state_dict(state)


def test_a_reply_too_far_for_a_sketch_still_counts(caplog: pytest.LogCaptureFixture) -> None:
    nodes = world(1)

    def far(reply: Message) -> Message:
        if "arrays" in reply.content:
            arrays = reply.content.array_records["arrays"]
            changed = arrays["out.bias"].numpy().astype(np.float64) + 1e300
            arrays["out.bias"] = Array(changed)
        return reply

    nodes.mutations[nodes.node_of(strategy_cohort()[0])] = far
    chosen = strategy()
    with caplog.at_level(logging.WARNING, logger="flwr"):
        result = chosen.start(nodes, first_model(), 1)
    assert result.train_metrics_clientapp[1]["agewise-reported"] == COHORT
    assert f"no sketch of client {strategy_cohort()[0]}: after[" in caplog.text


def strategy_cohort() -> list[int]:
    """The cohort of the first round."""
    ids: list[int] = Selector("age-herding", CLIENTS, COHORT, SEED).select().ids.tolist()
    return ids


def test_a_first_model_that_is_empty() -> None:
    """Nothing is sent, so there is no change to sketch; the next rounds have one."""
    nodes = World(identify(growing_app()), CLIENTS, 1)
    chosen = strategy()
    chosen.start(nodes, ArrayRecord(), 1)
    assert chosen.rounds_done == 1


def growing_app() -> ClientApp:
    """An app that brings a model, whatever it was sent."""
    made = ClientApp()

    @made.train()
    def train(message: Message, context: Context) -> Message:
        arrays = ArrayRecord(
            {name: Array(np.ones(shape, dtype=np.float32)) for name, shape in SHAPES.items()}
        )
        content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})})
        return Message(content, reply_to=message)

    return made
