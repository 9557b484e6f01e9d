"""A process for each case, forked from one that has everything loaded, with limits of memory and time.

Forking is sound only from a process with one thread; `run_cases` sees to that before each fork.
"""

from __future__ import annotations

import math
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.hostile.judging import Ended

#: What a case does, in a process of its own: (its number, an empty folder, a file for a note) to an exit
#: code.
Work = Callable[[int, Path, int], int]
#: What is kept of what a case prints.
_MOST_OUT = 8 << 20


#: Address space is no measure of memory: an emulator reserves 1 GiB for its code, a Linux guest's memory 64
#: GiB.
_MOST_SPACE = 1 << 42
_SECONDS_BETWEEN_LOOKS = 0.1
_PATIENCE = 4


@dataclass(frozen=True)
class Limits:
    """memory: bytes in memory above those that the parent has. seconds: of processor time; of the clock
    four times as many, since a machine has other things to do."""

    memory: int = 2 << 30
    seconds: float = 30.0


@dataclass
class _Slot:
    """Where a case runs. Its files are used again and again."""

    folder: Path
    out: int = field(default_factory=lambda: os.memfd_create("out"))
    err: int = field(default_factory=lambda: os.memfd_create("err"))
    note: int = field(default_factory=lambda: os.memfd_create("note"))
    number: int = -1
    pid: int = 0
    watched: int = -1
    began: float = 0.0
    stopped: str = ""

    def watch(self, most: int, limits: Limits) -> None:
        """Kill it if it takes more than it may."""
        if time.monotonic() - self.began >= _PATIENCE * limits.seconds:
            self.stopped = "time limit"
        elif in_memory(self.pid) > most:
            self.stopped = "memory limit"
        if self.stopped:
            os.kill(self.pid, signal.SIGKILL)

    def contents(self, file: int) -> bytes:
        size = os.fstat(file).st_size
        return os.pread(file, min(size, _MOST_OUT), 0)

    def clear(self) -> None:
        for file in (self.out, self.err, self.note):
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def threads() -> int:
    """How many threads this process has."""
    return len(os.listdir("/proc/self/task"))


def in_memory(process: int | str = "self") -> int:
    """Bytes that a process has in memory, 0 where it is gone."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def run_cases(
    numbers: Iterable[int],
    work: Work,
    ended: Callable[[int, Ended, str], None],
    folder: Path,
    jobs: int = 1,
    limits: Limits | None = None,
) -> None:
    """Run `work` for each number, `jobs` at a time. ended: told of each case: its number, how it ended, its
    note."""
    limits = limits or Limits()
    slots = [_Slot(folder / f"slot-{k}") for k in range(jobs)]
    for slot in slots:
        slot.folder.mkdir(exist_ok=True)
    most = in_memory() + limits.memory
    poll, todo = select.poll(), iter(numbers)
    running: dict[int, _Slot] = {}
    while True:
        while slots and (number := next(todo, None)) is not None:
            slot = slots.pop()
            _begin(slot, number, work, limits)
            running[slot.watched] = slot
            poll.register(slot.watched, select.POLLIN)
        if not running:
            return
        ready = {file for file, _ in poll.poll(_SECONDS_BETWEEN_LOOKS * 1000)}
        for file, slot in list(running.items()):
            if file not in ready:
                slot.watch(most, limits)
                continue
            poll.unregister(file)
            del running[file]
            ended(slot.number, _end(slot, most), slot.contents(slot.note).decode(errors="replace"))
            slot.clear()
            slots.append(slot)


def _begin(slot: _Slot, number: int, work: Work, limits: Limits) -> None:
    if threads() != 1:
        raise RuntimeError(f"a process with {threads()} threads cannot be forked")
    slot.number, slot.began, slot.stopped = number, time.monotonic(), ""
    sys.stdout.flush()
    sys.stderr.flush()
    slot.pid = os.fork()
    if slot.pid == 0:
        _child(slot, work, limits)
    with suppress(OSError):
        os.setpgid(slot.pid, slot.pid)
    slot.watched = os.pidfd_open(slot.pid)


def _child(slot: _Slot, work: Work, limits: Limits) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for file, number in ((nothing, 0), (slot.out, 1), (slot.err, 2)):
            os.dup2(file, number)
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_SPACE, _MOST_SPACE))
        seconds = math.ceil(limits.seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = work(slot.number, slot.folder, slot.note)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
        with suppress(BaseException):
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _end(slot: _Slot, most: int) -> Ended:
    _, status, used = os.wait4(slot.pid, 0)
    os.close(slot.watched)
    # What it has started does not outlive it.
    with suppress(OSError):
        os.killpg(slot.pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - slot.began
    stopped = slot.stopped or ("memory limit" if used.ru_maxrss * 1024 > most else "")
    return Ended(code, slot.contents(slot.out), slot.contents(slot.err), stopped, seconds)
