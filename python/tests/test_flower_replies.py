"""Which replies count, and what becomes of them: sums against NumPy, and failures of all kinds."""

from collections.abc import Callable

import numpy as np
import pytest
from flower_world import (
    World,
    counting_app,
    examples,
    made_strategy,
    model,
    trained_value,
    weights_of,
)
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)

from agewise import Selector
from agewise.flower import AgeStrategy, identify

CLIENTS, COHORT, SEED = 9, 4, 2
SIZES = [1.0, 5.0, 2.0, 2.0, 7.0, 1.0, 3.0, 4.0, 2.0]


def strategy(policy: str = "oldest-first", **more: object) -> AgeStrategy:
    return made_strategy(CLIENTS, COHORT, SEED, policy=policy, **more)


def world(seed: int = 1) -> World:
    return World(identify(counting_app()), CLIENTS, seed)


def first_cohort(policy: str = "oldest-first") -> list[int]:
    ids: list[int] = Selector(policy, CLIENTS, COHORT, SEED).select().ids.tolist()
    return ids


def ages(chosen: AgeStrategy) -> list[int]:
    found: list[int] = chosen._selector.ages.tolist()
    return found


def test_the_default_weighs_by_the_number_of_examples() -> None:
    result = strategy().start(world(), model(1.0, 2.0), 1)
    cohort = first_cohort()
    counts = np.array([examples(number) for number in cohort], dtype=np.float64)
    values = np.array([trained_value(number, 1) for number in cohort])
    mean = float((counts * values).sum() / counts.sum())
    # Four numbers of size 1 in 32 bits: a few roundings of 6e-8.
    np.testing.assert_allclose(weights_of(result.arrays), [1.0 + mean, 2.0 + mean], rtol=5e-7)
    losses = np.array([1.0 / (number + 1) for number in cohort])
    loss = result.train_metrics_clientapp[1]["train_loss"]
    assert loss == pytest.approx((counts * losses).sum() / counts.sum())
    assert "partition-id" not in result.train_metrics_clientapp[1]


@pytest.mark.parametrize("weighting", ["uniform", "data-size", "draw-count", "unbiased"])
@pytest.mark.parametrize("policy", ["oldest-first", "markov-optimal", "probabilistic"])
@pytest.mark.parametrize("failing", [0, 1])
def test_the_cohorts_weights(weighting: str, policy: str, failing: int) -> None:
    nodes = world()
    selector = Selector(policy, CLIENTS, COHORT, SEED, weighting=weighting, sizes=SIZES)
    cohort = selector.select()
    ids, weights = cohort.ids.tolist(), cohort.weights
    for number in ids[:failing]:
        nodes.mutations[nodes.node_of(number)] = lambda reply: Message(
            Error(code=0, reason="broken"), reply_to=_question(reply)
        )
    chosen = strategy(policy, weighting=weighting, sizes=SIZES)
    result = chosen.start(nodes, model(1.0, 2.0), 1)
    came, weight = ids[failing:], weights[failing:]
    if not came:
        pytest.skip("a cohort of one")
    values = np.array([trained_value(number, 1) for number in came])
    # The weight of clients that failed is distributed over the others; the sum of unbiased
    # weights is not 1.
    moved = float((weight * values).sum() / weight.sum() * weights.sum())
    np.testing.assert_allclose(weights_of(result.arrays), [1.0 + moved, 2.0 + moved], rtol=1e-6)
    assert [number for number, age in enumerate(ages(chosen)) if age == 0] == came


def _question(reply: Message) -> Message:
    """A message to which such a reply would be the answer."""
    meta = reply.metadata
    return Message(RecordDict(), meta.src_node_id, meta.message_type, group_id=meta.group_id)


def _with_arrays(change: Callable[[np.ndarray], object]) -> Callable[[Message], Message]:
    def mutation(reply: Message) -> Message:
        if "arrays" in reply.content:
            changed = change(weights_of(reply.content.array_records["arrays"]).copy())
            if not isinstance(changed, ArrayRecord):
                changed = ArrayRecord({"w": Array(changed)})
            reply.content["arrays"] = changed
        return reply

    return mutation


def _with_metrics(**figures: object) -> Callable[[Message], Message]:
    def mutation(reply: Message) -> Message:
        if "metrics" in reply.content:
            for key, value in figures.items():
                name = key.replace("_examples", "-examples")
                metrics = reply.content.metric_records["metrics"]
                if value is None:
                    del metrics[name]
                else:
                    metrics[name] = value  # type: ignore[assignment]
        return reply

    return mutation


def _without(record: str) -> Callable[[Message], Message]:
    def mutation(reply: Message) -> Message:
        if record in reply.content:
            del reply.content[record]
        return reply

    return mutation


