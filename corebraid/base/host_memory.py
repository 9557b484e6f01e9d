"""Large zeroed memory of the host, committed as it is touched."""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray


def host_memory(size: int) -> NDArray[np.uint8]:
    """`size` bytes of zeroed host memory that is committed page by page as it is touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)
