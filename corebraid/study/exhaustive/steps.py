"""A run as the search sees it: steps of tasks, and what each of them touched.

A step is one event (an access to a word that several tasks use, or a system call) with what its task does
alone afterwards, up to right before its next event.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

#: What can be touched: a byte of memory, by its address; a part of the kernel, by a tuple with its name.
Key = Hashable
#: The first word of a key that is a byte's place: that it is mapped, whatever it holds.
PLACE = "place"


@dataclass(frozen=True)
class Footprint:
    """What a step touched. uses: of each key whether the step changed it. may: keys that it used without a
    change and might change in another state: a compare-and-swap that failed. ranges: (first byte, end) of
    memory whose mapping it changed, which changes each of these bytes. ends: it ended the process, and with
    it all that others would do.
    """

    uses: Mapping[Key, bool]
    may: frozenset[Key] = frozenset()
    ranges: tuple[tuple[int, int], ...] = ()
    ends: bool = False


#: Of a step that was never made: it may touch anything.
UNKNOWN = Footprint({}, ends=True)


def conflict(one: Footprint, other: Footprint) -> bool:
    """Whether the two steps, by different tasks, do not commute in the states in which they were made."""
    return _conflict(one, other, one.uses, other.uses)


def may_conflict(one: Footprint, other: Footprint) -> bool:
    """Whether they might not commute in some other state."""
    return _conflict(one, other, _most(one), _most(other))


def _most(footprint: Footprint) -> Mapping[Key, bool]:
    return {**footprint.uses, **dict.fromkeys(footprint.may, True)} if footprint.may else footprint.uses


def _conflict(one: Footprint, other: Footprint, uses: Mapping[Key, bool], others: Mapping[Key, bool]) -> bool:
    if one.ends or other.ends:
        return True
    if within(one.ranges, others) or within(other.ranges, uses):
        return True
    if len(others) < len(uses):
        uses, others = others, uses
    if any(key in others and (changed or others[key]) for key, changed in uses.items()):
        return True
    return overlap(one.ranges, other.ranges)


def overlap(ranges: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]) -> bool:
    """Whether a range of the one kind meets one of the other."""
    return any(low < top and bottom < high for low, high in ranges for bottom, top in others)


def within(ranges: Sequence[tuple[int, int]], keys: Iterable[Key]) -> list[Key]:
    """The bytes among some keys that lie in a range, and their places."""
    if not ranges:
        return []
    return [key for key in keys if _lies(key, ranges)]


def _lies(key: Key, ranges: Sequence[tuple[int, int]]) -> bool:
    if isinstance(key, tuple) and key[0] == PLACE:
        key = key[1]
    return isinstance(key, int) and any(low <= key < top for low, top in ranges)


@dataclass(frozen=True)
class Step:
    """One step. enabled_by: the number of the step since which its task could go on, after it could not; -1:
    it always could. after_all: time has passed before it, which it does when nobody can run: it comes after
    all steps before it."""

    task: int
    footprint: Footprint
    enabled_by: int = -1
    after_all: bool = False


@dataclass(frozen=True)
class Plan:
    """A run that is asked for. tasks: whose steps come first. branch: so many of them are those of a run
    before. sleep: of tasks that need not run after those, until somebody touches what they would, their next
    step's footprint."""

    tasks: tuple[int, ...] = ()
    branch: int = 0
    sleep: Mapping[int, Footprint] = field(default_factory=dict)


@dataclass(frozen=True)
class Execution:
    """A run that was made. enabled: tasks that could run before each step. left: tasks that still could when
    the process ended. whole: it came to its end; else all that could run were asleep (`Plan.sleep`), or it
    was broken off.
    """

    steps: tuple[Step, ...]
    enabled: tuple[tuple[int, ...], ...]
    left: tuple[int, ...] = ()
    whole: bool = True
