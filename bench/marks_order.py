"""What `firmware/linux/thread_order.c` says of an order of its accesses, from nothing but a printed trace."""

from __future__ import annotations

import json
from collections.abc import Iterable

THREADS, ROUNDS, STEPS, BYTES = 5, 6, 22, 16
#: The last step before a round's child is started.
BEFORE_CHILD = STEPS - 3


def misplaced_marks(lines: Iterable[str]) -> list[str]:
    """Every access to a mark, in `trace --ordered --format jsonl`, that stands before one that its thread, or
    a thread that it met, made earlier."""
    done = [-1] * THREADS
    children = [[-1] * ROUNDS for _ in range(THREADS)]
    wrong, seen = [], set()
    for line in lines:
        row = json.loads(line)
        if row["data"] == "marks":
            thread, step = divmod(row["data_offset"] // BYTES, ROUNDS * STEPS)
            seen.add((thread, step))
            if step < done[thread]:
                wrong.append(f"thread {thread}: step {step} stands behind step {done[thread]}")
            done[thread] = max(done[thread], step)
            met = step // STEPS * STEPS - 1
            if met >= 0 and done[thread - 1] < met:
                wrong.append(f"thread {thread}: step {step} before the thread before it made step {met}")
            if step % STEPS == STEPS - 1 and children[thread][step // STEPS] < 1:
                wrong.append(f"thread {thread}: step {step} stands before the end of its child")
        elif row["data"] == "child_marks":
            number, step = divmod(row["data_offset"] // BYTES, 2)
            thread, round_ = divmod(number, ROUNDS)
            if step < children[thread][round_]:
                wrong.append(f"child {round_} of thread {thread}: step {step} stands behind a later one")
            if done[thread] < round_ * STEPS + BEFORE_CHILD:
                wrong.append(f"child {round_} of thread {thread} stands before it was started")
            children[thread][round_] = max(children[thread][round_], step)
    if len(seen) != THREADS * ROUNDS * STEPS:
        wrong.append(f"{len(seen)} of {THREADS * ROUNDS * STEPS} marks are in the trace")
    return wrong
