"""Where the threads of a recording stand: before a system call, or in a library that own code has called."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.names.inlined_calls import InlinedCalls
from corebraid.names.program import GuestProgram
from corebraid.study.causes.code_names import CodeNames
from corebraid.study.causes.novelty import OWN
from corebraid.study.smallest.calls import MadeCalls, Place
from corebraid.study.smallest.kernel_objects import MAKES_DESCRIPTOR, Read, Use, uses
from corebraid.study.stack_names import Called
from corebraid.study.stacks import CoreMemory, program_names, stack_of
from isa.decoder import decoder_of
from isa.registry import linux_abi_of
from recorder.files.final_memory import FinalMemory
from recorder.files.reader import Recording
from recorder.replay.pause import CoreState, states_at


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
    looking, by_core = _Looking(recording, program), dict[int, list[int]]()
    for core, count in places:
        by_core.setdefault(core, []).append(count)
    for core, counts in by_core.items():
        states_at(recording, core, counts, looking.look)
    return looking.found


class _Looking:
    """Looks at cores, one by one."""

    def __init__(self, recording: Recording, program: GuestProgram) -> None:
        self.found: dict[Place, Standing] = {}
        self._recording, self._program = recording, program
        self._abi, self._decoder = linux_abi_of(program.isa), decoder_of(program.isa)
        self._code, self._inlined = CodeNames(program), InlinedCalls(program.lines)

    def look(self, state: CoreState, memory: NDArray[np.uint8]) -> None:
        """Note where one stands."""
        calls = self._decoder.disassemble(state.code, state.pc) == self._program.isa.system_call
        if not calls and self._code.kind(state.pc) == OWN:
            return
        of_core = CoreMemory(memory)
        pc, where = self._called_from(state, of_core)
        if calls:
            name = self._abi.calls.get(state.registers[self._abi.number] & 0xFFFFFFFF, "that is unknown")
            arguments = tuple(state.registers[register] for register in self._abi.arguments)
            used = uses(name, arguments, self._reading(of_core), self._result(name, state))
            self.found[state.core, state.count] = Standing(name, pc, where, used, arguments)
        elif pc:
            self.found[state.core, state.count] = Standing("", pc, where)

    def _reading(self, memory: CoreMemory) -> Read:
        """Reads what a core has of memory; what it never had, as a name that the kernel alone has read, as it
        was in the end."""

        def read(address: int, size: int) -> bytes | None:
            found = memory.read(address, size)
            return found if found is None or any(found) else self._final.read(address, size) or found

        return read

    def _called_from(self, state: CoreState, memory: CoreMemory) -> tuple[int, str]:
        """The innermost frame of own code, (0, '') if there is none."""
        names = program_names(self._program, memory)
        stack = stack_of("", self._program, names, state.registers, memory)
        frames = ((one.pc - (n > 0), one) for n, one in enumerate(stack.first))
        own = ((pc, self._in_own_file(pc, frame)) for pc, frame in frames if self._code.kind(pc) == OWN)
        return next(own, (0, ""))

    def _in_own_file(self, pc: int, frame: Called) -> str:
        """Where that is, of code of a header also where the compiled file calls it. pc: within the call."""
        called = "" if self._inlined.stands_there(pc, frame.line) else self._inlined.at(pc)
        return frame.where + (f", called at {called}" if called else "")

    def _result(self, name: str, state: CoreState) -> int | None:
        return self._made.result(state.core, state.count) if name in MAKES_DESCRIPTOR else None

    @cached_property
    def _final(self) -> FinalMemory:
        return FinalMemory(self._recording)

    @cached_property
    def _made(self) -> MadeCalls:
        return MadeCalls(self._recording, self._program)
