"""The machine: cores, bus, agents and devices put together, run slice by slice."""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum

import numpy as np
from numpy.typing import NDArray
from unicorn import unicorn_const as uc

from emu.agents import step_dma, write_frame
from emu.bus import coherent_image, end_run
from emu.commit import commit_between_slices, commit_core
from emu.data_access import log_input
from emu.device_kernels import CAUSE_TIMER
from emu.elf import Image
from emu.event import EVENT
from emu.faults import Fault, describe_exception, describe_fill
from emu.legality import is_illegal
from emu.machine_config import MachineConfig
from emu.one_sided import ENGINE, step_transfers
from emu.pages import host_memory
from emu.post import Post
from emu.rdrand import emulate_random_read
from emu.record import INPUT_RDRAND
from emu.recorded_core import RecordedCore
from emu.state import (
    CORE,
    MACHINE,
    PAGE_BYTES,
    RIGHT_EXECUTE,
    STOP_DECODE,
    STOP_FLUSH,
    STOP_POWER,
    STOP_SLICE,
    STOP_STALE,
    STOP_STRATUM,
    address_of,
)
from emu.store_buffer import drop_newest
from emu.undo import undo_stores
from isa.decode import Block
from isa.table import Isa

_CONSOLE_BYTES = 1 << 16
_AGENT_ROWS = 1 << 14
_DMA_WORDS_AT_ONCE = 32
#: Words that the put/get engine moves at most for one operation at once, and operations that it takes up.
_PUT_WORDS_AT_ONCE, _PUTS_AT_ONCE = 32, 4
_MOST_CORES = 64

#: Modelled latencies in cycles (MICRO 2009, Table 1: a hop to another core's cache, the shared cache's
#: bank, DRAM).
LATENCY_CORE, LATENCY_SHARED, LATENCY_MEMORY = 40, 12, 320


class Stopped(Enum):
    """Why a slice ended."""

    SLICE = "its length was reached"
    POWER = "the guest powered the machine off"
    IDLE = "the core waits"
    FAULT = "the guest failed"


