"""The Mersenne Twister as kernels: what `random.Random` of Python draws, number for number.

Matsumoto and Nishimura, "Mersenne Twister: A 623-dimensionally equidistributed uniform pseudo-random number
generator" (1998); how words become other numbers is CPython's (its module random).
"""

from __future__ import annotations

import math
import random
from array import array

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit

#: Words of the state; behind them stands how many of them have been used.
_WORDS, _AHEAD = 624, 397
STATE = _WORDS + 1
_UPPER, _LOWER, _MATRIX = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(0x9908B0DF)
_TEMPER_B, _TEMPER_C = np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
_ZERO, _ONE = np.uint32(0), np.uint32(1)
_WORD_BITS = 32
#: `random.random`: 53 bits of two words.
_HIGH, _SCALE = 67108864.0, 1.0 / 9007199254740992.0


def draws_of(draw: random.Random) -> NDArray[np.uint32]:
    """What `draw` will draw: uint32[STATE], which the kernels change in place."""
    return np.frombuffer(array("I", draw.getstate()[1]), np.uint32)


@njit(cache=True)
def _renew(draws):
    for k in range(_WORDS):
        word = draws[k] & _UPPER | draws[(k + 1) % _WORDS] & _LOWER
        odd = _MATRIX if word & _ONE else _ZERO
        draws[k] = draws[(k + _AHEAD) % _WORDS] ^ np.uint32(word >> _ONE) ^ odd
    draws[_WORDS] = _ZERO


@njit(cache=True)
def bits(draws, many):
    """`getrandbits` of 1 to 32 bits, int64. draws: of `draws_of`."""
    if draws[_WORDS] >= np.uint32(_WORDS):
        _renew(draws)
    at = np.int64(draws[_WORDS])
    draws[_WORDS] = np.uint32(at + 1)
    word = draws[at]
    word ^= np.uint32(word >> np.uint32(11))
    word ^= np.uint32(word << np.uint32(7)) & _TEMPER_B
    word ^= np.uint32(word << np.uint32(15)) & _TEMPER_C
    word ^= np.uint32(word >> np.uint32(18))
    return np.int64(word) >> (_WORD_BITS - many)


@njit(cache=True)
def below(draws, most):
    """`randrange(most)`, int64; so is what `choice` takes. most: 1 to 2^31."""
    many = 0
    while most >> many:
        many += 1
    drawn = bits(draws, many)
    while drawn >= most:
        drawn = bits(draws, many)
    return drawn


@njit(cache=True)
def unit(draws):
    """`random`: 0 to 1, without 1."""
    high, low = bits(draws, 27), bits(draws, 26)
    return (high * _HIGH + low) * _SCALE


@njit(cache=True)
def exponential(draws, rate):
    """`expovariate(rate)`."""
    return -math.log(1.0 - unit(draws)) / rate
