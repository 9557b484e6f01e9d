"""Options of TCP and IP that are an int (tcp(7), ip(7)): what they are at first, and which values they take.

They are told as they were set, and change nothing. Defaults and bounds are those of Linux 6.18.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from emu.linux.ground.failure import Errno
from emu.linux.ground.words import as_int

_TCP, _IP = 6, 0
_MOST = (1 << 31) - 1


@dataclass(frozen=True)
class _Number:
    """default: as it is at first; `resets` sets that, too. least, most: others are EINVAL. flag: is told as 0
    or 1."""

    default: int = 0
    least: int = -_MOST - 1
    most: int = _MOST
    resets: int | None = None
    flag: bool = False


_FLAG = _Number(flag=True)
_BIT = _Number(0, 0, 1)
_COUNT = _Number(0, 0)
_NUMBERS = {
    _TCP: {
        1: _FLAG, 2: _Number(536, 88, 32_767, resets=0), 3: _FLAG, 4: _Number(7200, 1, 32_767),
        5: _Number(75, 1, 32_767), 6: _Number(9, 1, 127), 7: _Number(6, 1, 127),
        8: _Number(60, resets=0), 12: _Number(1, flag=True), 16: _BIT, 18: _COUNT, 23: _COUNT, 25: _Number(),
        27: _BIT, 30: _BIT, 34: _BIT, 36: _BIT, 37: _COUNT,
    },
    _IP: {
        2: _Number(64, 1, 255, resets=-1), 6: _FLAG, 7: _FLAG, 8: _FLAG, 10: _Number(1, 0, 5), 11: _FLAG,
        12: _FLAG, 13: _FLAG, 15: _FLAG, 18: _FLAG, 20: _FLAG, 21: _Number(0, 0, 255), 23: _FLAG, 24: _FLAG,
        26: _BIT, 33: _Number(1, -1, 255), 34: _Number(1, flag=True), 49: _Number(1, 0, 1), 51: _Number(),
    },
}  # fmt: skip
#: Options that are something else, and are kept as they come.
_OTHERS = {
    _TCP: {9, 10, 11, 13, 14, 17, 19, 20, 21, 22, 24, 26, 28, 29, 31, 32, 33, 35, 38, 42, 43, 44, 45, 46},
    _IP: {1, 3, 4, 5, 9, 14, 16, 17, 19, 22, 25, 32, *range(35, 49), 50, 52},
}


def checked(level: int, option: int, raw: bytes) -> bytes:
    """What an option that is set to `raw` tells from then on. Errno: ENOPROTOOPT (there is none), EINVAL."""
    number = _number(level, option)
    if number is None:
        return raw
    value = as_int(int.from_bytes(raw[:4], "little")) if len(raw) >= 4 else int.from_bytes(raw[:1], "little")
    if value == number.resets:
        value = number.default
    elif not number.least <= value <= number.most:
        raise Errno(errno.EINVAL)
    value = int(bool(value)) if number.flag else value
    return value.to_bytes(4, "little", signed=True)


def default(level: int, option: int) -> bytes:
    """What an option tells that was never set. Errno(ENOPROTOOPT)."""
    number = _number(level, option)
    return bytes(4) if number is None else number.default.to_bytes(4, "little", signed=True)


def _number(level: int, option: int) -> _Number | None:
    """None: it is not a number, or of another level, whose options are not looked at. Errno(ENOPROTOOPT)."""
    if level not in _NUMBERS:
        return None
    if option not in _NUMBERS[level] and option not in _OTHERS[level]:
        raise Errno(errno.ENOPROTOOPT)
    return _NUMBERS[level].get(option)
