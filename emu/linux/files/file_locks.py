"""Locks of whole files (flock(2)). They belong to open descriptions, so threads can exclude one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.linux.ground.wait import WaitQueue

if TYPE_CHECKING:
    from emu.linux.files.open_file import OpenFile


class FileLocks:
    """Who holds one file's locks. changed: woken whenever one is given back."""

    def __init__(self) -> None:
        self.changed = WaitQueue()
        self._holders: list[OpenFile] = []
        self._exclusive = False

    def acquire(self, file: OpenFile, exclusive: bool) -> bool:
        """Take the lock, or change the kind that is held. False: another has it; then `file` holds none."""
        self.release(file)
        if self._holders and (exclusive or self._exclusive):
            return False
        self._holders.append(file)
        self._exclusive = exclusive
        return True

    def release(self, file: OpenFile) -> None:
        """Give it back, if it is held."""
        held = [holder for holder in self._holders if holder is not file]
        if len(held) < len(self._holders):
            self._holders = held
            self.changed.wake()
