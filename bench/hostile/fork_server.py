"""Processes for cases, forked from one that has everything loaded, with limits of memory and time.

A process takes case after case. What ends it, or exceeds a limit, is the doing of the case that it has; the
next case has a new one. Forking is sound only from a process with one thread; `run_cases` sees to that before
each fork.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from socket import AF_UNIX, SOCK_SEQPACKET, socketpair

from bench.hostile.fork_child import NUMBER_BYTES, Work, serve, threads
from bench.hostile.judging import Ended
from bench.hostile.slot import Limits, Slot, in_memory

_SECONDS_BETWEEN_LOOKS = 0.1


def run_cases(
    numbers: Iterable[int],
    work: Work,
    ended: Callable[[int, Ended, str], None],
    folder: Path,
    jobs: int = 1,
    limits: Limits | None = None,
    turns: int = 1,
) -> None:
    """Run `work` for each number, `jobs` at a time. ended: told of each case: its number, how it ended, its
    note. turns: most cases that a process takes one after the other."""
    slots = [Slot(folder / f"slot-{k}") for k in range(jobs)]
    for slot in slots:
        slot.folder.mkdir(exist_ok=True)
    server = _Server(slots, work, limits or Limits(), turns)
    todo, idle, busy = iter(numbers), list(slots), []
    try:
        while True:
            while idle and (number := next(todo, None)) is not None:
                busy.append(slot := idle.pop())
                server.begin(slot, number)
            if not busy:
                return
            for slot, how in server.look(busy):
                ended(slot.number, how, slot.contents(slot.note).decode(errors="replace"))
                busy.remove(slot)
                idle.append(slot)
    finally:
        server.close()


class _Server:
    """The processes in some slots."""

    def __init__(self, slots: list[Slot], work: Work, limits: Limits, turns: int) -> None:
        self._slots, self._work, self._limits, self._turns = slots, work, limits, turns
        self._most = in_memory() + limits.memory
        self._poll = select.poll()

    def begin(self, slot: Slot, number: int) -> None:
        """Give a slot a case, and a process if it has none."""
        if not slot.pid:
            self._fork(slot)
        slot.begin(number)
        assert slot.line is not None
        # A process that has died meanwhile is seen by its end.
        with suppress(OSError):
            slot.line.send(number.to_bytes(NUMBER_BYTES, "little"))

    def _fork(self, slot: Slot) -> None:
        if threads() != 1:
            raise RuntimeError(f"a process with {threads()} threads cannot be forked")
        slot.line, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        slot.pid = os.fork()
        if slot.pid == 0:
            # Whoever holds the other end of a line keeps its process waiting.
            for one in self._slots:
                if one.line is not None:
                    one.line.close()
            serve(slot, theirs, self._work, self._limits, self._turns)
        theirs.close()
        with suppress(OSError):
            os.setpgid(slot.pid, slot.pid)
        slot.watched, slot.before = os.pidfd_open(slot.pid), 0
        for file in (slot.watched, slot.line.fileno()):
            self._poll.register(file, select.POLLIN)

    def look(self, busy: list[Slot]) -> list[tuple[Slot, Ended]]:
        """Wait a moment; the slots whose cases have ended, and how."""
        ready = {file for file, _ in self._poll.poll(_SECONDS_BETWEEN_LOOKS * 1000)}
        found = []
        for slot in busy:
            how = self._answer(slot) if slot.line and slot.line.fileno() in ready else None
            if how is None and slot.watched in ready:
                how = self._reap(slot)
            if how is None:
                slot.watch(self._most, self._limits)
            else:
                found.append((slot, how))
        return found

    def _answer(self, slot: Slot) -> Ended | None:
        """How a case ended whose process goes on."""
        assert slot.line is not None
        try:
            said = slot.line.recv(1)
        except OSError:
            said = b""
        if not said:
            # It ends, or is another program now.
            self._hang_up(slot)
            return None
        seconds = time.monotonic() - slot.began
        how = Ended(
            said[0], slot.contents(slot.out), slot.contents(slot.err), slot.stopped, seconds, slot.before
        )
        slot.before += 1
        return how

    def _hang_up(self, slot: Slot) -> None:
        if slot.line is not None:
            self._poll.unregister(slot.line.fileno())
            slot.line.close()
            slot.line = None

    def _reap(self, slot: Slot) -> Ended:
        """How a process ended."""
        self._hang_up(slot)
        self._poll.unregister(slot.watched)
        _, status, used = os.wait4(slot.pid, 0)
        os.close(slot.watched)
        # What it has started does not outlive it.
        with suppress(OSError):
            os.killpg(slot.pid, signal.SIGKILL)
        slot.pid = 0
        seconds = time.monotonic() - slot.began
        stopped = slot.stopped or ("memory limit" if used.ru_maxrss * 1024 > self._most else "")
        out, err = slot.contents(slot.out), slot.contents(slot.err)
        return Ended(os.waitstatus_to_exitcode(status), out, err, stopped, seconds, slot.before)

    def close(self) -> None:
        """End all processes, and give the slots' files back."""
        for slot in self._slots:
            if slot.pid:
                os.kill(slot.pid, signal.SIGKILL)
                self._reap(slot)
            for file in (slot.out, slot.err, slot.note):
                os.close(file)
