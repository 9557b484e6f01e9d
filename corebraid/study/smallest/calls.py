"""System calls around a switch: before which its thread stands, and which others make meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.record import INPUT, INPUT_CALL
from corebraid.names.program import GuestProgram
from corebraid.study.causes.code_names import CodeNames
from corebraid.study.causes.novelty import OWN
from corebraid.study.stacks import CoreMemory, program_names, stack_of
from emu.schedule.noting import Stay
from isa.decoder import decoder_of
from isa.registry import linux_abi_of
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.pause import CoreState, states_at

#: A core, and its instruction count.
Place = tuple[int, int]


class Standing(NamedTuple):
    """What a core stands before: a system call, by its name. pc: of the innermost frame of the program's own,
    0 for none; where: in words."""

    name: str
    pc: int = 0
    where: str = ""

    def __str__(self) -> str:
        return f"the system call {self.name}" + (f", from {self.where}" if self.where else "")


#: Calls that are named, of those that others make.
_NAMED = 3


def calls_before(
    recording: Recording, program: GuestProgram, places: Iterable[Place]
) -> dict[Place, Standing]:
    """Of those of `places` at which a core stands before a system call. Raises FormatError, Divergence."""
    if not program.linux:
        return {}
    abi, decoder, code = linux_abi_of(program.isa), decoder_of(program.isa), CodeNames(program)
    found: dict[Place, Standing] = {}

    def look(state: CoreState, memory: NDArray[np.uint8]) -> None:
        if decoder.disassemble(state.code, state.pc) != program.isa.system_call:
            return
        of_core = CoreMemory(memory)
        stack = stack_of("", program, program_names(program, of_core), state.registers, of_core)
        name = abi.calls.get(state.registers[abi.number] & 0xFFFFFFFF, "that is unknown")
        own = next(((one.pc, one.where) for one in stack.first if code.kind(one.pc) == OWN), (0, ""))
        found[state.core, state.count] = Standing(name, *own)

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
        self._made: list[list[Place]] = []
        for core in range(recording.manifest.n_cores):
            made: list[Place] = []
            for rows, _ in iter_core_records(recording, core) if program.linux else ():
                calls = rows[(rows["kind"] == INPUT) & (rows["flags"] == INPUT_CALL)]
                made += zip(calls["count"].tolist(), calls["addr"].tolist(), strict=True)
            self._made.append(made)

    def during(self, stays: Sequence[Stay]) -> dict[int, list[str]]:
        """By thread, the names of the calls that it has made in these stays, each once, in their order."""
        found: dict[int, dict[str, None]] = {}
        for stay in stays:
            for count, number in self._made[stay.core]:
                if stay.begin <= count < stay.end:
                    found.setdefault(stay.who, {})[self._names.get(number, str(number))] = None
        return {who: list(names) for who, names in found.items()}


def told_calls(names: Sequence[str]) -> str:
    """Calls by their names, in words."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"made the system call{'s' if len(names) > 1 else ''} {', '.join(names[:_NAMED])}{more}"
