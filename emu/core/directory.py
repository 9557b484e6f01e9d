"""Who holds what of memory, a granule at a time; and home memory, which has what nobody holds alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.host_memory import host_memory
from emu.bus.lines import image, image_of_pages
from emu.native.state import address_of

#: Modelled latencies in cycles (MICRO 2009, Table 1: a hop to another core's cache, the shared cache's
#: bank, DRAM).
LATENCY_CORE, LATENCY_SHARED, LATENCY_MEMORY = 40, 12, 320


class Directory:
    """machine_rows: MACHINE[1]. core_rows: CORE[n]. home: uint8[], home memory. granule: bytes."""

    def __init__(
        self, machine_rows: NDArray[Any], core_rows: NDArray[Any], home: NDArray[np.uint8], granule: int
    ) -> None:
        self._machine, self._cores, self._home = machine_rows, core_rows, home
        n_lines = len(home) // granule
        self._sharers, self._owner = host_memory(n_lines * 8), host_memory(n_lines)
        for name, value in (
            ("line_bytes", granule),
            ("n_lines", n_lines),
            ("home", address_of(home)),
            ("sharers", address_of(self._sharers)),
            ("owner", address_of(self._owner)),
            ("latency_core", LATENCY_CORE),
            ("latency_shared", LATENCY_SHARED),
            ("latency_memory", LATENCY_MEMORY),
        ):
            machine_rows[0][name] = value

    def image(self, pages: NDArray[np.int64] | None = None) -> NDArray[np.uint8]:
        """Home memory, made to hold what the bus would give now; of these pages only, if any are named."""
        if pages is None:
            image(self._machine, self._cores, self._home)
        else:
            image_of_pages(self._machine, self._cores, self._home, pages)
        return self._home
