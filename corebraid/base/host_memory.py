"""Large zeroed memory of the host, committed as it is touched."""

from __future__ import annotations

import errno
import mmap

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase

#: What is wrong where the host has no memory left.
NO_MEMORY = "out of memory"


def host_memory(size: int) -> NDArray[np.uint8]:
    """`size` bytes of zeroed host memory that is committed page by page as it is touched.

    Raises UsageError if the host has not so much.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    try:
        return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        remedy = Phrase("free some, or record with less ", Option("memory"), " or fewer ", Option("cores"))
        found = "less than that"
        raise UsageError(NO_MEMORY, expected=f"{size} bytes more", found=found, remedy=remedy) from None
