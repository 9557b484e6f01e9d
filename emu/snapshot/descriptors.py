"""The files that a process has open, as they were at one moment."""

from __future__ import annotations

import contextlib
import fcntl
import os

#: Where the copies are.
_FIRST_COPY = 512


def _open_now() -> set[int]:
    return set(map(int, os.listdir("/proc/self/fd")))


def _same(one: int, other: int) -> bool:
    """Whether two descriptors are of one file; that both are of one opening of it cannot be seen."""
    try:
        ours, theirs = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)


class SavedDescriptors:
    """What is open now is open again, and nothing else, after each `restore`. apart: descriptors that are the
    host's own, at which nobody looks."""

    def __init__(self, apart: set[int]) -> None:
        self._copies: dict[int, int] = {}
        for one in _open_now() - apart:
            # What has listed them is gone by now.
            with contextlib.suppress(OSError):
                self._copies[one] = fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _FIRST_COPY)
        self._known = apart | set(self._copies) | set(self._copies.values())

    def close(self) -> None:
        """Nothing is restored any more."""
        for copy in self._copies.values():
            os.close(copy)

    def restore(self) -> None:
        """Close what was opened, open what was closed."""
        for one in _open_now() - self._known:
            with contextlib.suppress(OSError):
                os.close(one)
        for one, copy in self._copies.items():
            if not _same(one, copy):
                os.dup2(copy, one, inheritable=False)
