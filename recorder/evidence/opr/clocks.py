"""Vector clocks for shared memory (OPR, Algorithm 2), exact and in the relaxed form of section 4.3.

V_i is the clock of member i; V_i[i] is its SN. A place x of memory has two clocks, V_w of its last write
and V_a of all accesses. A read of x comes after V_w, a write after V_a: where that is ahead of V_i at some
peer, an event order (peer: SN -> i: SN) is logged, and V_i catches up.

Exact: a place is a word of 8 bytes, and the clocks go with the access. Relaxed: a place is all that has
affinity with one core; the clocks of an access are dealt with at the core's next event, so that what other
cores do in between comes before it; a read orders (and learns) only if it read something new.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.host_memory import host_memory
from corebraid.base.kernels import inner
from corebraid.base.memory import DEVICE_BASE
from corebraid.base.rows.event import UNCACHED, WRITE
from emu.devices.one_sided import SEGMENT_BASE, SEGMENT_LENGTH
from recorder.evidence.opr.accesses import ACCESS, STORE
from recorder.evidence.opr.rows import EXACT, OPR_ROW, RELAXED, Rows, joined

Clocks = npt.NDArray[np.int64]

_FIRST_WORDS = 1 << 10
_ROOM = 1 << 12
_PAGE_SHIFT, _WORD_SHIFT = np.uint64(12), np.uint64(3)
_ONE = np.uint64(1)
_BASE = np.uint64(DEVICE_BASE)


#: What is known of a word besides its clocks. last: the last member there, -1 for none. alone: the last
#: writer if only it came since, its clock as it was, else -1. version: see `_settled`. sn, store: the last
#: access of `last`, the last store of `alone`; they stand for those entries of the word's clocks.
WORD = np.dtype([("version", "<i8"), ("sn", "<i8"), ("store", "<i8"), ("last", "<i4"), ("alone", "<i4")])


class Words(NamedTuple):
    """Clocks of the words that members have accessed. slot_of: int32[words of memory], 1 + a word's slot.
    used: int64[1], slots so far. state: WORD[slots]. written, accessed: int64[slots, r]."""

    slot_of: npt.NDArray[np.int32]
    used: npt.NDArray[np.int64]
    state: npt.NDArray[np.void]
    written: Clocks
    accessed: Clocks


@inner
def _slot(words, word):  # type: ignore[no-untyped-def]
    """The slot of a word; a new one if it has none, for which there must be room."""
    if words.slot_of[word] == 0:
        words.used[0] += 1
        words.slot_of[word] = np.int32(words.used[0])
    return np.int64(words.slot_of[word]) - 1


@inner
def _settle(words, slot):  # type: ignore[no-untyped-def]
    """Put what stands beside a word's clocks into them."""
    row = words.state[slot]
    if row.last >= 0:
        words.accessed[slot, row.last] = max(words.accessed[slot, row.last], row.sn)
    if row.alone >= 0:
        words.written[slot, row.alone] = max(words.written[slot, row.alone], row.store)


@inner
def _catch_up(clock, held, place, member):  # type: ignore[no-untyped-def]
    """clock = max(clock, held[place]); returns whether any entry but the member's own grew."""
    grew = False
    for k in range(clock.shape[0]):
        if held[place, k] > clock[k]:
            clock[k] = held[place, k]
            grew = grew or k != member
    return grew


@inner
def _tell(held, place, clock):  # type: ignore[no-untyped-def]
    """held[place] = max(held[place], clock)."""
    for k in range(clock.shape[0]):
        held[place, k] = max(held[place, k], clock[k])


@inner
def _log_orders(clock, before, member, sn, kind, out, n):  # type: ignore[no-untyped-def]
    """GO: an order for each peer at which the clock has grown."""
    for peer in range(clock.shape[0]):
        if peer != member and clock[peer] > before[peer]:
            row = out[n]
            row.kind, row.member, row.peer, row.sn = kind, member, peer, sn
            row.place, row.value, row.size, row.unused = np.uint64(clock[peer]), 0, 0, 0
            n += 1
    return n


@inner
def _note(clock, before):  # type: ignore[no-untyped-def]
    for k in range(clock.shape[0]):
        before[k] = clock[k]


@inner
def _settled(row, member, version, is_store):  # type: ignore[no-untyped-def]
    """Whether the access changes nothing but the member's own entry: it was the last one there (for a store:
    nobody read since it wrote), and its clock has not grown at a peer since. row: a WORD."""
    if row.version != version:
        return False
    return row.alone == member if is_store else row.last == member


@inner
def _leave(words, slot, clock, member, version, is_store):  # type: ignore[no-untyped-def]
    """The word's clocks after an access."""
    row = words.state[slot]
    _tell(words.accessed, slot, clock)
    row.alone = -1
    if is_store:
        _tell(words.written, slot, clock)
        row.alone, row.store = member, clock[member]
    row.last, row.sn, row.version = member, clock[member], version


