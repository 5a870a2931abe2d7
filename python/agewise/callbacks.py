"""What code of one's own hears of a comparison while it goes on."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agewise.checks import shown

#: The progress function of a comparison: policy, seed, finished rounds, and the accuracy if it was
#: evaluated in the last of them.
Progress = Callable[[str, int, int, "float | None"], object]
#: The numbers of a round: ``round`` (from 1), ``available``, ``selected``, ``reported``,
#: ``rejected``, and if they are known ``training_loss``, ``loss`` and ``accuracy``.
Metrics = dict[str, Any]


class Callbacks:
    """Hears of the progress of a comparison. Any object with some of these methods will do.

    They are called one at a time, from the threads that train. An exception ends the comparison,
    which :func:`agewise.resume_run` continues.
    """

    def on_begin(self, policy: str, seed: int, history: Sequence[Metrics]) -> object:
        """A run begins, or goes on after the rounds of ``history``."""

    def on_round(self, policy: str, seed: int, metrics: Metrics) -> object:
        """A round is finished."""

    def on_run(self, policy: str, seed: int) -> object:
        """A run, which is a policy under a seed, is finished."""

    def on_end(self, result: Any) -> object:
        """The comparison has ended, with this :class:`agewise.ExperimentResult`."""


_HOOKS = ("on_begin", "on_round", "on_run", "on_end")


class Listener:
    """Passes what the compiled part says on to the progress function and to callbacks."""

    def __init__(
        self,
        params: Mapping[str, Any],
        progress: Progress | None,
        callbacks: Iterable[object] = (),
    ) -> None:
        self._policies: list[str] = params["policies"]
        self._seed: int = params["seed"]
        self._progress = progress
        self._callbacks = list(callbacks)
        self._lock = threading.Lock()

    def begin(self, policy: int, seed: int, rounds: int, history: list[Metrics]) -> None:
        """A run begins."""
        named = self._named(policy, seed)
        self._call("on_begin", *named, [_public(metrics) for metrics in history])
        if self._progress is not None:
            self._progress(*named, rounds, None)

    def rounds(self, policy: int, seed: int, played: int, metrics: Metrics | None) -> None:
        """Rounds are finished; without training there are no metrics of the last one."""
        named = self._named(policy, seed)
        self._call("on_round", *named, {"round": played} if metrics is None else _public(metrics))
        if self._progress is not None:
            self._progress(*named, played, (metrics or {}).get("score"))

    def end(self, policy: int, seed: int) -> None:
        """A run is finished."""
        self._call("on_run", *self._named(policy, seed))

    def finish(self, result: Any) -> None:
        """The comparison has ended."""
        self._call("on_end", result)

    def _named(self, policy: int, seed: int) -> tuple[str, int]:
        return self._policies[policy], self._seed + seed

    def _call(self, hook: str, *arguments: Any) -> None:
        with self._lock:
            for callback in self._callbacks:
                method = getattr(callback, hook, None)
                if method is not None:
                    method(*arguments)


def checked(callbacks: object) -> list[object]:
    """One object or several, each with at least one of the methods."""
    if callbacks is None:
        return []
    given = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
    for callback in given:
        if isinstance(callback, type) or not any(hasattr(callback, hook) for hook in _HOOKS):
            expected = f"an object with one of the methods {', '.join(_HOOKS)}"
            raise ValueError(f"callbacks = {shown(callback)}: expected {expected}")
    return given


def check_progress(progress: object) -> None:
    """Checks the argument before a folder is created."""
    if not (callable(progress) or isinstance(progress, bool)):
        raise ValueError(f"progress = {shown(progress)}: expected True, False or a function")


class ProgressLines:
    """Prints lines on stderr every few seconds: how far it is, and what each worker does."""

    EVERY = 5.0

    def __init__(
        self, params: Mapping[str, Any], activity: Callable[[], Mapping[str, str]] | None = None
    ) -> None:
        self.all_rounds = params["rounds"] * params["seeds"] * len(params["policies"])
        self.rounds: dict[tuple[str, int], int] = {}
        self.activity = activity
        self.next = time.monotonic() + self.EVERY

    def __call__(self, policy: str, seed: int, rounds: int, score: float | None) -> None:
        """Notes the rounds of a run, and prints if it is time."""
        self.rounds[policy, seed] = rounds
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + self.EVERY
        done = sum(self.rounds.values())
        shown = "" if score is None else f", {100 * score:.1f}%"
        lines = [
            f"{done} of {self.all_rounds} rounds; {policy}, seed {seed}: round {rounds}{shown}"
        ]
        workers = {} if self.activity is None else self.activity()
        lines += [f"  {worker}: {what}" for worker, what in sorted(workers.items())]
        print("\n".join(lines), file=sys.stderr, flush=True)


def _public(metrics: Metrics) -> Metrics:
    """The metrics without what only progress lines need."""
    return {name: value for name, value in metrics.items() if name != "score"}
