"""The registers of an emulated processor, where unicorn 2.1 keeps them: fields of QEMU's CPUX86State.

A helper is handed the address of that structure, and of XMM or MMX registers in it. `table.py` knows of which
versions of unicorn the places are.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.native.unicorn import peek8, poke8

#: Byte offsets. regs: 64 bits each, numbered as in instructions. cc_src: the flags after instructions that
#: set them all at once. segments: 24 bytes each, the selector first. top: of the x87 stack (32 bits). tags:
#: uint8[8], 1 for an empty register, by physical number. registers: 16 bytes each, of which 10 are used.
#: operand: the second one of an x87 operation. spare: 256 bytes that nothing uses.
REGS, CC_SRC, SEGMENTS, TOP, STATUS_WORD, CONTROL_WORD, TAGS, REGISTERS = (
    0x0,
    0x98,
    0xB8,
    0x25C,
    0x260,
    0x262,
    0x264,
    0x270,
)
X87_STATUS, OPERAND, SSE_STATUS, MXCSR, XMM, MMX_OPERAND, SPARE = (
    0x308, 0x310, 0x328, 0x330, 0x338, 0xB78, 0xB80,
)  # fmt: skip
#: By how much the address of unicorn's own part of a processor's state is lower.
PROCESSOR = 0x8A50
#: Where an emulator has the address of that part; by how much what accesses look at of the TLB is lower than
#: a processor's state, and for how many modes there is one.
OF_PROCESSOR, TLB, TLB_MODES = 0x1B8, 64, 3
#: And in that part, by how much that word is lower which says of what kind the processor is (CPUClass).
PROCESSOR_CLASS = 0x8A0
RIP = 0x80
#: What the flags are to be worked out from; in what mode the processor is, the privilege level first.
OPERATION, MODE = 0xA8, 0xB0
#: Of the last x87 instruction, and of its operand in memory.
CODE_SEGMENT, DATA_SEGMENT, INSTRUCTION, OPERAND_ADDRESS = 0x2F2, 0x2F4, 0x2F8, 0x300
#: How `SPARE` is shared, by name: (first byte, bytes). In `packed`: a copy of an operand; the top and tags
#: that an MMX instruction changed. In `x87_state`: no operand is there, no register is free. result: of an
#: SSE instruction, until it is known that it raises nothing. keeps: the x87 instruction under way has failed
#: and leaves its operands, the stack and memory as they are; small_operand: it takes 32 or 64 bits; stays: it
#: is an `fcmovcc` that moves nothing. rotated_flags: those after a rotation through the carry flag.
#: While code is translated: the translator; which value is the address of operands in memory; where a byte of
#: code was read last, and what before it; what an MMX instruction waits for; whether a rotation's flags wait;
#: what the translator knows; the first value that was made for an instruction, and that one's
#: address; an `ins` whose store was tried; the first half of an operand that waits for the second one.
SHARES = {
    "copy": (0, 16), "kept_top": (32, 4), "kept_tags": (40, 8), "no_operand": (48, 1), "room": (49, 1),
    "result": (64, 64), "keeps": (160, 1), "small_operand": (161, 1), "stays": (162, 1), "rotated": (163, 1),
    "translator": (168, 8), "operand_place": (176, 8), "last_read": (184, 8), "read": (192, 1),
    "entering": (200, 8), "translation": (208, 8), "rotated_flags": (216, 8), "first": (224, 8),
    "first_of": (232, 8), "tried": (240, 8), "first_half": (248, 8),
}  # fmt: skip


def share(name: str) -> int:
    """The offset of one of `SHARES`."""
    return SPARE + SHARES[name][0]


RESULT, KEEPS, STAYS, ENTERING = (share(name) for name in ("result", "keeps", "stays", "entering"))
#: Which approximations a program has asked for (`X87_APPROXIMATED`, `RECIPROCALS`): where unicorn reads the
#: upper half of ymm31, which no instruction reaches.
NOTED = XMM + 31 * 64 + 16
#: Where the memory of a processor begins in that of this process, and its bytes: the upper half of ymm30.
MEMORY = XMM + 30 * 64 + 16
MEMORY_BYTES = MEMORY + 8
#: Whom accesses to watched pages are told (`watched.py`), the address of its `CORE` row or 0: the upper half
#: of ymm29.
WATCHER = XMM + 29 * 64 + 16
#: The address of its core's `CORE` row, 0 of an engine that is no core's.
CORE_ROW = WATCHER + 8
#: With those of ymm31: exceptions that MXCSR gets when they are delivered.
DUE = NOTED + 1
#: There too: by how much the engine's instructions are corrected (`Isa.revision`).
REVISION = NOTED + 8
#: And whether a program of Linux runs there; the error code of the last exception that has one.
PROGRAM, FAULT_CODE = NOTED + 9, NOTED + 4
#: There too: what an x87 store that is under way has to say (`x87_exceptions`), 16 bits each.
PENDING, KEPT_SEGMENT = NOTED + 10, NOTED + 12
#: There too: whether a store of 16 bytes is tried before it is made (`translation.accesses`).
TRIES = NOTED + 14
#: In `DATA_SEGMENT`, until the store has happened.
NO_SEGMENT = 0xFFFF
X87_APPROXIMATED, RECIPROCALS, ALIGNMENT = 1, 2, 4
#: Bytes of a `float_status`. flushes: the precision of x87 results, which means nothing to SSE instructions:
#: ours, for what becomes of their tiny results (`mxcsr.py`). flush_results: the emulator's own for that.
#: raised: exceptions, bits as in MXCSR. zero_operands: small ones are zero.
RAISED, FLUSHES, FLUSH_RESULTS, ZERO_OPERANDS = 2, 3, 4, 5


@njit(cache=True)
def at(env, offset):
    """The address of a field."""
    return env + np.uint64(offset)


@njit(cache=True)
def note(env, approximation):
    """A program has asked for it."""
    place = at(env, NOTED)
    poke8(place, peek8(place) | np.uint8(approximation))


def shown(control: int, status: int) -> tuple[int, int]:
    """Control and status word as a program sees them: `x87_exceptions.refresh`, outside of the emulator."""
    control, status = control & 0x1F3F | 0x40, status & ~0x8080
    return control, status | 0x8080 if status & ~control & 0x3F else status


def told(word: int, control: int, status: int) -> int:
    """The status word once a store has told it of `status`: `x87_state.tell`, outside of the emulator."""
    word = word & ~0x200 | status & 0x27F
    return word | 0x8080 if word & ~control & 0x3F else word
