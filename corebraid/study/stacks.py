"""The call stack of the thread, or core, that a guest died on. What it takes is loaded when asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.base.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from corebraid.names.program import GuestProgram
    from corebraid.names.unwinding.machine import Memory
    from corebraid.names.unwinding.stack import CallStack, Frame
    from corebraid.study.stack_names import Called, StackNames
    from recorder.files.manifest import Manifest
    from recorder.files.reader import Recording

#: Ends of a recording at which somebody died.
_DEATHS = ("signal", "fault")
#: Of a deep stack, how many frames from the innermost on are told, and how many from the outermost.
_INNERMOST, _OUTERMOST = 32, 16
#: Frames that are told where there is little room.
_SHORT = 12


@dataclass(frozen=True)
class Stack:
    """The stack of `who`. first: frames from the innermost on. last: of a deep stack the outermost ones;
    `left_out` frames lie between. remark: why it ends before its end, or ''."""

    who: str
    first: tuple[Called, ...]
    last: tuple[Called, ...] = ()
    left_out: int = 0
    remark: str = ""

    def lines(self, most: int = _INNERMOST + _OUTERMOST) -> list[str]:
        """For people, of at most so many frames."""
        shown = [f"  {one.text()}" for one in self.first[:most]]
        behind = self.last if most > len(self.first) else ()
        hidden = len(self.first) - len(shown) + len(self.last) - len(behind) + self.left_out
        shown += [f"  ... {hidden:,} more"] if hidden else []
        shown += [f"  {one.text()}" for one in behind]
        return [f"stack of {self.who}:", *shown, *([f"  ({self.remark})"] if self.remark else [])]

    def short(self) -> list[str]:
        """For people who are told much else: nothing of one frame, since where that is is said anyway."""
        return self.lines(_SHORT) if len(self.first) > 1 else []

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "of": self.who,
            "frames": [one.facts() for one in (*self.first, *self.last)],
            "left_out": self.left_out,
            "remark": self.remark or None,
        }


def stack_at_end(path: Path, manifest: Manifest) -> Stack | None:
    """The stack of who died at the end of the recording in the directory `path`; None: nobody did, or it is
    not known who."""
    if manifest.end is None or manifest.end.reason not in _DEATHS or not manifest.complete:
        return None
    from recorder.files.reader import Recording

    try:
        return _stack(Recording(path, manifest))
    except FormatError as error:
        return Stack("the guest", (), remark=f"it is not known: {error.line()}")


def stacks_at(
    recording: Recording, program: GuestProgram, core: int, counts: Iterable[int]
) -> dict[int, Stack]:
    """By instruction count, the stack of who was on a core before each: by one replay of the core from its
    last checkpoint before. Memory is what the core had received by then, so that frames that a thread has
    left on another core may not be told. Raises FormatError, Divergence."""
    from recorder.replay.pause import CoreState, states_at

    found: dict[int, Stack] = {}

    def look(state: CoreState, memory: NDArray[np.uint8]) -> None:
        of_core = CoreMemory(memory)
        who, names = _name_of(recording, core, state.count), program_names(program, of_core)
        found[state.count] = stack_of(who, program, names, state.registers, of_core)

    states_at(recording, core, counts, look)
    return found


class CoreMemory:
    """What a core has of memory, uint8[n]."""

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self._memory = memory

    def read(self, address: int, size: int) -> bytes | None:
        """`size` bytes from `address` on; None behind the end of memory."""
        inside = 0 <= address <= len(self._memory) - size
        return self._memory[address : address + size].tobytes() if inside else None


def program_names(program: GuestProgram, memory: Memory) -> StackNames:
    """Names of frames."""
    from corebraid.study.stack_names import StackNames

    return StackNames(program, memory)


def _stack(recording: Recording) -> Stack | None:
    from corebraid.names.program import GuestProgram
    from corebraid.study.ended import end_place
    from recorder.files.final_memory import FinalMemory

    place = end_place(recording)
    if place is None:
        return None
    program = GuestProgram.of(recording.path, recording.manifest)
    memory = FinalMemory(recording)
    registers = {one.name: program.isa.read(place.context, one.name) for one in program.isa.registers}
    who = _name_of(recording, place.core, place.count)
    return stack_of(who, program, program_names(program, memory), registers, memory)


def stack_of(
    who: str, program: GuestProgram, names: StackNames, registers: Mapping[str, int], memory: Memory
) -> Stack:
    """The stack of a thread, or core, with these registers, by name, and this memory. names: of `program`,
    with the same memory."""
    calls = calls_of(registers, memory, program)
    first: list[Called] = []
    rest: deque[tuple[int, Frame]] = deque(maxlen=_OUTERMOST)
    number = 0
    for n, frame in enumerate(calls.frames()):
        if n < _INNERMOST:
            first += names.called(frame, number)
        else:
            rest.append((number, frame))
        number += names.count(frame)
    last = [one for at, frame in rest for one in names.called(frame, at)]
    left_out = rest[0][0] - len(first) if rest else 0
    return Stack(who, tuple(first), tuple(last), left_out, calls.remark)


def calls_of(registers: Mapping[str, int], memory: Memory, program: GuestProgram) -> CallStack:
    """The callers of a thread with these registers, by name."""
    from corebraid.names.unwinding.stack import CallStack
    from isa.registry import frame_registers_of

    isa = program.isa
    return CallStack(
        registers, memory, program.files, frame_registers_of(isa), program.call_ends_at, program.debug_files
    )


def _name_of(recording: Recording, core: int, count: int) -> str:
    from corebraid.names.threads import thread_at, thread_name

    thread = thread_at(recording, core, count)
    return thread_name(recording.manifest.end, thread) if thread else f"core {core}"
