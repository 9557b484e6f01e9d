"""System calls around a switch: before which its thread stands, and which others make meanwhile."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.record import INPUT, INPUT_CALL
from corebraid.names.inlined_calls import InlinedCalls
from corebraid.names.program import GuestProgram
from corebraid.study.causes.code_names import CodeNames
from corebraid.study.causes.novelty import OWN
from corebraid.study.smallest.kernel_objects import MAKES_DESCRIPTOR, Use, uses
from corebraid.study.stack_names import Called
from corebraid.study.stacks import CoreMemory, program_names, stack_of
from emu.schedule.noting import Stay
from isa.decoder import decoder_of
from isa.registry import linux_abi_of
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.pause import CoreState, states_at

#: Calls that are named, of those that others make.
_NAMED = 3
#: A core, and its instruction count.
Place = tuple[int, int]


class Made(NamedTuple):
    """A system call of a core. at: its instruction count. number: which one."""

    at: int
    number: int
    result: int


class Standing(NamedTuple):
    """Where a core stands that is not in the program's own code: before a system call, by its name, or in a
    library, ''. pc: within the call by which the innermost frame of own code came there, 0 for none; where:
    in words. uses: what of the kernel's the call uses; arguments: its registers for them."""

    name: str
    pc: int = 0
    where: str = ""
    uses: tuple[Use, ...] = ()
    arguments: tuple[int, ...] = ()

    def __str__(self) -> str:
        if not self.name:
            return f"the end of what it has called at {self.where}"
        return f"the system call {self.name}" + (f", from {self.where}" if self.where else "")


def standing_at(
    recording: Recording, program: GuestProgram, places: Iterable[Place]
) -> dict[Place, Standing]:
    """Of those of `places` at which a core stands before a system call, or in a library that own code has
    called. Raises FormatError, Divergence."""
    if not program.linux:
        return {}
    abi, decoder, code = linux_abi_of(program.isa), decoder_of(program.isa), CodeNames(program)
    inlined, made = InlinedCalls(program.lines), list[MadeCalls]()
    found: dict[Place, Standing] = {}

    def result(name: str, state: CoreState) -> int | None:
        if name not in MAKES_DESCRIPTOR:
            return None
        made[:] = made or [MadeCalls(recording, program)]
        return made[0].result(state.core, state.count)

    def in_own_file(frame: Called) -> str:
        called = inlined.at(frame.pc)
        within = "" if inlined.stands_there(frame.pc, frame.line) else called
        return frame.where + (f", called at {within}" if within else "")

    def look(state: CoreState, memory: NDArray[np.uint8]) -> None:
        calls, name = decoder.disassemble(state.code, state.pc) == program.isa.system_call, ""
        if not calls and code.kind(state.pc) == OWN:
            return
        of_core = CoreMemory(memory)
        stack = stack_of("", program, program_names(program, of_core), state.registers, of_core)
        frames = ((one.pc - (n > 0), in_own_file(one)) for n, one in enumerate(stack.first))
        own = next((one for one in frames if code.kind(one[0]) == OWN), (0, ""))
        used, arguments = tuple[Use, ...](), tuple[int, ...]()
        if calls:
            name = abi.calls.get(state.registers[abi.number] & 0xFFFFFFFF, "that is unknown")
            arguments = tuple(state.registers[register] for register in abi.arguments)
            used = uses(name, arguments, of_core.read, result(name, state))
        if name or own[0]:
            found[state.core, state.count] = Standing(name, *own, used, arguments)

    by_core: dict[int, list[int]] = {}
    for core, count in places:
        by_core.setdefault(core, []).append(count)
    for core, counts in by_core.items():
        states_at(recording, core, counts, look)
    return found


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
