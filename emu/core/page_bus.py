"""The bus that gives rights to whole pages: recording at the emulator's own speed.

Which page a core may read or write stands in the page table by which the emulator fills its TLB; so a core
that has what it needs asks nobody. See `emu.bus.pages`, and docs/pages.md for what that costs and what it
cannot: finite caches, store buffers, and whatever looks at single accesses need the line bus.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from unicorn import unicorn_const as uc

from corebraid.base.memory import DEVICE_BASE, PAGE_BYTES
from emu.core.core import Core
from emu.core.directory import Directory
from emu.hooks.paged import (
    on_device_bytes,
    on_device_bytes_written,
    on_device_refused,
    on_held_block,
    on_held_fill,
)
from emu.native.state import address_of
from emu.native.unicorn import add_hook, forbid_page, map_device_page


class PageBus:
    """Rights to pages; a hook at each block, none at an access. Arguments: see `LineBus`."""

    line, fill = PAGE_BYTES, on_held_fill

    def __init__(self, machine_rows: NDArray[Any], core_rows: NDArray[Any], home: NDArray[np.uint8]) -> None:
        self._directory = Directory(machine_rows, core_rows, home, PAGE_BYTES)
        machine_rows[0]["paged"] = 1

    def connect(self, core: Core, *, tapped: bool) -> None:
        """Look at the core's blocks. Raises ValueError: accesses cannot be tapped."""
        if tapped:
            raise ValueError("on the page bus nobody sees an access")
        core.try_stores()
        core.add_hook(uc.UC_HOOK_BLOCK, on_held_block)

    def map_devices(self, core: Core, page: NDArray[np.uint8]) -> None:
        """Let every access to device registers be refused, so that a hook sees it whole and at its exact
        instruction, and let it happen all the same."""
        read, write = on_device_bytes, on_device_bytes_written
        map_device_page(core.handle, DEVICE_BASE, PAGE_BYTES, read, write, address_of(core.rows))
        forbid_page(core.handle, DEVICE_BASE, PAGE_BYTES)
        # There alone: a hook on accesses to other pages keeps the emulator from storing to them by itself.
        add_hook(
            core.handle, uc.UC_HOOK_MEM_READ_PROT | uc.UC_HOOK_MEM_WRITE_PROT, on_device_refused,
            address_of(core.rows), at=DEVICE_BASE, size=PAGE_BYTES,
        )  # fmt: skip

    def watch(self, core: Core, lines: NDArray[np.uint64]) -> None:
        """Raises ValueError: nobody counts accesses."""
        raise ValueError("on the page bus nobody sees an access")

    def image(self, pages: NDArray[np.int64] | None = None) -> NDArray[np.uint8]:
        """Home memory, updated in place."""
        return self._directory.image(pages)
