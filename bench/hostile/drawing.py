"""What mutations have in common: the draw, values at the edges, and that some do not suit a recording."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from bench.hostile.sample import Sample, Stream

Draw = random.Random
#: Changes a sample; returns what it did, for a reader. Raises Unsuited.
Mutation = Callable[[Sample, Draw], str]
T = TypeVar("T")

#: Integers at which something ends: of bytes, lines, pages, addresses, frames, fields of the format.
EDGES = (
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    15,
    16,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    4095,
    4096,
    4097,
    16384,
    65535,
    65536,
    1 << 20,
    (1 << 20) + 1,
    1 << 24,
    1 << 26,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 40,
    (1 << 47) - 1,
    1 << 47,
    1 << 48,
    1 << 56,
    (1 << 62),
    (1 << 63) - 1,
    1 << 63,
    (1 << 63) + 1,
    (1 << 64) - 4096,
    (1 << 64) - 8,
    (1 << 64) - 1,
)


class Unsuited(Exception):
    """The mutation that was drawn cannot be made of this recording."""


def edge(draw: Draw, value: int) -> int:
    """Another integer: one at an edge, near this one, or any."""
    ways = (
        lambda: draw.choice(EDGES),
        lambda: value + draw.choice((-1, 1, -2, 2, 8, -8, 64, -64, 4096)),
        lambda: value ^ (1 << draw.randrange(64)),
        lambda: value * draw.choice((2, 3, 256)),
        lambda: draw.getrandbits(draw.randrange(1, 65)),
    )
    return draw.choice(ways)() & ((1 << 64) - 1)


def pick(draw: Draw, items: Sequence[T]) -> T:
    """One of them. Raises Unsuited if there is none."""
    if not items:
        raise Unsuited
    return draw.choice(items)


def stream(sample: Sample, draw: Draw, names: Sequence[str] | None = None) -> tuple[str, Stream]:
    """(name, stream) of one of the files that has frames, of all or of `names`."""
    wanted = sample.streams if names is None else names
    some = [name for name in wanted if name in sample.streams and sample.streams[name].frames]
    name = pick(draw, some)
    return name, sample.streams[name]


def edit_bytes(data: bytes, draw: Draw, others: Sequence[bytes] = ()) -> bytes:
    """Other bytes: some set, repeated, left out, put in, or taken from elsewhere."""
    at = draw.randrange(len(data) + 1)
    size = min(draw.choice((1, 1, 1, 2, 4, 8, 16, 64, 300)), len(data) - at)
    part = data[at : at + size]
    other = draw.choice(list(others)) if others else data
    start = draw.randrange(len(other) + 1)
    ways = (
        lambda: bytes([draw.getrandbits(8)]) * size,
        lambda: bytes(byte ^ (1 << draw.randrange(8)) for byte in part),
        lambda: part * draw.choice((2, 3, 20)),
        lambda: b"",
        lambda: part + draw.randbytes(draw.choice((1, 2, 8, 32))),
        lambda: other[start : start + max(size, 1)],
        lambda: draw.choice((b"\xff", b"\0", b"\x80")) * max(size, draw.choice((1, 10, 11))),
    )
    return data[:at] + draw.choice(ways)() + data[at + size :]
