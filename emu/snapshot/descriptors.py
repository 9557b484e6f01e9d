"""The files that a process has open, as they were at one moment."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
from itertools import pairwise

#: Where the copies are.
_FIRST_COPY = 512
#: Numbers that descriptors may have, at most, if there is no limit (fs.nr_open).
_MOST = 1 << 20


def _open_now() -> set[int]:
    return set(map(int, os.listdir("/proc/self/fd")))


def _of(one: int) -> tuple[int, int] | None:
    """Of which file a descriptor is; that two are of one opening of it cannot be seen. None: it is closed."""
    try:
        found = os.fstat(one)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _limit() -> int:
    """What is more than any descriptor."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else soft


class SavedDescriptors:
    """What is open now is open again, and nothing else, after each `restore`. apart: descriptors that are the
    host's own, at which nobody looks."""

    def __init__(self, apart: set[int]) -> None:
        self._copies: dict[int, int] = {}
        for one in _open_now() - apart:
            # What has listed them is gone by now.
            with contextlib.suppress(OSError):
                self._copies[one] = fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _FIRST_COPY)
        self._files = {one: _of(copy) for one, copy in self._copies.items()}
        known = sorted(apart | set(self._copies) | set(self._copies.values()))
        borders = pairwise([-1, *known, max([_limit(), *(one + 1 for one in known)])])
        #: (first, behind the last) of numbers that none of them has.
        self._gaps = [(one + 1, other) for one, other in borders if one + 1 < other]

    def close(self) -> None:
        """Nothing is restored any more."""
        for copy in self._copies.values():
            os.close(copy)

    def restore(self) -> None:
        """Close what was opened, open what was closed."""
        for first, end in self._gaps:
            os.closerange(first, end)
        for one, file in self._files.items():
            if _of(one) != file:
                os.dup2(self._copies[one], one, inheritable=False)
