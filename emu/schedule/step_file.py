"""A schedule file of steps (`emu.schedule.stepped`): the words that are watched, and whose step comes after
whose.

    steps
    watch 0x100004028
    run 1000 12
    run 1001
    leave 1000 4

Tasks are a Linux program's threads, or the cores of firmware. A step that has no end, since its task goes
round in a circle, is left after so many times 131,072 instructions. Under TSO `commit 1 2` says that the two
oldest stores in the buffer of core 1 commit, with those behind each that are to words which are not watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corebraid.base.errors import UsageError
from emu.schedule.scheduler import schedule_bytes
from emu.schedule.shared_words import SHARED_EVENT, WORD, SharedWords
from emu.schedule.stepped import BUFFER, core_of, is_buffer

#: The first word of such a file.
_STEPS = b"steps"
_MOST_DIGITS = 20


class StepFile(NamedTuple):
    """shared: the words. tasks: whose steps. left: see `Listed`."""

    shared: SharedWords
    tasks: tuple[int, ...]
    left: dict[int, int]


def words_to_watch(words: Iterable[int]) -> SharedWords:
    """Words (addresses divided by 8) that a machine is to watch, of whose events nothing is known."""
    return SharedWords(np.array(sorted(words), np.uint64), np.zeros(0, SHARED_EVENT))


def is_step_file(raw: bytes) -> bool:
    """Whether a schedule file's bytes are steps, and not slices."""
    lines = (line.split(b"#")[0].split() for line in raw.splitlines())
    return next((words for words in lines if words), []) == [_STEPS]


def step_text(words: Iterable[int], tasks: Sequence[int], left: Mapping[int, int] | None = None) -> str:
    """What such a file holds. words: addresses divided by 8. left: see `Listed`."""
    lines, ends = ["steps", *(f"watch {word * WORD:#x}" for word in sorted(words))], left or {}
    numbered = ((task, ends.get(number, 0)) for number, task in enumerate(tasks))
    for (task, cuts), steps in groupby(numbered):
        way = "commit" if is_buffer(task) else "run"
        lines.append(f"leave {task} {cuts}" if cuts else f"{way} {core_of(task)} {len(list(steps))}")
    return "\n".join(lines) + "\n"


def read_steps(path: Path) -> StepFile | None:
    """Read a schedule file of steps; None: it is another kind of schedule. Raises UsageError."""
    raw = schedule_bytes(path)
    if not is_step_file(raw):
        return None
    words: list[int] = []
    tasks: list[int] = []
    left: dict[int, int] = {}
    begun = False
    for number, line in enumerate(raw.decode("utf-8", "replace").splitlines(), 1):
        parts = line.split("#")[0].split()
        if not parts:
            continue
        if not begun:
            begun = True
            continue
        values = [_number(text) for text in parts[1:]]
        good = values and None not in values
        if good and parts[0] == "watch" and len(values) == 1:
            words.append((values[0] or 0) // WORD)
        elif good and parts[0] == "run" and len(values) <= 2:
            tasks += [values[0] or 0] * (values[1] or 0 if len(values) > 1 else 1)
        elif good and parts[0] == "commit" and len(values) <= 2 and (values[0] or 0) < BUFFER:
            tasks += [BUFFER + (values[0] or 0)] * (values[1] or 0 if len(values) > 1 else 1)
        elif good and parts[0] == "leave" and len(values) == 2 and values[1]:
            left[len(tasks)] = values[1]
            tasks.append(values[0] or 0)
        else:
            raise UsageError(
                "not a step",
                expected="'watch ADDRESS', 'run TASK STEPS', 'commit CORE STORES' or 'leave TASK TIMES'",
                found=repr(line.strip()),
                where=f"{path}:{number}", remedy="use the file as a search has written it",
            )  # fmt: skip
    return StepFile(words_to_watch(set(words)), tuple(tasks), left)


def _number(text: str) -> int | None:
    if not text.isascii() or len(text) > _MOST_DIGITS:
        return None
    try:
        value = int(text, 16 if text.startswith("0x") else 10)
    except ValueError:
        return None
    return value if 0 <= value < 1 << 40 else None
