"""Recording: run the machine slice by slice, write down what each core could not compute itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from emu.cache import CacheGeometry
from emu.elf import load_image
from emu.faults import Fault
from emu.fingerprint import Fingerprint
from emu.machine import Machine, Stopped
from emu.machine_config import MachineConfig
from emu.scheduler import DEFAULT_SLICE, is_named_policy, make_scheduler
from isa.errors import UsageError
from isa.table import Isa
from recorder.agent_codec import AGENT_OP, MARK
from recorder.digest import Digest
from recorder.evidence import OF_EVENTS, Collector, Guest, check_evidence, make_collector
from recorder.evidence_capture import EvidenceCapture
from recorder.image_file import nonzero_pages
from recorder.json_fields import Scalar
from recorder.manifest import PROGRAM_ELF, End, Manifest, Program
from recorder.record import (
    CONTEXT,
    CONTEXT_INTERRUPT,
    CONTEXT_START,
    DIGEST,
    END,
    END_FAULT,
    END_HALTED,
    END_LIMIT,
    END_POWER_OFF,
    STRATUM,
)
from recorder.strata_policy import StrataPolicy
from recorder.truth import TRUTH
from recorder.writer import RecordingWriter

#: Instructions, over all cores, after which every log is written out: what a killed recorder can lose.
_FLUSH_EVERY = 1_000_000
_TRUTH_ROWS = 1 << 14

Progress = Callable[[int], None]
Console = Callable[[bytes], None]


@dataclass(frozen=True)
class RecordOptions:
    """How to record. limit: instructions over all cores after which the recording ends, 0 for none.
    model: "sc" or "tso"; store_buffer: stores that a core's store buffer holds under TSO. evidence: further
    streams (recorder/evidence.py), and what is said of them. symbols: see `Guest`."""

    cores: int = 1
    seed: int = 0
    schedule: str = "random"
    longest_slice: int = DEFAULT_SLICE
    cache: CacheGeometry = field(default_factory=lambda: CacheGeometry(0, 0, 64))
    strata: StrataPolicy = field(default_factory=lambda: StrataPolicy("cycles", 100_000))
    memory_bytes: int = 64 << 20
    limit: int = 0
    input: bytes = b""
    model: str = "sc"
    store_buffer: int = 16
    evidence: tuple[str, ...] = ()
    evidence_options: dict[str, Scalar] = field(default_factory=dict)
    symbols: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of a recording. exit_code: the guest's; fault: where it failed, if it did."""

    manifest: Manifest
    fault: Fault | None

    @property
    def end(self) -> End:
        """Why the recording ended."""
        assert self.manifest.end is not None
        return self.manifest.end


_END_CODES = {"power-off": END_POWER_OFF, "fault": END_FAULT, "halted": END_HALTED, "limit": END_LIMIT}


