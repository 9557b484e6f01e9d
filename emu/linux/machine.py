"""The machine of a Linux guest: a board whose cores run tasks, and whose kernel serves them.

The kernel is an agent on the bus. What it gives a task in registers goes to the core's log: an input record
for the result of a call, a context header for everything else.
"""

from __future__ import annotations

import errno

import numpy as np
from numpy.typing import NDArray
from unicorn import unicorn_const as uc

from corebraid.base.rows.record import CONTEXT_CALL, CONTEXT_SIGNAL, INPUT_RANDOM
from emu.board.board import Stopped
from emu.board.config import MachineConfig
from emu.board.faults import FETCH_ACCESS, WRITE_ACCESS
from emu.board.stretch import Calm
from emu.board.watcher import Watcher
from emu.bus.sync_points import ENTER, LEAVE
from emu.core.random_read import emulate_random_read
from emu.hooks.access import log_input
from emu.hooks.call import finish_call
from emu.linux.calm import calm_of
from emu.linux.faults import Refused, force
from emu.linux.ground.failure import Errno, Unsupported
from emu.linux.ground.words import unsigned
from emu.linux.memory.bus_memory import CAUSE_CALL
from emu.linux.signals.delivery import Death
from emu.linux.signals.numbers import SIGKILL
from emu.linux.stepping import take_step
from emu.linux.task_board import TaskBoard
from emu.linux.tasks.deadlock import waits
from emu.linux.tasks.task import State, Task
from emu.linux.tasks.waiting import Waiting
from emu.linux.turn import take_turn
from emu.native.state import (
    CORE_AT,
    MACHINE_AT,
    RIGHT_EXECUTE,
    RIGHT_READ,
    RIGHT_WRITE,
    STOP_CALL,
)
from emu.schedule.policy import Scheduler, Slice
from isa.table import Isa

#: Modelled cycles of a system call; without them programs that wait for a time would wait for ever.
CALL_CYCLES = 1000

#: By kind of access: the right that it needs, if not that to read.
_NEEDS = {WRITE_ACCESS: RIGHT_WRITE, FETCH_ACCESS: RIGHT_EXECUTE}


