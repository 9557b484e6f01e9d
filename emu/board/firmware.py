"""The machine that firmware runs on: a board with devices, interrupts, timers and mail between cores."""

from __future__ import annotations

import numpy as np
from unicorn import unicorn_const as uc

from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.record import INPUT_RANDOM
from emu.board.board import Board, Stopped
from emu.board.config import MachineConfig
from emu.board.elf import Image
from emu.board.faults import FETCH_ACCESS, describe_exception, describe_fill
from emu.board.stepping import CoreSteps, buffers_of, take_step
from emu.board.stretch import NEVER, Calm
from emu.board.watcher import Watcher
from emu.bus.agents import step_dma, write_frame
from emu.bus.runs import end_run
from emu.bus.sync_points import ENTER, LEAVE
from emu.core.random_read import emulate_random_read
from emu.core.unfetch import give_back_fetch
from emu.devices.one_sided import step_transfers
from emu.devices.post import Post
from emu.devices.registers import CAUSE_TIMER
from emu.hooks.access import log_input
from emu.native.state import MACHINE_AT, address_of
from emu.schedule.policy import Scheduler, Slice
from emu.schedule.stepped import Stepped
from isa.table import Isa

__all__ = ["Machine", "Stopped"]

_DMA_WORDS_AT_ONCE = 32
#: Words that the put/get engine moves at most for one operation at once, and operations that it takes up.
_PUT_WORDS_AT_ONCE, _PUTS_AT_ONCE = 32, 4


