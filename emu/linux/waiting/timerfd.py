"""Timers that are read (timerfd_create(2)). They run on the guest's clock; nothing has to tick."""

from __future__ import annotations

import errno
import os

from emu.linux.files.open_file import POLLIN
from emu.linux.ground.clock import Clock
from emu.linux.ground.failure import Errno
from emu.linux.waiting.readiness import DEADLINE_CHANGED, PlacelessFile


class TimerFile(PlacelessFile):
    """One timer. realtime: it counts in time since 1970, else since the machine was started."""

    name = "anon_inode:[timerfd]"
    normal_data = False
    timed = True

    def __init__(self, clock: Clock, realtime: bool, flags: int, inode: int) -> None:
        super().__init__(os.O_RDWR | flags, inode)
        self._clock = clock
        self._realtime = realtime
        #: When it expires next, in its clock's ns; None: it is disarmed. The interval's ns, 0: once.
        self._expires: int | None = None
        self._interval = 0
        #: Counts reads and settings, for `edges`.
        self._epoch = 0

    def _now(self) -> int:
        return self._clock.realtime() if self._realtime else self._clock.monotonic()

    def _ticks(self) -> int:
        """Expirations since the last read."""
        if self._expires is None or (late := self._now() - self._expires) < 0:
            return 0
        return 1 + late // self._interval if self._interval else 1

    def set(self, value: int, interval: int, absolute: bool) -> None:
        """Arm: `value` and `interval` in ns; a value of 0 disarms."""
        self._interval = interval
        self._expires = None if not value else value if absolute else self._now() + value
        self._epoch += 1
        self.announce(DEADLINE_CHANGED)

    def remaining(self) -> tuple[int, int]:
        """(ns until it expires next, 0: it is disarmed or over; the interval)."""
        if self._expires is None:
            return 0, self._interval
        left = self._expires - self._now()
        if left <= 0:
            left = -(-left % self._interval) + self._interval if self._interval else 0
        return left, self._interval

    def read(self, n: int) -> bytes:
        """8 bytes: how often it has expired. Errno: EINVAL for less than 8, EAGAIN: not yet."""
        if n < 8:
            raise Errno(errno.EINVAL)
        ticks = self._ticks()
        if not ticks:
            raise Errno(errno.EAGAIN)
        assert self._expires is not None
        self._expires = self._expires + ticks * self._interval if self._interval else None
        self._epoch += 1
        return ticks.to_bytes(8, "little")

    def poll(self) -> int:
        """POLL* bits that hold now."""
        return POLLIN if self._ticks() else 0

    def next_deadline(self) -> int | None:
        """When it becomes readable, in ns of the monotonic clock."""
        if self._expires is None or self._ticks():
            return None
        return self._clock.monotonic() + self._expires - self._now()

    def edges(self) -> int:
        """One more for each expiration that was the first since a read."""
        return 2 * self._epoch + bool(self._ticks())

    def close(self) -> None:
        """Whoever watches it learns that it is gone."""
        self.changed.wake()
