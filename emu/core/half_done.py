"""What an instruction stored before it failed, on a bus that sees no access.

The line bus takes such stores back (`emu.hooks.undo`). Here the emulator tries a store that it makes in parts
before the first of them (`NativeIsa.try_stores`); but what copies frame pointers reads and stores by turns,
as on a processor. So what is in memory there is noted as the core's own: its replay does not execute an
instruction that has failed.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from corebraid.base.compiled import njit
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.record import STORED
from emu.bus.line_state import holds
from emu.core.recorded import RecordedCore
from emu.native.state import CORE_AT
from isa.decoder import fault_decoder_of

#: Bytes of a record at most.
_MOST = 8


@njit(cache=True)
def _may_write(rows, page):  # type: ignore[no-untyped-def]
    """Whether the core (CORE[1]) has the page alone."""
    return holds(rows[0], page, True)


def note_half_done(core: RecordedCore) -> None:
    """Note what the instruction at which the core has stopped may have stored before it failed. To be called
    before anybody forgets what was refused."""
    if not core.words[CORE_AT.fault_access] or core.pc >= len(core.memory):
        return
    code, read = core.memory[core.pc : core.pc + 16].tobytes(), partial(core.isa.read, core.context())
    made = fault_decoder_of(core.isa).frame_made(code, core.pc, read)
    if made is None:
        return
    end = made.address + made.size
    for page in range(made.address // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1):
        if page < len(core.page_flags) and _may_write(core.rows, np.uint64(page)):
            _note(core, max(made.address, page * PAGE_BYTES), min(end, (page + 1) * PAGE_BYTES))


def _note(core: RecordedCore, first: int, end: int) -> None:
    for address in range(first, end, _MOST):
        size = min(_MOST, end - address)
        value = int.from_bytes(core.memory[address : address + size].tobytes(), "little")
        core.append_record(STORED, 0, address, value, size=size)
