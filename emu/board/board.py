"""What every machine has: cores on a coherent bus, run slice by slice."""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.host_memory import host_memory
from corebraid.base.rows.event import EVENT
from emu.board.config import MachineConfig
from emu.board.faults import Fault
from emu.board.stretch import Calm, Stretches, fastest, limits_of
from emu.board.watcher import Watcher
from emu.bus.commit import commit_between_slices, commit_core, commit_step
from emu.bus.lines import forget_pages
from emu.bus.losses import LossNotes
from emu.bus.names import PAGE
from emu.bus.sync_points import ROOM, SYNC_POINT, note_sync_of
from emu.core.half_done import note_half_done
from emu.core.legality import is_illegal
from emu.core.line_bus import Bus, LineBus
from emu.core.page_bus import PageBus
from emu.core.recorded import RecordedCore
from emu.core.running import take_back_stores
from emu.core.unfetch import give_back_fetch
from emu.devices.one_sided import ENGINE
from emu.native.state import (
    CORE,
    CORE_AT,
    MACHINE,
    MACHINE_AT,
    RIGHT_EXECUTE,
    STOP_CALL,
    STOP_DECODE,
    STOP_FLUSH,
    STOP_MISPLACED,
    STOP_POWER,
    STOP_SLICE,
    STOP_STRATUM,
    address_of,
    words_of,
)
from emu.schedule.policy import Scheduler, Slice
from emu.schedule.shared_words import SharedWords
from emu.schedule.stepped import Stepped
from isa.decoded import Block
from isa.table import Isa

_CONSOLE_BYTES = 1 << 16
_AGENT_ROWS = 1 << 14
#: What agents may add between two looks at how full their buffer is: the words of a page.
AGENT_SLACK = 1 << 10
_MOST_CORES = 64


class Stopped(Enum):
    """Why a slice ended."""

    SLICE = "its length was reached"
    POWER = "the guest powered the machine off"
    IDLE = "the core waits"
    FAULT = "the guest failed"
    KERNEL = "the core asks its kernel"


def _devices(seed: int) -> random.Random:
    return random.Random(f"devices/{seed}")


def _store_buffer(seed: int, number: int) -> int:
    return random.Random(f"store buffer/{seed}/{number}").getrandbits(64)


