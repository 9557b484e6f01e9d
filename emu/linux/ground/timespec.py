"""Times as guest memory holds them: timespec and timeval of 64-bit ISAs (clock_gettime(2),
gettimeofday(2))."""

from __future__ import annotations

_SECOND = 1_000_000_000


def pack_timespec(nanoseconds: int) -> bytes:
    """A timespec."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    return seconds.to_bytes(8, "little", signed=True) + rest.to_bytes(8, "little")


def pack_timeval(nanoseconds: int) -> bytes:
    """A timeval."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    return seconds.to_bytes(8, "little", signed=True) + (rest // 1000).to_bytes(8, "little")
