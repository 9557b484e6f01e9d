"""Who is told by a signal that a file has become ready. Source: fcntl(2), F_SETOWN, F_SETSIG; fs/fcntl.c."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Kinds of owners (F_SETOWN_EX).
OWNER_TID, OWNER_PID, OWNER_PGRP = 0, 1, 2
#: What has happened: si_code of the signal (asm-generic/siginfo.h).
POLL_IN, POLL_OUT, POLL_MSG, POLL_ERR, POLL_PRI, POLL_HUP = range(1, 7)
#: si_band of each (band_table in fs/fcntl.c).
BANDS = {POLL_IN: 0x41, POLL_OUT: 0x304, POLL_MSG: 0x440, POLL_ERR: 8, POLL_PRI: 0x82, POLL_HUP: 0x18}


@dataclass
class Owner:
    """Of an open file. kind: OWNER_*. number: of a task, process or group; 0: nobody. signal: 0: SIGIO,
    without anything about the file. fd: by which O_ASYNC was set. post: sends a signal about what has
    happened.
    """

    kind: int = OWNER_TID
    number: int = 0
    signal: int = 0
    fd: int = 0
    post: Callable[[Owner, int], None] = lambda owner, happened: None
