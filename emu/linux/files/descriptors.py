"""The process's descriptor table: numbers for open files."""

from __future__ import annotations

import errno

from emu.linux.files.open_file import OpenFile
from emu.linux.ground.failure import Errno
from emu.linux.ground.limits import RLIMIT_NOFILE, Limits


class Descriptors:
    """Open files by number, and which are closed on exec. limits: of the process."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._files: dict[int, OpenFile] = {}
        self._close_on_exec: set[int] = set()
        #: Numbers of files whose opening waits: nobody else gets them.
        self._reserved: set[int] = set()

    @property
    def limit(self) -> int:
        """Numbers are below it."""
        return self._limits.soft[RLIMIT_NOFILE]

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, number: object) -> bool:
        return number in self._files

    def get(self, number: int) -> OpenFile:
        """The file. Raises Errno(EBADF)."""
        file = self._files.get(number)
        if file is None:
            raise Errno(errno.EBADF)
        return file

    def add(self, file: OpenFile, cloexec: bool = False, least: int = 0) -> int:
        """Give a file the lowest free number from `least` on. Raises Errno(EMFILE)."""
        number = self._free(least)
        self._put(number, file, cloexec)
        return number

    def reserve(self) -> int:
        """The lowest free number, for a file that is still to be opened. Raises Errno(EMFILE)."""
        number = self._free(0)
        self._reserved.add(number)
        return number

    def give_back(self, number: int) -> None:
        """A reserved number is free again."""
        self._reserved.discard(number)

    def fill(self, number: int, file: OpenFile, cloexec: bool = False) -> int:
        """Give a file a reserved number, which is returned."""
        self._reserved.discard(number)
        self._put(number, file, cloexec)
        return number

    def replace(self, number: int, file: OpenFile, cloexec: bool = False) -> None:
        """Let `number` stand for a file, closing what it stood for (dup2). Raises Errno(EBADF, EBUSY)."""
        if not 0 <= number < self.limit:
            raise Errno(errno.EBADF)
        if number in self._reserved:
            raise Errno(errno.EBUSY)
        old = self._files.pop(number, None)
        self._put(number, file, cloexec)
        if old is not None:
            self._drop(old)

    def close(self, number: int) -> None:
        """Give a number up; the last one closes the file. Raises Errno(EBADF)."""
        file = self.get(number)
        del self._files[number]
        self._close_on_exec.discard(number)
        self._drop(file)

    def close_all(self) -> None:
        """The process ends."""
        for number in sorted(self._files):
            self.close(number)

    def closes_on_exec(self, number: int) -> bool:
        """FD_CLOEXEC. Raises Errno(EBADF)."""
        self.get(number)
        return number in self._close_on_exec

    def set_close_on_exec(self, number: int, on: bool) -> None:
        """Set FD_CLOEXEC. Raises Errno(EBADF)."""
        self.get(number)
        if on:
            self._close_on_exec.add(number)
        else:
            self._close_on_exec.discard(number)

    def items(self) -> list[tuple[int, OpenFile]]:
        """Numbers and files, ascending."""
        return [(number, self._files[number]) for number in sorted(self._files)]

    def _free(self, least: int) -> int:
        number = least
        while number in self._files or number in self._reserved:
            number += 1
        if number >= self.limit:
            raise Errno(errno.EMFILE)
        return number

    def _put(self, number: int, file: OpenFile, cloexec: bool) -> None:
        self._files[number] = file
        file.references += 1
        if cloexec:
            self._close_on_exec.add(number)
        else:
            self._close_on_exec.discard(number)

    @staticmethod
    def _drop(file: OpenFile) -> None:
        file.references -= 1
        if file.references <= 0:
            file.close()
