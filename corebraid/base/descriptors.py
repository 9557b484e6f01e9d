"""Room for open files: what Python, Numba and the linker load takes some, and of what cannot be opened they
say what they like, or nothing."""

from __future__ import annotations

import os
from contextlib import ExitStack

from corebraid.base.errors import unless_short

_LEAST = 8


def check_room() -> None:
    """Raises ShortageError where 8 more files may not be open."""
    with ExitStack() as opened:
        try:
            for _ in range(_LEAST):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            unless_short(error)
            raise
