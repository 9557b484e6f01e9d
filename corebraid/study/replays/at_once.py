"""Several pieces of work at once, in processes of their own (`in_processes`)."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from corebraid.base.errors import CorebraidError
from corebraid.base.wording import Option, Phrase
from solver.passes.pool import begin_worker, end_workers, interrupts_held

Item = TypeVar("Item")
Done = TypeVar("Done")
_HEARD_WITHIN_S = 0.1


@contextmanager
def at_once(work: Callable[[Item], Done], items: Sequence[Item], jobs: int) -> Iterator[Iterator[Done]]:
    """What `work` gives for each item, as it is done, on `jobs` processes.

    Raises CorebraidError where a process is killed, and what `work` raises.
    """
    # Forked, the workers have this process's kernels; it runs no emulator and no thread of its own yet.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, context, initializer=begin_worker, initargs=(os.getpid(),)) as pool:
        try:
            with interrupts_held():
                futures = [pool.submit(work, item) for item in items]
            yield (future.result() for future in as_completed(futures))
        except BrokenProcessPool:
            # What asks all processes of a command to end may reach its workers before this one.
            time.sleep(_HEARD_WITHIN_S)
            raise CorebraidError(
                "a replaying process was killed",
                remedy=Phrase("try again with ", Option("jobs", 1), ", or with more memory"),
            ) from None
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            end_workers(multiprocessing.active_children())
            raise