class LinuxMachine(TaskBoard):
    """Cores, tasks, and the kernel that serves them."""

    def __init__(self, config: MachineConfig, isa: Isa, watcher: Watcher) -> None:
        super().__init__(config, isa, watcher)
        self._status = 0
        self._beyond = False

    # -- what `emu.board.run` and the recorder ask ---------------------------------------------------

    def turn(self, piece: Slice, length: int, scheduler: Scheduler, begun: int | None = None) -> None:
        """One slice of a core, with the kernel's work that falls in it."""
        if self.steps is None:
            take_turn(self, piece, length, scheduler, begun)
        else:
            take_step(self, self.steps, piece, length)

    def calm(self) -> Calm | None:
        """Until a task gives up its core, or something happens at its time."""
        return calm_of(self)

    def stands_still(self) -> str:
        """Whether no task can be woken."""
        return "" if self.wait_for_time() else "deadlock"

    def ended(self) -> str:
        """Something cannot be emulated, or the process has ended, by itself or by a signal."""
        if self.fault is not None:
            return "fault"
        return ("signal" if self.killed else "exit") if self.over else ""

    def final_image(self) -> NDArray[np.uint8]:
        """Memory as the bus would give it now, what was unmapped included."""
        for core in self.cores:
            core.share_rights(self.process.space.state)
        return self.bus.image(self.process.space.used_pages())

    def who_waits(self) -> list[Waiting]:
        """Who waits for whom, now that nobody can run."""
        home = self.final_image()

        def read(address: int, size: int) -> int:
            if not 0 <= address <= len(home) - size:
                return 0
            return int.from_bytes(home[address : address + size].tobytes(), "little")

        process = self.process
        ended = range(process.pid, process.next_tid)
        gone = set(ended) - process.tasks.keys()
        return waits(process.tasks.values(), read, gone, process.space.mappings.at)

    def meet_all(self) -> None:
        """What the kernel does from here on comes after all that has run: the process is over."""
        for number, task in enumerate(self.queue.current):
            if self.words[MACHINE_AT.tso]:
                self.empty_store_buffer(number)
            self.meet(number, ENTER, 0 if task is None else task.tid)

    def end_text(self) -> str:
        """Why the process was ended, if it did not end itself."""
        return f"{self.killed}; {self.note}" if self.killed and self.note else str(self.killed or "")

    # -- serving -----------------------------------------------------------------------------------------

    def _ended_by_itself(self, number: int, status: int) -> Stopped | None:
        core = self.cores[number]
        if status == uc.UC_ERR_INSN_INVALID and not core.row["exception"]:
            read = emulate_random_read(core, self._random)
            if read is not None:
                if self.steps is not None:
                    self.steps.doubts.add("an instruction gave random numbers")
                what, given = INPUT_RANDOM, np.uint64(read.value)
                log_input(core.row, what, np.uint64(read.count), np.uint64(1), given, read.size)
                return None
        self._status = status
        return Stopped.KERNEL

    def serve(self, number: int) -> None:
        """Serve the core, which has stopped for the kernel: a system call, a page, or a fault."""
        task = self.queue.current[number]
        assert task is not None
        self._stirred = True
        self.now()
        self._running_time.charge_all(self.queue.current)
        self.guest.facts.caller = task
        if self.cores[number].words[CORE_AT.stop_reason] == STOP_CALL:
            self._serve_call(number, task)
        else:
            self._serve_fault(number, task)

    def waits_before_refusal(self, number: int) -> bool:
        """Whether the core has stopped for an access that the memory map refuses. It stands before that
        instruction then, as if it had not been tried."""
        core = self.cores[number]
        words = core.words
        access = words[CORE_AT.fault_access]
        if words[CORE_AT.stop_reason] == STOP_CALL or not access or words[CORE_AT.exception]:
            return False
        address, need = words[CORE_AT.fault_address], _NEEDS.get(access, RIGHT_READ)
        if self.process.space.allows(address, need):
            return False
        self._take_back(number)
        words[CORE_AT.fault_access] = 0
        return True

    def _serve_call(self, number: int, task: Task) -> None:
        core = self.cores[number]
        self._settle(number)
        self.meet(number, ENTER, task.tid)
        call, *arguments = core.read_call()
        # The number is an int; a negative one is of no call (do_syscall_64 in arch/x86/entry).
        call &= 0xFFFFFFFF
        if self.kernel.tells_time(call):
            # Time goes on with the fastest core. One that lags behind would see it stand still.
            self._catch_up(number)
        core.words[CORE_AT.latency] += CALL_CYCLES
        self.guest.memory.cause = CAUSE_CALL
        result = self._guarded(number, task, lambda: self.kernel.call(task, call, tuple(arguments)))
        if self.queue.current[number] is not task or self.over:
            return
        if task.state is State.BLOCKED:
            self._unload(number)
            return
        if not isinstance(result, int):
            return
        if not task.changed:
            if task.interruption is None:
                finish_call(core.rows, np.uint64(call), np.uint64(unsigned(result)))
                task.context = None
            else:
                task.set_registers(self._with_result(task, result))
        self._deliver(number, task, CONTEXT_CALL if task.changed else CONTEXT_SIGNAL)

    def _serve_fault(self, number: int, task: Task) -> None:
        """A page that is to be made present, or a fault of the guest's own."""
        core = self.cores[number]
        self._take_back(number)
        words = core.words
        access, words[CORE_AT.fault_access] = words[CORE_AT.fault_access], 0
        vector, words[CORE_AT.exception] = words[CORE_AT.exception], 0
        if access and not vector and self._stores_wait(number) and self._bring_page(number, access):
            self.meet(number, LEAVE, task.tid)
            return
        self._settle(number)
        self.meet(number, ENTER, task.tid)
        if vector == core.isa.vectors.double_fault + 1:
            # The first fault fell where the slice ended, and nobody heard of it: once more, alone.
            core.forget_exception()
            self.meet(number, LEAVE, task.tid)
            return
        if access and not vector and self._bring_page(number, access):
            self.meet(number, LEAVE, task.tid)
            return
        if self.over or self.fault is not None:
            return
        if access == FETCH_ACCESS and not vector and core.ran_out_of_page():
            self.meet(number, LEAVE, task.tid)
            return
        refused = Refused(vector, access, self._beyond, self._status)
        self._guarded(number, task, lambda: force(core, task, refused))
        if not self.over and self.fault is None:
            self._deliver(number, task)
        core.withdraw_exception()

    def _stores_wait(self, number: int) -> bool:
        """Whether the core's stores stay in its buffer while a page is made present. Step by step, since who
        uses a page first is not tried: nobody may be told by what that does to others; and where shared
        events are counted, for others to come in between, unless the page may have other places."""
        watched = self.words[MACHINE_AT.watched] and not self.process.space.has_shared_files
        stay = self.steps is not None or watched
        return bool(stay and self.cores[number].words[CORE_AT.buffered])

    def _bring_page(self, number: int, access: int) -> bool:
        """Make the page that the fill asked for present, if it may be."""
        space, address = self.process.space, self.cores[number].words[CORE_AT.fault_address]
        self._beyond = False
        need = _NEEDS.get(access, RIGHT_READ)
        try:
            return address < space.size and space.present(address, need)
        except Errno as failure:
            if failure.number == errno.ENOMEM:
                self.note = "the guest needs more memory than --memory gives it"
                self._die(number, Death(SIGKILL, False))
            self._beyond = failure.number == errno.EFAULT
        except Unsupported as refused:
            self._refuse(number, refused.what)
        return False