def _twice(record: str) -> Callable[[Message], Message]:
    def mutation(reply: Message) -> Message:
        if record in reply.content:
            reply.content["again"] = reply.content[record]
        return reply

    return mutation


def _late(reply: Message) -> Message:
    if reply.metadata.message_type == "train":
        reply.metadata.group_id = "0"
    return reply


def _garbage(_: np.ndarray) -> ArrayRecord:
    return ArrayRecord({"w": Array("float32", (2,), "numpy.ndarray", b"not an array")})


def _lying(values: np.ndarray) -> ArrayRecord:
    honest = Array(np.append(values, values))
    return ArrayRecord({"w": Array(honest.dtype, (2,), honest.stype, honest.data)})


BAD = {
    "silent": lambda reply: None,
    "error": lambda reply: Message(Error(code=0, reason="x"), reply_to=_question(reply)),
    "nan": _with_arrays(lambda w: w * np.float32("nan")),
    "infinite": _with_arrays(lambda w: w / np.float32(0)),
    "other shape": _with_arrays(lambda w: w[:1]),
    "other names": _with_arrays(lambda w: ArrayRecord({"v": Array(w)})),
    "text": _with_arrays(lambda w: np.array(["a", "b"])),
    "garbage": _with_arrays(_garbage),
    "lying about its shape": _with_arrays(_lying),
    "no arrays": _without("arrays"),
    "no metrics": _without("metrics"),
    "arrays twice": _twice("arrays"),
    "metrics twice": _twice("metrics"),
    "no weight": _with_metrics(num_examples=None),
    "negative weight": _with_metrics(num_examples=-1),
    "weight nan": _with_metrics(num_examples=float("nan")),
    "weight infinite": _with_metrics(num_examples=float("inf")),
    "weight list": _with_metrics(num_examples=[1, 2]),
    "late": _late,
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_bad_reply_does_not_count(bad: Callable[[Message], Message | None]) -> None:
    nodes = world()
    strange = first_cohort()[1]

    def only_training(reply: Message) -> Message | None:
        return bad(reply) if reply.metadata.message_type == "train" else reply

    nodes.mutations[nodes.node_of(strange)] = only_training
    chosen = strategy()
    result = chosen.start(nodes, model(1.0, 2.0), 1)
    came = [number for number in first_cohort() if number != strange]
    assert result.train_metrics_clientapp[1]["agewise-cohort"] == COHORT
    assert result.train_metrics_clientapp[1]["agewise-reported"] == COHORT - 1
    assert [number for number, age in enumerate(ages(chosen)) if age == 0] == came
    counts = np.array([examples(number) for number in came], dtype=np.float64)
    values = np.array([trained_value(number, 1) for number in came])
    expected = 1.0 + float((counts * values).sum() / counts.sum())
    np.testing.assert_allclose(weights_of(result.arrays)[0], expected, rtol=5e-7)
    # It was not credited, so it is asked again.
    chosen.start(nodes, result.arrays, 1)
    assert strange in nodes.partitions("train", 2)


@pytest.mark.parametrize("metrics", [{"mood": 1.0}, {"train_loss": [1.0]}], ids=["more", "a list"])
def test_other_metrics_count_and_only_shared_ones_are_averaged(metrics: dict[str, object]) -> None:
    nodes = world()
    nodes.mutations[nodes.node_of(first_cohort()[1])] = _with_metrics(**metrics)
    result = strategy().start(nodes, model(1.0, 2.0), 1)
    found = result.train_metrics_clientapp[1]
    assert found["agewise-reported"] == COHORT
    assert "mood" not in found and ("train_loss" in found) == ("train_loss" not in metrics)


@pytest.mark.parametrize("weighting", [None, "unbiased"])
def test_arrays_of_another_shape_never_become_the_model(weighting: str | None) -> None:
    """Not even where the reply is alone in its round, or one of many that agree."""

    def grown(reply: Message) -> Message:
        if reply.metadata.message_type == "train":
            reply.content["arrays"] = model(1.0, 2.0, 3.0)
        return reply

    nodes = world()
    for number in range(CLIENTS):
        nodes.mutations[nodes.node_of(number)] = grown
    chosen = strategy(weighting=weighting)
    result = chosen.start(nodes, model(1.0, 2.0), 3)
    assert weights_of(result.arrays).tolist() == [1.0, 2.0]
    assert result.train_metrics_clientapp[3]["agewise-reported"] == 0


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), 1e300, [1.0]])
def test_a_loss_that_cannot_be_kept_is_not_reported(loss: object) -> None:
    nodes = world()
    for number in range(CLIENTS):
        nodes.mutations[nodes.node_of(number)] = _with_metrics(train_loss=loss, duration=loss)
    result = strategy().start(nodes, model(0.0), 2)
    assert result.train_metrics_clientapp[2]["agewise-reported"] == COHORT


