"""Region-initial and region-final values without solving (MICRO 2009, section 4.2, has the proof).

In a legal order the old and new values at a granule form a chain, so the multiset {initial + new} equals
{old + final}. The difference {old} - {new} alone is therefore either one initial value and one final one,
or nothing, and then both ends hold the same value. Local granules need no multiset: their one stream's
program order is the chain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import OrderError
from corebraid.base.rows.event import UNCACHED
from solver.regions.image import FlatMemory, byte_mask, ensure
from solver.regions.numbering import number_values
from solver.regions.problem import Problem
from solver.regions.region import Region
from solver.sifting.filters import Chains, broken_chain, chains_of
from solver.sifting.granules import Granules

_BYTE = np.uint64(0xFF)
_DAMAGED = "the recording is damaged: record again, or run 'corebraid verify' to see where"


@dataclass(frozen=True)
class Net:
    """What the events of a region say about its two ends, per unfiltered granule.

    changes: bool (n_granules,), whether the ends differ; initial, final: uint64 (n_granules,), their
    values where they do.
    """

    changes: NDArray[np.bool_]
    initial: NDArray[np.uint64]
    final: NDArray[np.uint64]


@dataclass(frozen=True)
class Delta:
    """The words that a region's events wrote, before and after it.

    word: uint64 (n,), address / 8. mask: uint8 (n,), bit b set if byte b was written. before, after:
    uint64 (n,), the words' values.
    """

    word: NDArray[np.uint64]
    mask: NDArray[np.uint8]
    before: NDArray[np.uint64]
    after: NDArray[np.uint64]


def net_values(problem: Problem) -> Net:
    """Solve {old} - {new} per granule. Raises OrderError where it does not leave one value a side."""
    n = len(problem.address)
    # What leaves its granule as it is stands on both sides.
    changing = np.flatnonzero(problem.old != problem.new)
    granule, value, total = _differences(
        problem.granule[changing], problem.old[changing], problem.new[changing]
    )
    surplus = np.bincount(granule, np.maximum(total, 0), n)
    if (surplus > 1).any():
        _not_one_value(problem, int(np.flatnonzero(surplus > 1)[0]), granule, value, total)
    initial, final = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
    initial[granule[total > 0]] = value[total > 0]
    final[granule[total < 0]] = value[total < 0]
    return Net(surplus == 1, initial, final)


def _differences(
    granule: NDArray[np.int32], old: NDArray[np.uint64], new: NDArray[np.uint64]
) -> tuple[NDArray[np.int32], NDArray[np.uint64], NDArray[np.int64]]:
    """(granule, value, how much more often it is an old value than a new one) of each pair where that is not
    0, in the order in which they occur. granule, old, new: per access."""
    m = len(granule)
    keys, scratch = np.full(1 << (4 * m).bit_length(), -1, np.int32), np.zeros(2 * m, np.int32)
    number = np.empty((m, 2), np.int32)
    n = number_values(granule, old, new, keys, np.empty_like(keys), number, scratch, scratch)
    total = np.bincount(number[:, 0], minlength=n) - np.bincount(number[:, 1], minlength=n)
    granule_of, value_of = np.empty(n, np.int32), np.empty(n, np.uint64)
    for side, values in enumerate((old, new)):
        granule_of[number[:, side]], value_of[number[:, side]] = granule, values
    left = np.flatnonzero(total)
    return granule_of[left], value_of[left], total[left]


def _not_one_value(
    problem: Problem,
    bad: int,
    granule: NDArray[np.int32],
    value: NDArray[np.uint64],
    total: NDArray[np.int64],
) -> None:
    here = granule == bad
    left = [
        f"{'old' if t > 0 else 'new'} {v:#x} x{abs(t)}"
        for v, t in sorted(zip(value[here].tolist(), total[here].tolist(), strict=True))
    ]
    raise OrderError(
        "old and new values do not chain up",
        expected="one unmatched value at each end",
        found=", ".join(left[:8]),
        where=_where(problem.region, int(problem.address[bad]), int(problem.size[bad])),
        remedy=_DAMAGED,
    )


def _where(region: int, address: int, size: int) -> str:
    return f"region {region}, address {address:#x}, {size} bytes"


@njit(cache=True, nogil=True)
def apply_chains(chains, before, after, state, loaded, image):  # type: ignore[no-untyped-def]
    """Take memory from the first to the last value of every known byte. Returns (index, byte) of the first
    whose first value is not memory's, or (-1, -1). before, after: are given the words' values."""
    word, known, first, last = chains.word, chains.known, chains.first, chains.last
    words = state.view(np.uint64)
    for i in range(word.size):
        ensure(np.int64(word[i] >> np.uint64(9)), state, loaded, image)
        mask = byte_mask(known[i])
        held = words[word[i]]
        wrong = (held ^ first[i]) & mask
        if wrong != 0:
            for b in range(8):
                if (wrong >> np.uint64(8 * b)) & _BYTE:
                    return i, b
        before[i], after[i] = held, (held & ~mask) | (last[i] & mask)
        words[word[i]] = after[i]
    return -1, -1


@njit(cache=True, nogil=True)
def load_words(word, state, loaded, image):  # type: ignore[no-untyped-def]
    """The 8-byte words (uint64) with the given numbers."""
    out, words = np.empty(word.size, np.uint64), state.view(np.uint64)
    for i in range(word.size):
        ensure(np.int64(word[i] >> np.uint64(9)), state, loaded, image)
        out[i] = words[word[i]]
    return out


@njit(cache=True, nogil=True)
def unwind(word, mask, before, after, state, loaded, image):  # type: ignore[no-untyped-def]
    """Take memory back over a region. Returns (index, byte) of the first byte that is not what the region
    left there, or (-1, -1)."""
    words = state.view(np.uint64)
    for i in range(word.size):
        ensure(np.int64(word[i] >> np.uint64(9)), state, loaded, image)
        bytes_of, held = byte_mask(mask[i]), words[word[i]]
        wrong = (held ^ after[i]) & bytes_of
        if wrong != 0:
            for b in range(8):
                if (wrong >> np.uint64(8 * b)) & _BYTE:
                    return i, b
        words[word[i]] = (held & ~bytes_of) | (before[i] & bytes_of)
    return -1, -1


class Forward:
    """Memory at every stratum, from the initial image forwards. Call `advance` or `compose` once a region,
    in order."""

    def __init__(self, initial: NDArray[np.uint8]) -> None:
        self.memory = FlatMemory(initial)

    def _image(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
        return self.memory.state, self.memory.loaded, self.memory.image

    def advance(self, region: Region, g: Granules, problem: Problem) -> tuple[Problem, Delta]:
        """`compose` for a region that was just sifted with these granules."""
        return self.compose(region, problem, chains_of(g), net_values(problem))

    def compose(self, region: Region, problem: Problem, chains: Chains, net: Net) -> tuple[Problem, Delta]:
        """Take memory over a region. Returns the problem with its values at both ends, and what changed.

        Raises OrderError if the region's events do not lead from memory as it stands to any state.
        """
        before, after = np.empty_like(chains.first), np.empty_like(chains.first)
        i, byte = apply_chains(chains, before, after, *self._image())
        if i >= 0:
            raise self._broken_chain(region, int(chains.word[i]) * 8 + byte)
        bounded = self._ends(problem, net)
        self.memory.store(problem.address, problem.size, bounded.final)
        unfiltered = np.flatnonzero(chains.written & ~chains.known)
        after[unfiltered] = load_words(chains.word[unfiltered], *self._image())
        wrote = chains.written != 0
        return bounded, Delta(chains.word[wrote], chains.written[wrote], before[wrote], after[wrote])

    def _broken_chain(self, region: Region, address: int) -> OrderError:
        """The error for a byte that the region's filtered accesses do not find as memory holds it."""
        for stream, rows in enumerate(region.streams):
            for piece in rows.pieces():
                inside = (piece["addr"] <= address) & (address - piece["addr"] < piece["size"])
                for row in piece[inside & ((piece["flags"] & UNCACHED) == 0)][:1]:
                    byte = address - int(row["addr"])
                    return broken_chain(region.index, stream, row, byte, int(self.memory.state[address]))
        raise AssertionError(f"no event at {address:#x}")

    def _ends(self, problem: Problem, net: Net) -> Problem:
        held = self.memory.load(problem.address, problem.size)
        wrong = np.flatnonzero(net.changes & (net.initial != held))
        if len(wrong):
            g = int(wrong[0])
            raise OrderError(
                "the region's events do not start from what memory holds",
                expected=f"{int(net.initial[g]):#x}",
                found=f"{int(held[g]):#x}",
                where=_where(problem.region, int(problem.address[g]), int(problem.size[g])),
                remedy=_DAMAGED,
            )
        return problem.bounded(held, np.where(net.changes, net.final, held))


