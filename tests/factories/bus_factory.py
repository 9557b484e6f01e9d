"""A bus over small arrays, without an emulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.rows.event import EVENT
from corebraid.base.rows.record import RECORD
from emu.bus.cache import CacheGeometry
from emu.bus.lines import need
from emu.bus.losses import LossNotes
from emu.native.state import (
    CORE,
    MACHINE,
    address_of,
)

PAGES = 2

MEMORY = PAGES * 4096


class Kernel:
    """Cores and a machine row as the hooks see them, over small arrays."""

    def __init__(self, n_cores: int, cache: CacheGeometry, seed: int) -> None:
        self.line = cache.line
        n_lines = MEMORY // cache.line
        self.cores, self.machines = np.zeros(n_cores, CORE), np.zeros(1, MACHINE)
        draw = np.random.default_rng(seed)
        self.home = draw.integers(0, 256, MEMORY, np.uint8)
        self.sharers, self.owner = np.zeros(n_lines, np.uint64), np.zeros(n_lines, np.uint8)
        self.agent_rows = np.zeros(4096, EVENT)
        machine = self.machines[0]
        for name, value in (("line_bytes", cache.line), ("n_lines", n_lines), ("agent_limit", 4096)):
            machine[name] = value
        for name in ("home", "sharers", "owner", "agent_rows"):
            machine[name] = address_of(getattr(self, name))
        self.losses = LossNotes(self.machines)
        self.losses.keep()
        self.arrays: list[dict[str, Any]] = []
        for number in range(n_cores):
            self._make_core(number, cache, n_lines)

    def _make_core(self, number: int, cache: CacheGeometry, n_lines: int) -> None:
        ways = max(1, cache.sets * cache.ways)
        arrays: dict[str, Any] = {
            "memory": np.zeros(MEMORY, np.uint8),
            "line_state": np.zeros(n_lines, np.uint8),
            "page_flags": np.zeros(PAGES, np.uint8),
            "page_rights": np.full(PAGES, 6, np.uint8),
            "dirty_pages": np.zeros(PAGES + 1, np.uint64),
            "lost": np.zeros(4096, np.uint64),
            "rows": np.zeros(8192, RECORD),
            "blob": np.zeros(8192 * cache.line, np.uint8),
            "tags": np.zeros(ways, np.uint64),
            "stamps": np.zeros(ways, np.uint64),
        }
        row = self.cores[number]
        for name, array in arrays.items():
            row[name] = address_of(array)
        for name, value in (
            ("core_id", number),
            ("n_cores", len(self.cores)),
            ("memory_bytes", MEMORY),
            ("line_shift", cache.line.bit_length() - 1),
            ("rows_limit", 8192),
            ("blob_limit", 8192 * cache.line),
            ("sets", cache.sets),
            ("ways", cache.ways),
        ):
            row[name] = value
        self.arrays.append(arrays)

    def access(self, core: int, line: int, count: int, write: bool) -> None:
        self.cores[core]["count"] = count
        need(self.cores[core], self.cores, self.machines[0], np.uint64(line), np.uint64(count), write)
