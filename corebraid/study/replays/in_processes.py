"""Pieces of work on a recording, such as one for each core: several at once, in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Done = TypeVar("Done")


def usable_processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def in_processes(work: Callable[[Item], Done], items: Sequence[Item], jobs: int) -> Iterator[Iterator[Done]]:
    """What `work` gives for each item, as it is done, on up to `jobs` processes. All of them can be pickled.

    Raises CorebraidError where a process is killed, and what `work` raises.
    """
    jobs = min(jobs, len(items))
    if jobs <= 1:
        yield (work(item) for item in items)
        return
    from corebraid.study.replays.at_once import at_once

    with at_once(work, items, jobs) as done:
        yield done
