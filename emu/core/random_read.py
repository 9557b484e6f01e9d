"""Instructions that read a random number, emulated: the engine's processor model lacks them, so that they
arrive as illegal. What each does is `isa.decoded.RandomRead`."""

from __future__ import annotations

import random
from dataclasses import dataclass

from emu.core.core import Core
from isa.decoded import RandomRead
from isa.decoder import decoder_of


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
    kept = core.read_register(decoded.register) & decoded.kept
    core.write_register(decoded.register, kept | value)
    (stay, are_set), register = decoded.flags, core.isa.flags_register
    core.write_register(register, core.read_register(register) & stay | are_set)
    core.pc += decoded.length
    core.row["count"] += 1
    return True
