"""What became of a recording, and the error of a guest that failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.base.errors import GuestFault
from corebraid.base.wording import Option
from corebraid.study.deadlocks import deadlock_lines
from corebraid.study.stacks import Stack, stack_at_end
from emu.linux.tasks.waiting import Awaited

if TYPE_CHECKING:
    from corebraid.study.evidence.slice_search import SearchedAhead
    from emu.board.faults import Fault
    from recorder.capture.options import Outcome
    from recorder.files.end import End
    from recorder.files.manifest import Manifest

_FAILURES = {
    "halted": "every core waits and nothing can wake one (the guest never powered the machine off)",
    "deadlock": "every thread waits and nothing can wake one (deadlock)",
    "signal": "it was killed by a signal",
}
_PARTLY = (
    "some threads wait for ever for each other or for one that has ended, while others wait for work from "
    "outside (deadlock)"
)


@dataclass(frozen=True)
class Recorded:
    """The recording in `directory`. unknown: system calls that are not emulated, and how often each was
    made. because: the options that have chosen the bus of lines, where nobody named a bus. hidden: paths
    that a Linux guest asked for in vain and that the host has (`bind`). missed: switches of the schedule that
    did not take place. search: what became of the search of its slices, if they were searched while the
    program ran."""

    directory: Path
    outcome: Outcome
    unknown: Mapping[str, int] = field(default_factory=dict)
    because: tuple[Option, ...] = ()
    hidden: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    search: SearchedAhead | None = None

    @property
    def manifest(self) -> Manifest:
        """What the recording says of itself."""
        return self.outcome.manifest

    @property
    def end(self) -> End:
        """Why the recording ended."""
        return self.outcome.end

    @property
    def fault(self) -> Fault | None:
        """Where the guest failed, if it did."""
        return self.outcome.fault

    def facts(self) -> dict[str, object]:
        """As JSON."""
        manifest = self.manifest
        return {
            "recording": str(self.directory),
            "id": manifest.id.hex(),
            "program": asdict(manifest.program),
            "cores": manifest.n_cores,
            "bus": manifest.bus,
            "instructions": list(manifest.instructions),
            "totals": manifest.totals,
            "end": self.end.facts(),
            "fault": self._failed_at,
            "hidden": list(self.hidden),
            "missed": list(self.missed),
            "stack": None if self.stack is None else self.stack.facts(),
            **({"waits": waits} if (waits := self.waits()) else {}),
            **({} if self.search is None else {"search": self.search.facts()}),
        }

    @cached_property
    def stack(self) -> Stack | None:
        """The call stack of a guest that failed, where it can be told."""
        return stack_at_end(self.directory, self.manifest)

    def waits(self) -> list[str]:
        """Of a deadlock, or where all wait for work from outside: a line for each thread, one for the cycle,
        and one that says which of them never go on."""
        return deadlock_lines(self.directory, self.manifest)

    def failure(self) -> GuestFault | None:
        """The error that a guest has failed with, if it has."""
        facts, remedy = self._failed_at, f"the recording {self.directory} is complete up to there"
        if facts:
            at = f" at {facts['line']}" if facts["line"] else ""
            return GuestFault(
                f"the guest failed: {facts['what']}",
                where=f"core {facts['core']}, instruction {facts['count']}, pc {facts['pc']} in "
                f"{facts['symbol'] or 'no known function'}{at} ({facts['disassembly'] or 'no code here'})",
                remedy=remedy,
            )
        if self.end.reason == "deadlock" and any(one.what is Awaited.WORK for one in self.end.waits):
            return GuestFault(f"the guest failed: {_PARTLY}", remedy=remedy)
        if self.end.reason in _FAILURES:
            return GuestFault(f"the guest failed: {_FAILURES[self.end.reason]}", remedy=remedy)
        return None

    @cached_property
    def _failed_at(self) -> dict[str, object] | None:
        """Where the guest failed: a fault that nobody handles, or a signal that killed a Linux program."""
        from corebraid.study.ended import end_place
        from recorder.files.reader import Recording

        fault, manifest = self.fault, self.manifest
        signalled = self.end.reason == "signal"
        place = fault or (end_place(Recording(self.directory, manifest)) if signalled else None)
        if place is None:
            return None
        from corebraid.names.program import GuestProgram

        program = GuestProgram.of(self.directory, manifest)
        text = program.disassemble(fault.code, fault.pc) if fault and fault.code else None
        return {
            "core": place.core,
            "count": place.count,
            "pc": f"{place.pc:#x}",
            "symbol": program.symbols.name(place.pc) or None,
            "line": program.lines.at(place.pc) or None,
            "disassembly": text if fault else program.instruction(place.pc),
            "what": fault.what if fault else self.end.text or _FAILURES["signal"],
        }
