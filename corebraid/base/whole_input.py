"""What a guest reads, read whole before it starts: some inputs have no end."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from corebraid.base.errors import UsageError, reason_of, unless_short
from corebraid.base.wording import Option, Phrase

#: Most bytes, and how many are read at once.
_MOST, _AT_ONCE = 512 << 20, 1 << 20
_REMEDY = Phrase("check ", Option("input"))


def read_stream(file: BinaryIO, source: str) -> bytes:
    """All that comes from an open file. source: what it is called. Raises UsageError, OSError."""
    pieces, size = [], 0
    while piece := file.read(_AT_ONCE):
        pieces.append(piece)
        size += len(piece)
        if size > _MOST:
            expected = f"at most {_MOST >> 20}m"
            raise UsageError("the input is too long", expected=expected, where=source, remedy=_REMEDY)
    return b"".join(pieces)


def read_input_file(path: Path) -> bytes:
    """All that is in a file, a pipe or a device. Raises UsageError."""
    try:
        with path.open("rb") as file:
            return read_stream(file, str(path))
    except (OSError, ValueError) as error:
        unless_short(error)
        what = f"the input cannot be read ({reason_of(error)})"
        raise UsageError(what, where=str(path), remedy=_REMEDY) from None
