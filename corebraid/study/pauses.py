"""A core replayed up to an instruction count, to look at it there."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import BinaryIO

from corebraid.names.devices import device_symbols
from corebraid.names.program import UNKNOWN, WRITTEN, GuestProgram
from corebraid.names.selection import Selection
from corebraid.names.threads import threads_of
from corebraid.study.tracing import make_exporter
from recorder.files.reader import Recording
from recorder.replay.pause import CoreState, PausedReplay
from recorder.replay.seek import start_at, start_of


@dataclass(frozen=True)
class Paused:
    """A core before an instruction. symbol, line: where its pc is, "" for nowhere. accesses: those that were
    asked for, as JSON."""

    state: CoreState
    symbol: str
    line: str
    disassembly: str
    accesses: list[object]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        state = self.state
        return {
            "core": state.core,
            "count": state.count,
            "pc": f"{state.pc:#x}",
            "symbol": self.symbol or None,
            "line": self.line or None,
            "disassembly": self.disassembly,
            "registers": {name: f"{value:#x}" for name, value in state.registers.items()},
            "accesses": self.accesses,
        }


def pause(
    recording: Recording, core: int, first: int | None, until: int, sink: BinaryIO | None = None
) -> Paused:
    """Replay a core until `until` instructions have retired, and look at it there.

    first: with the accesses from this instruction count on. sink: write these there, as a table, instead of
    giving them. Raises UsageError if the core never comes so far, Divergence, FormatError.
    """
    start = start_of(recording, core, (until,)) if first is None else start_at(recording, core, first)
    replay = PausedReplay(recording, core, (until,), traced=first is not None, start=start)
    program = GuestProgram.of(recording.path, recording.manifest, device_symbols())
    wanted, seen = Selection(first=first, until=until), io.BytesIO()
    pieces = (rows[wanted.mask(rows)] for rows in replay.run())
    if first is None:
        for _ in pieces:
            pass
    else:
        format_name, n_cores = "text" if sink else "jsonl", recording.manifest.n_cores
        out = make_exporter(format_name, sink or seen, program, n_cores, threads_of(recording))
        for rows in pieces:
            out.write(rows, True)
        out.close()
    accesses = [json.loads(line) for line in seen.getvalue().splitlines()]
    return _paused(replay.state(until), program, accesses)


def _paused(state: CoreState, program: GuestProgram, accesses: list[object]) -> Paused:
    text = program.instruction(state.pc)
    if text in (UNKNOWN, WRITTEN):
        # The core has these bytes only if it has executed here before.
        text = program.disassemble(state.code, state.pc) if state.code else "(outside memory)"
    return Paused(state, program.symbols.name(state.pc), program.lines.at(state.pc), text, accesses)