class Backward:
    """Memory at every stratum, from the final image backwards: the paper's own direction.

    Call `retreat` once a region, from the last to the first.
    """

    def __init__(self, final: NDArray[np.uint8]) -> None:
        self.memory = FlatMemory(final)

    def retreat(self, problem: Problem, delta: Delta, net: Net | None = None) -> None:
        """Take memory back over a region: {old + final} - {new} for its unfiltered granules, first old
        values for the local ones. net: `net_values(problem)`, where it is at hand.

        Raises OrderError where that disagrees with the forward direction."""
        held = self.memory.load(problem.address, problem.size)
        net = net or net_values(problem)
        final = np.where(net.changes, net.final, held)
        initial = np.where(net.changes, net.initial, held)
        self._compare(problem, "final", final, held)
        self._compare(problem, "final", problem.final, held)
        self._compare(problem, "initial", problem.initial, initial)
        memory = self.memory
        i, b = unwind(
            delta.word, delta.mask, delta.before, delta.after, memory.state, memory.loaded, memory.image
        )
        if i >= 0:
            address = int(delta.word[i]) * 8 + b
            raise OrderError(
                "what the region's events leave is not what memory held after them",
                expected=f"{(int(delta.after[i]) >> (8 * b)) & 0xFF:#04x}",
                found=f"{int(memory.state[address]):#04x}",
                where=_where(problem.region, address, 1),
                remedy=_DAMAGED,
            )

    def _compare(
        self, problem: Problem, end: str, forward: NDArray[np.uint64], backward: NDArray[np.uint64]
    ) -> None:
        wrong = np.flatnonzero(forward != backward)
        if len(wrong):
            g = int(wrong[0])
            raise OrderError(
                f"the region's {end} value differs forwards and backwards",
                expected=f"{int(forward[g]):#x}",
                found=f"{int(backward[g]):#x}",
                where=_where(problem.region, int(problem.address[g]), int(problem.size[g])),
                remedy=_DAMAGED,
            )
