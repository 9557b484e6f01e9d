"""What is to be ordered in one slice: its accesses on places where they race, with their checkpoints.

This is the first level of slice refinement (LightPlay, section 3.2): accesses of the slice that touch nothing
that another core touches in it, or nothing that is written, are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.event import EVENT, READ, WRITE

#: What an operation does to a place: its checkpoint before is compared, its checkpoint after is left there.
TAKES, GIVES = 1, 2
_U0, _U1, _U8 = np.uint64(0), np.uint64(1), np.uint64(8)
_BYTE = np.uint64(0xFF)


class Instance(NamedTuple):
    """A search problem: operations core by core, each with parts, one for each place it touches.

    core_ptr: int64 (cores + 1,), operations of each core; none is empty. part_ptr: int64 (n + 1,). place:
    int32 (parts,). how: uint8 (parts,), TAKES, GIVES or both. before, after: uint64 (parts,), what must be
    there and what is then there. initial, final: uint64 (places,).
    """

    core_ptr: NDArray[np.int64]
    part_ptr: NDArray[np.int64]
    place: NDArray[np.int32]
    how: NDArray[np.uint8]
    before: NDArray[np.uint64]
    after: NDArray[np.uint64]
    initial: NDArray[np.uint64]
    final: NDArray[np.uint64]

    @property
    def n(self) -> int:
        """Number of operations."""
        return len(self.part_ptr) - 1

    @property
    def sizes(self) -> list[int]:
        """Operations of each core: the paper's thread_size."""
        sizes: list[int] = np.diff(self.core_ptr).tolist()
        return sizes


@dataclass(frozen=True)
class SliceProblem:
    """The accesses of one slice that race. number: of the slice. stream: int64 (n,), of each operation; they
    are numbered stream by stream in program order. access: int64 (n,), which access of the slice ends the
    operation. part_ptr, place, how, before, after: as in `Instance`, before and after being the checkpoints.
    old, new: uint64 (parts,), what the replayed core saw there and left there. address (uint64), size
    (uint8): of the places. initial, final: uint64 (places,), at the two ends of the slice; final is the
    evidence's. agrees: whether the evidence gives each place one final value. begun: EVENT (n,), accesses
    before the slice of instructions that have others in it.
    """

    number: int
    stream: NDArray[np.int64]
    access: NDArray[np.int64]
    part_ptr: NDArray[np.int64]
    place: NDArray[np.int32]
    how: NDArray[np.uint8]
    before: NDArray[np.uint64]
    after: NDArray[np.uint64]
    old: NDArray[np.uint64]
    new: NDArray[np.uint64]
    address: NDArray[np.uint64]
    size: NDArray[np.uint8]
    initial: NDArray[np.uint64]
    final: NDArray[np.uint64]
    agrees: bool = True
    begun: Any = field(default_factory=lambda: np.zeros(0, EVENT))

    @property
    def n(self) -> int:
        """Number of operations."""
        return len(self.stream)

    @property
    def core_ptr(self) -> NDArray[np.int64]:
        """int64 (cores + 1,), operations of each core that has any."""
        starts = np.flatnonzero(np.diff(self.stream, prepend=-1))
        return np.append(starts, self.n).astype(np.int64)

    def paired(self) -> Instance:
        """Section 2.2: an access and its checkpoints are one instruction, which reads what the checkpoint
        before it holds and writes what the one after it holds."""
        return Instance(
            self.core_ptr,
            self.part_ptr,
            self.place,
            self.how,
            self.before,
            self.after,
            self.initial,
            self.final,
        )

    def real(self) -> Instance:
        """The accesses with the values of the replayed cores: its orders are the legal ones of the slice."""
        how = np.full(len(self.how), TAKES | GIVES, np.uint8)
        return Instance(
            self.core_ptr, self.part_ptr, self.place, how, self.old, self.new, self.initial, self.final
        )

    def both(self) -> Instance:
        """`paired` and `real` at once, each on a memory of its own: its orders are those of the one that are
        orders of the other. Real memory is a function of the cut, so it costs a search over cuts nothing."""
        real, n = self.real(), np.int32(len(self.initial))
        sizes = np.diff(self.part_ptr)
        shift = np.repeat(np.cumsum(sizes) - sizes, sizes)
        first = np.arange(len(self.place)) + shift
        second = first + np.repeat(sizes, sizes)

        def mixed(mine: NDArray[Any], its: NDArray[Any]) -> NDArray[Any]:
            column = np.empty(2 * len(mine), mine.dtype)
            column[first], column[second] = mine, its
            return column

        ends = np.concatenate([self.initial, self.initial]), np.concatenate([self.final, self.final])
        return Instance(
            self.core_ptr, 2 * self.part_ptr, mixed(self.place, real.place + n), mixed(self.how, real.how),
            mixed(self.before, real.before), mixed(self.after, real.after), *ends,
        )  # fmt: skip


