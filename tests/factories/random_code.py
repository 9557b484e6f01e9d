"""Random instructions of a guest that shares a few words."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from guest import DATA, Code, elf
from guest_bodies import finish, start

#: Random instructions of a program.
_MANY = 40


def random_program(path: Path, draw: random.Random, places: list[int], rounds: int) -> Path:
    """An image in which all cores run some, so many times over. places: addresses of what they use."""
    code = start(Code()).mov("r13", rounds).label("again")
    for number in range(_MANY):
        emit_one(code, draw, places, number)
    return elf(path, finish(code.loop("r13", "again")))


def emit_one(code: Code, draw: random.Random, places: list[int], number: int) -> None:
    """A random instruction, or what one needs."""
    register = draw.choice(("rax", "rcx", "rdx", "r8", "r9", "r10"))
    size = draw.choice((1, 2, 4, 8))
    place, other = (draw.choice(places) + draw.choice((0, 0, 1, -1, 4)) for _ in range(2))
    load_or_store, swap = draw.choice(("0f 10", "0f 11")), draw.choice(("01", "87", "0f b1"))
    string = draw.choice(("f3 a4", "f3 48 a5", "f3 aa", "f3 48 ab", "66 0f f7 c1"))
    kinds: tuple[Callable[[], object], ...] = (
        lambda: code.store(place, register, size),
        lambda: code.load(register, place, size),
        lambda: code.emit(swap, register, place),  # add, xchg, cmpxchg
        lambda: code.emit(draw.choice(("0f b1", "0f c1", "01")), register, place, prefix="f0"),
        lambda: code.emit("f7", 3, place, prefix="f0"),  # lock neg
        lambda: code.emit("0f c7", 1, place & ~15, prefix="f0"),  # lock cmpxchg16b
        lambda: code.emit("0f c7", 1, place, wide=False),  # cmpxchg8b
        lambda: code.emit("ff", 6, place).emit("8f", 0, other),  # push [..]; pop [..]
        lambda: code.emit(load_or_store, draw.randrange(4), place, wide=False),  # movups
        lambda: code.raw("d9 e8").emit("db", 7, place, wide=False),  # fld1; fstp tbyte [..]
        lambda: code.emit("db", 5, place, wide=False).raw("dd d8"),  # fld tbyte [..]; fstp st0
        lambda: code.mov("rsi", place).mov("rdi", other).mov("rcx", draw.randint(0, 9)).raw(string),
        lambda: code.raw(draw.choice(("0f ae f0", "0f ae f8", "0f ae e8"))),  # mfence, sfence, lfence
        lambda: code.raw(f"55  48 89 e5  c8 20 00 {draw.randint(0, 4):02x}  c9  5d"),  # enter, nested
        lambda: code.mov("rax", draw.choice((DATA + 0x200, DATA + 0xF00))).raw("0f ae 00"),  # fxsave
        lambda: code.jump(f"next{number}").label(f"next{number}"),
        lambda: code.raw("44 88 05 03 00 00 00  90  80 c2 11  90"),  # changes an instruction after it
    )
    draw.choice(kinds + 3 * kinds[:3])()
