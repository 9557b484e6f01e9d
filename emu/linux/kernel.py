"""Serving system calls: finding the handler, driving those that block, ending waits that are over."""

from __future__ import annotations

import errno
import heapq
import struct
from collections import Counter
from collections.abc import Mapping
from types import GeneratorType

from emu.linux.ground.call import Call, FileBytes, Handler
from emu.linux.ground.failure import Errno, Interrupted, Unsupported
from emu.linux.ground.wait import Blocking, Reason, Wait
from emu.linux.signals.delivery import Interruption
from emu.linux.tasks.process import Process
from emu.linux.tasks.task import State, Task

#: A time that never comes, ns of the monotonic clock: 146 years. Programs that mean to wait for ever say so.
NEVER = 1 << 62

#: What no handler should let out.
_NOT_OURS = (
    ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, MemoryError, NameError,
    RuntimeError, TypeError, ValueError, struct.error,
)  # fmt: skip


class Kernel:
    """The calls of one process.

    table: by the calls' names. strict: an unknown call ends the run.
    unknown: calls that nobody serves, and how often each was made.
    """

    def __init__(self, process: Process, table: Mapping[str, Call], strict: bool) -> None:
        self.process, self._strict = process, strict
        self.unknown: Counter[str] = Counter()
        self.calls_made = 0
        #: A task has waited with a timeout, while there were others.
        self.timed = False
        self._calls = {
            n: (table[name], table[name].arity) for n, name in process.abi.calls.items() if name in table
        }
        self._timers: list[tuple[int, int, Task, Wait]] = []
        self._tickets = 0

    def call(self, task: Task, number: int, arguments: tuple[int, ...]) -> int | None:
        """Serve a call. Returns its result (a failure as a negative number), or None: the task waits.

        Raises Exit, Unsupported.
        """
        self.calls_made += 1
        self.process.caller = task
        task.call_number, task.interruption = number, None
        found = self._calls.get(number)
        if found is None:
            return self._unknown(number)
        call, arity = found
        shared = call.files is not FileBytes.UNTOUCHED and self.process.space.has_shared_files
        if shared:
            # Files and their shared mappings hold the same bytes, before and after.
            self.process.space.write_back()
        result = self._begin(task, call.handler, arguments[:arity])
        if shared and call.files is FileBytes.CHANGED:
            self.process.space.reload()
        return result

    def tells_time(self, number: int) -> bool:
        """Whether the call says what time it is."""
        found = self._calls.get(number)
        return found is not None and found[0].tells_time

    def _begin(self, task: Task, handler: Handler, arguments: tuple[int, ...]) -> int | None:
        try:
            answer = handler(task, *arguments)
        except Errno as failure:
            return -failure.number
        except _NOT_OURS as error:
            raise self._broken(task, arguments, error) from error
        if isinstance(answer, GeneratorType):
            return self._drive(task, answer, None)
        return int(answer)

    def _unknown(self, number: int) -> int:
        name = self.process.abi.calls.get(number, f"number {number}")
        self.unknown[name] += 1
        if self._strict:
            raise Unsupported(f"the system call {name}, which is not emulated (--strict)")
        return -errno.ENOSYS

    def resume(self, task: Task) -> int | None:
        """Go on with the call of a task whose wait is over; as `call`."""
        assert task.call is not None
        assert task.reason is not None
        self.process.caller = task
        reason = task.reason
        if reason is Reason.SIGNAL and not self.process.signals.deliverable(task):
            # Another task has taken it, or it is ignored by now.
            reason = Reason.WOKEN
        return self._drive(task, task.call, reason)

    def _drive(self, task: Task, handler: Blocking, reason: Reason | None) -> int | None:
        task.call = None
        try:
            wait = next(handler) if reason is None else handler.send(reason)
            while self.process.signals.deliverable(task):
                wait = handler.send(Reason.SIGNAL)
        except StopIteration as end:
            return int(end.value)
        except Errno as failure:
            return -failure.number
        except Interrupted as interrupted:
            task.interruption = Interruption(task.call_number, interrupted.restart, interrupted.always)
            return -errno.EINTR
        except _NOT_OURS as error:
            raise self._broken(task, (), error) from error
        task.call = handler
        task.begin_wait(wait)
        if wait.deadline is not None:
            self.timed |= len(self.process.tasks) > 1
            self._tickets += 1
            heapq.heappush(self._timers, (wait.deadline, self._tickets, task, wait))
        return None

    def _broken(self, task: Task, arguments: tuple[int, ...], error: Exception) -> Unsupported:
        """A mistake of this kernel's: better to end the run and to say so than to guess an answer."""
        name = self.process.abi.calls.get(task.call_number, f"number {task.call_number}")
        given = f"({', '.join(f'{value:#x}' for value in arguments)})" if arguments else ", which had waited"
        what = f"{type(error).__name__}: {error} in {name}{given}"
        return Unsupported(f"a defect of the emulated kernel: {what}; please report it")

    # -- time --------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """End the waits whose time is over, and let timers go off."""
        now = self.process.clock.monotonic()
        self.process.alarms.expire(now)
        while self._timers and self._timers[0][0] <= now:
            _, _, task, wait = heapq.heappop(self._timers)
            if task.wait is wait:
                task.end_wait(Reason.TIMEOUT)

    def minds_time(self) -> bool:
        """Whether something may happen by itself, at some time, or after some running time of a task."""
        return self.process.alarms.measures_tasks or self.next_deadline() is not None

    def next_deadline(self) -> int | None:
        """When something will happen by itself, ns of the monotonic clock; None: never."""
        while self._timers:
            _, _, task, wait = self._timers[0]
            if task.wait is wait and task.state is State.BLOCKED:
                break
            heapq.heappop(self._timers)
        due = [self._timers[0][0]] if self._timers else []
        alarm = self.process.alarms.next_deadline()
        soonest = min([*due, *([] if alarm is None else [alarm])], default=NEVER)
        return None if soonest >= NEVER else soonest
