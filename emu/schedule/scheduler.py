"""Which core runs next, and for how many instructions. Same seed, same answers.

A scheduler sees only which cores can run and how far they are; it never sees memory.
"""

from __future__ import annotations

import random
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError, reason_of, unless_short
from emu.schedule.chaos import Chaos
from emu.schedule.pct import Pct
from emu.schedule.policy import Ahead, Runner, Scheduler, Slice
from emu.schedule.shared_words import SharedWords
from emu.schedule.switches import PREFIX, Switches, switches_of

__all__ = [
    "DEFAULT_SLICE", "Chaos", "Explicit", "Pct", "RandomSlices", "RoundRobin", "Scheduler", "Slice",
    "is_drawn", "is_named_policy", "learns", "make_scheduler", "read_schedule",
    "schedule_bytes",
]  # fmt: skip

#: Longest slice of the random and round-robin policies, instructions.
DEFAULT_SLICE = 10_000
#: Most bytes of a schedule file, and most digits of a number in it.
_MOST_BYTES, _MOST_DIGITS = 64 << 20, 20
#: What the name of PCT begins with where time passes at its change points.
LATE = "late:"
#: Random slices that are drawn at once, and 32-bit words for each.
_DRAWN, _WORDS = 128, 3


class RoundRobin(Runner):
    """Every runnable core in turn, for slices of equal length."""

    def __init__(self, length: int) -> None:
        self._length, self._last = length, -1

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """The next core after the last one."""
        self._last = next((core for core in runnable if core > self._last), runnable[0])
        return Slice(self._last, self._length, exact=False)


class RandomSlices(Runner):
    """A random runnable core for a random length, mostly short: bursts find what even slices miss."""

    def __init__(self, seed: int, longest: int) -> None:
        self._random, self._longest = random.Random(f"schedule/{seed}"), longest
        #: See `Ahead.rows`.
        self._drawn = np.zeros((0, 3), np.uint64)

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """Uniform core; length uniform, one slice in eight very short; one in four ends inside a block."""
        number, length, exact = self.ahead().rows[0].tolist()
        self._use(1)
        return Slice(runnable[number % len(runnable)], length, exact=bool(exact))

    def ahead(self) -> Ahead:
        """Some slices, at least one."""
        if not len(self._drawn):
            self._drawn = self._draw()
        return Ahead(self._drawn, 1, self._use)

    def _use(self, many: int) -> None:
        self._drawn = self._drawn[many:]

    def _draw(self) -> NDArray[np.uint64]:
        bits = self._random.getrandbits(32 * _WORDS * _DRAWN)
        words = np.frombuffer(bits.to_bytes(4 * _WORDS * _DRAWN, "little"), "<u4").reshape(_DRAWN, _WORDS)
        first = words[:, 0]
        number = words[:, 1] | words[:, 2].astype(np.uint64) << np.uint64(32)
        longest = np.where(first & 7, self._longest, max(1, self._longest // 128)).astype(np.uint64)
        rows = np.empty((_DRAWN, 3), np.uint64)
        rows[:, 0] = first >> 5 & 0xFFFFFF
        rows[:, 1] = number % longest + np.uint64(1)
        rows[:, 2] = (first >> 3 & 3) == 0
        return rows


class Explicit(Runner):
    """Slices from a schedule file; when it has ended, round-robin goes on."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices: Iterator[Slice] = iter(slices)
        self._after = RoundRobin(DEFAULT_SLICE)

    def next(
        self,
        runnable: Sequence[int],
        counts: Sequence[int],
        events: int = 0,
        who: Sequence[int] | None = None,
    ) -> Slice:
        """The file's next slice whose core can run."""
        for piece in self._slices:
            if piece.core in runnable:
                return piece
        return self._after.next(runnable, counts)


def schedule_bytes(path: Path) -> bytes:
    """What a schedule file holds. Raises UsageError, also for a pipe or a device, which might never end."""
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
        raw = b""
        if is_file:
            with path.open("rb") as file:
                raw = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        unless_short(error)
        raise _unreadable(path, None, reason_of(error)) from None
    if not is_file:
        raise _unreadable(path, "a regular file", "another kind of file")
    if len(raw) > _MOST_BYTES:
        raise _unreadable(path, f"at most {_MOST_BYTES} bytes", "more")
    return raw


def _unreadable(path: Path, expected: str | None, found: str) -> UsageError:
    return UsageError(
        "the schedule cannot be read",
        expected=expected,
        found=found,
        where=str(path),
        remedy="name round-robin, random, chaos, pct:D, late:D or a readable file",
    )


def read_schedule(path: Path, n_cores: int) -> list[Slice]:
    """Read a schedule file: a line 'CORE COUNT' for each slice, '#' starts a comment.

    Raises UsageError naming the file and line.
    """
    remedy = "write lines of CORE INSTRUCTIONS, as in '2 1500'"
    try:
        lines = schedule_bytes(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise _unreadable(path, "text in UTF-8", str(error)) from None
    slices = []
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        where = f"{path}:{number}"
        if len(words) != 2 or not all(_is_number(word) for word in words):
            raise UsageError("not a slice", found=repr(line.strip()), where=where, remedy=remedy)
        core, length = int(words[0]), int(words[1])
        if core >= n_cores or not 1 <= length < 1 << 62:
            raise UsageError(
                "a slice that cannot be",
                expected=f"a core below {n_cores} and at least 1 instruction",
                found=repr(line.strip()),
                where=where,
                remedy=remedy,
            )
        slices.append(Slice(core, length))
    return slices


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS


def is_named_policy(policy: str) -> bool:
    """Whether `policy` names a built-in policy; else it is the path of a schedule file."""
    return policy in ("round-robin", "random") or learns(policy)


def is_drawn(policy: str) -> bool:
    """Whether a seed decides the policy's schedules, or what else is drawn while they run."""
    return policy == "random" or learns(policy)


def learns(policy: str) -> bool:
    """Whether the policy wants to know which words are shared (`recorder.capture.learning`)."""
    return policy == "chaos" or policy.startswith(("pct:", LATE, PREFIX))


def make_scheduler(
    policy: str, seed: int, n_cores: int, longest: int = DEFAULT_SLICE, shared: SharedWords | None = None
) -> Scheduler:
    """From 'round-robin', 'random', 'chaos', 'pct:D', 'late:D', 'switches:...' or the path of a schedule
    file. shared: what is known of shared events, which are counted then. Raises UsageError."""
    if policy == "round-robin":
        return RoundRobin(longest)
    if policy == "random":
        return RandomSlices(seed, longest)
    if policy == "chaos":
        return Chaos(seed, shared)
    if policy.startswith(("pct:", LATE)):
        name, _, depth = policy.partition(":")
        if not _is_number(depth) or not 1 <= int(depth) <= 1000:
            remedy = f"write {name}:3, for example"
            raise UsageError(
                f"the depth of {name} is a number of 1 to 1000", found=repr(depth), remedy=remedy
            )
        return Pct(seed, n_cores, int(depth), shared, late=name == "late")
    if policy.startswith(PREFIX):
        return Switches(switches_of(policy))
    return Explicit(read_schedule(Path(policy), n_cores))
