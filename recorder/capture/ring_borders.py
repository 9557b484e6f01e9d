"""Where an interval of a ring begins: cores that have forgotten what they had received, and say so.

Their store buffers are empty there (MICRO 2009, section 3, has such checkpoints; it knows no store buffers).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.record import CONTEXT, CONTEXT_FORGOTTEN
from emu.board.board import Board
from emu.bus.losses import LOSS_LIMIT
from emu.bus.sync_points import ENTER, LEAVE


def forget_everything(
    board: Board, received: Sequence[NDArray[np.uint64]], write_losses: Callable[[], None]
) -> None:
    """Let all cores give back and forget what they have: home memory is all of memory then. received: of each
    core the pages of which it has received anything, uint64[n]. write_losses: called before there are too
    many losses."""
    for number, pages in enumerate(received):
        in_order = np.sort(pages)
        for start in range(0, len(in_order), LOSS_LIMIT):
            board.forget_pages(number, in_order[start : start + LOSS_LIMIT])
            write_losses()


def begin_core(board: Board, number: int, who: int) -> None:
    """Say in a core's log, which is empty, what its registers are. who: the task that it runs, 0 for none."""
    core = board.cores[number]
    unlisted = core.unlisted()
    context = core.context() + struct.pack(f"<{len(unlisted)}Q", *unlisted)
    core.append_record(CONTEXT, CONTEXT_FORGOTTEN, who, core.cycles, context)
    for way in (ENTER, LEAVE):
        board.meet(number, way, who)
