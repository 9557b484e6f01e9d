"""The system calls of a recording: which were made, where, and what came of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from corebraid.base.rows.record import INPUT, INPUT_CALL
from corebraid.names.program import GuestProgram
from emu.schedule.noting import Stay
from isa.registry import linux_abi_of
from recorder.files.reader import Recording, iter_core_records

#: Calls that are named, of those that others make.
_NAMED = 3
#: A core, and its instruction count.
Place = tuple[int, int]


class Made(NamedTuple):
    """A system call of a core. at: its instruction count. number: which one. result: unsigned."""

    at: int
    number: int
    result: int


class MadeCalls:
    """The system calls of a recording that returned at once. Raises FormatError."""

    def __init__(self, recording: Recording, program: GuestProgram) -> None:
        self._names = linux_abi_of(program.isa).calls if program.linux else {}
        self._made: list[list[Made]] = []
        for core in range(recording.manifest.n_cores):
            made: list[Made] = []
            for rows, _ in iter_core_records(recording, core) if program.linux else ():
                calls = rows[(rows["kind"] == INPUT) & (rows["flags"] == INPUT_CALL)]
                columns = (calls[name].tolist() for name in ("count", "addr", "value"))
                made += map(Made._make, zip(*columns, strict=True))
            self._made.append(made)

    def result(self, core: int, count: int) -> int | None:
        """What the call returned that a core made there, unsigned; None: none that returned at once."""
        made = self._made[core]
        place = bisect_left(made, (count,))
        return made[place].result if place < len(made) and made[place].at == count else None

    def before(self, core: int, count: int) -> list[Place]:
        """Where the calls of a core before an instruction were made, in their order."""
        made = self._made[core]
        return [(core, one.at) for one in made[: bisect_left(made, (count,))]]

    def within(self, stay: Stay) -> list[Place]:
        """Where those of a stay were made."""
        made = self._made[stay.core]
        return [
            (stay.core, one.at)
            for one in made[bisect_left(made, (stay.begin,)) : bisect_left(made, (stay.end,))]
        ]

    def during(self, stays: Sequence[Stay]) -> dict[int, list[str]]:
        """By thread, the names of the calls that it has made in these stays, each once, in their order."""
        found: dict[int, dict[str, None]] = {}
        for stay in stays:
            made = self._made[stay.core]
            for one in made[bisect_left(made, (stay.begin,)) : bisect_left(made, (stay.end,))]:
                found.setdefault(stay.who, {})[self._names.get(one.number, str(one.number))] = None
        return {who: list(names) for who, names in found.items()}


def told_calls(names: Sequence[str]) -> str:
    """Calls by their names, in words."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"made the system call{'s' if len(names) > 1 else ''} {', '.join(names[:_NAMED])}{more}"