class Machine(Board):
    """N cores, their devices, and a firmware image that all of them run."""

    def __init__(self, config: MachineConfig, isa: Isa, image: Image, watcher: Watcher) -> None:
        super().__init__(config, isa, watcher)
        self._parked: set[int] = set()
        #: Set while cores run step by step.
        self.steps: CoreSteps | None = None
        self.post = Post(self.machine_rows, config.n_cores, config.seed, config.mail_latency)
        self._load(image)
        names = ("timers", "interrupts", "dma_left", "transfers", "console_n", "want_stratum")
        machine = address_of(self.machine_rows)
        words = [machine + 8 * getattr(MACHINE_AT, name) for name in names] + self.post.addresses
        self._calm = Calm(np.array(words, np.uint64), [NEVER] * config.n_cores)

    def _load(self, image: Image) -> None:
        for segment in image.segments:
            self.home[segment.address : segment.address + len(segment.data)] = np.frombuffer(
                segment.data, np.uint8
            )
            first, last = segment.address // PAGE_BYTES, (segment.address + segment.size - 1) // PAGE_BYTES
            for core in self.cores:
                core.page_rights[first : last + 1] |= np.uint8(segment.flags & 7)
        for number, core in enumerate(self.cores):
            context = bytes(self.isa.context_bytes)
            arguments = zip(self.isa.arguments, (number, self.config.n_cores), strict=True)
            for name, value in (
                *self.isa.reset,
                *arguments,
                (self.isa.program_counter, image.entry),
            ):
                context = self.isa.with_register(context, name, value)
            core.restore(context)

    def step_by_step(self, policy: Stepped) -> None:
        """From here on cores run step by step, as `policy` has it. Nothing has run yet."""
        self.steps = CoreSteps(policy)
        self.state["stepped"] = 1
        if self.words[MACHINE_AT.tso]:
            policy.buffers = self.buffers
        self.take_no_time()

    def buffers(self) -> tuple[list[int], list[int]]:
        """Cores that wait until their store buffers are empty, and cores whose buffers hold stores."""
        return buffers_of(self.cores)

    # -- running -------------------------------------------------------------------------------------

    def runnable(self) -> list[int]:
        """Cores that do not wait, ascending."""
        resting = self.post.resting
        if not self._parked and not resting:
            return self._all
        return [k for k in self._all if k not in self._parked and not resting >> k & 1]

    def turn(self, piece: Slice, length: int, scheduler: Scheduler, begun: int | None = None) -> None:
        """One slice of a core."""
        if self.steps is not None:
            take_step(self, self.steps, piece, length)
            return
        stopped = self.run_slice(piece.core, length, exact=piece.exact, events=piece.events, begun=begun)
        self.watcher.ran(piece.core, failed=stopped is Stopped.FAULT)

    def calm(self) -> Calm | None:
        """As long as no device has anything to do, nothing is printed and no core waits for mail."""
        return self._calm if self.undisturbed() and not self.post.resting else None

    def undisturbed(self) -> bool:
        """Whether no device has anything to do that happens between slices."""
        words = self.words
        waits = words[MACHINE_AT.timers] | words[MACHINE_AT.interrupts] | words[MACHINE_AT.dma_left]
        return not (waits | words[MACHINE_AT.transfers] or self.post.under_way)

    def stands_still(self) -> str:
        """Whether nothing can wake a core. Step by step a store may yet commit, somebody chooses which."""
        if self.steps is not None and self.words[MACHINE_AT.tso] and self.buffers()[1]:
            piece = self.steps.policy.next([], [core.count for core in self.cores])
            self.turn(piece, piece.length, self.steps.policy)
            return ""
        return "halted" if self.deadlocked() else ""

    def ended(self) -> str:
        """A core has failed, or powered the machine off."""
        if self.fault is not None:
            return "fault"
        return "power-off" if self.words[MACHINE_AT.power] else ""

    def _flushed(self) -> None:
        self.post.spill()

    def _ended_by_itself(self, number: int, status: int) -> Stopped | None:
        """The emulator returned without a hook's asking: hlt, a random-number instruction, a fault."""
        core = self.cores[number]
        exception = int(core.row["exception"])
        if exception:
            return self._fail(number, describe_exception(self.isa, exception - 1))
        if status == uc.UC_ERR_OK:
            return self._wait(number)
        if status == uc.UC_ERR_INSN_INVALID:
            read = emulate_random_read(core, self._random)
            if read is None:
                return self._fail(number, "an illegal instruction")
            if self.steps is not None:
                self.steps.doubts.add("an instruction gave random numbers")
            log_input(
                core.row, INPUT_RANDOM, np.uint64(read.count), np.uint64(1), np.uint64(read.value), read.size
            )
            return None
        if core.row["fault_access"] == FETCH_ACCESS and core.ran_out_of_page():
            core.row["fault_access"] = 0
            return None
        # Before it is forgotten what was refused.
        self._take_back(number)
        return self._fail(number, describe_fill(core))

    def withdraw_fault(self, number: int) -> bool:
        """Let a core that has failed stand before the instruction that did: it runs once more, and fails
        again. Returns whether it does; else the machine has ended: what is refused is so once alone, and
        after a trap a core stands behind the instruction."""
        core = self.cores[number]
        assert self.fault is not None
        exception = int(core.row["exception"])
        if self.fault.refused or (exception and not core.isa.vectors.is_fault(exception - 1)):
            return False
        if exception:
            core.forget_exception()
        self.fault = None
        core.row["failed"], core.row["fault_access"] = 0, 0
        give_back_fetch(core.rows, self.machine_rows)
        return True

    def _wait(self, number: int) -> Stopped:
        core = self.cores[number]
        if self.state["power"]:
            return Stopped.POWER
        flags = core.read_register(self.isa.flags_register)
        core.row["parked"] = 1 if flags & self.isa.interrupt_enable else 2
        self._parked.add(number)
        return Stopped.IDLE

    # -- between slices ------------------------------------------------------------------------------

    def between_slices(self) -> None:
        """Let devices, mail, store buffers and timers go on, and cores take their interrupts."""
        if self.step_agents():
            self.watcher.agents_moved()
        self.step_mail()
        if self.step_store_buffers():
            self.watcher.stores_committed()
        self.raise_timers()
        for number in self.interrupted():
            if self.deliver_interrupt(number):
                self.watcher.interrupted(number)

    def step_agents(self) -> int:
        """Let the DMA and the put/get engine go on for a random number of words. Returns how many moved."""
        moved = 0
        if self.state["dma_left"]:
            words = self._random.randint(1, _DMA_WORDS_AT_ONCE)
            moved = int(step_dma(self.core_rows, self.machine_rows, words))
        return moved + self._step_transfers() if self.state["transfers"] else moved

    def _step_transfers(self) -> int:
        """Puts and gets: some operations, drawn at random, each for some words."""
        left, moved = self._random.randint(1, _PUT_WORDS_AT_ONCE), 0
        for _ in range(_PUTS_AT_ONCE):
            outstanding = int(self.state["transfers"])
            if not outstanding or left <= 0:
                break
            words = self._random.randint(1, left)
            number = self._random.randrange(outstanding)
            moved += int(step_transfers(self.core_rows, self.machine_rows, number, words))
            left -= words
        return moved

    def step_mail(self) -> None:
        """Deliver the messages between cores that are due; when no core can run, the next one."""
        if self.post.under_way:
            self.post.step(self.core_rows, idle=not self.runnable())

    def raise_timers(self) -> None:
        """Make timers that are due pending; when every core waits, time jumps to the first timer."""
        rows = self.core_rows
        if not self._parked and not self.state["timers"]:
            return
        resting = self.post.resting
        waiting = [k for k in self._all if resting >> k & 1 or (k in self._parked and rows["parked"][k] == 1)]
        if waiting:
            now = self.clock()
            if not self.runnable():
                due = [int(rows["timer_due"][k]) for k in waiting if rows["timer_period"][k]]
                now = max([now, min(due)]) if due else now
            for k in waiting:
                rows["latency"][k] += max(0, now - self.cores[k].cycles)
        for k, core in enumerate(self.cores):
            period = int(rows["timer_period"][k])
            if period and core.cycles >= int(rows["timer_due"][k]):
                rows["pending"][k] |= CAUSE_TIMER
                self.state["interrupts"] = 1
                rows["timer_due"][k] = core.cycles + period

    def interrupted(self) -> list[int]:
        """Cores with a pending interrupt, ascending."""
        if not self.state["interrupts"]:
            return []
        pending: list[int] = np.flatnonzero(self.core_rows["pending"]).tolist()
        self.state["interrupts"] = bool(pending)
        return pending

    def deliver_interrupt(self, number: int) -> bool:
        """Deliver the core's pending interrupt if it takes one now. True: its context has changed.

        The frame's two words are written by an agent, so that replay sees them as ordinary misses.
        """
        core, row = self.cores[number], self.cores[number].row
        if not row["pending"] or not row["handler"] or row["parked"] == 2:
            return False
        context = core.context()
        flags = self.isa.read(context, self.isa.flags_register)
        if not flags & self.isa.interrupt_enable:
            return False
        # SDM volume 3, 12.10: an interrupt waits until the store buffer is empty.
        self.empty_store_buffer(number)
        self.meet(number, ENTER)
        stack = self.isa.read(context, self.isa.stack_pointer) - self.isa.red_zone - 16
        if stack < 0 or not write_frame(
            self.core_rows, self.machine_rows, np.uint64(stack), np.uint64(flags), np.uint64(core.pc)
        ):
            frame = f"{stack & (1 << 64) - 1:#x}"
            self._fail(number, f"an interrupt whose frame at {frame} is not in aligned, writable memory")
            return False
        for name, value in (
            (self.isa.stack_pointer, stack),
            (self.isa.flags_register, flags & ~self.isa.interrupt_enable),
            (self.isa.program_counter, int(row["handler"])),
        ):
            context = self.isa.with_register(context, name, value)
        self.meet(number, LEAVE)
        core.restore(context)
        row["cause"] |= row["pending"]
        row["pending"], row["parked"] = 0, 0
        self._parked.discard(number)
        self.post.wake(number)
        end_run(row, self.state)
        return True

    def deadlocked(self) -> bool:
        """No core can run and nothing can wake one."""
        rows = self.core_rows
        if self.runnable() or self.post.under_way:
            return False
        return not any(
            rows["handler"][k] and (rows["timer_period"][k] or rows["pending"][k]) and self._interruptible(k)
            for k in range(len(rows))
        )

    def _interruptible(self, number: int) -> bool:
        """Whether the core, which waits, would take an interrupt."""
        if self.core_rows["parked"][number] or not self.post.resting >> number & 1:
            return bool(self.core_rows["parked"][number] == 1)
        return bool(self.cores[number].read_register(self.isa.flags_register) & self.isa.interrupt_enable)
