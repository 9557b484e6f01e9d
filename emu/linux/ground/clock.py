"""The guest's time: modelled cycles, or the host's clock.

Virtual time runs on with the fastest core; while every task waits it jumps to the next deadline. The guest's
processor runs at 100 MHz, about what emulation reaches, so that programs which work for a time end soon.
"""

from __future__ import annotations

import time
from typing import Protocol

#: Nanoseconds of virtual time in a modelled cycle.
CYCLE_NS = 10
#: Virtual time begins at 2035-01-01 00:00:00 UTC, a second after the machine was started: later than any file
#: of the host, since programs distrust files from the future, and still in 32 bits of seconds.
_EPOCH_NS = 2_051_222_400 * 1_000_000_000
_SINCE_BOOT_NS = 1_000_000_000


class Clock(Protocol):
    """What time it is, in nanoseconds."""

    def monotonic(self) -> int:
        """Since the machine was started."""

    def realtime(self) -> int:
        """Since 1970."""

    def advance(self, cycles: int) -> None:
        """The fastest core has come to this cycle."""

    def skip_to(self, monotonic: int) -> None:
        """Nothing can happen before `monotonic`."""


class VirtualClock:
    """Time from cycles alone: the same in every run with the same seed."""

    def __init__(self) -> None:
        self._cycles = 0

    def advance(self, cycles: int) -> None:
        """The fastest core's cycle count is now `cycles`."""
        self._cycles = max(self._cycles, cycles)

    def monotonic(self) -> int:
        """Since the machine was started."""
        return _SINCE_BOOT_NS + self._cycles * CYCLE_NS

    @staticmethod
    def cycle_of(monotonic: int) -> int:
        """From which cycle on it is that late."""
        return -(-(monotonic - _SINCE_BOOT_NS) // CYCLE_NS)

    def realtime(self) -> int:
        """Since 1970."""
        return _EPOCH_NS + self.monotonic()

    def skip_to(self, monotonic: int) -> None:
        """Jump ahead."""
        self._cycles = max(self._cycles, self.cycle_of(monotonic))


class HostClock:
    """The host's clock; what the guest is told of it is in the recording."""

    def advance(self, cycles: int) -> None:
        """Host time does not depend on cycles."""

    def monotonic(self) -> int:
        """Since the host was started."""
        return time.monotonic_ns()

    def realtime(self) -> int:
        """Since 1970."""
        return time.time_ns()

    def skip_to(self, monotonic: int) -> None:
        """Sleep until then, at most a tenth of a second at once."""
        time.sleep(min(max(0, monotonic - time.monotonic_ns()), 100_000_000) / 1e9)
