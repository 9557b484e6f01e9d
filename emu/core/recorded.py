"""A core of a machine that records: its log buffer, its device page and its hooks."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from unicorn import unicorn_const as uc

from corebraid.base.host_memory import host_memory
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import EVENT
from corebraid.base.rows.record import RECORD
from emu.bus.commit import COMMIT_WORDS
from emu.bus.store_buffer import BUFFER_ROWS, new_buffer
from emu.core.core import Core
from emu.core.line_bus import Bus
from emu.core.surroundings import DEVICES, Surroundings
from emu.hooks.call import CALL_WORDS, on_counted_call, on_illegal
from emu.hooks.fence import on_fence
from emu.hooks.record import on_exception
from emu.hooks.tap import TAP_ROWS, TAP_SLACK, drop_unretired
from emu.hooks.undo import EDGE_ROWS
from emu.native.state import CORE_AT, address_of
from isa.table import Isa

#: Rows a core's log buffer holds, and what one block may add after the last check.
_ROWS, _ROWS_SLACK = 65536, 32768
#: Bytes of a row there is room for: a block has few accesses to pages that came whole.
_MOST_PER_ROW = 512
#: A RECORD as bytes.
_PACK_RECORD = struct.Struct("<QQQIHBB").pack_into
#: Rows that say when stores committed, and what one slice's end may add.
_COMMITS, _COMMITS_SLACK = 1 << 14, BUFFER_ROWS + (1 << 12)


class RecordedCore(Core):
    """One core of a `Machine`. Misses and inputs are appended to its log natively.

    store_buffer: stores that its store buffer holds, 0 for none: sequential consistency. tapped: its accesses
    are kept as EVENT rows, for evidence streams (`emu/hooks/tap.py`). surroundings: what it meets
    besides memory. bus: what keeps its memory coherent with the others'.
    """

    def __init__(
        self,
        core_rows: NDArray[Any],
        number: int,
        machine_rows: NDArray[Any],
        isa: Isa,
        memory_bytes: int,
        bus: Bus,
        store_buffer: int = 0,
        tapped: bool = False,
        surroundings: Surroundings = DEVICES,
    ) -> None:
        super().__init__(core_rows[number : number + 1], isa, memory_bytes, bus.line, bus.fill)
        self._bus = bus
        self._log_rows = host_memory(_ROWS * RECORD.itemsize).view(RECORD)
        per_row = min(bus.line, _MOST_PER_ROW)
        self._log_blob = host_memory(_ROWS * per_row)
        self._log_bytes, self._blob_bytes = self._log_rows.view(np.uint8).data, self._log_blob.data
        self.device_page = np.zeros(PAGE_BYTES, np.uint8)
        self._edge = np.zeros((EDGE_ROWS, 3), np.uint64)
        self._buffer = new_buffer()
        self._commits = host_memory(_COMMITS * COMMIT_WORDS * 8).view(np.uint64).reshape(-1, COMMIT_WORDS)
        self.tapped = tapped
        #: Of its last system call: number and arguments. None are made to devices.
        self.call_words = np.zeros(CALL_WORDS, np.uint64)
        self._tap = host_memory((TAP_ROWS + TAP_SLACK if tapped else 1) * EVENT.itemsize).view(EVENT)
        for name, value in (
            ("core_id", number),
            ("n_cores", len(core_rows)),
            ("machine", address_of(machine_rows)),
            ("cores", address_of(core_rows)),
            ("device_page", address_of(self.device_page)),
            ("edge", address_of(self._edge)),
            ("rows", address_of(self._log_rows)),
            ("rows_limit", _ROWS - _ROWS_SLACK),
            ("blob", address_of(self._log_blob)),
            ("blob_limit", (_ROWS - _ROWS_SLACK) * per_row),
            ("buffering", 1 if store_buffer else 0),
            ("buffer", address_of(self._buffer)),
            ("buffer_limit", store_buffer),
            ("commits", address_of(self._commits)),
            ("commits_limit", _COMMITS - _COMMITS_SLACK),
            ("trace", address_of(self._tap) if tapped else 0),
            ("trace_limit", TAP_ROWS),
        ):
            self.row[name] = value
        if store_buffer:
            self.placed.fence = on_fence
        self.placed.illegal = on_illegal
        bus.connect(self, tapped=tapped)
        self.add_hook(uc.UC_HOOK_INTR, on_exception)
        surroundings.surround(self, self.device_page, self.call_words)
        self.add_instruction_hooks(self.native.recorded)

    def map_devices(self, page: NDArray[np.uint8]) -> None:
        """As the bus has it."""
        self._bus.map_devices(self, page)

    def held_rows(self) -> NDArray[np.uint64]:
        """The stores in its buffer, the oldest first: rows of `emu.bus.store_buffer`."""
        return self.rows_since(self.words[CORE_AT.committed])

    def rows_since(self, number: int) -> NDArray[np.uint64]:
        """Its stores from this number on, some of them committed: not more than the buffer has rows."""
        committed = self.words[CORE_AT.committed]
        n = committed + self.words[CORE_AT.buffered] - number
        first = self.words[CORE_AT.buffer_first] - committed + number
        return self._buffer[(first + np.arange(n)) % BUFFER_ROWS]

    def let_calls_wait(self) -> None:
        """Let system calls wait for the store buffer, as fences do. Before the first run."""
        self.placed.calls_wait, self.row["calls_wait"] = True, 1

    def count_calls(self) -> None:
        """Let system calls be shared events (`emu.hooks.call.on_counted_call`). Before the first run."""
        self.placed.call, self.row["calls_wait"] = on_counted_call, 1

    def read_call(self) -> list[int]:
        """Number and arguments of the system call that the core has made."""
        words: list[int] = self.call_words.tolist()
        return words

    def share_rights(self, rights: NDArray[np.uint8]) -> None:
        """Use `rights` (uint8[pages]), which all cores share, as the page table."""
        self.page_rights = rights
        self.row["page_rights"] = address_of(rights)

    def append_record(
        self, kind: int, flags: int, address: int, value: int, blob: bytes = b"", size: int = 0
    ) -> bool:
        """Append a record at the core's count; size: of one without bytes of its own. Returns whether the log
        is due to be taken."""
        words, length = self.words, len(blob)
        n, at = words[CORE_AT.rows_n], words[CORE_AT.blob_n]
        row = (self.count, address, value, at, length or size, kind, flags)
        _PACK_RECORD(self._log_bytes, n * RECORD.itemsize, *row)
        self._blob_bytes[at : at + length] = blob
        words[CORE_AT.rows_n], words[CORE_AT.blob_n] = n + 1, at + length
        return bool(n + 1 >= words[CORE_AT.rows_limit] or at >= words[CORE_AT.blob_limit])

    def take_log(self) -> tuple[NDArray[Any], NDArray[np.uint8]]:
        """(RECORD[n], uint8[]) since the last call; views, good until the core runs again."""
        n, blob_n = int(self.row["rows_n"]), int(self.row["blob_n"])
        self.row["rows_n"], self.row["blob_n"] = 0, 0
        return self._log_rows[:n], self._log_blob[:blob_n]

    def take_tap(self) -> NDArray[np.void]:
        """The events since the last call, EVENT[n], of instructions that have retired; a view, good until the
        core runs again."""
        drop_unretired(self.rows)
        n = int(self.row["trace_n"])
        self.row["trace_n"] = 0
        return self._tap[:n]

    def forget_commits(self) -> None:
        """Nobody wants to know when stores commit. Before the first run."""
        self.row["commits"] = 0

    def take_commits(self) -> NDArray[np.uint64]:
        """When stores committed since the last call: uint64[n, 2], instruction count, committed by then."""
        n = int(self.row["commits_n"])
        self.row["commits_n"] = 0
        return self._commits[:n].copy()
