"""What a stored value was computed from: the loads whose values flowed into it through registers.

The core is replayed up to the store, and stops before each instruction on the way; from the store backwards
the registers are followed that its value is made of (`isa.decoder.FlowDecoder`), until none is left: each was
set from memory, by a load, from a constant, or from outside. Addresses and conditions are not followed.
Instructions that only copy, such as those of 16 bytes that `memcpy` is made of, are followed byte by byte,
others by whole registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from corebraid.base.rows.event import FETCH, RMW, WRITE
from corebraid.base.rows.record import CONTEXT
from corebraid.names.event_names import EventNumbers
from corebraid.study.writes.rows import Rows
from isa.decoded import Flow
from isa.decoder import flow_decoder_of
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.pause import CoreState, PausedReplay
from recorder.replay.seek import start_at

#: All bytes of a register, as bits.
_WHOLE = (1 << 64) - 1
#: Instructions that are followed back: at first, and at most.
_WINDOWS = (1 << 6, 1 << 10, 1 << 13)


@dataclass(frozen=True)
class Load:
    """A load whose value flowed into the store. row: EVENT. number: of its event."""

    row: np.void
    number: int


@dataclass(frozen=True)
class Origins:
    """loads: the latest first. others: what else the value is made of, in words."""

    loads: tuple[Load, ...] = ()
    others: tuple[str, ...] = ()


def origins(recording: Recording, store: np.void) -> Origins:
    """What the value of a core's store (EVENT) was computed from. Raises FormatError, Divergence."""
    core, count = int(store["core"]), int(store["count"])
    begun = _switched(recording, core, count)
    found = Origins()
    for length in _WINDOWS:
        first = max(count - length, begun)
        way = _Way(recording, core, first, count)
        found, left = way.follow(store)
        if not left:
            break
        if first == begun:
            return _with(found, f"what {_listed(left)} held when the thread came to the core")
        if length == _WINDOWS[-1]:
            return _with(found, f"what {_listed(left)} held {length:,} instructions before")
    return found


def _with(found: Origins, more: str) -> Origins:
    return Origins(found.loads, (*found.others, more))


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def _switched(recording: Recording, core: int, count: int) -> int:
    """The count from which on the thread has been on the core without another in between."""
    last = 0
    for rows, _ in iter_core_records(recording, core):
        mine = rows["count"][(rows["kind"] == CONTEXT) & (rows["count"] <= np.uint64(count))]
        last = max(last, int(mine.max(initial=0)))
        if int(rows["count"][-1]) > count:
            break
    return last


class _Way:
    """The instructions of a core from `first` up to and with `count`."""

    def __init__(self, recording: Recording, core: int, first: int, count: int) -> None:
        self._count, self._first = count, first
        self._flow = flow_decoder_of(recording.manifest.instruction_set).flow
        start = start_at(recording, core, first)
        replay = PausedReplay(recording, core, range(first, count + 2), traced=True, start=start)
        numbers, self._loads = EventNumbers(), dict[int, list[Load]]()
        #: Where the last of them stores.
        self._stores: list[int] = []
        for rows in replay.run():
            self._keep(rows, numbers.of(rows).tolist())
        self._states = replay.states

    def _keep(self, rows: Rows, numbers: Sequence[int]) -> None:
        wanted = (rows["count"] >= np.uint64(self._first)) & (rows["count"] <= np.uint64(self._count))
        wanted &= (rows["flags"] & np.uint8(FETCH)) == 0
        stored = wanted & (rows["count"] == np.uint64(self._count)) & (rows["kind"] == WRITE)
        self._stores += rows["addr"][stored].tolist()
        wanted &= rows["kind"] != WRITE
        for k in np.flatnonzero(wanted).tolist():
            self._loads.setdefault(int(rows["count"][k]), []).append(Load(rows[k].copy(), numbers[k]))

    def _of(self, state: CoreState | None) -> Flow:
        return Flow() if state is None else self._flow(state.code, state.pc)

    def follow(self, store: np.void) -> tuple[Origins, frozenset[str]]:
        """(what the store's value is made of, registers whose origin lies before the first instruction)."""
        made = _Made()
        here = self._of(self._states.get(self._count))
        if here.moves:
            self._through(made, here, self._count, self._stored(store))
        else:
            made.want(here.values)
            if here.loads and (not here.swaps or here.adds or not here.values):
                made.loads += self._loads_at(self._count, store)
        for count in range(self._count - 1, self._first - 1, -1):
            if not made.wanted:
                break
            self._before(made, self._of(self._states.get(count)), count)
        if not made.loads and not made.others and not made.wanted:
            made.others.append("a constant")
        return Origins(tuple(made.loads), tuple(dict.fromkeys(made.others))), frozenset(made.wanted)

    def _before(self, made: _Made, one: Flow, count: int) -> None:
        """What the instruction has made of what is wanted."""
        hit = made.wanted.keys() & one.written
        if not hit:
            return
        bits = {name: made.wanted.pop(name) for name in hit}
        for name in hit & one.kept:
            left = bits[name] & ~one.sets() if name == one.target else bits[name]
            made.want([name] if left else [], left)
        if one.outside:
            made.others.append(f"{one.outside} at count {count}")
        elif one.moves:
            self._through(made, one, count, bits.get(one.target, 0))
        else:
            made.want(one.values if not one.swaps or one.adds else ())
            made.loads += self._loads_at(count, None) if one.loads else []

    def _through(self, made: _Made, one: Flow, count: int, bits: int) -> None:
        """What the instruction has copied into some bytes of its target."""
        bits = one.asked(bits)
        if one.source:
            made.want([one.source] if bits else [], bits)
            return
        found = self._loads_at(count, None)
        first = min((int(load.row["addr"]) for load in found), default=0)
        made.loads += [load for load in found if _bits(load.row, first) & bits]

    def _stored(self, store: np.void) -> int:
        """Which bytes of all that its instruction stores are those of a store, as bits."""
        return _bits(store, min(self._stores, default=int(store["addr"])))

    def _loads_at(self, count: int, store: np.void | None) -> list[Load]:
        """What an instruction loaded. store: of the instruction that makes it, what it read there."""
        found = self._loads.get(count, [])
        if store is None:
            return found
        same = [one for one in found if int(one.row["kind"]) == RMW and one.row["addr"] == store["addr"]]
        return same or found


def _bits(row: np.void, first: int) -> int:
    return ((1 << int(row["size"])) - 1) << (int(row["addr"]) - first)


class _Made:
    """What a value was made of. wanted: bytes of registers whose origin is still looked for, as bits."""

    def __init__(self) -> None:
        self.wanted: dict[str, int] = {}
        self.loads: list[Load] = []
        self.others: list[str] = []

    def want(self, names: Iterable[str], bits: int = _WHOLE) -> None:
        """Look for these bytes of some registers, too."""
        for name in names:
            self.wanted[name] = self.wanted.get(name, 0) | bits
