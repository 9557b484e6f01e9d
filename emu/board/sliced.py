"""What whoever runs slices of a machine's cores needs of it."""

from __future__ import annotations

from typing import Protocol

from emu.board.board import Stopped
from emu.board.watcher import Watcher
from emu.core.recorded import RecordedCore


class Sliced(Protocol):
    """A machine, see `emu.board.board.Board`."""

    cores: list[RecordedCore]
    words: memoryview
    watcher: Watcher

    def run_slice(
        self, number: int, length: int, *, exact: bool = True, events: int = 0, begun: int | None = None
    ) -> Stopped:
        """Run a core for about `length` instructions."""