class Machine:
    """N cores that share memory through the bus.

    `drain(number)` is called when a core's log must be emptied (`RecordedCore.take_log`).
    """

    def __init__(self, config: MachineConfig, isa: Isa, image: Image, drain: Callable[[int], None]) -> None:
        config.check()
        self.config, self.isa, self._drain = config, isa, drain
        self.fault: Fault | None = None
        self._all = list(range(config.n_cores))
        self._parked: set[int] = set()
        self._random = random.Random(f"devices/{config.seed}")
        self.core_rows = np.zeros(config.n_cores, CORE)
        self.machine_rows = np.zeros(1, MACHINE)
        self.state = self.machine_rows[0]
        self.home = host_memory(config.memory_bytes)
        self._make_bus()
        self.post = Post(self.machine_rows, config.n_cores, config.seed, config.mail_latency)
        self.cores = [self._make_core(k) for k in range(config.n_cores)]
        self._load(image)

    def _make_bus(self) -> None:
        line, n_lines = self.config.cache.line, self.config.memory_bytes // self.config.cache.line
        self._sharers = host_memory(n_lines * 8)
        self._owner = host_memory(n_lines)
        self._console = np.zeros(_CONSOLE_BYTES, np.uint8)
        self._input = np.frombuffer(self.config.input or b"\0", np.uint8).copy()
        self._agent_rows = np.zeros(_AGENT_ROWS, EVENT)
        self._engines = np.zeros(_MOST_CORES, ENGINE)
        for name, value in (
            ("line_bytes", line),
            ("n_lines", n_lines),
            ("home", address_of(self.home)),
            ("sharers", address_of(self._sharers)),
            ("owner", address_of(self._owner)),
            ("latency_core", LATENCY_CORE),
            ("latency_shared", LATENCY_SHARED),
            ("latency_memory", LATENCY_MEMORY),
            ("downgrade_bound", self.config.downgrade_bound),
            ("random", self._random.getrandbits(64)),
            ("console", address_of(self._console)),
            ("console_limit", _CONSOLE_BYTES),
            ("input", address_of(self._input)),
            ("input_n", len(self.config.input)),
            ("tso", 1 if self.config.store_buffer else 0),
            ("agent_rows", address_of(self._agent_rows)),
            ("agent_limit", _AGENT_ROWS - 2 * (_DMA_WORDS_AT_ONCE + _PUT_WORDS_AT_ONCE) - 2 * _MOST_CORES),
            ("engines", address_of(self._engines)),
        ):
            self.state[name] = value

    def _make_core(self, number: int) -> RecordedCore:
        config = self.config
        core = RecordedCore(
            self.core_rows, number, self.machine_rows, self.isa, config.memory_bytes, config.cache,
            config.store_buffer, config.tapped,
        )  # fmt: skip
        core.row["buffer_random"] = random.Random(f"store buffer/{config.seed}/{number}").getrandbits(64)
        return core

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

    # -- running -------------------------------------------------------------------------------------

    def runnable(self) -> list[int]:
        """Cores that do not wait, ascending."""
        resting = self.post.resting
        if not self._parked and not resting:
            return self._all
        return [k for k in self._all if k not in self._parked and not resting >> k & 1]

    def run_slice(self, number: int, length: int, *, exact: bool = True) -> Stopped:
        """Run a core for about `length` instructions: see `emu.scheduler.Slice`."""
        core = self.cores[number]
        core.row["exact"] = exact
        core.row["stop_at"] = core.count + length
        while True:
            status = core.run()
            reason = int(core.row["stop_reason"])
            if reason == STOP_DECODE:
                if self._refuses(number, core.learn_block()):
                    return Stopped.FAULT
            elif reason == STOP_STALE:
                core.forget_stale()
            elif reason == STOP_FLUSH:
                self._drain(number)
                self.post.spill()
                self.state["attention"] = self.state["power"] | self.state["want_stratum"]
            elif reason in (STOP_SLICE, STOP_STRATUM):
                return Stopped.POWER if self.state["power"] else Stopped.SLICE
            elif reason == STOP_POWER:
                return Stopped.POWER
            elif (stopped := self._ended_by_itself(number, status)) is not None:
                return stopped

    def _refuses(self, number: int, block: Block) -> bool:
        """Fail at a block that would run or be counted wrongly. It is named before it runs: the core stays at
        the block's first instruction."""
        core = self.cores[number]
        if block.unsupported >= 0:
            what = f"an instruction that would be computed wrongly: {block.unsupported_text}"
            self._fail(number, what, core.pc + block.unsupported)
            return True
        if block.unknown >= 0:
            end = int(core.row["block_address"]) + int(core.row["block_size"])
            code = core.memory[core.pc + block.unknown : end].tobytes()
            # An illegal one ends its block, and fails when the core gets there.
            if not is_illegal(code):
                what = f"an instruction that the decoder does not know: {code[:15].hex(' ')}"
                self._fail(number, what, core.pc + block.unknown)
                return True
        return False

    def _ended_by_itself(self, number: int, status: int) -> Stopped | None:
        """The emulator returned without a hook's asking: hlt, a random-number instruction, a fault."""
        core = self.cores[number]
        exception = int(core.row["exception"])
        if exception:
            return self._fail(number, describe_exception(exception - 1))
        if status == uc.UC_ERR_OK:
            return self._wait(number)
        if status == uc.UC_ERR_INSN_INVALID:
            read = emulate_random_read(core, self._random)
            if read is None:
                return self._fail(number, "an illegal instruction")
            log_input(
                core.row, INPUT_RDRAND, np.uint64(read.count), np.uint64(1), np.uint64(read.value), read.size
            )
            return None
        return self._fail(number, describe_fill(core))

    def _wait(self, number: int) -> Stopped:
        core = self.cores[number]
        if self.state["power"]:
            return Stopped.POWER
        flags = core.read_register(self.isa.flags_register)
        core.row["parked"] = 1 if flags & self.isa.interrupt_enable else 2
        self._parked.add(number)
        return Stopped.IDLE

    def _fail(self, number: int, what: str, pc: int | None = None) -> Stopped:
        core = self.cores[number]
        undo_stores(core.row)
        drop_newest(core.row, np.uint64(core.count))
        pc = core.pc if pc is None else pc
        code = core.memory[pc : pc + 16].tobytes() if pc < len(core.memory) else b""
        self.fault = Fault(number, core.count, pc, what, code)
        return Stopped.FAULT

    # -- between slices ------------------------------------------------------------------------------

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

    def step_store_buffers(self) -> bool:
        """Let stores commit, at random. Returns whether any may have (`RecordedCore.take_commits`)."""
        if not self.state["tso"]:
            return False
        return bool(commit_between_slices(self.core_rows, self.machine_rows))

    def empty_store_buffers(self) -> None:
        """All stores commit, core by core: the run is over."""
        for number in self._all:
            self.empty_store_buffer(number)

    def empty_store_buffer(self, number: int) -> None:
        """All stores of a core commit."""
        commit_core(self.core_rows, self.machine_rows, number)

    def clock(self) -> int:
        """The fastest core's cycle count."""
        return int((self.core_rows["count"] + self.core_rows["latency"]).max())

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

    # -- what the recorder takes out -----------------------------------------------------------------

    def take_console(self) -> bytes:
        """What the guest printed since the last call."""
        n = int(self.state["console_n"])
        self.state["console_n"] = 0
        return self._console[:n].tobytes()

    def agent_rows_from(self, first: int) -> NDArray[np.void]:
        """The agents' accesses from number `first` on since `take_agent_rows`, which keeps them: a view."""
        return self._agent_rows[first : int(self.state["agent_n"])]

    def take_agent_rows(self) -> NDArray[np.void]:
        """The agents' accesses since the last call, EVENT[n]."""
        n = int(self.state["agent_n"])
        self.state["agent_n"] = 0
        return self._agent_rows[:n].copy()

    def executable(self) -> NDArray[np.uint8]:
        """Of each page, nonzero if code may run from it."""
        return self.cores[0].page_rights & np.uint8(RIGHT_EXECUTE)

    def final_image(self) -> NDArray[np.uint8]:
        """Memory as the bus would give it now: home memory, updated in place."""
        coherent_image(self.machine_rows, self.core_rows, self.home)
        return self.home
