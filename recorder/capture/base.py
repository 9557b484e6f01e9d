"""What every recording in the making does: rows, marks, truth and evidence, whatever runs on the board."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.record import CONTEXT, DIGEST, END, STRATUM
from emu.board.board import Board
from emu.board.stretch import NEVER, Room
from emu.board.watcher import Watcher
from emu.bus.names import MESI, PAGE
from emu.core.changed_pages import ChangedPages
from emu.core.fingerprint import Fingerprint
from emu.schedule.policy import Scheduler
from isa.table import Isa
from recorder.capture.beginning import begun_manifest
from recorder.capture.evidence_capture import EvidenceCapture
from recorder.capture.options import Outcome, RecordOptions
from recorder.capture.program import check_program
from recorder.capture.ring import RingWriter
from recorder.capture.ring_borders import begin_core, forget_everything
from recorder.capture.strata_timer import StrataTimer
from recorder.capture.waiting import AgentRows, Slices, slices_of_commits
from recorder.files.agent_log import agent_rows
from recorder.files.collectors import Collector, Followed, Guest, make_collector
from recorder.files.digest import Digest
from recorder.files.end import End
from recorder.files.image_file import nonzero_pages
from recorder.files.json_fields import Scalar
from recorder.files.manifest import (
    AGENTS_SAY_OWNED,
    MISSES_PROVE_WRITES,
    PROGRAM_ELF,
    Manifest,
    Program,
)
from recorder.files.reader import most_strata
from recorder.files.rebase import Base
from recorder.files.unwritten import UnwrittenRecording
from recorder.files.writer import RecordingWriter
from recorder.replay.checkpointing import CoreCheckpoints

#: Instructions, over all cores, after which every log is written out at the latest, and with it all that a
#: killed recorder can lose. On the page bus so many times that: it takes no longer there.
FLUSH_EVERY, _PAGED = 1_000_000, 8
_TRUTH_ROWS = 1 << 14

Progress = Callable[[int], None]
Console = Callable[[bytes], None]


class BaseCapture(Watcher):
    """One recording in the making: it watches a machine, which a subclass makes.

    board: the machine, before anything has run. program: the bytes of its image. more: further facts that
    decide the run, for the manifest.
    """

    #: Names of the agents that are not cores.
    agents: tuple[str, ...] = ("devices",)

    def __init__(
        self, directory: Path, isa: Isa, options: RecordOptions, board: Board, name: str, program: bytes,
        more: dict[str, Scalar],
    ) -> None:  # fmt: skip
        self._options, self._isa, self._directory = options, isa, directory
        self.board = board
        kept = options.checkpoint or options.ring
        pages = self._changed = [ChangedPages(core) if kept else None for core in board.cores]
        pairs = zip(board.cores, pages, strict=True)
        self._fingerprints = [Fingerprint(core, board.bus.line, changed) for core, changed in pairs]
        self._truth = Slices()
        #: Nobody wants to know how far streams came, or takes events.
        self._unseen = options.unwritten and not board.config.tapped
        if self._unseen:
            board.forget_agents()
            for core in board.cores:
                core.forget_commits()
        #: Where the truth says that each stream stands.
        self._stood = [0] * (2 * options.cores + 1)
        self._strata = 0
        self._timer = StrataTimer(options.strata, board, most_strata(len(self._stood)))
        self._written_at, self._flush_every = 0, FLUSH_EVERY * (_PAGED if options.bus == PAGE else 1)
        #: Asked for the options from where on the schedule matters, if they have a seed for it alone.
        self.choose: Callable[[], RecordOptions] = lambda: self._options
        #: One log has been written: the others are to follow, since what it says alone cannot be ordered.
        self._one_written = False
        self._agent_rows = AgentRows()
        self._progress: Progress | None = None
        check_program(name, program)
        of = Program(name, hashlib.sha256(program).hexdigest())
        manifest = begun_manifest(options, isa, board, of, self.agents, more)
        self.writer = self._create(directory, manifest)
        if not options.unwritten:
            with self._or_nothing():
                (directory / PROGRAM_ELF).write_bytes(program)
        self._evidence = EvidenceCapture(board, [])
        self._checkpoints = [self._checkpointed(number, changed) for number, changed in enumerate(pages)]

    def _begin_schedule(self) -> Scheduler:
        """From here on the schedule matters: step by step, or by a policy."""
        if (steps := self._options.steps) is not None:
            self.board.step_by_step(steps)
            return steps
        options = self.choose()
        assert options.schedule_seed is not None
        self.board.reseed(options.schedule_seed)
        return options.policy()

    def close(self) -> None:
        """Let go of what is the host's. The guest cannot go on."""

    def _create(self, directory: Path, manifest: Manifest) -> RecordingWriter | RingWriter:
        if self._options.unwritten:
            return UnwrittenRecording(manifest)
        if self._options.ring is None:
            return RecordingWriter.create(directory, manifest)
        return RingWriter(directory, manifest, self._options.ring)

    def _checkpointed(self, number: int, pages: ChangedPages | None) -> CoreCheckpoints | None:
        board, policy = self.board, self._options.checkpoint
        if pages is None or policy is None:
            return None
        create = partial(self.writer.checkpoints, number)
        return CoreCheckpoints(board.cores[number], pages, board.bus.line, policy, create)

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        """What comes before the first instruction: where it fails no recording is left."""
        try:
            yield
        except BaseException:
            self.writer.discard()
            raise

    def _collect(self, guest: Guest, watchers: tuple[Collector, ...]) -> None:
        """Begin the evidence streams."""
        said, names = self._options.evidence_options, self._options.evidence
        collectors = [make_collector(name, guest, self.writer.evidence(name), said) for name in names]
        for name, collector in zip(names, collectors, strict=True):
            follower = self._options.followers.get(name)
            if follower is not None and isinstance(collector, Followed):
                follower.begin(self._directory, self.writer.manifest.id)
                collector.follow(follower)
        self._evidence = EvidenceCapture(self.board, [*collectors, *watchers])

    # -- rows ----------------------------------------------------------------------------------------

    def _append(self, number: int, kind: int, flags: int, value: int, blob: bytes = b"") -> None:
        if self.board.cores[number].append_record(kind, flags, 0, value, blob):
            self.drain(number)

    # -- what the machine tells ----------------------------------------------------------------------

    def before_slice(self, total: int) -> str:
        """Write out what has gathered; tell how far the run is. Ends it at its limit."""
        done = self._done(total)
        if self._options.limit and done >= self._options.limit:
            return "limit"
        if self._one_written or done - self._written_at >= self._flush_every:
            self._written_at = done
            self._drain_all()
        if self._progress is not None:
            self._progress(total)
        return ""

    def _done(self, total: int) -> int:
        """What counts for the limit, of `total` instructions."""
        return total

    def bounded(self, length: int) -> int:
        """See `StrataTimer.bounded`."""
        return self._timer.bounded(length)

    def room(self, total: int) -> Room | None:
        """Until a stratum is due, or logs are to be written. None where somebody takes the events of each
        slice, or the truth says when stores commit between them."""
        config = self.board.config
        if config.tapped or (config.store_buffer and not self._unseen):
            return None
        return self._timer.room(min(self._options.limit or NEVER, self._written_at + self._flush_every))

    def slices_ran(self, slices: NDArray[np.uint64]) -> None:
        """Note how far each core came."""
        if self._unseen:
            return
        for number, end in dict(slices.tolist()).items():
            self._stood[number] = end
        self._note_slices(slices)

    def ran(self, number: int, *, failed: bool) -> None:
        """Note how far the core is. An instruction that fails does not retire, but it was fetched."""
        if self._unseen:
            return
        self._note_commits(number)
        self._note_slice(number, self.board.cores[number].count + (1 if failed else 0))
        self._evidence.turn(number)

    def stores_committed(self) -> None:
        """Note it in the truth."""
        self._note_all_commits()

    def drain(self, number: int) -> None:
        """Write out a core's log."""
        self._one_written = True
        self._note_commits(number)
        self._evidence.write_ahead()
        rows, blob = self.board.cores[number].take_log()
        if len(rows):
            self.writer.append_core(number, rows, blob)
        self._evidence.turn(number)
        if self.board.syncs_wait:
            self._drain_agents()
        self._drain_console()

    def _drain_console(self) -> None:
        """Hand on what a console device holds."""

    def _drain_agents(self) -> None:
        self._evidence.agents_drained()
        if self.board.losses.full:
            self._evidence.write_ahead()
        if self._options.unwritten:
            self.board.drop_agents()
            return
        taken, syncs = self.board.take_agent_rows(), self.board.take_syncs()
        if not len(taken) + len(syncs):
            return
        rows = agent_rows(taken, syncs, self._strata)
        if self._agent_rows.append(rows):
            self.writer.append_agent(self._agent_rows.take())

    def _drain_all(self) -> None:
        for number in range(len(self.board.cores)):
            self.drain(number)
        self._drain_agents()
        self.writer.append_agent(self._agent_rows.take())
        self._drain_truth()
        self._evidence.flush()
        self._one_written = False

    def _note_commits(self, number: int) -> None:
        """Into the truth: which stores of a core have committed, and where the core stood."""
        if self._unseen or not self.board.config.store_buffer:
            return
        stores, commits = len(self.board.cores) + 1 + number, self.board.cores[number].take_commits()
        if not len(commits):
            return
        # An instruction that failed was noted with its slice.
        slices = slices_of_commits(commits, number, stores, self._stood[number])
        count, self._stood[stores] = commits[-1].tolist()
        self._stood[number] = max(self._stood[number], count)
        while len(slices):
            room = _TRUTH_ROWS - self._truth.n
            self._note_slices(slices[:room])
            slices = slices[room:]

    def _note_all_commits(self) -> None:
        if self._unseen or not self.board.config.store_buffer:
            return
        for number in range(len(self.board.cores)):
            self._note_commits(number)

    def _note_slice(self, stream: int, end: int) -> None:
        self._stood[stream] = end
        if self._options.unwritten:
            return
        self._truth.append(stream, end)
        if self._truth.n >= _TRUTH_ROWS:
            self._drain_truth()

    def _note_slices(self, slices: NDArray[np.uint64]) -> None:
        """uint64[n, 2], stream and end."""
        if self._options.unwritten:
            return
        self._truth.append_all(slices)
        if self._truth.n >= _TRUTH_ROWS:
            self._drain_truth()

    def _drain_truth(self) -> None:
        if self._truth.n:
            self._one_written = True
            self.writer.append_truth(self._truth.take())

    # -- marks ---------------------------------------------------------------------------------------

    def _digest(self, number: int) -> None:
        if self._options.unwritten:
            return
        core = self.board.cores[number]
        digest = Digest(core.context(), self._fingerprints[number].update())
        self._append(number, DIGEST, 0, 0, digest.pack())

    def _context(self, number: int, flags: int, who: int = 0) -> None:
        core = self.board.cores[number]
        if core.append_record(CONTEXT, flags, who, core.cycles, core.context()):
            self.drain(number)

    def _stratum(self) -> None:
        """A cut: every stream's progress at this instant, and a digest of every core."""
        if self._unseen:
            self._strata += 1
            return
        ring = self._ring_due()
        self._drain_agents()
        self._agent_rows.mark(int(self.board.state["agent_number"]), self._strata)
        for number, core in enumerate(self.board.cores):
            committed, buffered = int(core.row["committed"]), int(core.row["buffered"])
            if core.append_record(STRATUM, 0, committed, self._strata, size=buffered):
                self.drain(number)
            self._digest(number)
            if (checkpoints := self._checkpoints[number]) is not None:
                checkpoints.at_stratum(self._strata)
        self._strata += 1
        self._evidence.stratum(self._strata)
        if ring is not None:
            self._begin_interval(ring, self._base())

    def _ring_due(self) -> RingWriter | None:
        """The ring, if a new interval is to begin at the stratum that comes: stores commit before that."""
        if not (isinstance(self.writer, RingWriter) and self.writer.due(self._base())):
            return None
        self.board.empty_store_buffers()
        self._note_all_commits()
        return self.writer

    def _base(self) -> Base:
        """Where the run is, at a stratum."""
        cores = self.board.cores
        committed = tuple(int(core.row["committed"]) for core in cores)
        counts = tuple(core.count for core in cores)
        return Base(counts, int(self.board.state["agent_number"]), self._strata, committed)

    def _begin_interval(self, writer: RingWriter, base: Base) -> None:
        """All that was recorded so far may go: what follows stands for itself."""
        self._drain_all()
        received = [changed.received() for changed in self._changed if changed is not None]
        forget_everything(self.board, received, self._evidence.write_ahead)
        writer.turn(base, self._counted(), nonzero_pages(self.board.home, pages=self._pages()))
        self._evidence.begin_interval(writer, base)
        for number in range(len(self.board.cores)):
            begin_core(self.board, number, self._runs(number))

    def _runs(self, number: int) -> int:
        """The task on a core, 0 for none."""
        return 0

    def _end(self, code: int, end: End) -> Outcome:
        """Finish the recording. code: END_*."""
        for follower in self._options.followers.values():
            follower.over()
        board = self.board
        board.empty_store_buffers()
        self._note_all_commits()
        for number in range(len(board.cores)):
            self._digest(number)
            self._append(number, END, 0, code)
        self._drain_all()
        self._evidence.finish()
        if not self._options.unwritten:
            self.writer.write_image("final", nonzero_pages(board.final_image(), pages=self._pages()))
        rows = board.core_rows
        lines = board.config.bus == MESI
        totals = {**self._counted(), **self._totals()}
        totals[AGENTS_SAY_OWNED] = True
        proven = lines and board.config.cache.sets == 0 and not int(rows["undone"].sum())
        totals[MISSES_PROVE_WRITES] = proven
        totals |= self._asked_for()
        manifest = self.writer.finish(end, [core.count for core in board.cores], totals)
        fault = board.fault
        if fault is not None and isinstance(self.writer, RingWriter):
            fault = replace(fault, count=fault.count - self.writer.begins.counts[fault.core])
        return Outcome(manifest, fault)

    def _counted(self) -> dict[str, Scalar]:
        """What has been counted so far."""
        rows = self.board.core_rows
        # Of pages nobody counts accesses.
        names = ("accesses",) * (self.board.config.bus == MESI)
        names += ("misses", "upgrades", "downgrades", "evictions")
        counted: dict[str, Scalar] = {name: int(rows[name].sum()) for name in names}
        return {**counted, "strata": self._strata, "cycles": self.board.clock()}

    def _asked_for(self) -> dict[str, Scalar]:
        """Names of instructions that were executed and whose results differ from processor to processor; of
        what programs have asked for and is not done."""
        asked, isa = 0, self._isa
        for core in self.board.cores:
            asked |= core.approximated
        names = [name for k, name in enumerate(isa.approximations + isa.omissions) if asked >> k & 1]
        approximated = [name for name in names if name in isa.approximations]
        omitted = [name for name in names if name in isa.omissions]
        found: dict[str, Scalar] = {"approximated": " ".join(approximated), "omitted": ", ".join(omitted)}
        return {name: text for name, text in found.items() if text}

    def _pages(self) -> NDArray[np.int64] | None:
        """Pages that an image may have to hold; None: all of memory must be looked at."""
        return None

    def _totals(self) -> dict[str, Scalar]:
        """Further counts for the manifest."""
        return {}
