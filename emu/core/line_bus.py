"""Which bus a machine has, and which hooks that gives its cores."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from unicorn import unicorn_const as uc

from corebraid.base.compiled import CFunction
from corebraid.base.memory import DEVICE_BASE
from emu.bus.cache import CacheGeometry
from emu.bus.line_state import watch
from emu.core.core import Core
from emu.core.directory import Directory
from emu.hooks.fill import on_fill
from emu.hooks.record import on_block, on_memory
from emu.hooks.tap import on_tapped_memory
from emu.native.state import address_of


class Bus(Protocol):
    """What keeps the cores' private memories coherent. line: bytes of what it moves at a time. fill: the hook
    by which a core's TLB is filled.

    Its kernels are those of `emu.bus.lines`; each core's hooks call them.
    """

    line: int
    fill: CFunction

    def connect(self, core: Core, *, tapped: bool) -> None:
        """Install the hooks by which a core asks the bus. tapped: they also keep its accesses."""

    def map_devices(self, core: Core, page: NDArray[np.uint8]) -> None:
        """Let the core meet device registers. page: uint8[PAGE_BYTES], as it sees them."""

    def watch(self, core: Core, lines: NDArray[np.uint64]) -> None:
        """Let accesses to these lines be counted (`emu.hooks.shared_access`)."""

    def image(self, pages: NDArray[np.int64] | None = None) -> NDArray[np.uint8]:
        """Home memory, made to hold what the bus would give now; of these pages only, if any are named."""


class LineBus:
    """The exact model: MESI per line, finite caches if asked for; a hook at each access.

    machine_rows: MACHINE[1]. core_rows: CORE[n]. home: uint8[], home memory.
    """

    fill = on_fill

    def __init__(
        self,
        machine_rows: NDArray[Any],
        core_rows: NDArray[Any],
        home: NDArray[np.uint8],
        cache: CacheGeometry,
    ) -> None:
        self.line, self._cache = cache.line, cache
        self._directory = Directory(machine_rows, core_rows, home, cache.line)
        self._ways: list[NDArray[np.uint64]] = []

    def connect(self, core: Core, *, tapped: bool) -> None:
        """Give the core its cache, and look at its blocks and at every access."""
        cache = self._cache
        ways = np.zeros((2, max(1, cache.sets * cache.ways)), np.uint64)
        self._ways.append(ways)
        core.row["sets"], core.row["ways"] = cache.sets, cache.ways
        core.row["tags"], core.row["stamps"] = address_of(ways[0]), address_of(ways[1])
        core.add_hook(uc.UC_HOOK_BLOCK, on_block)
        on_access = on_tapped_memory if tapped else on_memory
        core.locate_when_asked()
        core.add_hook(uc.UC_HOOK_MEM_READ | uc.UC_HOOK_MEM_WRITE, on_access)

    def map_devices(self, core: Core, page: NDArray[np.uint8]) -> None:
        """Plain memory, of which each access is seen."""
        core.map_plain_page(DEVICE_BASE, page)

    def watch(self, core: Core, lines: NDArray[np.uint64]) -> None:
        """Accesses to them leave the short path."""
        watch(core.line_state, lines)

    def image(self, pages: NDArray[np.int64] | None = None) -> NDArray[np.uint8]:
        """Home memory, updated in place."""
        return self._directory.image(pages)
