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

from agewise.task import GuardedTask, Parameters


def main() -> None:
    """Serves the process that holds the other end of the connection until that is closed."""
    # Ctrl-C is for the process that started this one, which ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection, memory = Connection(int(sys.argv[1])), int(sys.argv[2])
    try:
        start = connection.recv_bytes()
        try:
            task = load(start)
        except Exception as error:
            connection.send((None, *sendable(error)))
            return
        block = mmap.mmap(memory, os.fstat(memory).st_size)
        before, after = np.frombuffer(block, dtype=np.float32).reshape(2, -1)
        connection.send((None, None, ""))
        while True:
            method, arguments = connection.recv()
            # The task may change what it is given, and keep it.
            result, problem, trace = answer(task, method, before.copy(), arguments)
            if method == "train" and problem is None:
                update, *result = result
                after[:] = update
            connection.send((result, problem, trace))
    except (EOFError, OSError):
        # The other process has ended.
        return


def load(start: bytes) -> GuardedTask:
    """The task of a start message, behind the main program if that has to be imported."""
    program, pickled = pickle.loads(start)
    try:
        if program is not None:
            multiprocessing.spawn.prepare({"init_main_from_path": program})
        task: GuardedTask = pickle.loads(pickled)
    except Exception as error:
        error.add_note(
            "while the task was loaded in a worker; `pip install cloudpickle` helps where its "
            "parts are defined in a notebook"
        )
        raise
    return task


def answer(
    task: GuardedTask, method: str, parameters: Parameters, arguments: Any
) -> tuple[Any, Exception | None, str]:
    """The result of a call, or its exception with its traceback as text."""
    try:
        if method == "train":
            client, *job = arguments
            return task.train(client, parameters, *job), None, ""
        if method == "evaluate":
            return task.evaluate(parameters), None, ""
        [client] = arguments
        return task.client_loss(client, parameters), None, ""
    except Exception as error:
        return None, *sendable(error)


def sendable(error: Exception) -> tuple[Exception, str]:
    """An exception that can be sent to another process, and its traceback."""
    trace = "".join(traceback.format_exception(error))
    try:
        # An exception may be sent and still not be read again.
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return error, trace


if __name__ == "__main__":
    main()
