"""What a call has of the user's own: policies, a task, an aggregation rule and arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias

from agewise import _agewise
from agewise.aggregation import OwnRule, own_rule
from agewise.checks import shown
from agewise.engines import Engine, engine
from agewise.policy import OwnPolicy, own_policy
from agewise.task import GuardedTask

#: Parameters about data and training, of which a task of one's own says itself what they are.
_OF_THE_ENGINE = (
    "preset data label client test holdout ignore features loss partition sizes pixels model "
    "local_work batch learning_rate decay offset momentum weight_decay proximal augment skew bound"
).split()
#: Clients of a round, unless a task has fewer.
_COHORT = 15

#: Policies, the engine of a task, an aggregation rule, and arrays, as the compiled part takes them.
Parts: TypeAlias = "tuple[list[OwnPolicy], Engine | None, OwnRule | None, _agewise.OwnData | None]"


class Own:
    """Policies, a task and an aggregation rule, of which any may be one's own."""

    def __init__(
        self,
        policies: Iterable[object] | None = None,
        task: Any = None,
        aggregate: object = None,
        engine_name: str = "threads",
        workers: int | None = None,
        arrays: _agewise.OwnData | None = None,
    ) -> None:
        if isinstance(policies, (str, bytes)) or not isinstance(policies, (Iterable, type(None))):
            raise ValueError(f"policies = {shown(policies)}: expected a list of policies")
        #: The names of the policies; None if none were given.
        self.policies: list[str] | None = None
        own: list[OwnPolicy] = []
        if policies is not None:
            self.policies = []
            for given in policies:
                policy = own_policy(given, "policies")
                self.policies.append(given if isinstance(given, str) else policy.name)  # type: ignore[union-attr]
                own += [] if policy is None else [policy]
        twice = {policy.name for policy in own if sum(p.name == policy.name for p in own) > 1}
        if twice:
            expected = "each name once (the attribute `name` of a policy)"
            raise ValueError(f"policies = {min(twice)}: expected {expected}")
        self._rule = own_rule(aggregate)
        self._text = None if self._rule is not None else aggregate
        self._engine: Engine | None = None
        if task is not None:
            self._engine = engine(engine_name, GuardedTask(task, 0), workers)
        elif engine_name != "threads":
            expected = "'threads' without a task, as agewise trains in threads of its own"
            raise ValueError(f"engine = {shown(engine_name)}: expected {expected}")
        #: How many calls there can be at a time; None for one on each core of this machine.
        self.workers = workers if self._engine is None else self._engine.workers or workers
        #: Everything for the compiled part.
        self.parts: Parts = (own, self._engine, self._rule, arrays)

    def activity(self) -> Mapping[str, str]:
        """What each worker of a task does at the moment."""
        return {} if self._engine is None else self._engine.activity()

    def arguments(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of an experiment with these policies, this rule and this task."""
        found = dict(params)
        if self.policies is not None:
            found["policies"] = self.policies
        if self._text is not None:
            found["aggregate"] = self._text
        if self._engine is not None:
            for name in _OF_THE_ENGINE:
                if found.get(name) is not None:
                    expected = "none with a task of one's own, which says itself how it trains"
                    raise ValueError(f"{name} = {shown(found[name])}: expected {expected}")
            clients = len(self._engine.task.sizes)
            found = {"clients": clients, "cohort": min(_COHORT, clients), "targets": []} | found
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._engine is not None:
            self._engine.close()
