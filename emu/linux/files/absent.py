"""Paths that a guest asked for and that lead nowhere in its tree."""

from __future__ import annotations

import os
import posixpath

#: How many are kept, the first ones.
_MOST = 2000
#: Of the kernel's: the guest has its own, and no others can be given to it.
_KERNEL = ("/proc", "/sys", "/dev")
#: Of a system's: programs look there for what need not be.
_SYSTEM = ("/etc", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/var")


class AbsentPaths:
    """Each once, in the order in which they were asked for first."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}

    def note(self, path: str) -> None:
        """path: absolute, in the guest."""
        if len(self._paths) < _MOST:
            self._paths.setdefault(posixpath.normpath(path))

    def hidden(self) -> tuple[str, ...]:
        """Those that the host has: it could let the guest see them. Those of its system come last."""
        return tuple(sorted(filter(_is_hosts, self._paths), key=is_systems))


def is_systems(path: str) -> bool:
    """Whether a path is one of those where every program looks for what it may do without."""
    return _below(path, _SYSTEM)


def _below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _is_hosts(path: str) -> bool:
    if _below(path, _KERNEL):
        return False
    try:
        # What is neither cannot be given to a guest.
        return os.path.isfile(path) or os.path.isdir(path)
    except ValueError:
        return False