@njit(cache=True)
def find_places(addr, size, kind, stream):  # type: ignore[no-untyped-def]
    """First bytes and sizes of the places of a slice on which its accesses race. A place lies in one 8-byte
    word, and no access begins or ends inside it."""
    n = addr.size
    edges = np.empty(4 * n, np.uint64)
    k = 0
    for i in range(n):
        edges[k], edges[k + 1] = addr[i], addr[i] + np.uint64(size[i])
        k += 2
        middle = (addr[i] + _U8) & ~np.uint64(7)
        if middle < addr[i] + np.uint64(size[i]):
            edges[k] = middle
            k += 1
    edges = np.unique(edges[:k])
    first, length = np.empty(edges.size, np.uint64), np.empty(edges.size, np.uint8)
    places = 0
    for e in range(edges.size - 1):
        owner, several, written = np.int64(-1), False, False
        for i in range(n):
            if addr[i] <= edges[e] and edges[e] < addr[i] + np.uint64(size[i]):
                several = several or bool(owner >= 0 and owner != stream[i])
                owner = np.int64(stream[i])
                written = written or bool(kind[i] != READ)
        if several and written:
            first[places], length[places] = edges[e], edges[e + 1] - edges[e]
            places += 1
    return first[:places], length[:places]


@njit(cache=True)
def lane_of(value, addr, place, size):  # type: ignore[no-untyped-def]
    """The bytes of a place in the value of an access at `addr`."""
    down = value >> (_U8 * (place - addr))
    return down if size == 8 else down & ((_U1 << (_U8 * np.uint64(size))) - _U1)


@njit(cache=True)
def join(start, end, place, how, before, after, old, new):  # type: ignore[no-untyped-def]
    """An operation touches a place once: join its part `end` to an earlier one of its parts from `start` on.
    Returns whether there was one."""
    for q in range(start, end):
        if place[q] == place[end]:
            if how[q] & GIVES == 0 and how[q] & TAKES == 0:
                before[q] = before[end]
            how[q] |= how[end] & GIVES
            if how[end] & GIVES:
                after[q] = after[end]
            new[q] = new[end]
            return True
    return False


class Accesses(NamedTuple):
    """Accesses of a slice, stream by stream. addr, size, kind, old, new: as of EVENT. glued, before, after:
    as of CHECKPOINT."""

    addr: NDArray[np.uint64]
    size: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    glued: NDArray[np.uint8]
    before: NDArray[np.uint64]
    after: NDArray[np.uint64]
    old: NDArray[np.uint64]
    new: NDArray[np.uint64]


