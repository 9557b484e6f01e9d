"""The process that runs z3: it serves `solver.smt.process`, one request after the other.

A request is ("module:function", arguments, seconds). The main thread only reads the pipe, so that this
process ends as soon as its other end is closed, in the middle of a formula too: z3 itself holds no lock of
Python's.
"""

from __future__ import annotations

import importlib
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any

from solver.smt.process import CRASHED, DONE


def _function(name: str) -> Callable[..., Any]:
    # Loaded only when it is asked for, as z3 is: what reads the pipe is to be there before it.
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def _work(requests: SimpleQueue[Any], connection: Connection) -> None:
    """Answer what comes, after having said whether z3 could be loaded."""
    try:
        importlib.import_module("z3")
        connection.send((DONE, None))
    except Exception as error:
        connection.send((CRASHED, " ".join(traceback.format_exception_only(error)).strip()))
        return
    while True:
        name, arguments, seconds = requests.get()
        try:
            answer = (DONE, _function(name)(*arguments, timeout_s=seconds))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            answer = (CRASHED, f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})")
        connection.send(answer)


def main(number: int) -> None:
    """Serve the pipe of this number until its other end is closed; never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection, requests = Connection(number), SimpleQueue[Any]()
    Thread(target=_work, args=(requests, connection), daemon=True).start()
    try:
        while True:
            requests.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)
