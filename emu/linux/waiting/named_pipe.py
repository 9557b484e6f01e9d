"""Named pipes (fifo(7)): a name in the tree for a pipe that lasts as long as somebody has it open."""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Generator

from emu.linux.files.nodes import Node
from emu.linux.files.open_file import Stat
from emu.linux.files.path_walk import Found
from emu.linux.files.private_layer import PrivateLayer
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.wait import Reason, Wait
from emu.linux.waiting.pipe import Pipe, PipeReader, PipeWriter, end_of


class NamedPipe(Node):
    """Its inode. Source of what opening it does: `fifo_open` in fs/pipe.c."""

    def __init__(self, status: Stat, layer: PrivateLayer) -> None:
        super().__init__(status)
        self._layer = layer
        self._pipe = Pipe()

    def now(self) -> int:
        """The time of a change."""
        return self._layer.now()

    def open(self, flags: int, path: str) -> PipeReader | PipeWriter:
        """One more end, at once; `await_partner` is for who has to wait then. Raises Errno(ENXIO, EINVAL)."""
        if not (self._pipe.readers or self._pipe.writers):
            # What nobody has read is gone with the last who had it open.
            self._pipe = Pipe()
        if flags & os.O_DIRECT:
            raise Errno(errno.EINVAL)
        pipe, waits = self._pipe, not flags & os.O_NONBLOCK
        if flags & os.O_ACCMODE == os.O_WRONLY and not waits and not pipe.readers:
            raise Errno(errno.ENXIO)
        end = end_of(pipe, flags, self.inode, self)
        end.name = path
        if isinstance(end, PipeReader) and not waits and not pipe.writers:
            end.not_yet = pipe.writes
        return end


def make_named_pipe(found: Found, mode: int) -> None:
    """mknod(2) with S_IFIFO, of a name that is free. Raises Errno."""
    found.parent.add_special(found.name, modes.S_IFIFO | mode, NamedPipe)


def lacks_partner(end: PipeReader | PipeWriter) -> bool:
    """Whether opening it so waits for somebody who opens the other side."""
    pipe = end.pipe
    return end.node is not None and not end.nonblocking and not (pipe.readers and pipe.writers)


def await_partner(end: PipeReader | PipeWriter) -> Generator[Wait, Reason, None]:
    """Wait until somebody has opened the other side, and be it closed again by then. Raises Interrupted; the
    end is closed then."""
    pipe, came = end.pipe, _others(end)
    other = "reading" if isinstance(end, PipeWriter) else "writing"
    # Two pipes may have had one name, one after the other.
    what = f"an open of {end.name}, a named pipe (inode {end.inode}) that nobody has open for {other}"
    pipe.opening.append(end)
    try:
        while _others(end) == came:
            if (yield Wait((end.changed,), None, what)) is Reason.SIGNAL and _others(end) == came:
                raise Interrupted
    except Interrupted:
        end.close()
        raise
    finally:
        pipe.opening.remove(end)


def _others(end: PipeReader | PipeWriter) -> int:
    """How many of the other side there have been."""
    return end.pipe.reads if isinstance(end, PipeWriter) else end.pipe.writes
