"""Which bus a machine has, and which hooks that gives its cores."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from unicorn import unicorn_const as uc

from corebraid.base.host_memory import host_memory
from emu.bus.cache import CacheGeometry
from emu.bus.line_state import watch
from emu.bus.lines import image, image_of_pages
from emu.core.core import Core
from emu.hooks.record import on_block, on_memory
from emu.hooks.tap import on_tapped_memory
from emu.native.state import address_of

#: Modelled latencies in cycles (MICRO 2009, Table 1: a hop to another core's cache, the shared cache's
#: bank, DRAM).
LATENCY_CORE, LATENCY_SHARED, LATENCY_MEMORY = 40, 12, 320


class Bus(Protocol):
    """What keeps the cores' private memories coherent. line: bytes of what it moves at a time.

    Its kernels are those of `emu.bus.lines`; each core's hooks call them.
    """

    line: int

    def connect(self, core: Core, *, tapped: bool) -> None:
        """Install the hooks by which a core asks the bus. tapped: they also keep its accesses."""

    def watch(self, core: Core, lines: NDArray[np.uint64]) -> None:
        """Let accesses to these lines be counted (`emu.hooks.shared_access`)."""

    def image(self, pages: NDArray[np.int64] | None = None) -> NDArray[np.uint8]:
        """Home memory, made to hold what the bus would give now; of these pages only, if any are named."""


class LineBus:
    """The exact model: MESI per line, finite caches if asked for; a hook at each access.

    machine_rows: MACHINE[1]. core_rows: CORE[n]. home: uint8[], home memory.
    """

    def __init__(
        self,
        machine_rows: NDArray[Any],
        core_rows: NDArray[Any],
        home: NDArray[np.uint8],
        cache: CacheGeometry,
    ) -> None:
        self.line, self._cache = cache.line, cache
        self._machine, self._cores, self._home = machine_rows, core_rows, home
        n_lines = len(home) // cache.line
        self._sharers, self._owner = host_memory(n_lines * 8), host_memory(n_lines)
        self._ways: list[NDArray[np.uint64]] = []
        for name, value in (
            ("line_bytes", cache.line),
            ("n_lines", n_lines),
            ("home", address_of(home)),
            ("sharers", address_of(self._sharers)),
            ("owner", address_of(self._owner)),
            ("latency_core", LATENCY_CORE),
            ("latency_shared", LATENCY_SHARED),
            ("latency_memory", LATENCY_MEMORY),
        ):
            machine_rows[0][name] = value

    def connect(self, core: Core, *, tapped: bool) -> None:
        """Give the core its cache, and look at its blocks and at every access."""
        cache = self._cache
        ways = np.zeros((2, max(1, cache.sets * cache.ways)), np.uint64)
        self._ways.append(ways)
        core.row["sets"], core.row["ways"] = cache.sets, cache.ways
        core.row["tags"], core.row["stamps"] = address_of(ways[0]), address_of(ways[1])
        core.add_hook(uc.UC_HOOK_BLOCK, on_block)
        on_access = on_tapped_memory if tapped else on_memory
        core.add_hook(uc.UC_HOOK_MEM_READ | uc.UC_HOOK_MEM_WRITE, on_access)

    def watch(self, core: Core, lines: NDArray[np.uint64]) -> None:
        """Accesses to them leave the short path."""
        watch(core.line_state, lines)

    def image(self, pages: NDArray[np.int64] | None = None) -> NDArray[np.uint8]:
        """Home memory, updated in place."""
        if pages is None:
            image(self._machine, self._cores, self._home)
        else:
            image_of_pages(self._machine, self._cores, self._home, pages)
        return self._home