def test_losses_and_durations_reach_the_core() -> None:
    nodes = world()
    for number in range(CLIENTS):
        mutation = _with_metrics(duration=2.0 + number)
        nodes.mutations[nodes.node_of(number)] = mutation
    chosen = strategy()
    chosen.start(nodes, model(0.0), 1)
    selector = Selector("oldest-first", CLIENTS, COHORT, SEED)
    ids = selector.select().ids
    selector.report(ids, losses=1.0 / (ids + 1.0), durations=2.0 + ids)
    assert chosen._selector.state() == selector.state()


def test_unrequested_replies_are_rejected() -> None:
    nodes = world()
    chosen = strategy()
    messages = list(chosen.configure_train(1, model(1.0), ConfigRecord(), nodes))
    replies = [nodes.answer(message) for message in messages]
    outsider = next(number for number in range(CLIENTS) if number not in first_cohort())
    content = RecordDict({"arrays": model(1.0), "config": ConfigRecord({"server-round": 1})})
    unasked = Message(content, nodes.node_of(outsider), "train", group_id="1")
    second = _with_arrays(lambda w: w + 100.0)(nodes.answer(messages[0]))
    replies += [nodes.answer(unasked), second]
    arrays, metrics = chosen.aggregate_train(1, replies)
    assert arrays is not None and metrics is not None
    assert weights_of(arrays)[0] < 3.0, "the first reply of a node counts"
    assert metrics["agewise-reported"] == COHORT
    assert ages(chosen)[outsider] > 0
    # The round is over: the same replies again are late.
    arrays, metrics = chosen.aggregate_train(1, replies)
    assert arrays is None and metrics is not None and metrics["agewise-reported"] == 0


def test_a_round_without_replies_leaves_the_model() -> None:
    nodes = world()
    for node in nodes.contexts:
        nodes.mutations[node] = lambda reply: (
            None if reply.metadata.message_type == "train" else reply
        )
    chosen = strategy()
    result = chosen.start(nodes, model(1.0, 2.0), 2)
    assert weights_of(result.arrays).tolist() == [1.0, 2.0]
    assert result.train_metrics_clientapp[2]["agewise-reported"] == 0
    assert "agewise-var-interval" not in result.train_metrics_clientapp[2], "not known: left out"
    assert chosen.rounds_done == 2


def test_replies_that_weigh_nothing_leave_the_model_and_are_credited() -> None:
    nodes = world()
    for node in nodes.contexts:
        nodes.mutations[node] = _with_metrics(num_examples=0)
    chosen = strategy()
    result = chosen.start(nodes, model(1.0, 2.0), 1)
    assert weights_of(result.arrays).tolist() == [1.0, 2.0]
    assert result.train_metrics_clientapp[1]["agewise-reported"] == COHORT


def test_the_sum_does_not_depend_on_the_order_of_replies() -> None:
    models = {
        strategy("random").start(world(seed), model(0.1, 1e5), 5).arrays["w"].data
        for seed in range(6)
    }
    assert len(models) == 1


def test_own_metrics_function_sees_the_partition() -> None:
    seen: list[list[object]] = []

    def collect(records: list[RecordDict], key: str) -> MetricRecord:
        metrics = [record.metric_records["metrics"] for record in records]
        seen.append([own["partition-id"] for own in metrics])
        assert all(key in record["metrics"] for record in records)
        return MetricRecord({"clients": len(records)})

    nodes = world()
    for number in range(CLIENTS):
        mutation = _with_metrics(**{"partition-id": number})
        nodes.mutations[nodes.node_of(number)] = mutation
    result = strategy(train_metrics_aggr_fn=collect).start(nodes, model(0.0), 1)
    assert seen == [first_cohort()]
    assert result.train_metrics_clientapp[1]["clients"] == COHORT


def test_wrong_settings() -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"weighting": "data-size"}, "sizes"),
        ({"weighting": "by-mood"}, "weighting"),
        ({"policy": "oldest-last"}, "oldest-last"),
        ({"decentralised": True}, "policy"),
        ({"policy": "phased", "decentralised": True, "weighting": "unbiased"}, "weighting"),
        ({"cohort": 10}, "cohort"),
        ({"clients": 0}, "clients"),
        ({"clients": "9", "cohort": None}, "clients"),
        ({"cohort": 0}, "cohort"),
        ({"seed": -1}, "seed"),
        ({"max_age": 2.5}, "max_age"),
    ]
    for wrong, field in cases:
        settings = {"clients": CLIENTS, "cohort": COHORT, "policy": "oldest-first", **wrong}
        with pytest.raises(ValueError, match=field):
            AgeStrategy(**settings)