@njit(cache=True)
def exact_step(accesses, start, member, clock, before, version, words, out):  # type: ignore[no-untyped-def]
    """Algorithm 2 over accesses[start:] (ACCESS[n]). clock: int64[r]; before: room for another. version:
    int64[1], how often the clock has grown.

    Returns (first access not done, orders put into `out`, words that it needs room for); it stops early where
    there is no room.
    """
    n = 0
    for i in range(start, accesses.shape[0]):
        access = accesses[i]
        first, last = access.addr >> _WORD_SHIFT, (access.addr + access.size - _ONE) >> _WORD_SHIFT
        needed = np.int64(last - first) + 1
        full = words.used[0] + needed > words.state.shape[0]
        if full or n + clock.shape[0] > out.shape[0]:
            return i, n, needed
        own = np.int64(access.sn)
        clock[member] = own
        is_store = access.kind == STORE
        row = words.state[_slot(words, np.int64(first))]
        if needed == 1 and _settled(row, member, version[0], is_store):
            row.sn = own
            if is_store:
                row.store = own
            continue
        _note(clock, before)
        grew = False
        for k in range(needed):
            slot = _slot(words, np.int64(first) + k)
            _settle(words, slot)
            if is_store:
                grew |= _catch_up(clock, words.accessed, slot, member)
            else:
                grew |= _catch_up(clock, words.written, slot, member)
        if grew:
            version[0] += 1
        for k in range(needed):
            slot = _slot(words, np.int64(first) + k)
            _leave(words, slot, clock, member, version[0], is_store)
        if grew:
            n = _log_orders(clock, before, member, access.sn, EXACT, out, n)
    return accesses.shape[0], n, 0


class ExactClocks:
    """Algorithm 2 among `r` members. memory: bytes of guest memory."""

    def __init__(self, r: int, memory: int) -> None:
        self._clocks = np.zeros((r, r), np.int64)
        self._before = np.zeros(r, np.int64)
        self._versions = np.zeros((r, 1), np.int64)
        slot_of = host_memory(4 * (memory >> 3)).view(np.int32)
        self._words = Words(slot_of, np.zeros(1, np.int64), *_new_words(_FIRST_WORDS, r))
        self._out = np.zeros(_ROOM + r, OPR_ROW)

    def take(self, member: int, accesses: Rows) -> Rows:
        """Orders that the member's next accesses (ACCESS[n]) make: OPR_ROW[m] of kind EXACT."""
        pieces: list[Rows] = []
        done, clock = 0, self._clocks[member]
        while done < len(accesses):
            done, n, needed = exact_step(
                accesses, done, member, clock, self._before, self._versions[member], self._words, self._out
            )
            if n:
                pieces.append(self._out[:n].copy())
            elif needed:
                self._words = _grown(self._words, int(needed))
        return joined(pieces)


def _new_words(n: int, r: int) -> tuple[npt.NDArray[np.void], Clocks, Clocks]:
    state = np.zeros(n, WORD)
    state["last"] = state["alone"] = -1
    return state, np.zeros((n, r), np.int64), np.zeros((n, r), np.int64)


def _grown(words: Words, more: int) -> Words:
    """The same, with room for `more` words beyond those that are there."""
    old = len(words.state)
    n = 2 * old
    while n < int(words.used[0]) + more:
        n *= 2
    new = Words(words.slot_of, words.used, *_new_words(n, words.written.shape[1]))
    new.state.view(np.uint8)[: words.state.nbytes] = words.state.view(np.uint8)
    new.written[:old], new.accessed[:old] = words.written, words.accessed
    return new


class Affinities:
    """Which core each page of memory has affinity with: the one that declared it as its partition by the
    registers SEGMENT_BASE and SEGMENT_LENGTH; of other pages, the page's number modulo the cores."""

    def __init__(self, memory: int, n_cores: int) -> None:
        self.n_cores = n_cores
        self.of_page = (np.arange(memory >> 12) % n_cores).astype(np.uint8)
        self._bases = np.zeros(n_cores + 1, np.uint64)

    def take(self, stream: int, rows: Rows) -> None:
        """Events of a core, or the agents: EVENT[n]."""
        declare_segments(rows, stream, self._bases, self.of_page)


