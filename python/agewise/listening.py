"""Everything that hears of a comparison: progress lines, callbacks and trackers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agewise import _agewise
from agewise.callbacks import Listener, Progress, ProgressLines, check_progress, checked
from agewise.checks import within
from agewise.results import ExperimentResult
from agewise.tracking import trackers


class Listening:
    """What was asked to hear of a comparison, checked before a folder is created."""

    def __init__(
        self,
        progress: Progress | bool,
        callbacks: object,
        track: object,
        activity: Callable[[], Mapping[str, str]],
        threads: int | None,
    ) -> None:
        check_threads(threads)
        check_progress(progress)
        self._progress = progress
        self._activity = activity
        self._callbacks = checked(callbacks)
        self._trackers = trackers(track)

    def play(self, job: _agewise.Job, threads: int | None) -> ExperimentResult:
        """Plays an experiment and tells everything about it."""
        params: dict[str, Any] = json.loads(job.params)
        progress: Progress | None = None
        if callable(self._progress):
            progress = self._progress
        elif self._progress:
            progress = ProgressLines(params, self._activity)
        listener = Listener(params, progress, [*self._callbacks, *self._trackers])
        try:
            for tracker in self._trackers:
                tracker.begin(job.title, params, job.path)
            result = ExperimentResult(job, job.play(threads, listener))
            listener.finish(result)
        finally:
            for tracker in self._trackers:
                tracker.close()
        return result


def check_threads(threads: int | None) -> None:
    """Checks the argument before a folder is created."""
    if threads is not None:
        within("threads", threads, 1, 4096)