@njit(cache=True)
def make_parts(accesses, first, length):  # type: ignore[no-untyped-def]
    """The operations on the places that begin at `first` (uint64) with so many bytes (uint8): (access,
    part_ptr, place, how, before, after, old, new)."""
    addr, size, kind, glued, before, after, old, new = accesses
    n = addr.size
    room = n * (first.size + 1)
    access, part_ptr = np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    place, how = np.empty(room, np.int32), np.empty(room, np.uint8)
    b, a, o, w = (
        np.zeros(room, np.uint64),
        np.zeros(room, np.uint64),
        np.zeros(room, np.uint64),
        np.zeros(room, np.uint64),
    )
    ops = parts = start = 0
    for i in range(n):
        for p in range(first.size):
            if first[p] < addr[i] or first[p] >= addr[i] + np.uint64(size[i]):
                continue
            place[parts], how[parts] = p, 0
            o[parts] = lane_of(old[i], addr[i], first[p], length[p])
            w[parts] = lane_of(new[i], addr[i], first[p], length[p])
            if kind[i] != WRITE:
                how[parts] |= TAKES
                b[parts] = lane_of(before[i], addr[i], first[p], length[p])
            if kind[i] != READ:
                how[parts] |= GIVES
                a[parts] = lane_of(after[i], addr[i], first[p], length[p])
            if not join(start, parts, place, how, b, a, o, w):
                parts += 1
        if glued[i] == 0:
            if parts > start:
                access[ops] = i
                ops += 1
                part_ptr[ops] = parts
            start = parts
    return (
        access[:ops],
        part_ptr[: ops + 1],
        place[:parts],
        how[:parts],
        b[:parts],
        a[:parts],
        o[:parts],
        w[:parts],
    )


@njit(cache=True)
def final_values(addr, size, kind, updated, first, length):  # type: ignore[no-untyped-def]
    """What the evidence says that the places hold at the end: (values, how many of `updated` were used, -1 if
    they contradict each other)."""
    final, known = np.zeros(first.size, np.uint64), np.zeros(first.size, np.bool_)
    used, agrees = 0, True
    for i in range(addr.size):
        if kind[i] == READ:
            continue
        again = False
        for j in range(i):
            again = again or (kind[j] != READ and addr[j] == addr[i] and size[j] == size[i])
        if again:
            continue
        if used == updated.size:
            return final, updated.size + 1, agrees
        for p in range(first.size):
            if addr[i] <= first[p] and first[p] < addr[i] + np.uint64(size[i]):
                value = lane_of(updated[used], addr[i], first[p], length[p])
                agrees = agrees and (not known[p] or final[p] == value)
                final[p], known[p] = value, True
        used += 1
    return final, used, agrees


class Misfit(Exception):
    """A slice whose evidence cannot be about the replayed accesses."""


def make_problem(
    number: int,
    rows: Any,
    checkpoints: Any,
    updated: NDArray[np.uint64],
    races: Callable[[NDArray[np.uint64], NDArray[np.uint8]], NDArray[np.bool_]] | None = None,
) -> SliceProblem:
    """The problem of one slice, `initial` left zero.

    rows: EVENT (n,), its accesses as replayed, stream by stream. checkpoints: CHECKPOINT (n,), of the same.
    updated: uint64, what the evidence says of the places that they wrote. races: which places (first bytes,
    sizes) several owners use in the region; what one thread does on several cores races with nothing. Raises
    Misfit if `updated` are not as many as the accesses write.
    """
    addr, size, kind = (np.ascontiguousarray(rows[name]) for name in ("addr", "size", "kind"))
    stream = np.ascontiguousarray(checkpoints["stream"])
    first, length = find_places(addr, size, kind, stream)
    if races is not None:
        there = races(first, length)
        first, length = first[there], length[there]
    final, used, agrees = final_values(addr, size, kind, updated, first, length)
    if used != len(updated):
        raise Misfit("updated locations")
    of_checkpoints = (np.ascontiguousarray(checkpoints[name]) for name in ("glued", "before", "after"))
    of_rows = (np.ascontiguousarray(rows[name]) for name in ("old", "new"))
    accesses = Accesses(addr, size, kind, *of_checkpoints, *of_rows)
    access, part_ptr, place, how, *lanes = make_parts(accesses, first, length)
    before, after, old, new = lanes
    return SliceProblem(
        number, stream[access].astype(np.int64), access, part_ptr, place, how, before, after, old, new, first,
        length, np.zeros(len(first), np.uint64), final, bool(agrees),
    )  # fmt: skip
