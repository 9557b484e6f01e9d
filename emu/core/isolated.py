"""A core that replays its own log alone: registers from context headers, memory from miss records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from unicorn import unicorn_const as uc

from corebraid.base.compiled import njit
from corebraid.base.host_memory import host_memory
from corebraid.base.rows.record import INPUT, INPUT_RANDOM, RECORD, STRATUM
from emu.bus.store_buffer import new_buffer
from emu.core.core import Core
from emu.core.random_read import finish_random_read
from emu.core.saved_pages import drop_pages
from emu.core.standing import AtBarrier, CoreState, Diverged, NeedRows, Step, TraceFull
from emu.core.surroundings import DEVICES, Surroundings
from emu.core.trace_buffers import TraceBuffers
from emu.core.watched_pages import WatchedPages, Watching
from emu.hooks.feed import FED
from emu.hooks.fill import on_fill
from emu.hooks.record import on_exception
from emu.hooks.replay import apply_due, on_replayed_block
from emu.hooks.trace import on_traced_access, on_traced_fence, store_half_done
from emu.hooks.trace_tso import first_unsettled, keep_tail, settle_all, settle_until
from emu.native.state import (
    CORE,
    RIGHT_EXECUTE,
    RIGHT_READ,
    RIGHT_WRITE,
    RUNNING,
    STOP_BARRIER,
    STOP_CALL,
    STOP_DECODE,
    STOP_DIVERGED,
    STOP_FRAME,
    STOP_HELD,
    STOP_MISPLACED,
    STOP_STALE,
    STOP_TRACE,
    address_of,
)
from isa.table import Isa

#: Rows of the trace buffer, and what one block may add after the last check.
_TRACE_ROWS, _TRACE_SLACK = 1 << 17, 1 << 16


@njit(cache=True)
def _apply_reached(rows, before):  # type: ignore[no-untyped-def]
    """Apply the records of instructions that have been reached. rows: one core, as an array."""
    apply_due(rows[0], before, False)


@njit(cache=True)
def _store(rows, address, size, value):  # type: ignore[no-untyped-def]
    store_half_done(rows[0], address, size, value)


@njit(cache=True)
def _count_strata(log, begin, end, count):  # type: ignore[no-untyped-def]
    """How many rows of a log (RECORD[n]), from `begin` to before `end`, are strata at `count`."""
    k = begin
    while k < end and log[k].kind == STRATUM and log[k].count == count:
        k += 1
    return k - begin


@lru_cache(maxsize=1)
def _all_rights(pages: int) -> NDArray[np.uint8]:
    """Every right to every page but the first: one table for all cores, since that of 64 GiB takes longer to
    fill than many a replay."""
    rights = np.full(pages, RIGHT_READ | RIGHT_WRITE | RIGHT_EXECUTE, np.uint8)
    rights[0] = 0
    rights.setflags(write=False)
    return rights


class IsolatedCore:
    """Replays one core. Feed it rows, call `step` until the log's END barrier.

    traced: every data access is kept as an EVENT row, at the price of a memory hook: `on_access`. watching:
    those to some pages alone, without that hook. store_buffer: as in `emu.board.firmware.MachineConfig`.
    fill: what the emulator asks for pages. surroundings: what it meets besides memory.
    """

    def __init__(
        self,
        isa: Isa,
        number: int,
        memory_bytes: int,
        line_bytes: int,
        *,
        traced: bool,
        watching: Watching | None = None,
        store_buffer: int = 0,
        on_access: object = on_traced_access,
        fill: object = on_fill,
        surroundings: Surroundings = DEVICES,
    ) -> None:
        self._core_rows = np.zeros(1, CORE)
        self.core = Core(self._core_rows, isa, memory_bytes, line_bytes, fill)
        self._row = self.core.row
        self.core.page_rights = _all_rights(len(self.core.page_rights))
        self._row["page_rights"] = address_of(self.core.page_rights)
        self._row["core_id"] = number
        self._inputs = np.zeros(0, RECORD)
        self._rows = np.zeros(0, RECORD)
        self._blob = np.zeros(1, np.uint8)
        surroundings.surround_isolated(self.core, self._core_rows)
        self.core.add_hook(uc.UC_HOOK_BLOCK, on_replayed_block)
        self.core.add_hook(uc.UC_HOOK_INTR, on_exception)
        self.core.add_instruction_hooks(self.core.native.replayed)
        self._trace = TraceBuffers(_TRACE_ROWS if traced else 0)
        self._row["trace_limit"] = 1 << 62
        if traced:
            self._row["trace"] = address_of(self._trace.current)
            self._row["trace_limit"] = _TRACE_ROWS - _TRACE_SLACK
        self.watched = WatchedPages(self.core, watching) if watching is not None else None
        if traced and (watching is None or watching.marking):
            self.core.locate_when_asked()
            self.core.add_hook(uc.UC_HOOK_MEM_READ | uc.UC_HOOK_MEM_WRITE, on_access)
        self._buffering = traced and store_buffer > 0
        if self._buffering:
            self._buffer = new_buffer()
            self._received = host_memory(memory_bytes)
            self._row["buffering"], self._row["buffer_limit"] = 1, store_buffer
            self._row["buffer"] = address_of(self._buffer)
            self._row["received"] = address_of(self._received)
            self.core.placed.fence = on_traced_fence

    def begin(self, state: CoreState) -> None:
        """Go on from where another replay of the core stood, in place of the beginning. Nothing has run yet,
        and `put_pages` brings its memory."""
        row = self._row
        row["count"], row["trace_stratum"], row["committed"] = state.count, state.strata, state.committed
        self.core.restore(state.context)
        self.core.restore_unlisted(state.unlisted)
        row["awaiting"] = state.awaiting

    def state(self, strata: int) -> CoreState:
        """Where the core stands: between two instructions. strata: that have been passed."""
        core, row = self.core, self._row
        return CoreState(
            self.count, strata, core.context(), core.unlisted(), int(row["committed"]), int(row["awaiting"])
        )

    def left_over(self) -> tuple[NDArray[np.void], NDArray[np.uint8]]:
        """What has been fed and not been used, as a piece to be fed again: RECORD[n], by count, and its
        blob."""
        rows = np.concatenate([self._rows[int(self._row["rows_next"]) :], self.unused()])
        return rows[np.argsort(rows["count"], kind="stable")], self._blob

    def unused(self) -> NDArray[np.void]:
        """Input records fed and not consumed: RECORD[n]."""
        return self._inputs[int(self._row["inputs_next"]) : int(self._row["inputs_n"])]

    def feed(self, rows: NDArray[np.void], blob: NDArray[np.uint8]) -> None:
        """Give the next rows (RECORD[n], at least one) and their blob; all earlier ones are used up."""
        is_input = rows["kind"] == INPUT
        self._inputs = np.concatenate([self.unused(), rows[is_input]])
        self._rows, self._blob = np.ascontiguousarray(rows[~is_input]), np.ascontiguousarray(blob)
        self._row["inputs"], self._row["inputs_n"] = address_of(self._inputs), len(self._inputs)
        self._row["inputs_next"] = 0
        self._row["rows"], self._row["rows_n"] = address_of(self._rows), len(self._rows)
        self._row["rows_next"] = 0
        self._row["blob"] = address_of(self._blob)
        self._row["next_due"] = 0

    def feed_values(self, values: NDArray[np.void]) -> None:
        """Give the whole value log: FED[n], ascending by seq."""
        self._values = np.ascontiguousarray(values, FED)
        self._row["fed"], self._row["fed_n"], self._row["fed_next"] = address_of(self._values), len(values), 0

    @property
    def unused_values(self) -> int:
        """Entries of the value log that no access has consumed yet."""
        return int(self._row["fed_n"]) - int(self._row["fed_next"])

    @property
    def count(self) -> int:
        """Instructions retired so far."""
        return self.core.count

    def blob_of(self, row: np.void) -> bytes:
        """The bytes that a row of the last feed carries."""
        start = int(row["offset"])
        return self._blob[start : start + int(row["size"])].tobytes()

    def pass_barrier(self) -> None:
        """The row of the last AtBarrier has been dealt with."""
        self._row["rows_next"] += 1
        self._row["next_due"] = 0

    def pass_strata(self) -> int:
        """Pass the strata that come next, all but the last of those at which the core stands where it does
        now: nothing can happen between them. Returns how many."""
        if self._buffering:
            return 0
        begin, end = int(self._row["rows_next"]), int(self._row["rows_n"])
        passed = max(0, int(_count_strata(self._rows, begin, end, np.uint64(self.count))) - 1)
        self._row["rows_next"] += passed
        return passed

    def store(self, row: np.void) -> None:
        """What an instruction stored that then failed. row: a RECORD, `STORED`."""
        _store(self.core.rows, np.uint64(row["addr"]), np.int64(row["size"]), np.uint64(row["value"]))

    def restore(self, context: bytes) -> None:
        """Go on from a context header's registers."""
        self._row["awaiting"] = 0
        self.core.restore(context)

    def forget(self, pages: NDArray[np.uint64], unlisted: Sequence[int]) -> None:
        """The core has given back all that it had received, of these pages (uint64[n]). unlisted: its
        registers that no context has."""
        self.core.restore_unlisted(unlisted)
        drop_pages(self.core, pages, 1 << int(self._row["line_shift"]))

    def set_stratum(self, number: int, committed: int, buffered: int) -> Diverged | None:
        """Events from here on belong to this strata region. committed, buffered: stores that had left the
        store buffer, and that were in it (TSO). What was wrong with those, if anything."""
        wrong = None
        if self._buffering:
            settle_until(self._row, np.uint64(committed))
            found = int(self._row["committed"]), int(self._row["buffered"])
            if found != (committed, buffered):
                wrong = Diverged(
                    "the store buffer at a stratum",
                    f"{committed} stores committed, {buffered} buffered",
                    f"{found[0]} committed, {found[1]} buffered",
                )
        self._row["trace_stratum"] = number
        return wrong

    def empty_store_buffer(self) -> None:
        """All stores have committed: an interrupt came (SDM volume 3, 12.10), or the log ends."""
        if self._buffering:
            settle_all(self._row)

    def take_trace(self) -> NDArray[np.void]:
        """The events since the last call, EVENT[n]; those from the first on whose old bytes are not known yet
        are kept back."""
        n = int(self._row["trace_n"])
        if self._buffering:
            n = int(first_unsettled(self._row))
        rows = self._trace.hand_over(n)
        if self._buffering:
            keep_tail(self._row, np.uint64(n), np.uint64(address_of(self._trace.current)))
        else:
            self._row["trace_n"] = 0
        if n:
            self._row["trace"] = address_of(self._trace.current)
        return rows

    @property
    def unused_inputs(self) -> int:
        """Input records fed and not consumed."""
        return len(self.unused())

    def step(self) -> Step:
        """Go on until something outside the core is needed."""
        while True:
            self._row["block_address"] = self.core.pc
            _apply_reached(self.core.rows, np.uint64(self.count + 1))
            self.core.forget_stale()
            told = self._row["gains"] or self._row["holds"]
            if told and self._row["trace_n"] >= self._row["trace_limit"]:
                return TraceFull()
            if self._row["rows_next"] >= self._row["rows_n"]:
                return NeedRows()
            row = self._rows[int(self._row["rows_next"])]
            if int(row["count"]) <= self.count:
                return AtBarrier(row)
            if self._row["awaiting"]:
                return self._input_differs()
            answer = self._run_once()
            if answer is not None:
                return answer

    def _run_once(self) -> Step | None:
        status = self.core.run()
        reason = int(self._row["stop_reason"])
        if reason == STOP_DECODE:
            self._learn()
        elif reason == STOP_STALE:
            self.core.forget_stale()
        elif reason == STOP_CALL:
            pass
        elif reason == STOP_MISPLACED:
            self.core.remove_misplaced()
        elif reason == STOP_FRAME:
            return NeedRows()
        elif reason == STOP_TRACE:
            return TraceFull()
        elif reason == STOP_BARRIER:
            return self._run_to_barrier()
        elif reason == STOP_DIVERGED:
            return self._input_differs()
        elif reason == STOP_HELD:
            return self._given_up()
        else:
            return self._ended_by_itself(status)
        return None

    def _learn(self) -> None:
        """The core stands before a block that it does not know."""
        self.core.learn_block()

    def _given_up(self) -> Diverged:
        return Diverged("an access", "to happen", "one that cannot")

    def _run_to_barrier(self) -> Step | None:
        """Stop inside a block: translate it anew with an end there, and throw that away again."""
        until = int(self._row["barrier_pc"])
        if not until:
            return None
        low = int(self._row["block_address"])
        high = low + int(self._row["block_size"])
        self.core.forget_code(low, high)
        status = self.core.run(until)
        reason = int(self._row["stop_reason"])
        self._row["armed"] = 0
        if reason == STOP_DECODE:
            # A store into this very block broke it off: what follows is a block of its own.
            self._learn()
        elif reason == STOP_MISPLACED:
            self.core.remove_misplaced()
        self.core.forget_code(low, high)
        if reason == STOP_DIVERGED:
            return self._input_differs()
        if reason == STOP_HELD:
            return self._given_up()
        # No hook stopped it: it is at the barrier, or cannot get there.
        return self._ended_by_itself(status) if reason == RUNNING else None

    def _ended_by_itself(self, status: int) -> Step | None:
        """hlt, a fault or a random-number instruction: the log must say what comes next."""
        if status == uc.UC_ERR_INSN_INVALID and self._replay_random_read():
            return None
        row = self._rows[int(self._row["rows_next"])]
        if int(row["count"]) <= self.count:
            return None
        return Diverged(
            "the core stopped by itself",
            f"the next record at instruction {int(row['count'])}",
            f"a halt or fault (status {status}) at instruction {self.count}",
        )

    def _replay_random_read(self) -> bool:
        index = int(self._row["inputs_next"])
        if index >= int(self._row["inputs_n"]):
            return False
        row = self._inputs[index]
        if int(row["flags"]) != INPUT_RANDOM or int(row["count"]) != self.count:
            return False
        self._row["inputs_next"] += 1
        return finish_random_read(self.core, int(row["value"]))

    def _input_differs(self) -> Diverged:
        index = int(self._row["inputs_next"])
        expected = "no further input"
        if index < int(self._row["inputs_n"]):
            row = self._inputs[index]
            expected = f"input {int(row['flags'])} at instruction {int(row['count'])}"
        return Diverged("the core asked for an input", expected, f"one at instruction {self.count}")