class Capture:
    """One recording in the making. watchers: are handed all events as collectors are, and record nothing."""

    def __init__(
        self,
        program: Path,
        directory: Path,
        isa: Isa,
        options: RecordOptions,
        console: Console,
        watchers: tuple[Collector, ...] = (),
    ) -> None:
        config = MachineConfig(
            options.cores,
            options.memory_bytes,
            options.cache,
            options.seed,
            options.strata.bound if options.strata.kind == "downgrades" else 0,
            options.input,
            options.store_buffer if options.model == "tso" else 0,
            any(name in OF_EVENTS for name in options.evidence) or bool(watchers),
        )
        _check_model(options)
        check_evidence(options.evidence, options.model)
        config.check()
        self._scheduler = make_scheduler(options.schedule, options.seed, options.cores, options.longest_slice)
        image, raw = load_image(program, isa, options.memory_bytes)
        self._options, self._isa, self._console = options, isa, console
        self.machine = Machine(config, isa, image, self._drain)
        self._fingerprints = [Fingerprint(core, options.cache.line) for core in self.machine.cores]
        self._truth = np.zeros(_TRUTH_ROWS, TRUTH)
        self._truth_n = 0
        #: Where the truth says that each stream stands.
        self._stood = [0] * (2 * options.cores + 1)
        self._strata = 0
        self._next_stratum = options.strata.bound
        self._written_at = 0
        self.writer = RecordingWriter.create(
            directory, self._manifest(Program(program.name, hashlib.sha256(raw).hexdigest()))
        )
        (directory / PROGRAM_ELF).write_bytes(raw)
        guest = Guest(
            options.cores, options.cache.line, options.seed, self.machine.home, options.symbols,
            self.machine.executable(), self.machine.post,
        )  # fmt: skip
        make, said = make_collector, options.evidence_options
        self._evidence = EvidenceCapture(
            self.machine,
            [
                *(make(name, guest, self.writer.evidence(name), said) for name in options.evidence),
                *watchers,
            ],
        )

    def _schedule_digest(self) -> str:
        """Of an explicit schedule's bytes, since they decide the run; empty for the other policies."""
        if is_named_policy(self._options.schedule):
            return ""
        return hashlib.sha256(Path(self._options.schedule).read_bytes()).hexdigest()

    def _manifest(self, program: Program) -> Manifest:
        options = self._options
        schedule = options.schedule if is_named_policy(options.schedule) else "file"
        return Manifest(
            isa=self._isa.name,
            program=program,
            n_cores=options.cores,
            memory=options.memory_bytes,
            line=options.cache.line,
            cache=str(options.cache),
            seed=options.seed,
            schedule=schedule,
            model=options.model,
            strata=str(options.strata),
            agents=("devices",),
            options={
                **({"store_buffer": options.store_buffer} if options.model == "tso" else {}),
                "slice": options.longest_slice,
                "limit": options.limit,
                "input": hashlib.sha256(options.input).hexdigest(),
                "schedule_file": self._schedule_digest(),
                **({"evidence": ",".join(options.evidence)} if options.evidence else {}),
                **options.evidence_options,
            },
        )

    # -- rows ----------------------------------------------------------------------------------------

    def _append(self, number: int, kind: int, flags: int, value: int, blob: bytes = b"") -> None:
        if self.machine.cores[number].append_record(kind, flags, 0, value, blob):
            self._drain(number)

    def _drain(self, number: int) -> None:
        self._note_commits(number)
        rows, blob = self.machine.cores[number].take_log()
        if len(rows):
            self.writer.append_core(number, rows, blob)
        self._evidence.turn(number)
        self._drain_console()

    def _drain_console(self) -> None:
        if self.machine.state["console_n"]:
            self._console(self.machine.take_console())

    def _drain_agents(self) -> None:
        self._evidence.agents_drained()
        events = self.machine.take_agent_rows()
        if len(events):
            rows = np.zeros(len(events), AGENT_OP)
            for name in ("addr", "old", "new", "size", "kind"):
                rows[name] = events[name]
            rows["number"], rows["cause"], rows["stratum"] = events["seq"], events["pc"], self._strata
            self.writer.append_agent(rows)

    def _drain_all(self) -> None:
        for number in range(len(self.machine.cores)):
            self._drain(number)
        self._drain_agents()
        self._drain_truth()
        self._evidence.flush()

    def _note_commits(self, number: int) -> None:
        """Into the truth: which stores of a core have committed, and where the core stood."""
        stores = len(self.machine.cores) + 1 + number
        for count, committed in self.machine.cores[number].take_commits().tolist():
            # An instruction that failed was noted with its slice.
            if count > self._stood[number]:
                self._note_slice(number, count)
            self._note_slice(stores, committed)

    def _note_all_commits(self) -> None:
        for number in range(len(self.machine.cores)):
            self._note_commits(number)

    def _note_slice(self, stream: int, end: int) -> None:
        self._stood[stream] = end
        self._truth[self._truth_n] = (stream, end)
        self._truth_n += 1
        if self._truth_n == _TRUTH_ROWS:
            self._drain_truth()

    def _drain_truth(self) -> None:
        if self._truth_n:
            self.writer.append_truth(self._truth[: self._truth_n])
            self._truth_n = 0

    # -- marks ---------------------------------------------------------------------------------------

    def _digest(self, number: int) -> None:
        core = self.machine.cores[number]
        digest = Digest(core.context(), self._fingerprints[number].update())
        self._append(number, DIGEST, 0, 0, digest.pack())

    def _context(self, number: int, flags: int) -> None:
        core = self.machine.cores[number]
        self._append(number, CONTEXT, flags, core.cycles, core.context())

    def _stratum(self) -> None:
        """A cut: every stream's progress at this instant, and a digest of every core."""
        self._drain_agents()
        mark = np.zeros(1, AGENT_OP)
        mark["number"], mark["stratum"] = int(self.machine.state["agent_number"]), self._strata
        mark["kind"] = MARK
        self.writer.append_agent(mark)
        for number, core in enumerate(self.machine.cores):
            committed, buffered = int(core.row["committed"]), int(core.row["buffered"])
            if core.append_record(STRATUM, 0, committed, self._strata, size=buffered):
                self._drain(number)
            self._digest(number)
        self._strata += 1
        self._evidence.stratum(self._strata)
        self.machine.state["want_stratum"] = 0

    def _strata_due(self) -> bool:
        policy = self._options.strata
        if policy.kind == "downgrades":
            return bool(self.machine.state["want_stratum"])
        if policy.kind == "cycles":
            now = self.machine.clock()
            if now >= self._next_stratum:
                self._next_stratum = (now // policy.bound + 1) * policy.bound
                return True
        return False

    # -- the run -------------------------------------------------------------------------------------

    def run(self, progress: Progress | None = None) -> Outcome:
        """Run to the end of the guest and finish the recording."""
        machine = self.machine
        self.writer.write_image("initial", nonzero_pages(machine.home))
        for number in range(len(machine.cores)):
            self._context(number, CONTEXT_START)
        reason, ended_by = self._run_slices(progress)
        return self._finish(reason, ended_by)

    def _run_slices(self, progress: Progress | None) -> tuple[str, int | None]:
        machine = self.machine
        counts = machine.core_rows["count"]
        total = 0
        while True:
            if progress is not None:
                progress(total)
            runnable = machine.runnable()
            if runnable:
                piece = self._scheduler.next(runnable, counts.tolist())
                stopped = machine.run_slice(piece.core, self._bounded(piece.length), exact=piece.exact)
                # An instruction that fails does not retire, but it was fetched.
                tried = 1 if stopped is Stopped.FAULT else 0
                self._note_commits(piece.core)
                self._note_slice(piece.core, machine.cores[piece.core].count + tried)
                self._evidence.turn(piece.core)
                if stopped is Stopped.POWER:
                    return "power-off", piece.core
                if stopped is Stopped.FAULT:
                    return "fault", piece.core
            elif machine.deadlocked():
                return "halted", None
            self._between_slices()
            if machine.fault is not None:
                return "fault", machine.fault.core
            total = int(counts.sum())
            if self._options.limit and total >= self._options.limit:
                return "limit", None
            if total - self._written_at >= _FLUSH_EVERY:
                self._written_at = total
                self._drain_all()

    def _bounded(self, length: int) -> int:
        """No slice longer than a cycle-bound stratum, so that strata come about when they are due."""
        policy = self._options.strata
        return min(length, policy.bound) if policy.kind == "cycles" else length

    def _between_slices(self) -> None:
        machine, agent = self.machine, len(self.machine.cores)
        if machine.step_agents():
            self._note_slice(agent, int(machine.state["agent_number"]))
        machine.step_mail()
        if machine.step_store_buffers():
            self._note_all_commits()
        machine.raise_timers()
        for number in machine.interrupted():
            if machine.deliver_interrupt(number):
                self._note_commits(number)
                self._note_slice(agent, int(machine.state["agent_number"]))
                self._context(number, CONTEXT_INTERRUPT)
        self._evidence.agents()
        if machine.state["agent_n"] > machine.state["agent_limit"] // 2:
            self._drain_agents()
        if self._strata_due():
            self._stratum()
        self._drain_console()

    def _finish(self, reason: str, ended_by: int | None) -> Outcome:
        machine = self.machine
        machine.empty_store_buffers()
        self._note_all_commits()
        for number in range(len(machine.cores)):
            self._digest(number)
            self._append(number, END, 0, _END_CODES[reason])
        self._drain_all()
        self._evidence.finish()
        self.writer.write_image("final", nonzero_pages(machine.final_image()))
        fault = machine.fault
        end = End(
            reason,
            int(machine.state["exit_code"]) if reason == "power-off" else None,
            ended_by,
            machine.cores[ended_by].count if ended_by is not None else None,
            f"pc {fault.pc:#x}: {fault.what}" if fault else "",
        )
        rows = machine.core_rows
        totals = {
            name: int(rows[name].sum())
            for name in ("accesses", "misses", "upgrades", "downgrades", "evictions")
        }
        totals |= {"strata": self._strata, "cycles": machine.clock()}
        manifest = self.writer.finish(end, [core.count for core in machine.cores], totals)
        return Outcome(manifest, fault)


def _check_model(options: RecordOptions) -> None:
    if options.model not in ("sc", "tso"):
        raise UsageError("no such memory model", expected="sc or tso", found=options.model)
    if options.model == "tso" and options.store_buffer < 1:
        raise UsageError(
            "a store buffer holds at least one store",
            found=str(options.store_buffer),
            remedy="use --model sc for none",
        )


def record(
    program: Path,
    directory: Path,
    isa: Isa,
    options: RecordOptions,
    console: Console,
    progress: Progress | None = None,
    watchers: tuple[Collector, ...] = (),
) -> Outcome:
    """Record `program` into the new directory `directory`.

    console: called with what the guest prints. progress: called with the instructions so far, after each
    slice. watchers: see `Capture`. Raises UsageError and ImageError before anything is written.
    """
    capture = Capture(program, directory, isa, options, console, watchers)
    with capture.writer:
        return capture.run(progress)
