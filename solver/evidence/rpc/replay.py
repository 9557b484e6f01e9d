"""Controlled re-execution: all cores of a recorded program again, on a machine whose timing may be another.

Fagot and Chassin de Kergommeaux, section 3: an entry point is handed a request only when it is that request's
turn in the recorded history, a request that comes before its turn waits, and a test is answered as it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corebraid.base.errors import FormatError
from emu.board.config import MachineConfig
from emu.board.elf import Image, load_image
from emu.board.faults import Fault
from emu.board.firmware import Machine
from emu.board.run import run
from emu.board.watcher import Watcher
from emu.bus.cache import CacheGeometry
from emu.devices.mail_state import REQUEST
from emu.devices.post import DEFAULT_MAIL_LATENCY, EVERYTHING, Letter, Post, Script
from emu.schedule.scheduler import DEFAULT_SLICE, make_scheduler
from isa.table import Isa
from recorder.evidence.rpc.receipts import Receipts, describe_request
from recorder.files.frame import open_regular
from recorder.files.manifest import MOST_PROGRAM_BYTES, PROGRAM_ELF
from recorder.files.reader import Recording
from solver.evidence.rpc.equivalence import process_of, show_process

Rows = npt.NDArray[np.void]
Progress = Callable[[int], None]

#: A re-execution that goes on for this many times the recording's instructions, and some more, has lost its
#: way.
_PATIENCE, _PATIENCE_MORE = 20, 20_000_000


@dataclass(frozen=True)
class Conditions:
    """Under which a program runs again. latency: mean cycles that a message is under way. cache: None for
    that of the recording."""

    seed: int = 0
    schedule: str = "random"
    longest_slice: int = DEFAULT_SLICE
    cache: CacheGeometry | None = None
    latency: int = DEFAULT_MAIL_LATENCY
    input: bytes = b""


@dataclass(frozen=True)
class Waiting:
    """Why a re-execution stood still, line by line; unserved: (core, entry point) with requests that no core
    would ever take."""

    lines: tuple[str, ...]
    unserved: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Reexecution:
    """events: MAIL_EVENT[n] in the order in which they happened. reason: as in `recorder.files.manifest.End`.
    left:
    receipts of the script that did not come about. waiting: if it stood still."""

    events: Rows
    printed: bytes
    reason: str
    exit_code: int | None
    instructions: int
    left: int
    fault: Fault | None
    waiting: Waiting | None


def script_of(receipts: Receipts) -> Script:
    """What the mailboxes are to repeat."""
    return Script(dict(receipts.histories), dict(receipts.tests))


def program_of(recording: Recording) -> Image:
    """The recorded program. Raises FormatError if the recording has no copy of it, or another one."""
    path, manifest = recording.path / PROGRAM_ELF, recording.manifest
    if not path.exists():
        raise FormatError(
            "the recording has no copy of its program, which is executed again",
            where=str(recording.path),
            remedy="copy the recording again from its source, with program.elf",
        )
    with open_regular(path, MOST_PROGRAM_BYTES):
        # Whatever else stands there is not read.
        pass
    image, raw = load_image(path, manifest.instruction_set, manifest.memory)
    if hashlib.sha256(raw).hexdigest() != manifest.program.sha256:
        raise FormatError(
            "not the program that was recorded",
            where=str(path),
            remedy="copy the recording again from its source",
        )
    return image


def reexecute(
    recording: Recording, conditions: Conditions, script: Script | None, progress: Progress | None = None
) -> Reexecution:
    """Run the recorded program once more. script: what mail is forced to repeat, None to let it run freely.

    progress: called with the instructions so far. Raises UsageError, FormatError.
    """
    manifest = recording.manifest
    cache = conditions.cache or CacheGeometry.parse(manifest.cache)
    config = MachineConfig(
        manifest.n_cores,
        manifest.memory,
        cache,
        conditions.seed,
        input=conditions.input,
        store_buffer=manifest.store_buffer,
        mail_latency=conditions.latency,
    )
    run = _Run(config, manifest.instruction_set, program_of(recording), conditions)
    return run.to_end(script, _PATIENCE * sum(manifest.instructions) + _PATIENCE_MORE, progress)


class _Run(Watcher):
    """One execution in the making; nothing of it is recorded but its mail and what it prints."""

    def __init__(self, config: MachineConfig, isa: Isa, image: Image, conditions: Conditions) -> None:
        self._machine = Machine(config, isa, image, self)
        self._scheduler = make_scheduler(
            conditions.schedule, conditions.seed, config.n_cores, conditions.longest_slice
        )
        self._printed = bytearray()
        self._most = 0
        self._progress: Progress | None = None

    def before_slice(self, total: int) -> str:
        """Tell how far the run is. Ends it where it has lost its way."""
        if self._progress is not None:
            self._progress(total)
        return "limit" if total > self._most else ""

    def drain(self, number: int) -> None:
        """What a recorder would have written of a core is not kept."""
        self._machine.cores[number].take_log()
        self._machine.cores[number].take_commits()
        self._machine.take_syncs()
        if self._machine.state["console_n"]:
            self._printed += self._machine.take_console()

    def ran(self, number: int, *, failed: bool) -> None:
        """Empty the core's log."""
        self.drain(number)

    def stores_committed(self) -> None:
        """Empty all logs."""
        for number in range(len(self._machine.cores)):
            self.drain(number)

    def between_slices(self) -> None:
        """Empty the agents' log before it is full."""
        machine = self._machine
        if machine.state["agent_n"] > machine.state["agent_limit"] // 2:
            machine.take_agent_rows()

    def to_end(self, script: Script | None, most: int, progress: Progress | None) -> Reexecution:
        """Run until the guest ends, fails, stands still or has run for `most` instructions."""
        machine = self._machine
        machine.post.keep(EVERYTHING)
        if script is not None:
            machine.post.force(script)
        self._most, self._progress = most, progress
        reason, _ = run(machine, self._scheduler)
        machine.empty_store_buffers()
        self._printed += machine.take_console()
        return Reexecution(
            machine.post.take(),
            bytes(self._printed),
            reason,
            int(machine.state["exit_code"]) if reason == "power-off" else None,
            int(machine.core_rows["count"].sum()),
            machine.post.turns_left,
            machine.fault,
            waiting(machine.post, len(machine.cores)) if reason == "halted" else None,
        )


