"""Open files: room for them, since of what cannot be opened Python, Numba and the linker say what they like,
or nothing; and what only one process may have."""

from __future__ import annotations

import fcntl
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


def locked(descriptor: int) -> bool:
    """Whether an open file or directory is ours alone from now on, for as long as it is open (flock(2)): not
    if another process has it. Where a file system has no locks nobody can tell, and it is."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
