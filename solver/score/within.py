"""Whether a region's accesses stand among its changes as they ran, of that region alone.

An order that comes from evidence which tells of every two accesses which one ran first has no other change
before any access than the one that ran. Over a whole run that cannot be asked where somebody takes part of
whom the evidence has nothing, the kernel of a Linux program (OPR 2016, Algorithm 2: it is no member, and has
no clock): what an order says wrongly of it stays in memory, and later reads have it as their source.

So both walks begin every region with what was there, as if nobody had written it. The two orders passed the
checker: at a stratum memory is the same in both, and so, under TSO, are the stores that wait. The kernel's
changes are nobody's source, in both walks: what is compared is how the others stand among themselves, which
their evidence tells, whether the kernel has come between them or not. For the same reason nothing is
asked of the kernel's own accesses, nor of instructions that were fetched, nor of reads of bytes that
somebody fetches in the region: a read that says the same as a fetch before it is one operation with it.

An access is *contended* if it reads or changes a byte of which the region leaves something to order, and
which another processor changes in it. No order can get others wrong, so that it says nothing of an engine
that it does not; they are compared all the same. (Under TSO one can where a core's own store of what was
there still waits, or does not.) Where nobody is left out, orders without a fault give every read of the whole
run the change that was its source, since every byte's changes come in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.regions.image import zeros
from solver.score.shared import READS, Accesses, processor_and_event
from solver.score.sources import Walk, follow_sources, forget_writes

#: Marks of a byte in a region: who of those that are judged changed it (its number, from 1), or _SEVERAL; who
#: is not judged changed it; an instruction in it was fetched; something of it is to be ordered.
_CHANGER, _SEVERAL, _APART, _FETCHED = np.uint16(0x1FF), np.uint16(0x1FF), np.uint16(0x200), np.uint16(0x400)
_TO_ORDER = np.uint16(0x800)
#: Gives, of a region, the granules of which something is to be ordered: addresses, uint64 (n,), and sizes.
ToOrder = Callable[[int], tuple[NDArray[np.uint64], NDArray[np.uint8]]]
#: Where `compare_within` counts.
_CONTENDED, _JUDGED, _WRONG, _UNCLOCKED = range(4)


@dataclass(frozen=True)
class Judged:
    """Accesses of one kind. contended: see above; of them judged: those that were compared; wrong: those that
    come after another change; open: in regions without an order. The others were left out, of them unclocked:
    those that the kernel itself made, or a fetch."""

    contended: int = 0
    judged: int = 0
    wrong: int = 0
    open: int = 0
    unclocked: int = 0

    @property
    def left_out(self) -> int:
        """Those of which the evidence does not tell."""
        return self.contended - self.judged - self.open

    @classmethod
    def of(cls, tally: NDArray[np.int64], has_order: bool) -> Judged:
        """From what `compare_within` counted of one kind in a region."""
        contended, judged, wrong, unclocked = tally.tolist()
        return cls(contended, judged, wrong, 0, unclocked) if has_order else cls(contended, 0, 0, contended)

    def line(self, left_out: str) -> str:
        """In words. left_out: why some were."""
        share = "-" if self.share is None else f"{self.share:.1f}%"
        some = f", {self.left_out:,} {left_out}" if self.left_out else ""
        some += f" ({self.unclocked:,} its own or fetched)" if self.unclocked else ""
        return (
            f"{self.contended:,} contended in their region: {self.judged:,} judged ({share}), "
            f"{self.wrong:,} wrong{some}, {self.open:,} undetermined"
        )

    @property
    def share(self) -> float | None:
        """Percentage of the contended ones that was judged; None of nothing."""
        return 100 * self.judged / self.contended if self.contended else None

    def __add__(self, other: Judged) -> Judged:
        return Judged(
            self.contended + other.contended, self.judged + other.judged, self.wrong + other.wrong,
            self.open + other.open, self.unclocked + other.unclocked,
        )  # fmt: skip

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "contended": self.contended, "judged": self.judged, "share_judged": self.share,
            "left_out": self.left_out, "left_out_unclocked": self.unclocked, "undetermined": self.open,
            "wrong": self.wrong,
        }  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """What is wrong in a region. reads, writes: how many come after another change. processor, event: the
    first of them, in the order of streams, and its number in program order; address: the first of its bytes
    that is wrong. ran, found: (processor, event) of the change before it in the truth, and in the order; None
    for what was there when the region began."""

    region: int
    reads: int
    writes: int
    processor: int
    event: int
    address: int
    ran: tuple[int, int] | None
    found: tuple[int, int] | None

    def line(self) -> str:
        """In words."""
        kinds = (self.reads, "read"), (self.writes, "write")
        counted = [f"{n:,} {kind}{'' if n == 1 else 's'}" for n, kind in kinds if n]
        return (
            f"{' and '.join(counted)} after another change than in the sealed truth; stream {self.processor} "
            f"event {self.event} at {self.address:#x} after {_change(self.found)}, in truth after "
            f"{_change(self.ran)}"
        )


def _change(of: tuple[int, int] | None) -> str:
    return "what the region began with" if of is None else f"stream {of[0]} event {of[1]}"


@dataclass(frozen=True)
class Within:
    """What became of the accesses to shared bytes. reads: of those that read; writes: of those that only
    write, and change something."""

    reads: Judged = Judged()
    writes: Judged = Judged()
    faults: tuple[Fault, ...] = ()

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "reads": self.reads.facts(), "writes": self.writes.facts(),
            "regions_wrong": [fault.region for fault in self.faults],
        }  # fmt: skip


class Ways(NamedTuple):
    """The number of the change before each byte of each access, uint64 (n,), as it ran and as was found."""

    ran: NDArray[np.uint64]
    found: NDArray[np.uint64]


@njit(cache=True, nogil=True)
def mark_changes(a, placed, apart, marks):  # type: ignore[no-untyped-def]
    """Note who changes which byte in a region, and what is fetched. marks: uint16[memory]."""
    for s in range(placed.size):
        for i in range(a.begin[s], placed[s]):
            first, me = np.int64(a.address[i]), np.uint16(a.processor[i] + 1)
            for b in range(np.int64(a.size[i])):
                if a.fetched[i]:
                    marks[first + b] |= _FETCHED
                if not a.changes[i] & (1 << b):
                    continue
                before = marks[first + b] & _CHANGER
                if np.int64(a.processor[i]) == apart:
                    marks[first + b] |= _APART
                elif before != me:
                    marks[first + b] |= me if before == 0 else _SEVERAL


@njit(cache=True, nogil=True)
def mark_ranges(address, size, bits, marks):  # type: ignore[no-untyped-def]
    """Add `bits` (uint16) to the marks of ranges of bytes, uint64 (n,) and uint8 (n,); 0: take all away."""
    for k in range(address.size):
        first = np.int64(address[k])
        for b in range(np.int64(size[k])):
            marks[first + b] = marks[first + b] | bits if bits else 0


@njit(cache=True, nogil=True)
def compare_within(a, placed, begin, marks, ways, apart, tally):  # type: ignore[no-untyped-def]
    """Count the accesses of a region whose changes were marked. ways: `Ways`; begin: int64 (n,), where each
    access's bytes begin in them. tally: int64 (2, 4), reads and writes, each contended, judged, wrong,
    unclocked; added to. Returns the first wrong access and its first wrong byte, or -1 and 0."""
    wrong, wrong_byte = -1, 0
    for s in range(placed.size):
        for i in range(a.begin[s], placed[s]):
            first, me, reads = np.int64(a.address[i]), np.uint16(a.processor[i] + 1), a.does[i] & READS
            outside = np.int64(a.processor[i]) == apart
            unclocked = outside or (apart >= 0 and a.fetched[i])
            contended, judged, differs = False, False, -1
            for b in range(np.int64(a.size[i])):
                if not reads and not a.changes[i] & (1 << b):
                    continue
                mark = marks[first + b]
                others = mark & _CHANGER != 0 and mark & _CHANGER != me
                with_fetch = apart >= 0 and a.does[i] == READS and mark & _FETCHED != 0
                told = others and not unclocked and not with_fetch
                wrong_here = told and ways.ran[begin[i] + b] != ways.found[begin[i] + b]
                if mark & _TO_ORDER == 0 and not wrong_here:
                    continue
                contended = contended or others or (mark & _APART != 0 and not outside)
                judged = judged or told
                if differs < 0 and wrong_here:
                    differs = b
            kind = 0 if reads else 1
            tally[kind, _CONTENDED] += contended
            tally[kind, _JUDGED] += judged
            tally[kind, _WRONG] += differs >= 0
            tally[kind, _UNCLOCKED] += contended and unclocked
            if differs >= 0 and wrong < 0:
                wrong, wrong_byte = i, differs
    return wrong, wrong_byte


class WithinRegions:
    """Judges an order's regions one after the other. to_order: what something is to be ordered of; None: of
    all bytes. apart: the processor of which the evidence tells nothing, or `NOBODY`."""

    def __init__(
        self, memory_bytes: int, n_streams: int, buffered: int, to_order: ToOrder | None, apart: int
    ) -> None:
        self._last = zeros(8 * memory_bytes).view(np.uint64)
        self._marks = zeros(2 * memory_bytes).view(np.uint16)
        self._walk, self._apart = Walk(n_streams - buffered, buffered, True, apart), apart
        self._to_order = to_order
        self.within = Within()

    def take(self, region: int, a: Accesses, ran: NDArray[np.int64], found: NDArray[np.int64] | None) -> None:
        """Judge a region. ran, found: its accesses in the order that ran, and as was found, int64 (n,); None
        if it has no order."""
        begin = np.concatenate([np.zeros(1, np.int64), np.cumsum(a.size, dtype=np.int64)])
        true = self._sources(a, ran, begin)
        ways = Ways(true, true if found is None else self._sources(a, found, begin))
        tally = np.zeros((2, 4), np.int64)
        ranges = (a.address, a.size) if self._to_order is None else self._to_order(region)
        mark_ranges(*ranges, _TO_ORDER, self._marks)
        mark_changes(a, a.placed, self._apart, self._marks)
        wrong, byte = compare_within(a, a.placed, begin, self._marks, ways, self._apart, tally)
        for touched in (ranges, (a.address, a.size)):
            mark_ranges(*touched, np.uint16(0), self._marks)
        reads, writes = (Judged.of(counted, found is not None) for counted in tally)
        faults = self.within.faults
        if wrong >= 0:
            at = int(begin[wrong]) + byte
            who, event = processor_and_event(int(a.number[wrong]))
            before = [processor_and_event(n) if (n := int(way[at])) else None for way in ways]
            address = int(a.address[wrong]) + byte
            faults += (Fault(region, reads.wrong, writes.wrong, who, event, address, *before),)
        self.within = Within(self.within.reads + reads, self.within.writes + writes, faults)

    def _sources(self, a: Accesses, order: NDArray[np.int64], begin: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The change before each byte, 0 for what was there when the region began."""
        source = np.zeros(int(begin[-1]), np.uint64)
        follow_sources(order, a, self._walk, a.begin[:-1].copy(), self._last, begin, source)
        forget_writes(a, a.placed, self._last, np.uint64(0))
        return source