class Board:
    """Cores that share memory through the bus; what they run, and on what, is a subclass's.

    watcher: told what happens.
    """

    def __init__(self, config: MachineConfig, isa: Isa, watcher: Watcher) -> None:
        config.check()
        self.config, self.isa, self.watcher = config, isa, watcher
        self.fault: Fault | None = None
        self._all = list(range(config.n_cores))
        #: Somebody takes the sync points.
        self.meetings_matter = True
        self._random = _devices(config.seed)
        self.core_rows = np.zeros(config.n_cores, CORE)
        self.machine_rows = np.zeros(1, MACHINE)
        self.state = self.machine_rows[0]
        #: The same, faster (`MACHINE_AT`).
        self.words = words_of(self.machine_rows)
        self.home = host_memory(config.memory_bytes)
        self.bus = self._make_bus()
        self._make_buffers()
        self.losses = LossNotes(self.machine_rows)
        self.cores = [self._make_core(k) for k in range(config.n_cores)]

    def _make_bus(self) -> Bus:
        if self.config.bus == PAGE:
            return PageBus(self.machine_rows, self.core_rows, self.home)
        return LineBus(self.machine_rows, self.core_rows, self.home, self.config.cache)

    def _make_buffers(self) -> None:
        self._console = np.zeros(_CONSOLE_BYTES, np.uint8)
        self._input = np.frombuffer(self.config.input or b"\0", np.uint8).copy()
        self._agent_rows = host_memory(_AGENT_ROWS * EVENT.itemsize).view(EVENT)
        self._syncs = host_memory(ROOM * SYNC_POINT.itemsize).view(SYNC_POINT)
        self._engines = np.zeros(_MOST_CORES, ENGINE)
        for name, value in (
            ("downgrade_bound", self.config.downgrade_bound),
            ("random", self._random.getrandbits(64)),
            ("console", address_of(self._console)),
            ("console_limit", _CONSOLE_BYTES),
            ("input", address_of(self._input)),
            ("input_n", len(self.config.input)),
            ("tso", 1 if self.config.store_buffer else 0),
            ("agent_rows", address_of(self._agent_rows)),
            ("agent_limit", _AGENT_ROWS - AGENT_SLACK),
            ("engines", address_of(self._engines)),
            ("syncs", address_of(self._syncs)),
        ):
            self.state[name] = value

    def _make_core(self, number: int) -> RecordedCore:
        config = self.config
        core = RecordedCore(
            self.core_rows, number, self.machine_rows, self.isa, config.memory_bytes, self.bus,
            config.store_buffer, config.tapped, config.surroundings,
        )  # fmt: skip
        core.row["buffer_random"] = _store_buffer(config.seed, number)
        return core

    def reseed(self, seed: int) -> None:
        """From here on this seed decides how long devices take, and when stores leave the cores' buffers."""
        self._random = _devices(seed)
        self.state["random"] = self._random.getrandbits(64)
        for number, core in enumerate(self.cores):
            core.row["buffer_random"] = _store_buffer(seed, number)

    # -- what `emu.board.run` asks -------------------------------------------------------------------------

    def runnable(self) -> list[int]:
        """Cores that can run, ascending."""
        raise NotImplementedError

    def tasks(self) -> list[int] | None:
        """The task that runs on each core, 0 for none; None: there are no tasks."""
        return None

    def turn(self, piece: Slice, length: int, scheduler: Scheduler, begun: int | None = None) -> None:
        """One slice of a core, with what falls in it. length: instructions, in place of the slice's own.
        begun: it has stopped, with this status, but not ended."""
        raise NotImplementedError

    def step_by_step(self, policy: Stepped) -> None:
        """From here on tasks run step by step, as `policy` has it."""
        raise NotImplementedError

    def take_no_time(self) -> None:
        """From here on misses take no time: a core's clock is its own instructions, whatever others do."""
        for latency in ("latency_core", "latency_shared", "latency_memory"):
            self.state[latency] = 0

    def slices_ran(self) -> None:
        """A stretch has ended, perhaps within a slice."""

    def calm(self) -> Calm | None:
        """Until when nothing happens between slices; None: something may after the next one."""
        raise NotImplementedError

    def stands_still(self) -> str:
        """No core can run: what that is called, or nothing if one can after what happens by itself."""
        raise NotImplementedError

    def ended(self) -> str:
        """Why the guest has ended, or nothing: `recorder.files.manifest.End.reason`."""
        raise NotImplementedError

    def between_slices(self) -> None:
        """What happens to the cores while none runs."""
        raise NotImplementedError

    # -- running -------------------------------------------------------------------------------------

    def take_stretch(self, runnable: list[int], total: int, scheduler: Scheduler) -> int | None:
        """Slices one after the other, and the last of them to its end. total: instructions of all cores.
        Returns whose that was; None: one slice at a time."""
        if (ahead := scheduler.ahead()) is None or (room := self.watcher.room(total)) is None:
            return None
        if (calm := self.calm()) is None:
            return None
        lone = ahead.lone if len(runnable) == 1 else 1
        ran = self._stretches.run(ahead, runnable, self.tasks(), limits_of(room, calm, total, lone))
        ahead.use(len(ran.slices) + (ran.core >= 0))
        self.slices_ran()
        self.watcher.slices_ran(ran.slices)
        if ran.core < 0:
            return int(ran.slices[-1, 0])
        words, stop = self.cores[ran.core].words, self.words[MACHINE_AT.shared_stop]
        left = words[CORE_AT.stop_at] - words[CORE_AT.count]
        events = stop - self.words[MACHINE_AT.shared] if stop else 0
        piece = Slice(ran.core, left, bool(words[CORE_AT.exact]), events)
        self.turn(piece, left, scheduler, ran.status)
        return ran.core

    @cached_property
    def _stretches(self) -> Stretches:
        return Stretches(self.cores, self.core_rows, self.machine_rows)

    def run_slice(
        self, number: int, length: int, *, exact: bool = True, events: int = 0, begun: int | None = None
    ) -> Stopped:
        """Run a core for about `length` instructions: see `emu.schedule.policy.Slice`. begun: see `turn`."""
        core = self.cores[number]
        words = core.words
        if begun is None:
            words[CORE_AT.exact] = exact
            self.words[MACHINE_AT.shared_stop] = self.words[MACHINE_AT.shared] + events if events else 0
            words[CORE_AT.stop_at] = core.count + length
        stopped = self._run_until_stopped(number, begun)
        if stopped is Stopped.FAULT:
            words[CORE_AT.failed] = 1
        else:
            self._give_back_fetch(core.rows, self.machine_rows)
        return stopped

    @cached_property
    def _give_back_fetch(self) -> Callable[..., Any]:
        return give_back_fetch.like(self.cores[0].rows, self.machine_rows)

    def _run_until_stopped(self, number: int, status: int | None = None) -> Stopped:
        """status: with which it has stopped already."""
        core = self.cores[number]
        words = core.words
        while True:
            if status is None:
                status = core.run(renew=True)
            reason = words[CORE_AT.stop_reason]
            if reason == STOP_DECODE:
                if self._refuses(number, core.learn_block()):
                    return Stopped.FAULT
            elif reason == STOP_FLUSH:
                self.watcher.drain(number)
                self._flushed()
                self.state["attention"] = self.state["power"] | self.state["want_stratum"]
            elif reason in (STOP_SLICE, STOP_STRATUM):
                return Stopped.POWER if self.words[MACHINE_AT.power] else Stopped.SLICE
            elif reason == STOP_POWER:
                return Stopped.POWER
            elif reason == STOP_MISPLACED:
                core.remove_misplaced()
            elif reason == STOP_CALL:
                return Stopped.KERNEL
            elif not core.was_misled() and (stopped := self._ended_by_itself(number, status)) is not None:
                return stopped
            status = None

    def _refuses(self, number: int, block: Block) -> bool:
        """Fail at a block that would run or be counted wrongly. It is named before it runs: the core stays at
        the block's first instruction."""
        core = self.cores[number]
        if block.unsupported >= 0:
            what = f"an instruction that would be computed wrongly: {block.unsupported_text}"
            self._fail(number, what, core.pc + block.unsupported, refused=True)
            return True
        if block.unknown >= 0:
            end = int(core.row["block_address"]) + int(core.row["block_size"])
            code = core.memory[core.pc + block.unknown : end].tobytes()
            # An illegal one ends its block, and fails when the core gets there.
            if not is_illegal(self.isa, code):
                what = f"an instruction that the decoder does not know: {code[:15].hex(' ')}"
                self._fail(number, what, core.pc + block.unknown, refused=True)
                return True
        return False

    def _flushed(self) -> None:
        """A core's log has been emptied since a buffer was full."""

    def _ended_by_itself(self, number: int, status: int) -> Stopped | None:
        """The emulator returned without a hook's asking. None: go on with the slice."""
        raise NotImplementedError

    def _take_back(self, number: int) -> None:
        """The instruction at which the core has stopped has failed: what it stored is undone, or noted."""
        core = self.cores[number]
        if self.config.bus == PAGE:
            note_half_done(core)
        else:
            take_back_stores(core.rows)

    def _fail(self, number: int, what: str, pc: int | None = None, *, refused: bool = False) -> Stopped:
        core = self.cores[number]
        self._take_back(number)
        pc = core.pc if pc is None else pc
        code = core.memory[pc : pc + 16].tobytes() if pc < len(core.memory) else b""
        self.fault = Fault(number, core.count, pc, what, code, refused)
        return Stopped.FAULT

    def watch(self, shared: SharedWords) -> None:
        """Count accesses to these words from now on, in `MACHINE.shared`; without any system calls alone."""
        if self.state["watched"] or not (len(shared.words) or len(shared.events)):
            return
        self._watched = shared.bitmap(self.config.memory_bytes)
        self.state["watched"] = address_of(self._watched)
        lines = shared.lines(self.config.memory_bytes, self.bus.line)
        for core in self.cores:
            self.bus.watch(core, lines)

    def drop_calls(self) -> None:
        """End what waits in the middle of its work, before everything is put back: it would end then, and do
        so to what is half put back."""

    def let_time_pass(self) -> None:
        """Until the next timer goes off, where there are timers that nobody's running makes go off."""

    def shared_event(self) -> bool:
        """Count a system call. Returns whether the slice is to end before the next thing that is counted."""
        words = self.words
        if not words[MACHINE_AT.watched]:
            return False
        words[MACHINE_AT.shared] += 1
        return bool(words[MACHINE_AT.shared] >= words[MACHINE_AT.shared_stop] > 0)

    # -- between slices ------------------------------------------------------------------------------

    def step_store_buffers(self) -> bool:
        """Let stores commit, at random. Returns whether any may have (`RecordedCore.take_commits`)."""
        if not self.words[MACHINE_AT.tso] or self.words[MACHINE_AT.stepped]:
            return False
        return bool(commit_between_slices(self.core_rows, self.machine_rows))

    def empty_store_buffers(self) -> None:
        """All stores commit, core by core: the run is over."""
        for number in self._all:
            self.empty_store_buffer(number)

    def empty_store_buffer(self, number: int) -> None:
        """All stores of a core commit."""
        if self.cores[number].words[CORE_AT.buffered]:
            commit_core(self.core_rows, self.machine_rows, number)

    def commit_step(self, number: int, *, own: bool) -> None:
        """Between a core's steps: its oldest store commits, if `own`, and then those that nobody looks at."""
        commit_step(self.core_rows, self.machine_rows, number, int(own))

    def clock(self) -> int:
        """The fastest core's cycle count."""
        return int(self._fastest(self.core_rows))

    @cached_property
    def _fastest(self) -> Callable[..., Any]:
        return fastest.like(self.core_rows)

    def meet(self, number: int, way: int, who: int = 0) -> None:
        """An agent meets a core, which stands between two instructions: see `emu.bus.sync_points`."""
        if self.meetings_matter:
            self._note_sync(self.machine_rows, number, np.uint64(self.cores[number].count), way, who)

    @cached_property
    def _note_sync(self) -> Callable[..., Any]:
        return note_sync_of.like(self.machine_rows, 0, np.uint64(0), 0, 0)

    def forget_pages(self, number: int, pages: NDArray[np.uint64]) -> None:
        """Let a core give back what it holds of these pages (uint64[n], numbers), and all that it knew of
        them. Between two slices; its store buffer must be empty."""
        forget_pages(self.core_rows, self.machine_rows, number, pages)

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

    def drop_agents(self) -> None:
        """Nobody wants the agents' accesses, and the sync points, since they were last taken."""
        self.state["agent_n"] = self.state["sync_n"] = 0

    def forget_agents(self) -> None:
        """Nobody wants the agents' accesses, or the sync points. Before the first run."""
        self.meetings_matter, self.state["agent_rows"] = False, 0

    @property
    def syncs_wait(self) -> bool:
        """Whether there are so many sync points that they should be taken."""
        return bool(self.words[MACHINE_AT.sync_n] >= ROOM // 2)

    def take_syncs(self) -> NDArray[np.void]:
        """The sync points since the last call, SYNC_POINT[n]."""
        n = int(self.state["sync_n"])
        self.state["sync_n"] = 0
        return self._syncs[:n].copy()

    def executable(self) -> NDArray[np.uint8]:
        """Of each page, nonzero if code may run from it."""
        return self.cores[0].page_rights & np.uint8(RIGHT_EXECUTE)

    def final_image(self) -> NDArray[np.uint8]:
        """Memory as the bus would give it now: home memory, updated in place."""
        return self.bus.image()
