"""What a forked process does: one case after the other, until it is told to end or is no longer as new.

A case that leaves threads, processes, many open files or much memory behind is the last one of its process.
Each case has limits of its own.
"""

from __future__ import annotations

import gc
import math
import os
import resource
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from socket import socket

from bench.hostile.slot import Limits, Slot

#: What a case does: (its number, an empty folder, a file for a note) to an exit code.
Work = Callable[[int, Path, int], int]
#: A number of a case, as it goes to a process; its exit code goes back in one byte.
NUMBER_BYTES = 8
#: Address space is no measure of memory: an emulator reserves 1 GiB for its code, a Linux guest's memory 64
#: GiB.
_MOST_SPACE = 1 << 42
#: By how much a process may have grown before it is given up: KiB, and open files.
_MOST_GROWTH, _MOST_FILES = 256 << 10, 64


def threads() -> int:
    """How many threads this process has."""
    return len(os.listdir("/proc/self/task"))


def serve(slot: Slot, line: socket, work: Work, limits: Limits, turns: int) -> None:
    """Run at most `turns` cases that come by `line`; ends this process. The last one's exit code is that of
    the process, those of others go back by `line`."""
    code = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_SPACE, _MOST_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        files, memory = _files(), _most_memory()
        for turn in range(1, turns + 1):
            number = line.recv(NUMBER_BYTES)
            if not number:
                os._exit(0)
            code = _one(slot, int.from_bytes(number, "little"), work, limits, last=turn == turns)
            if turn < turns:
                if _used_up(files, memory):
                    break
                line.send(bytes([code & 0xFF]))
    except BaseException:
        code = 1
        with suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code & 0xFF)


def _one(slot: Slot, number: int, work: Work, limits: Limits, *, last: bool) -> int:
    code = 1
    try:
        slot.clear()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for file, stream in ((nothing, 0), (slot.out, 1), (slot.err, 2)):
            os.dup2(file, stream)
        os.close(nothing)
        _limit(limits.seconds, last=last)
        code = work(number, slot.folder, slot.note)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
    with suppress(BaseException):
        sys.stdout.flush()
    with suppress(BaseException):
        sys.stderr.flush()
    return code


def _limit(seconds: float, *, last: bool) -> None:
    """So much processor time from now on. last: the process is killed a second later."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, soft + 1 if last else hard))


def _files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _used_up(files: int, memory: int) -> bool:
    """Whether the next case would not find this process as the last one did. files, memory: open files and
    KiB that it had at first."""
    if threads() != 1 or _has_children() or _most_memory() > memory + _MOST_GROWTH:
        return True
    if _files() > files + _MOST_FILES:
        gc.collect()
    return _files() > files + _MOST_FILES


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
