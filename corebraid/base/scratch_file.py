"""Files without a name, in the folder for temporary files, for what would take too much memory."""

from __future__ import annotations

import os
import tempfile
from typing import NoReturn

from corebraid.base.errors import ShortageError, reason_of, unless_short

Bytes = bytes | bytearray | memoryview


class ScratchFile:
    """Bytes that are gone when it is closed. Its descriptor may be shared with forked processes.

    Raises ShortageError where there is no room, here and in `write`.
    """

    def __init__(self) -> None:
        try:
            self._file = tempfile.TemporaryFile(prefix="corebraid-", buffering=0)  # noqa: SIM115
        except OSError as error:
            _no_room(error)

    def fileno(self) -> int:
        """Its descriptor."""
        return self._file.fileno()

    def write(self, at: int, data: Bytes) -> int:
        """Put all of `data` at byte `at`; returns where it ends."""
        left = memoryview(data)
        while left:
            try:
                n = os.pwrite(self.fileno(), left, at)
            except OSError as error:
                _no_room(error)
            left, at = left[n:], at + n
        return at

    def read(self, at: int, size: int) -> bytearray:
        """`size` bytes that were written at byte `at`."""
        data = bytearray(size)
        left = memoryview(data)
        while left:
            n = os.preadv(self.fileno(), [left], at)
            if not n:
                raise EOFError(f"{size} bytes at {at} were not written")
            left, at = left[n:], at + n
        return data

    def close(self) -> None:
        """Give the disk space back."""
        self._file.close()


def _no_room(error: OSError) -> NoReturn:
    unless_short(error)
    raise ShortageError(
        f"no room for temporary files ({reason_of(error)})",
        where=_folder(),
        remedy="set TMPDIR to a folder with room",
    ) from None


def _folder() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return os.environ.get("TMPDIR", "/tmp")
