"""A slice whose emulation fits into registers (LightPlay, section 3.1: "an array of registers assigned to the
thread").

A register has no address, so an array in registers is a word whose parts are shifted to. Of each place a
slice knows few values; they are numbered, and the number is a byte. The layout:

- `memory`: uint64, byte p is the number of the value that place p holds now;
- `left`: uint64, byte c is how many operations core c has still to do;
- what a slice says, the same for all threads and only read: `head`, uint64 (slices, 4): LEFT at the
  beginning, END (byte c is one past core c's last operation, counted in the slice), INITIAL and FINAL
  memory; `parts`, uint32: bits 0 to 5 how far to shift for the place, bits 8 to 15 the number that must be
  there, bits 16 to 23 the number that is then there, bits 24 and 25 TAKES and GIVES.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.evidence.lightplay.slice_problem import GIVES, TAKES, Instance

#: Cores and places of a slice: a byte of a register each. Operations, and values of one place: numbers of a
#: byte.
MOST_LANES, MOST_NUMBERS = 8, 255
LEFT, END, INITIAL, FINAL = range(4)
_TAKES, _GIVES = np.uint64(TAKES << 24), np.uint64(GIVES << 24)
_U0, _U1, _U8, _BYTE = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(0xFF)
_SHIFT, _BEFORE, _AFTER = np.uint64(63), np.uint64(8), np.uint64(16)


class Numbered(NamedTuple):
    """A slice in numbers. head: uint64 (4,). part_ptr: int32 (n + 1,), parts of each operation. parts:
    uint32."""

    head: NDArray[np.uint64]
    part_ptr: NDArray[np.int32]
    parts: NDArray[np.uint32]


def number_values(instance: Instance) -> Numbered | None:
    """A slice in numbers; None if it has more cores, places, operations or values than there is room for."""
    sizes, places = instance.sizes, len(instance.initial)
    if max(len(sizes), places) > MOST_LANES or instance.n > MOST_NUMBERS:
        return None
    numbers: list[dict[int, int]] = [{} for _ in range(places)]

    def numbered(place: int, value: int) -> int:
        return numbers[place].setdefault(value, len(numbers[place]))

    initial = [numbered(p, value) for p, value in enumerate(instance.initial.tolist())]
    parts = []
    columns = (instance.place, instance.how, instance.before, instance.after)
    for place, how, before, after in zip(*(column.tolist() for column in columns), strict=True):
        found = numbered(place, before) if how & TAKES else 0
        given = numbered(place, after) if how & GIVES else 0
        parts.append(8 * place | found << 8 | given << 16 | how << 24)
    final = [numbered(p, value) for p, value in enumerate(instance.final.tolist())]
    if max((len(one) for one in numbers), default=0) > MOST_NUMBERS:
        return None
    ends = instance.core_ptr[1:].tolist()
    head = np.array([_bytes(lanes) for lanes in (sizes, ends, initial, final)], np.uint64)
    return Numbered(head, instance.part_ptr.astype(np.int32), np.array(parts, np.uint32))


def _bytes(lanes: list[int]) -> int:
    """A word of these bytes, the first one lowest."""
    return sum(lane << 8 * k for k, lane in enumerate(lanes))


def emulate_numbered(rank, ways, which, op_ptr, head, part_ptr, parts):  # type: ignore[no-untyped-def]
    """Whether the interleaving of a rank (uint64) out of `ways` is correct: `emulate_one`, in registers.

    which: of the slices, whose operations are op_ptr[which] to op_ptr[which + 1] (int32 (slices + 1,)). head:
    uint64 (slices, 4). part_ptr: int32 (operations + 1,).
    """
    left, end, memory = head[which, LEFT], head[which, END], head[which, INITIAL]
    first = op_ptr[which]
    for remaining in range(op_ptr[which + 1] - first, 0, -1):
        lane = _U0
        here = ways * (left & _BYTE) // np.uint64(remaining)
        while rank >= here:
            rank -= here
            lane += _U8
            here = ways * ((left >> lane) & _BYTE) // np.uint64(remaining)
        ways = here
        op = first + np.int64(((end >> lane) & _BYTE) - ((left >> lane) & _BYTE))
        left -= _U1 << lane
        for part in range(part_ptr[op], part_ptr[op + 1]):
            word = np.uint64(parts[part])
            shift = word & _SHIFT
            if word & _TAKES and (memory >> shift) & _BYTE != (word >> _BEFORE) & _BYTE:
                return False
            if word & _GIVES:
                memory = (memory & ~(_BYTE << shift)) | (((word >> _AFTER) & _BYTE) << shift)
    return memory == head[which, FINAL]
