"""The process that runs z3: it serves `solver.smt_process`, one request after the other.

A request is (function, arguments, seconds). The main thread only reads the pipe, so that this process ends as
soon as its other end is closed, in the middle of a formula too: z3 itself holds no lock of Python's.
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
from typing import TYPE_CHECKING, Any

from solver.smt_process import CRASHED, DONE

if TYPE_CHECKING:
    from solver.axe.trace import Trace
    from solver.problem import Problem
    from solver.smt_formula import Found


def _region(problem: Problem, encoding: str, timeout_s: float) -> Found:
    # Loaded only here, as z3 is: what reads the pipe is to be there before it.
    from solver.smt_formula import solve_formula

    return solve_formula(problem, encoding, timeout_s=timeout_s)


def _trace(trace: Trace, model: str, timeout_s: float) -> Found:
    # Kernels are loaded with it, which regions do not need.
    from solver.smt_axe import solve_trace

    return solve_trace(trace, model, timeout_s=timeout_s)


_FUNCTIONS: dict[str, Callable[..., Any]] = {"region": _region, "trace": _trace}


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
            answer = (DONE, _FUNCTIONS[name](*arguments, timeout_s=seconds))
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
