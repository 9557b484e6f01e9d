"""Which core runs next, and for how many instructions. Same seed, same answers.

A scheduler sees only which cores can run and how far they are; it never sees memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from isa.errors import UsageError

#: Longest slice of the random and round-robin policies, instructions.
DEFAULT_SLICE = 10_000
#: PCT: a core that ran this long without a change is taken to spin, and goes behind the others.
_PCT_PATIENCE = 4_000
_PCT_STEP = 1_000
#: PCT: change points lie in the first 2**n instructions, n drawn from this range.
_PCT_HORIZON_BITS = (11, 17)


@dataclass(frozen=True)
class Slice:
    """Run `core` for `length` instructions.

    exact: end before the first memory access past them, even inside a block of straight-line code;
    else at the end of that block.
    """

    core: int
    length: int
    exact: bool = True


class Scheduler(Protocol):
    """A scheduling policy."""

    def next(self, runnable: Sequence[int], counts: Sequence[int]) -> Slice:
        """The next slice. runnable: cores that can run, ascending. counts: instruction counts of all."""


class RoundRobin:
    """Every runnable core in turn, for slices of equal length."""

    def __init__(self, length: int) -> None:
        self._length, self._last = length, -1

    def next(self, runnable: Sequence[int], counts: Sequence[int]) -> Slice:
        """The next core after the last one."""
        self._last = next((core for core in runnable if core > self._last), runnable[0])
        return Slice(self._last, self._length, exact=False)


class RandomSlices:
    """A random runnable core for a random length, mostly short: bursts find what even slices miss."""

    def __init__(self, seed: int, longest: int) -> None:
        self._random, self._longest = random.Random(f"schedule/{seed}"), longest

    def next(self, runnable: Sequence[int], counts: Sequence[int]) -> Slice:
        """Uniform core; length uniform, one slice in eight very short; one in four ends inside a block."""
        bits = self._random.getrandbits(96)
        longest = self._longest if bits & 7 else max(1, self._longest // 128)
        core = runnable[(bits >> 5 & 0xFFFFFF) % len(runnable)]
        return Slice(core, 1 + (bits >> 32) % longest, exact=not bits >> 3 & 3)


class Pct:
    """Probabilistic concurrency testing: random priorities and D - 1 random change points.

    The highest priority that can run runs. At a change point the running core falls behind all others; so
    does one that ran `_PCT_PATIENCE` instructions on end, since it may be waiting for a starved core.
    Source: Burckhardt et al., "A randomized scheduler with probabilistic guarantees" (ASPLOS 2010).
    """

    def __init__(self, seed: int, n_cores: int, depth: int) -> None:
        self._random = random.Random(f"pct/{seed}")
        self._priority = list(range(n_cores))
        self._random.shuffle(self._priority)
        # PCT wants the run's length, which is not known: each seed guesses another order of magnitude.
        horizon = 1 << self._random.randint(*_PCT_HORIZON_BITS)
        self._changes = sorted(self._random.randrange(1, horizon) for _ in range(depth - 1))
        self._lowest = -1
        self._done = 0
        self._last: tuple[int, int] | None = None
        self._alone = 0

    def _fall_behind(self, core: int) -> None:
        self._priority[core] = self._lowest
        self._lowest -= 1
        self._alone = 0

    def next(self, runnable: Sequence[int], counts: Sequence[int]) -> Slice:
        """The runnable core of highest priority, up to the next change point."""
        if self._last is not None:
            core, before = self._last
            self._done += counts[core] - before
            self._alone += counts[core] - before
            if self._changes and self._done >= self._changes[0]:
                self._changes.pop(0)
                self._fall_behind(core)
            elif self._alone >= _PCT_PATIENCE:
                self._fall_behind(core)
        core = max(runnable, key=lambda k: self._priority[k])
        if self._last is not None and self._last[0] != core:
            self._alone = 0
        length = _PCT_STEP
        if self._changes:
            length = max(1, min(length, self._changes[0] - self._done))
        self._last = (core, counts[core])
        return Slice(core, length)


class Explicit:
    """Slices from a schedule file; when it has ended, round-robin goes on."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices: Iterator[Slice] = iter(slices)
        self._after = RoundRobin(DEFAULT_SLICE)

    def next(self, runnable: Sequence[int], counts: Sequence[int]) -> Slice:
        """The file's next slice whose core can run."""
        for piece in self._slices:
            if piece.core in runnable:
                return piece
        return self._after.next(runnable, counts)


def read_schedule(path: Path, n_cores: int) -> list[Slice]:
    """Read a schedule file: a line 'CORE COUNT' for each slice, '#' starts a comment.

    Raises UsageError naming the file and line.
    """
    remedy = "write lines of CORE INSTRUCTIONS, as in '2 1500'"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "the schedule cannot be read",
            found=str(error),
            where=str(path),
            remedy="name round-robin, random, pct:D or a readable file",
        ) from None
    slices = []
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        where = f"{path}:{number}"
        if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
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


def is_named_policy(policy: str) -> bool:
    """Whether `policy` names a built-in policy; else it is the path of a schedule file."""
    return policy in ("round-robin", "random") or policy.startswith("pct:")


def make_scheduler(policy: str, seed: int, n_cores: int, longest: int = DEFAULT_SLICE) -> Scheduler:
    """From 'round-robin', 'random', 'pct:D' or the path of a schedule file. Raises UsageError."""
    if policy == "round-robin":
        return RoundRobin(longest)
    if policy == "random":
        return RandomSlices(seed, longest)
    if policy.startswith("pct:"):
        depth = policy[4:]
        if not depth.isascii() or not depth.isdigit() or not 1 <= int(depth) <= 1000:
            raise UsageError(
                "PCT's depth is a number of 1 to 1000", found=repr(depth), remedy="write pct:3, for example"
            )
        return Pct(seed, n_cores, int(depth))
    return Explicit(read_schedule(Path(policy), n_cores))
