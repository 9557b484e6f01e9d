"""What went wrong in a guest, in words."""

from __future__ import annotations

from dataclasses import dataclass

from corebraid.base.memory import PAGE_BYTES
from emu.core.core import Core
from emu.devices.mail_state import MAIL_SLOTS
from emu.devices.mailbox import MAIL_FULL, MAIL_NOWHERE
from emu.hooks.call import SYSTEM_CALL
from isa.table import Isa

#: Unicorn's kinds of access.
READ_ACCESS, WRITE_ACCESS, FETCH_ACCESS = 16, 17, 18
_NAMES = {READ_ACCESS: "read of", WRITE_ACCESS: "write to", FETCH_ACCESS: "instruction fetch from"}

_MAIL = {
    MAIL_FULL: f"a message posted while {MAIL_SLOTS} others are under way or wait in inboxes",
    MAIL_NOWHERE: "a message posted to a core that does not exist",
}


@dataclass(frozen=True)
class Fault:
    """A guest's failure: core, its instruction count, pc, what happened, and the bytes at pc. refused: it is
    not the guest's, but an instruction that cannot be emulated."""

    core: int
    count: int
    pc: int
    what: str
    code: bytes
    refused: bool = False


def describe_exception(isa: Isa, number: int) -> str:
    """A processor exception or software interrupt, by number."""
    if number == SYSTEM_CALL:
        return f"a system call ({isa.system_call}), which this machine does not serve"
    if number in _MAIL:
        return _MAIL[number]
    return dict(isa.exceptions).get(
        number, f"software interrupt {number:#x}, which this machine does not serve"
    )


def describe_fill(core: Core) -> str:
    """The access that the page table refused; else a general fault."""
    access = int(core.row["fault_access"])
    if not access:
        return "an exception"
    core.row["fault_access"] = 0
    # The page fill names the page; only of an instruction fetch is the address in it known, the pc.
    page = int(core.row["fault_address"]) & -PAGE_BYTES
    inside = page < int(core.row["memory_bytes"]) and core.page_rights[page >> 12]
    where = f"the page at {page:#x}"
    if access == FETCH_ACCESS and core.pc & -PAGE_BYTES == page:
        where = f"{core.pc:#x}"
    kind = _NAMES.get(access, "access to")
    if inside:
        return f"a forbidden {kind} {where}"
    article = "an" if access == FETCH_ACCESS else "a"
    return f"{article} {kind} {where}, which is not mapped"
