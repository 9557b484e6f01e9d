"""Epoll instances (epoll(7)), after the kernel's own design: watched files put their entry on a ready list.

An edge is a wake of the file; a level-triggered entry goes back to the list's end each time it is reported,
which gives the same order of events as Linux.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from emu.linux.files.open_file import POLLERR, POLLHUP, POLLIN, POLLOUT, OpenFile
from emu.linux.ground.failure import Errno
from emu.linux.ground.wait import Reason
from emu.linux.waiting.readiness import (
    DEADLINE_CHANGED,
    PlacelessFile,
    WaitableFile,
    earliest,
    expand,
    readiness,
)

EPOLLEXCLUSIVE, EPOLLWAKEUP, EPOLLONESHOT, EPOLLET = 1 << 28, 1 << 29, 1 << 30, 1 << 31
_PRIVATE = EPOLLEXCLUSIVE | EPOLLWAKEUP | EPOLLONESHOT | EPOLLET
_WITH_EXCLUSIVE = EPOLLEXCLUSIVE | EPOLLWAKEUP | EPOLLET | expand(POLLIN | POLLOUT) | POLLERR | POLLHUP
#: Instances in a chain, the watched one included (EP_MAX_NESTS).
_MOST_NESTED = 5


class _Interest:
    """One watched file. A waiter in the file's queue that never leaves it."""

    def __init__(self, epoll: Epoll, fd: int, file: OpenFile, events: int, data: int) -> None:
        self.epoll, self.fd, self.file, self.data = epoll, fd, file, data
        self.events = events
        #: What `edges` of a file with time in it told last.
        self.seen = -1

    def end_wait(self, reason: Reason) -> None:
        """The file has changed."""
        self.epoll.notice(self)

    def happened(self) -> int:
        """Events to report now."""
        wanted = (self.events & ~_PRIVATE) | POLLERR | POLLHUP
        return readiness(self.file) & wanted if self.events & ~_PRIVATE else 0


