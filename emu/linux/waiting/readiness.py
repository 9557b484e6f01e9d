"""Files that others wait for: what `poll`, `select` and `epoll` share."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

from emu.linux.files.open_file import POLLIN, POLLOUT, OpenFile, Stat
from emu.linux.ground.wait import Reason, Wait, WaitQueue

#: More events of `poll` (poll(2)): normal and priority data.
POLLRDNORM, POLLRDBAND, POLLWRNORM, POLLWRBAND = 0x40, 0x80, 0x100, 0x200

#: For `announce`: nothing is ready, but what `next_deadline` tells has changed.
DEADLINE_CHANGED = 1 << 30


class AnonymousInodes:
    """Inode numbers of pipes and sockets: counted up, so that every run gives the same."""

    def __init__(self) -> None:
        self._last = 1000

    def next(self) -> int:
        """A number that no other has."""
        self._last += 1
        return self._last


class WaitableFile(OpenFile):
    """A file without a path that tells what changed, for edge-triggered epoll.

    mode: st_mode. last_change: POLL* bits that the latest `announce` was about. timed: its readiness may
    change by time alone; then `next_deadline` and `edges` tell of it. normal_data: with POLLIN and POLLOUT go
    the bits for normal data.
    """

    mode = 0o600
    normal_data = True
    timed = False

    def __init__(self, flags: int, inode: int) -> None:
        super().__init__(flags)
        self.inode = inode
        self.last_change = 0

    def announce(self, events: int) -> None:
        """`poll` may now tell something else about `events`; 0: about anything."""
        self.last_change = events
        self.changed.wake()

    def next_deadline(self) -> int | None:
        """When `poll` will change by itself: ns of the monotonic clock; None: never."""
        return None

    def edges(self) -> int:
        """A number that is another whenever time alone has made the file ready since."""
        return 0

    def receive_timeout(self) -> int | None:
        """Longest wait of a read, in ns; the read then fails with EAGAIN. None: for ever."""
        return None

    def send_timeout(self) -> int | None:
        """Longest wait of a write, in ns."""
        return None

    def stat(self) -> Stat:
        """What fstat tells."""
        return Stat(mode=self.mode, inode=self.inode)


class PlacelessFile(WaitableFile):
    """One that takes any position, and stays at its beginning."""

    def seek(self, offset: int, whence: int) -> int:
        """Always there."""
        return 0


def expand(events: int) -> int:
    """Poll bits with the bits for normal data that always go with POLLIN and POLLOUT."""
    return events | (POLLRDNORM if events & POLLIN else 0) | (POLLWRNORM if events & POLLOUT else 0)


def readiness(file: OpenFile) -> int:
    """All poll bits of a file."""
    events = file.poll()
    return events if isinstance(file, WaitableFile) and not file.normal_data else expand(events)


def earliest(files: Iterable[OpenFile], deadline: int | None) -> int | None:
    """The first of `deadline` and the moments when one of the files becomes ready by itself."""
    moments = [file.next_deadline() for file in files if isinstance(file, WaitableFile)]
    return min((moment for moment in (*moments, deadline) if moment is not None), default=None)


def queues_of(files: Iterable[OpenFile]) -> tuple[WaitQueue, ...]:
    """The queues to wait in for any of the files, each once."""
    return tuple(dict.fromkeys(file.changed for file in files))


def hold(files: Iterable[OpenFile]) -> None:
    """Keep files open though their descriptors may be closed: a call uses them, or they are being sent."""
    for file in files:
        file.references += 1


def release(files: Iterable[OpenFile]) -> None:
    """The end of `hold`."""
    for file in files:
        file.references -= 1
        if file.references <= 0:
            file.close()


@contextmanager
def held(files: Sequence[OpenFile]) -> Iterator[None]:
    """`hold` while a call waits: another task may close the descriptor meanwhile, as in Linux."""
    hold(files)
    try:
        yield
    finally:
        release(files)


def wait_for(
    file: OpenFile, deadline: int | None, what: str, events: int = POLLIN
) -> Generator[Wait, Reason, Reason]:
    """Wait until the file's readiness may have changed; returns why the wait ended. events: POLL* bits that
    it is for."""
    return (yield Wait((file.changed,), earliest((file,), deadline), what, files=((file, events),)))