@njit(cache=True)
def declare_segments(rows, stream, bases, of_page):  # type: ignore[no-untyped-def]
    """Follow the segment registers of one core. bases: uint64[cores + 1]. of_page: uint8[pages]."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if (row.flags & UNCACHED) == 0 or row.kind != WRITE:
            continue
        if row.addr == _BASE + SEGMENT_BASE:
            bases[stream] = row.new
        elif row.addr == _BASE + SEGMENT_LENGTH:
            first = min(bases[stream] >> _PAGE_SHIFT, np.uint64(of_page.shape[0]))
            pages = min(row.new >> _PAGE_SHIFT, np.uint64(of_page.shape[0]) - first)
            of_page[np.int64(first) : np.int64(first + pages)] = stream


@inner
def _relaxed_store(clock, state, home, settled, member):  # type: ignore[no-untyped-def]
    if settled.stored[home] == settled.version[0]:
        state.accessed[home, member] = clock[member]
        state.written[home, member] = clock[member]
        return False
    grew = _catch_up(clock, state.accessed, home, member)
    settled.version[0] += 1 if grew else 0
    _tell(state.accessed, home, clock)
    _tell(state.written, home, clock)
    settled.stored[home] = settled.version[0]
    settled.told[home] = settled.version[0]
    settled.learned[home] = 1
    return grew


@inner
def _relaxed_load(clock, state, home, settled, member, fresh):  # type: ignore[no-untyped-def]
    grew = False
    if fresh and settled.learned[home] == 0:
        settled.learned[home] = 1
        grew = _catch_up(clock, state.written, home, member)
        settled.version[0] += 1 if grew else 0
    if settled.told[home] == settled.version[0]:
        state.accessed[home, member] = clock[member]
    else:
        _tell(state.accessed, home, clock)
        settled.told[home] = settled.version[0]
    return grew


@njit(cache=True)
def relaxed_step(accesses, start, member, clock, before, homes, settled, out):  # type: ignore[no-untyped-def]
    """Section 4.3 over accesses[start:] (ACCESS[n]), between which no other member comes.

    Returns (first access not done, orders put into `out`).
    """
    n = 0
    for i in range(start, accesses.shape[0]):
        access = accesses[i]
        if n + clock.shape[0] > out.shape[0]:
            return i, n
        clock[member] = np.int64(access.sn)
        _note(clock, before)
        grew = False
        page, last = access.addr >> _PAGE_SHIFT, (access.addr + access.size - _ONE) >> _PAGE_SHIFT
        while page <= last:
            home = homes.of_page[np.int64(page)]
            if access.kind == STORE:
                grew |= _relaxed_store(clock, homes, home, settled, member)
            else:
                grew |= _relaxed_load(clock, homes, home, settled, member, access.fresh != 0)
            page += _ONE
        if grew:
            n = _log_orders(clock, before, member, access.sn, RELAXED, out, n)
    return accesses.shape[0], n


class _Homes(NamedTuple):
    """Clocks of each affinity: int64[cores, r]. of_page: uint8[pages], as of `Affinities`."""

    written: Clocks
    accessed: Clocks
    of_page: npt.NDArray[np.uint8]


class _Settled(NamedTuple):
    """What a member has dealt with since another one came. version: int64[1], how often its clock has grown.
    told, stored: int64[cores], at which version it last accessed, or wrote, what has that affinity. learned:
    int64[cores], 1 if it knows V_w."""

    version: Clocks
    told: Clocks
    stored: Clocks
    learned: Clocks


class RelaxedClocks:
    """The clocks of section 4.3 among `r` members."""

    def __init__(self, r: int, affinities: Affinities) -> None:
        n = affinities.n_cores
        self._clocks, self._before = np.zeros((r, r), np.int64), np.zeros(r, np.int64)
        self._homes = _Homes(np.zeros((n, r), np.int64), np.zeros((n, r), np.int64), affinities.of_page)
        #: What `_Settled` is at the beginning of a turn, and its room.
        self._fresh = np.concatenate([np.zeros(1, np.int64), np.full(2 * n, -1), np.zeros(n, np.int64)])
        self._room = self._fresh.copy()
        self._settled = _Settled(*np.split(self._room, np.cumsum([1, n, n])))
        #: Accesses of each member's last event, whose clocks wait for its next.
        self._waiting = [np.zeros(0, ACCESS) for _ in range(r)]
        self._out = np.zeros(_ROOM + r, OPR_ROW)

    def take(self, member: int, accesses: Rows) -> Rows:
        """Orders of the member's accesses up to, not with, the last event of these (ACCESS[n]):
        OPR_ROW[m]."""
        if not len(accesses):
            return joined([])
        # A fence may complete several gets: they are one event, and wait together.
        n = int(np.searchsorted(accesses["sn"], accesses["sn"][-1]))
        waiting, self._waiting[member] = self._waiting[member], accesses[n:].copy()
        return self._step(member, waiting, accesses[:n])

    def settle(self, member: int) -> Rows:
        """Orders of the member's last access: the run is over."""
        due, self._waiting[member] = self._waiting[member], np.zeros(0, ACCESS)
        return self._step(member, due)

    def _step(self, member: int, *parts: Rows) -> Rows:
        pieces: list[Rows] = []
        clock = self._clocks[member]
        self._room[:] = self._fresh
        for due in parts:
            done = 0
            while done < len(due):
                done, n = relaxed_step(
                    due, done, member, clock, self._before, self._homes, self._settled, self._out
                )
                if n:
                    pieces.append(self._out[:n].copy())
        return joined(pieces)
