"""Rows of a core's log, in memory (the bytes on disk are `recorder/files/codec.py`, `docs/format.md`);
the bus writes them natively, so they are defined here.

A core's log is a sequence of `RECORD` rows in the order of their instruction counts, with a blob that
holds the bytes of the rows that carry some.
"""

from __future__ import annotations

import numpy as np

#: Kinds of a record, and what `addr`, `value`, `flags` and the blob hold.
#: MISS: addr = line address; flags = MISS_* bits; blob = the line as received, before any write. Under TSO
#:        the core's own buffered stores lie over it, and value = how many of its stores had left the buffer.
#: INPUT: flags = one of INPUT_*; value = what the core was given; addr = the register's address (MMIO),
#:        the auxiliary value (RDTSCP's ecx, RDRAND's carry flag) or the call's number (a system call's
#:        result); size = bytes of the read.
#: STRATUM: value = the stratum's number, from 0. Under TSO addr = how many stores had left the buffer, size =
#:        how many were in it.
#: DIGEST: blob = a digest (recorder/files/digest.py), taken at exactly this instruction count.
#: CONTEXT: a context header; addr = what runs from here (process identifier), value = the core's cycle
#:          count, flags = one of CONTEXT_*; blob = registers as the ISA table lays them out.
#: END: value = one of END_*; the core's log ends at exactly this instruction count.
#: RECEIVED: addr = line address; blob = the line of the MISS before it as it was received, where the core's
#:        buffered stores have changed it there.
#: STORED: addr, value, size = 1 to 8 bytes that an instruction stored which then failed; only where the bus
#:        moves pages.
STORED, MISS, INPUT, STRATUM, DIGEST, CONTEXT, END, RECEIVED = 0, 1, 2, 3, 4, 5, 6, 7
#: In no log, only where a replay is told of losses too (evidence `losses`): addr = the page, flags = the way
#: it was lost (`emu.bus.losses`).
LOSES = 9

#: MISS_WRITE: the miss was a write's. MISS_FETCH: an instruction fetch's. MISS_LATE: this core lost the
#: line in the middle of the straight run of instructions that missed on it again, or its store buffer
#: answered a load from it there; replay must apply the record at exactly its count, not at the start of
#: the block. MISS_OWNED: the line came from a core that had it alone.
MISS_WRITE, MISS_FETCH, MISS_LATE, MISS_OWNED = 1, 2, 4, 16

#: Where the bus moves pages, a MISS is of a page, and its blob is how many lines of it differ from what the
#: core had there, their numbers, and their bytes. Bytes of such a line, and lines of a page.
PAGE_LINE, PAGE_LINES = 64, 64

INPUT_TIME, INPUT_TIME_AND_CORE, INPUT_RANDOM, INPUT_MMIO, INPUT_CALL = 1, 2, 3, 4, 5

#: CONTEXT_SWITCH: another thread runs from here, or one that had to wait. CONTEXT_SIGNAL: a signal handler.
#: CONTEXT_CALL: a system call has set more than its result. CONTEXT_FORGOTTEN: the registers are as they
#: were, and behind them in the blob stand those that are in no other context (uint64 each); the core has
#: given back all that it had received. addr: the thread, 0 for none.
CONTEXT_START, CONTEXT_INTERRUPT, CONTEXT_SWITCH, CONTEXT_SIGNAL, CONTEXT_CALL = 1, 2, 3, 4, 5
CONTEXT_FORGOTTEN = 6

END_POWER_OFF, END_FAULT, END_HALTED, END_LIMIT, END_STOPPED = 1, 2, 3, 4, 5
#: Of a Linux guest: the process ended.
END_EXIT = 6

RECORD = np.dtype(
    [
        ("count", "<u8"),
        ("addr", "<u8"),
        ("value", "<u8"),
        ("offset", "<u4"),
        ("size", "<u2"),
        ("kind", "u1"),
        ("flags", "u1"),
    ]
)
assert RECORD.itemsize == 32