class Epoll(PlacelessFile):
    """One instance."""

    name = "anon_inode:[eventpoll]"
    timed = True

    def __init__(self, inode: int) -> None:
        super().__init__(os.O_RDWR, inode)
        self._interests: dict[tuple[int, OpenFile], _Interest] = {}
        self._ready: dict[_Interest, None] = {}
        self._edges = 0

    def add(self, fd: int, file: OpenFile, events: int, data: int) -> None:
        """EPOLL_CTL_ADD. Errno: EEXIST, EPERM (cannot be watched), EINVAL, ELOOP."""
        self._check(file)
        if (fd, file) in self._interests:
            raise Errno(errno.EEXIST)
        if events & EPOLLEXCLUSIVE and (events & ~_WITH_EXCLUSIVE or isinstance(file, Epoll)):
            raise Errno(errno.EINVAL)
        if isinstance(file, Epoll) and (self in file.watched() or file.depth() >= _MOST_NESTED):
            raise Errno(errno.ELOOP)
        interest = _Interest(self, fd, file, events | POLLERR | POLLHUP, data)
        self._interests[fd, file] = interest
        file.changed.add(interest)
        self._look(interest)

    def modify(self, fd: int, file: OpenFile, events: int, data: int) -> None:
        """EPOLL_CTL_MOD. Errno: ENOENT, EINVAL."""
        self._check(file)
        interest = self._interest(fd, file)
        if (events | interest.events) & EPOLLEXCLUSIVE:
            raise Errno(errno.EINVAL)
        interest.events, interest.data = events | POLLERR | POLLHUP, data
        self._look(interest)

    def remove(self, fd: int, file: OpenFile) -> None:
        """EPOLL_CTL_DEL. Errno: ENOENT, EINVAL."""
        self._check(file)
        self._forget(self._interest(fd, file))

    def notice(self, interest: _Interest) -> None:
        """A watched file has changed: its entry becomes ready, unless that is not about events asked for."""
        file = interest.file
        if file.references <= 0:
            self._forget(interest)
            return
        change = expand(getattr(file, "last_change", 0))
        if change == DEADLINE_CHANGED:
            self.announce(DEADLINE_CHANGED)
            return
        wanted = interest.events & ~_PRIVATE
        if not wanted or (change and not change & wanted):
            return
        self._ready.setdefault(interest)
        self.announce(POLLIN)

    def collect(self, most: int) -> list[tuple[int, int]]:
        """At most so many of (events, data) to report now."""
        self._notice_time()
        reports: list[tuple[int, int]] = []
        again: list[_Interest] = []
        for interest in list(self._ready):
            if len(reports) == most:
                break
            del self._ready[interest]
            if interest.file.references <= 0:
                self._forget(interest)
            elif events := interest.happened():
                reports.append((events, interest.data))
                if interest.events & EPOLLONESHOT:
                    interest.events &= _PRIVATE
                elif not interest.events & EPOLLET:
                    again.append(interest)
        self._ready.update(dict.fromkeys(again))
        return reports

    def poll(self) -> int:
        """Readable while there is something to report."""
        self._notice_time()
        for interest in list(self._ready):
            if interest.file.references > 0 and interest.happened():
                return POLLIN
            del self._ready[interest]
        return 0

    def next_deadline(self) -> int | None:
        """When a timer among the watched files expires."""
        return earliest((interest.file for interest in self._timed()), None)

    def edges(self) -> int:
        """How often time alone has made something ready."""
        self._notice_time()
        return self._edges

    def watched(self) -> Iterator[Epoll]:
        """This and all instances that it watches, directly or not."""
        yield self
        for _, file in self._interests:
            if isinstance(file, Epoll):
                yield from file.watched()

    def interests(self) -> list[tuple[OpenFile, int]]:
        """The watched files, in the order in which they were added, and the POLL* bits asked for of each."""
        return [(one.file, one.events & ~_PRIVATE) for one in self._interests.values()]

    def depth(self) -> int:
        """Instances in the longest chain from here."""
        return 1 + max((file.depth() for _, file in self._interests if isinstance(file, Epoll)), default=0)

    def close(self) -> None:
        """Stop watching."""
        for interest in list(self._interests.values()):
            self._forget(interest)
        self.changed.wake()

    def _check(self, file: OpenFile) -> None:
        if file is self:
            raise Errno(errno.EINVAL)
        if not isinstance(file, WaitableFile) and not _pollable(file):
            raise Errno(errno.EPERM)

    def _interest(self, fd: int, file: OpenFile) -> _Interest:
        if (found := self._interests.get((fd, file))) is None:
            raise Errno(errno.ENOENT)
        return found

    def _forget(self, interest: _Interest) -> None:
        self._interests.pop((interest.fd, interest.file), None)
        self._ready.pop(interest, None)
        interest.file.changed.remove(interest)

    def _look(self, interest: _Interest) -> None:
        """After its events were set: ready at once if they hold now."""
        if isinstance(interest.file, WaitableFile):
            interest.seen = interest.file.edges()
        if interest.happened() and interest not in self._ready:
            self._ready[interest] = None
            self.announce(POLLIN)
        else:
            self.announce(DEADLINE_CHANGED)

    def _timed(self) -> list[_Interest]:
        return [
            interest
            for interest in self._interests.values()
            if isinstance(interest.file, WaitableFile) and interest.file.timed
        ]

    def _notice_time(self) -> None:
        """Entries of files that time alone has made ready since the last look."""
        for interest in self._timed():
            assert isinstance(interest.file, WaitableFile)
            edges = interest.file.edges()
            if edges != interest.seen:
                interest.seen = edges
                self._edges += 1
                self._ready.setdefault(interest)


def _pollable(file: OpenFile) -> bool:
    """Whether Linux lets epoll watch it: not regular files, directories and plain devices."""
    try:
        kind = stat.S_IFMT(file.stat().mode)
    except Errno:
        return True
    return kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFCHR)
