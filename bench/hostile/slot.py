"""Where a case runs: a folder, files for what it prints, and the process that has it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket

#: What is kept of what a case prints.
_MOST_OUT = 8 << 20
_PATIENCE = 4
_SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class Limits:
    """memory: bytes in memory above those that the parent has. seconds: of processor time; of the clock
    four times as many, since a machine has other things to do."""

    memory: int = 2 << 30
    seconds: float = 30.0


def in_memory(process: int | str = "self") -> int:
    """Bytes that a process has in memory, 0 where it is gone."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


@dataclass
class Slot:
    """Its files are used again and again.

    pid: its process, 0: none. watched: that process as a file. line: the parent's end of a socket to it, None
    where it hears nothing more. before: cases that it has ended.
    """

    folder: Path
    out: int = field(default_factory=lambda: os.memfd_create("out"))
    err: int = field(default_factory=lambda: os.memfd_create("err"))
    note: int = field(default_factory=lambda: os.memfd_create("note"))
    number: int = -1
    pid: int = 0
    watched: int = -1
    line: socket | None = None
    before: int = 0
    began: float = 0.0
    looked: float = 0.0
    stopped: str = ""

    def begin(self, number: int) -> None:
        """From now on it has this case."""
        self.number, self.stopped, self.began = number, "", time.monotonic()
        self.looked = self.began

    def watch(self, most: int, limits: Limits) -> None:
        """Kill its process if the case takes more than it may. most: bytes that it may have in memory."""
        now = time.monotonic()
        if now - self.looked < _SECONDS_BETWEEN_LOOKS:
            return
        self.looked = now
        if now - self.began >= _PATIENCE * limits.seconds:
            self.stopped = "time limit"
        elif in_memory(self.pid) > most:
            self.stopped = "memory limit"
        if self.stopped:
            os.kill(self.pid, signal.SIGKILL)

    def contents(self, file: int) -> bytes:
        """What is in one of its files."""
        size = os.fstat(file).st_size
        return os.pread(file, min(size, _MOST_OUT), 0)

    def clear(self) -> None:
        """Nothing is left in its files and folder."""
        for file in (self.out, self.err, self.note):
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
        with os.scandir(self.folder) as found:
            for one in found:
                if one.is_dir(follow_symlinks=False):
                    shutil.rmtree(one.path, ignore_errors=True)
                else:
                    os.unlink(one.path)
