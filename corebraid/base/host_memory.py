"""Large zeroed memory of the host, committed as it is touched."""

from __future__ import annotations

import errno
import mmap

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import ShortageError
from corebraid.base.wording import Option, Phrase

#: What is wrong where the host has no memory left.
NO_MEMORY = "out of memory"


def host_memory(size: int) -> NDArray[np.uint8]:
    """`size` bytes of zeroed host memory that is committed page by page as it is touched.

    Raises ShortageError if the host has not so much.
    """
    remedy = Phrase("free some, or record with less ", Option("memory"), " or fewer ", Option("cores"))
    return np.frombuffer(_mapped(size, getattr(mmap, "MAP_NORESERVE", 0x4000), remedy), np.uint8)


def check_room(size: int) -> None:
    """For what ends the process where it cannot map `size` bytes. Raises ShortageError if it could not."""
    _mapped(size, 0, Phrase("free some, or use fewer ", Option("jobs"))).close()


def _mapped(size: int, flags: int, remedy: Phrase) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        found = "less than that"
        raise ShortageError(NO_MEMORY, expected=f"{size} bytes more", found=found, remedy=remedy) from None
