"""RDRAND and RDSEED, emulated: the engine's processor model lacks them, so they arrive as illegal.

Source: Intel SDM volume 2, RDRAND: the destination gets a random number, CF is set, OF, SF, ZF, AF and PF
are cleared.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from emu.core.core import Core
from isa.decoded import RandomRead
from isa.decoder import decoder_of

_ARITHMETIC_FLAGS = 0x8D5
_CARRY = 1


@dataclass(frozen=True)
class RandomInput:
    """What a random-number instruction was given: at which count, the value, its size in bytes."""

    count: int
    value: int
    size: int


def _decoded(core: Core) -> RandomRead | None:
    code = core.memory[core.pc : core.pc + 16].tobytes()
    return decoder_of(core.isa).decode_random_read(code, core.pc)


def emulate_random_read(core: Core, source: random.Random) -> RandomInput | None:
    """Execute the random-number instruction at the core's pc; None when there is none."""
    decoded = _decoded(core)
    if decoded is None:
        return None
    count, value = core.count, source.getrandbits(8 * decoded.size)
    finish_random_read(core, value)
    return RandomInput(count, value, decoded.size)


def finish_random_read(core: Core, value: int) -> bool:
    """Give the random-number instruction at the core's pc its value. False when there is none."""
    decoded = _decoded(core)
    if decoded is None:
        return False
    # A 32-bit destination clears the upper half; a 16-bit one keeps the rest (SDM volume 1, 3.4.1.1).
    kept = core.read_register(decoded.register) & ~0xFFFF if decoded.size == 2 else 0
    core.write_register(decoded.register, kept | value)
    flags = core.read_register("rflags")
    core.write_register("rflags", flags & ~_ARITHMETIC_FLAGS | _CARRY)
    core.pc += decoded.length
    core.row["count"] += 1
    return True
