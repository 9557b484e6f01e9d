"""Operands for x87 kernels: numbers (low, high) of all classes, by a seed."""

import random
from itertools import product

import numpy as np
from x87_host import NUMBER

Number = tuple[int, int]

_TOP = 1 << 63
#: One of each class and sign, and what lies at the borders of classes.
EDGES: list[Number] = [
    (low, exponent | sign)
    for sign in (0, 0x8000)
    for low, exponent in (
        *((0, 0), (1, 0), (1 << 40, 0), (_TOP - 1, 0), (_TOP, 0), (_TOP | 5, 0), (_TOP, 1), (_TOP | 7, 1)),
        *((_TOP, 0x3FFF), (_TOP, 0x4000), (_TOP, 0x3FFE), (3 << 62, 0x4000), (3 << 62, 0x3FFE)),
        *((_TOP | 1, 0x3FFF), (2**64 - 1, 0x3FFE), (2**64 - 1, 0x3FFF), (_TOP, 0x403E), (2**64 - 1, 0x403D)),
        *((3 << 62 | 1, 0x7000), (2**64 - 1, 0x7FFE), (3 << 62 | 1, 0x0010), (0xC90FDAA22168C235, 0x4000)),
        *((_TOP, 0x7FFF), (3 << 62, 0x7FFF), (3 << 62 | 1, 0x7FFF), (3 << 62 | 2, 0x7FFF)),
        *((_TOP | 1, 0x7FFF), (_TOP | 3, 0x7FFF), (1 << 62, 0x3FFF), (0, 0x7FFF), (1, 0x7FFF), (0, 1)),
    )
]
#: Each with each.
EDGE_PAIRS: list[tuple[Number, Number]] = list(product(EDGES, EDGES))

#: Exponents, without bias, at which something ends: 64-bit wholes, single and double precision.
_BORDERS = (15, 31, 63, 59, -126, -149, 127, -1022, -1074, 1023, -16382, -16445)


def finite(rng: random.Random, lowest: int = -16445, highest: int = 16383) -> Number:
    """A finite number that is not zero, of an exponent without bias in a range; a denormal where it is below
    -16382. A quarter has few bits."""
    exponent = rng.randint(lowest, highest)
    low = rng.getrandbits(63) | _TOP
    if rng.random() < 0.25:
        low = low >> (keep := rng.randint(1, 62)) << keep | _TOP
    sign = rng.getrandbits(1) << 15
    if exponent < -16382:
        return low >> min(-16382 - exponent, 63), sign
    return low, exponent + 16383 | sign


def anything(rng: random.Random) -> Number:
    """A number of any exponent, mostly of those that matter; sometimes of any class."""
    choice = rng.random()
    if choice < 0.1:
        return rng.choice(EDGES)
    if choice < 0.5:
        return finite(rng, -6, 6)
    if choice < 0.7:
        return finite(rng, -70, 66)
    if choice < 0.8:
        border = rng.choice(_BORDERS)
        return finite(rng, max(border - 3, -16445), border + 2)
    return finite(rng)


def near(rng: random.Random, number: Number, apart: int) -> Number:
    """A finite number whose exponent is that of another one, or up to `apart` more or less."""
    exponent = (number[1] & 0x7FFF) - 16383 + rng.randint(-apart, apart)
    return finite(rng, *[min(max(exponent, -16445), 16383)] * 2)


def array_of(pairs: list[tuple[Number, Number]]) -> np.ndarray:
    """Pairs as `x87_host.on_host` takes them: NUMBER[n, 2]."""
    numbers = np.zeros((len(pairs), 2), NUMBER)
    for row, pair in zip(numbers, pairs, strict=True):
        for slot, (low, high) in zip(row, pair, strict=True):
            slot["low"], slot["high"] = low, high
    return numbers


def kernel_number(number: Number) -> tuple[np.uint64, np.uint64]:
    return np.uint64(number[0]), np.uint64(number[1])


def shown(number: Number) -> str:
    return f"{int(number[1]):04x}:{int(number[0]):016x}"
