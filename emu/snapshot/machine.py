"""A machine as it was at one moment, between two slices, and whatever runs it."""

from __future__ import annotations

from collections.abc import Iterable
from multiprocessing.connection import Connection

import unicorn

from corebraid.base.compiled import CFunction, Kernel
from emu.board.board import Board
from emu.bus.names import PAGE
from emu.code.blocks import BlockTable
from emu.core.placed_hooks import PlacedHooks
from emu.native.positions import Positions
from emu.schedule.shared_words import SharedWords
from emu.snapshot.arenas import Arenas
from emu.snapshot.cores import SavedCore
from emu.snapshot.descriptors import SavedDescriptors
from emu.snapshot.failure import UnsavableError
from emu.snapshot.objects import SavedObjects

#: Kept otherwise (`emu.snapshot.cores`), never changed, or no part of a machine's state.
_APART = (BlockTable, Positions, PlacedHooks, CFunction, Kernel, unicorn.Uc, SharedWords, Connection)


class Snapshot:
    """A machine on the line bus, where all its cores stand between two slices, as it is now.

    roots: what else is to be as it is now, with all that can be reached from it. descriptors: of files that
    are the host's own. Raises UnsavableError.
    """

    def __init__(self, board: Board, roots: Iterable[object], descriptors: set[int]) -> None:
        if board.config.bus == PAGE:
            # What a core receives of a page is told by how it differs from what it had.
            raise UnsavableError("a machine on the page bus")
        self._board = board
        self._cores = [SavedCore(core) for core in board.cores]
        self._objects = SavedObjects([board, *roots], _APART)
        self._arenas = Arenas(self._objects.mappings)
        self._descriptors = SavedDescriptors(descriptors | self._arenas.files)

    def close(self) -> None:
        """Nothing is restored any more."""
        self._arenas.close()
        self._descriptors.close()

    def restore(self) -> None:
        """All is as it was. What was made meanwhile must not be used any more."""
        learnt = [core.learnt() for core in self._cores]
        self._board.drop_calls()
        self._objects.restore()
        self._arenas.restore()
        for core, known in zip(self._cores, learnt, strict=True):
            core.restore(known, self._arenas)
        self._descriptors.restore()


__all__ = ["Snapshot", "UnsavableError"]
