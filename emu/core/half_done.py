"""What an instruction stored before it failed, on a bus that sees no access.

A store over two pages whose second page is refused may have written to the first (`movups`, `fstp` of 10
bytes, `fxsave`). The line bus takes such stores back (`emu.hooks.undo`). Here what is in memory then is noted
as the core's own: its replay does not execute an instruction that has failed.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import njit

from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.record import STORED
from emu.bus.line_state import holds
from emu.core.recorded import RecordedCore
from emu.native.state import CORE_AT
from isa.decoder import fault_decoder_of

#: Unicorn's kind of a refused write, and bytes of a record at most.
_WRITE, _MOST = 17, 8


@njit(cache=True)
def _may_write(rows, page):  # type: ignore[no-untyped-def]
    """Whether the core (CORE[1]) has the page alone."""
    return holds(rows[0], page, True)


def note_half_done(core: RecordedCore) -> None:
    """Note what the instruction at which the core has stopped may have stored before the page that it was
    refused. To be called before anybody forgets what was refused."""
    words = core.words
    border = words[CORE_AT.fault_address] & -PAGE_BYTES
    page = border // PAGE_BYTES - 1
    inside = 0 <= page < len(core.page_flags) and core.pc < len(core.memory)
    if words[CORE_AT.fault_access] != _WRITE or not inside or not _may_write(core.rows, np.uint64(page)):
        return
    code, read = core.memory[core.pc : core.pc + 16].tobytes(), partial(core.isa.read, core.context())
    for access in fault_decoder_of(core.isa).accesses(code, core.pc, read):
        crosses = border - PAGE_BYTES <= access.address < border < access.address + access.size
        if access.written and crosses:
            _note(core, access.address, border)


def _note(core: RecordedCore, first: int, end: int) -> None:
    for address in range(first, end, _MOST):
        size = min(_MOST, end - address)
        value = int.from_bytes(core.memory[address : address + size].tobytes(), "little")
        core.append_record(STORED, 0, address, value, size=size)