def _entry_of(letter: Letter) -> int:
    return letter.head >> 8 & 0xFF


def waiting(post: Post, n_cores: int) -> Waiting:
    """Who waits for what, where no core can go on."""
    lines: list[str] = []
    unserved: list[tuple[int, int]] = []
    due = post.due()
    for core in range(n_cores):
        held: dict[int, list[int]] = {}
        for letter in post.inbox(core):
            if letter.head >> 16 & 15 == REQUEST:
                held.setdefault(_entry_of(letter), []).append(letter.id)
        for entry, requests in sorted(held.items()):
            place = f"entry point {entry} of virtual processor {core}"
            who = ", ".join(f"process {show_process(process_of(number))}" for number in requests[:3])
            more = f" and {len(requests) - 3} more" if len(requests) > 3 else ""
            if not post.accepted(core) >> entry & 1:
                unserved.append((core, entry))
                lines.append(f"{place} is not served; {who}{more} waits there")
            elif (core, entry) not in due:
                lines.append(f"{place} has received all that the record knows; {who}{more} waits there")
    for (core, entry), identifier in due.items():
        if (core, entry) not in unserved:
            place = f"entry point {entry} of virtual processor {core}"
            lines.append(f"{place} waits for request {describe_request(identifier)}")
    if post.unknown_test is not None:
        number = post.unknown_test
        who = show_process(process_of(number))
        lines.append(
            f"process {who} tests request {describe_request(number)} once more than the record knows"
        )
    return Waiting(tuple(lines), tuple(unserved))
