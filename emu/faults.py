"""What went wrong in a guest, in words."""

from __future__ import annotations

from dataclasses import dataclass

from emu.core import Core

_ACCESS = {16: "read of", 17: "write to", 18: "instruction fetch from"}
#: Intel SDM volume 3, table 6-1.
_EXCEPTIONS = {
    0: "a division error", 1: "a debug exception", 3: "a breakpoint (int3)", 4: "an overflow trap",
    5: "a bound-range exception", 6: "an illegal instruction", 8: "a double fault",
    10: "an invalid task segment", 11: "a missing segment", 12: "a stack-segment fault",
    13: "a general-protection fault", 14: "a page fault", 16: "an x87 error", 17: "an unaligned access",
    19: "an SSE floating-point error",
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A guest's failure: core, its instruction count, pc, what happened, and the bytes at pc."""

    core: int
    count: int
    pc: int
    what: str
    code: bytes


def describe_exception(number: int) -> str:
    """A processor exception or software interrupt, by number."""
    return _EXCEPTIONS.get(number, f"software interrupt {number:#x}, which this machine does not serve")


def describe_fill(core: Core) -> str:
    """The access that the page table refused; else a general fault."""
    access = int(core.row["fault_access"])
    if not access:
        return "an exception"
    core.row["fault_access"] = 0
    address = int(core.row["fault_address"])
    inside = address < int(core.row["memory_bytes"]) and core.page_rights[address >> 12]
    kind = _ACCESS.get(access, "access to")
    return f"a forbidden {kind} {address:#x}" if inside else f"a {kind} {address:#x}, which is not mapped"
