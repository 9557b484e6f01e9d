"""Cores that run tasks: which task is on which core, and what the kernel does between their slices.

What the kernel gives a task in registers goes to the core's log, as a context header.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from corebraid.base.errors import UsageError
from corebraid.base.rows.record import CONTEXT_SIGNAL, CONTEXT_SWITCH
from corebraid.base.wording import Option, Phrase
from emu.board.board import Board
from emu.board.config import MachineConfig
from emu.board.faults import Fault
from emu.board.stepping import buffers_of
from emu.board.watcher import Watcher
from emu.bus.commit import FORCED_KERNEL, FORCED_PAGE, commit_core
from emu.bus.runs import begin_run
from emu.bus.sync_points import ENTER, LEAVE
from emu.hooks.room import WAITS_FOR_ROOM
from emu.hooks.shared_access import AHEAD
from emu.linux.ground.clock import CYCLE_NS, VirtualClock
from emu.linux.ground.failure import Exit, Unsupported
from emu.linux.ground.words import unsigned
from emu.linux.guest import Guest
from emu.linux.memory.bus_memory import CAUSE_CALL, CAUSE_EXIT, CAUSE_SIGNAL
from emu.linux.signals.delivery import Death, deliver
from emu.linux.stepping import Stepping, loses_page
from emu.linux.tasks.ending import let_go
from emu.linux.tasks.home_queue import HomeQueue
from emu.linux.tasks.run_queue import RunQueue
from emu.linux.tasks.running_time import RunningTime
from emu.linux.tasks.task import State, Task
from emu.native.state import CORE_AT, MACHINE_AT, address_of
from emu.schedule.shared_words import SharedWords
from emu.schedule.stepped import Stepped
from isa.table import Isa

#: Of a signal's handler: how far above where it began the stack pointer is when it asks to return, and how
#: far below it can be while it runs, at most.
_RETURNING, _MOST_STACK = 64, 8 << 20


class TaskBoard(Board):
    """Cores and tasks. Nothing of the guest runs before `boot`."""

    def __init__(self, config: MachineConfig, isa: Isa, watcher: Watcher) -> None:
        super().__init__(config, isa, watcher)
        self.queue = RunQueue(config.n_cores, config.seed)
        self._running_time = RunningTime(self.cores)
        self.killed: Death | None = None
        #: The core of the task that a signal has killed.
        self.killed_core: int | None = None
        self.note = ""
        #: Words to watch as soon as there are two tasks.
        self.shared: SharedWords | None = None
        #: The address of what is set when a stratum is to be cut.
        self.stratum_wanted = np.array(
            [address_of(self.machine_rows) + 8 * MACHINE_AT.want_stratum], np.uint64
        )
        #: Set while tasks run step by step.
        self.steps: Stepping | None = None
        #: The kernel may have something to do between slices, though no time for it has come.
        self._stirred = True
        #: Calls are counted before they are made.
        self._counts_calls = False

    def reseed(self, seed: int) -> None:
        """See `Board.reseed`; and which task runs on which core."""
        super().reseed(seed)
        self.queue.reseed(seed)

    def step_by_step(self, policy: Stepped) -> None:
        """From here on tasks run step by step, as `policy` has it. Raises UsageError: there are more than
        cores."""
        try:
            self.queue = HomeQueue(self.queue, list(self.process.tasks.values()))
        except Unsupported as refused:
            raise UsageError(refused.what, remedy=Phrase("give it more: ", Option("cores"))) from None
        self.steps = Stepping(policy, self.clock())
        self.take_no_time()
        if self.words[MACHINE_AT.tso]:
            self.empty_store_buffers()
            self.watcher.stores_committed()
            self.state["stepped"] = WAITS_FOR_ROOM
            self.core_rows["roomy"] = self.core_rows["committed"]
            policy.buffers = partial(buffers_of, self.cores)

    def count_calls(self) -> None:
        """Let slices end before system calls, which are shared events then. Before the first run."""
        self._counts_calls = True
        for core in self.cores:
            core.count_calls()

    def shared_event(self) -> bool:
        """See `Board.shared_event`."""
        return not self._counts_calls and super().shared_event()

    def clock(self) -> int:
        """See `Board.clock`; of a machine that runs step by step, until when time has gone on."""
        return super().clock() if self.steps is None else self.steps.cycles

    def boot(self, guest: Guest) -> None:
        """Take a guest that was loaded into home memory, and make its first task ready."""
        self.guest, self.kernel, self.process = guest, guest.kernel, guest.process
        space = self.process.space
        for core in self.cores:
            core.share_rights(space.rights)
        space.flush = self._flush
        self.process.on_new_task = self._adopt
        for task in self.process.tasks.values():
            self._adopt(task)
        self._dispatch()

    def _adopt(self, task: Task) -> None:
        task.on_runnable = self.queue.put
        self.queue.put(task)
        self._stirred = True
        if len(self.process.tasks) > 1 and self.shared is not None:
            self.watch(self.shared)

    def _flush(self) -> None:
        """Rights have shrunk: no core may use what it has filled."""
        for number, core in enumerate(self.cores):
            core.protect_again()
            if self.state["tso"] and (self.steps is None or loses_page(core, self.process.space.rights)):
                self._force(number, FORCED_PAGE)
                commit_core(self.core_rows, self.machine_rows, number)

    def _force(self, number: int, why: int) -> None:
        """Of a machine that runs step by step: what a core has buffered commits, though nobody chose that."""
        if self.steps is not None and self.cores[number].words[CORE_AT.buffered] and not self.over:
            self.words[MACHINE_AT.forced] |= why

    @property
    def over(self) -> bool:
        """The process has ended."""
        return self.process.exit_code is not None

    def runnable(self) -> list[int]:
        """Cores that run a task, ascending."""
        return [k for k in self._all if self.queue.current[k] is not None]

    def tasks(self) -> list[int]:
        """The task on each core, 0 for none."""
        return [0 if task is None else task.tid for task in self.queue.current]

    def slices_ran(self) -> None:
        """Tasks are charged for what they ran."""
        self._running_time.charge_all(self.queue.current)

    def now(self) -> int:
        """The guest's monotonic clock, brought up to date."""
        self.process.clock.advance(self.clock())
        return self.process.clock.monotonic()

    def between_slices(self) -> None:
        """Let stores commit and time pass, deliver signals, give cores to tasks."""
        if self.step_store_buffers():
            self.watcher.stores_committed()
        # Without a call tasks come and go, and get signals, by time alone.
        if self._stirred or self.steps is not None or self.kernel.minds_time():
            self._dispatch()

    def _dispatch(self) -> None:
        self.now()
        self._stirred = False
        queue, current, signals = self.queue, self.queue.current, self.process.signals
        # Timers of running time go off without a call of the task's.
        self._running_time.charge_all(current)
        self.kernel.expire()
        held = () if self.steps is None else self.steps.held
        for number, task in enumerate(current):
            if task is None or number in held:
                continue
            if signals.deliverable(task):
                self._stirred = True
                self._deliver(number, task)
            if (
                current[number] is task
                and not self.over
                and queue.must_yield(number, self.cores[number].count)
            ):
                self._unload(number)
                queue.put(task)
        for number in self._all:
            while current[number] is None and not self.over:
                following = queue.next_for(number)
                if following is None:
                    break
                self._load(number, following)
        self._stirred |= len(queue) > 0

    def drop_calls(self) -> None:
        """See `Board.drop_calls`: of system calls that have not returned."""
        for task in self.process.tasks.values():
            if task.call is not None:
                task.call.close()

    def let_time_pass(self) -> None:
        """See `Board.let_time_pass`: as if all cores had been slow."""
        if isinstance(self.process.clock, VirtualClock):
            self.wait_for_time()

    def timed(self, who: int) -> bool:
        """Whether a task waits with a timeout."""
        task = self.process.tasks.get(who)
        return task is not None and task.wait is not None and task.wait.deadline is not None

    def handles_signal(self, number: int) -> bool:
        """Whether the core's task runs a signal's handler. Those that were left by a jump are forgotten."""
        task = self.queue.current[number]
        frames = task.signals.frames if task is not None else []
        if frames:
            pointer = self.cores[number].read_register(self.isa.stack_pointer)
            while frames and not 0 <= frames[-1] + _RETURNING - pointer <= _MOST_STACK:
                frames.pop()
        return bool(frames)

    def wait_for_time(self) -> bool:
        """Jump to the next thing that happens by itself. False: there is none."""
        self._stirred = True
        deadline = self.kernel.next_deadline()
        if deadline is None:
            return False
        clock = self.process.clock
        if isinstance(clock, VirtualClock):
            if self.steps is not None:
                self.go_on_to(deadline)
                self.steps.passed = True
                return True
            cycles = self.clock() + -(min(0, self.now() - deadline) // CYCLE_NS)
            rows = self.core_rows
            for k in self._all:
                rows["latency"][k] += max(0, cycles - self.cores[k].cycles)
        else:
            clock.skip_to(deadline)
        return True

    def go_on_to(self, deadline: int) -> None:
        """Of a machine that runs step by step: time goes on, to a time of the guest's monotonic clock."""
        assert self.steps is not None
        self.steps.cycles = self.clock() + -(min(0, self.now() - deadline) // CYCLE_NS)
        self.now()

    # -- tasks and cores ---------------------------------------------------------------------------------

    def _load(self, number: int, task: Task) -> None:
        """Let a task run on an idle core, unless it ends or waits again first."""
        self._stirred = True
        core = self.cores[number]
        self.queue.begin(number, task, core.count)
        at = AHEAD if task.ahead else (core.count + 1) * task.at_event
        core.words[CORE_AT.shared_at], task.at_event, task.ahead = int(at), False, False
        task.fetch = core.context
        self._catch_up(number)
        self.meet(number, ENTER, task.tid)
        if task.call is not None:
            self.guest.memory.cause = CAUSE_CALL
            self.guest.facts.caller = task
            result = self._guarded(number, task, lambda: self.kernel.resume(task))
            if isinstance(result, int) and not task.changed:
                task.set_registers(self._with_result(task, result))
        if self.queue.current[number] is not task:
            return
        if task.state is not State.RUNNABLE:
            self.queue.end(number)
            return
        task.changed = True
        self._deliver(number, task, CONTEXT_SWITCH)

    def _with_result(self, task: Task, result: int) -> bytes:
        return self.isa.with_register(task.registers, self.process.abi.result, unsigned(result))

    def _catch_up(self, number: int) -> None:
        """A core that was idle, or slow, has waited until now."""
        core = self.cores[number]
        if self.steps is None:
            core.words[CORE_AT.latency] += max(0, self.clock() - core.cycles)
        self._running_time.begin(number)

    def _unload(self, number: int) -> Task:
        """Take the core's task off it, registers kept."""
        task = self.queue.current[number]
        assert task is not None
        core = self.cores[number]
        task.at_event = core.words[CORE_AT.shared_at] == core.count + 1
        task.ahead = core.words[CORE_AT.shared_at] == AHEAD
        self._settle(number)
        self.meet(number, ENTER, task.tid)
        task.context = task.registers
        task.fetch = None
        self._running_time.charge(number, task)
        begin_run(self.core_rows, self.machine_rows, number)
        return self.queue.end(number)

    def _settle(self, number: int) -> None:
        """The core's stores are to be seen by the kernel and by whoever runs the task next."""
        if self.words[MACHINE_AT.tso]:
            self._force(number, FORCED_KERNEL)
            self.empty_store_buffer(number)

    def _deliver(self, number: int, task: Task, flags: int = CONTEXT_SIGNAL) -> None:
        """Deliver signals to the task, and give the core the registers if they have changed."""
        signals = self.process.signals
        if signals.deliverable(task) or task.interruption is not None:
            handled = signals.deliverable(task)
            self._settle(number)
            self.meet(number, ENTER, task.tid)
            self.guest.memory.cause = CAUSE_SIGNAL
            interruption, task.interruption = task.interruption, None
            death = self._guarded(number, task, lambda: deliver(task, interruption))
            if isinstance(death, Death):
                self._die(number, death)
            elif handled and self.steps is not None:
                self.steps.doubts.add("a thread was interrupted by a signal")
            # A task that is killed before it has run on the core leaves its registers there all the same.
            if self.over and not (isinstance(death, Death) and task.changed):
                return
        self.meet(number, LEAVE, task.tid)
        if task.changed:
            core = self.cores[number]
            core.restore(task.registers)
            task.changed, task.context = False, None
            begin_run(self.core_rows, self.machine_rows, number)
            self.watcher.switched(number, flags, task.tid)
        else:
            task.context = None

    def _die(self, number: int, death: Death) -> None:
        self.killed, self.process.killed_by, self.killed_core = death, death.signal, number
        self.process.exit_code = 128 + death.signal
        if self.steps is not None:
            self.steps.doubts.add(
                "a signal ended the process: what others do right before that was not tried"
            )

    def _guarded(self, number: int, task: Task, serve: Callable[[], object]) -> object:
        """Run something of the kernel's; ends of tasks, and what cannot be emulated, are dealt with."""
        try:
            return serve()
        except Exit as ended:
            self._end_task(number, task, ended)
        except Unsupported as refused:
            self._refuse(number, refused.what)
        return None

    def _refuse(self, number: int, what: str) -> None:
        core = self.cores[number]
        code = core.memory[core.pc : core.pc + 16].tobytes() if core.pc < len(core.memory) else b""
        self.fault = Fault(number, core.count, core.pc, what, code)

    def _end_task(self, number: int, task: Task, ended: Exit) -> None:
        process = self.process
        self.guest.memory.cause = CAUSE_EXIT
        self._settle(number)
        if ended.whole:
            process.exit_code = ended.code
            return
        let_go(process, task)
        self._running_time.charge(number, task)
        task.state, task.changed = State.DEAD, False
        process.ended_cycles += task.cycles
        process.end(task)
        process.signals.leave(task)
        self.queue.end(number)
        if not process.tasks:
            process.exit_code = ended.code
