"""Where a process was when a signal killed it: the last digest in the log of the core that ended the run."""

from __future__ import annotations

from dataclasses import dataclass

from corebraid.base.rows.record import DIGEST
from isa.registry import isa_named
from recorder.files.digest import Digest
from recorder.files.reader import Recording, iter_core_records


@dataclass(frozen=True)
class EndPlace:
    """A core when the recording ended: its instruction count, pc, and registers as the ISA lays them out."""

    core: int
    count: int
    pc: int
    context: bytes


def end_place(recording: Recording) -> EndPlace | None:
    """Where the core stood that ended the recording; None if none did. Raises FormatError."""
    end = recording.manifest.end
    if end is None or end.core is None:
        return None
    isa = isa_named(recording.manifest.isa)
    found = None
    # It is the last record but one.
    count = end.count or 0
    for rows, blob in iter_core_records(recording, end.core, wanted=lambda frame: frame.last >= count):
        digests = rows[rows["kind"] == DIGEST]
        if len(digests):
            last = digests[-1]
            raw = blob[int(last["offset"]) : int(last["offset"]) + int(last["size"])].tobytes()
            found = (int(last["count"]), Digest.unpack(raw, isa))
    if found is None or found[1] is None:
        return None
    context = found[1].context
    return EndPlace(end.core, found[0], isa.read(context, isa.program_counter), context)
