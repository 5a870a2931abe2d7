"""The program of a worker process: it has a copy of the task, and does one call after the other."""

from __future__ import annotations

import mmap
import multiprocessing.spawn
import os
import pickle
import select
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from agewise.task import GuardedTask, Parameters


def main() -> None:
    """Serves the process that holds the other end of the connection until that is closed."""
    # Ctrl-C is for the process that started this one, which ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    socket, shared, own, parameters = map(int, sys.argv[1:])
    connection = Connection(socket)
    threading.Thread(target=end_with, args=(socket,), daemon=True).start()
    try:
        start = connection.recv_bytes()
        try:
            task = load(start)
        except Exception as error:
            connection.send((None, *sendable(error)))
            return
        models = np.frombuffer(memory(shared, mmap.PROT_READ), np.float32).reshape(-1, parameters)
        after = np.frombuffer(memory(own, mmap.PROT_READ | mmap.PROT_WRITE), np.float32)
        connection.send((None, None, ""))
        while True:
            method, place, arguments = connection.recv()
            # The task may change what it is given, and keep it.
            result, problem, trace = answer(task, method, models[place].copy(), arguments)
            if method == "train" and problem is None:
                update, *result = result
                after[:] = update
            connection.send((result, problem, trace))
    except (EOFError, OSError):
        # The other process has ended.
        return


def end_with(socket: int) -> None:
    """Ends this process when the other end of a socket is closed: when the process that started it
    is killed, a client may be trained here whose update is of no use any more.
    """
    waiting = select.poll()
    waiting.register(socket, 0)
    waiting.poll()
    os._exit(1)


def memory(descriptor: int, access: int) -> mmap.mmap:
    """Memory that is shared with other processes."""
    return mmap.mmap(descriptor, os.fstat(descriptor).st_size, prot=access)


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
