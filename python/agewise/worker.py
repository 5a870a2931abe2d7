"""The program of a worker process: it has a copy of the task, and does one call after the other."""

from __future__ import annotations

import mmap
import multiprocessing.spawn
import os
import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from agewise.task import GuardedTask


def main() -> None:
    """Serves the process that holds the other end of the connection until that is closed."""
    # Ctrl-C is for the process that started this one, which ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection, memory = Connection(int(sys.argv[1])), int(sys.argv[2])
    try:
        program, pickled = pickle.loads(connection.recv_bytes())
        try:
            if program is not None:
                multiprocessing.spawn.prepare({"init_main_from_path": program})
            task: GuardedTask = pickle.loads(pickled)
        except Exception as error:
            error.add_note("engine = 'processes': the task could not be loaded in a worker")
            _reply(connection, None, error)
            return
        block = mmap.mmap(memory, os.fstat(memory).st_size)
        before, after = np.frombuffer(block, dtype=np.float32).reshape(2, -1)
        _reply(connection, None, None)
        while True:
            method, arguments = connection.recv()
            try:
                result = _call(task, method, arguments, before, after)
            except Exception as error:
                _reply(connection, None, error)
            else:
                _reply(connection, result, None)
    except (EOFError, OSError):
        # The other process has ended.
        return


def _call(task: GuardedTask, method: str, arguments: Any, before: Any, after: Any) -> Any:
    # The task may change what it is given, and keep it.
    parameters = before.copy()
    if method == "train":
        client, *job = arguments
        update, *figures = task.train(client, parameters, *job)
        after[:] = update
        return tuple(figures)
    if method == "evaluate":
        return task.evaluate(parameters)
    [client] = arguments
    return task.client_loss(client, parameters)


def _reply(connection: Connection, result: Any, error: Exception | None) -> None:
    trace = "" if error is None else "".join(traceback.format_exception(error))
    try:
        # An exception may be sent and still not be read again.
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    connection.send((result, error, trace))


if __name__ == "__main__":
    main()
