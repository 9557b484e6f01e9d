"""Isolated replay: one core, from its own log alone, checked against every digest (MICRO 2009, 3.1-3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emu.fingerprint import Fingerprint
from emu.isolated import AtBarrier, Diverged, IsolatedCore, NeedRows, TraceFull
from isa.decode import disassemble
from isa.errors import Divergence, FormatError, UsageError
from isa.registry import isa_named
from recorder.digest import Digest
from recorder.reader import Recording, iter_core_records
from recorder.record import CONTEXT, DIGEST, END, MISS, RECEIVED, STRATUM

_CODE_WINDOW = 16


@dataclass(frozen=True)
class ReplayResult:
    """A replay that matched. count: instructions. complete: the log's end was reached."""

    core: int
    count: int
    strata: int
    digests: int
    contexts: int
    complete: bool


class CoreReplay:
    """Replays one core of a recording; `run` yields control whenever a trace buffer is full.

    Reads the manifest and `core-K.log`, no other file. until: stop once this instruction count is
    passed (at the next block or barrier).
    """

    def __init__(self, recording: Recording, core: int, *, traced: bool = False) -> None:
        manifest = recording.manifest
        if not 0 <= core < manifest.n_cores:
            raise UsageError(
                "no such core in this recording",
                expected=f"0 to {manifest.n_cores - 1}",
                found=str(core),
                where=str(recording.path),
                remedy="choose another --core",
            )
        self._recording, self._number = recording, core
        self._isa = isa_named(manifest.isa)
        self._core = IsolatedCore(
            self._isa,
            core,
            manifest.memory,
            manifest.line,
            traced=traced,
            store_buffer=manifest.store_buffer,
            linux=manifest.linux,
        )
        self._fingerprint = Fingerprint(self._core.core, manifest.line)
        self._strata = self._digests = self._contexts = 0
        self._complete = False

    @property
    def result(self) -> ReplayResult:
        """How far the replay has come."""
        return ReplayResult(
            self._number, self._core.count, self._strata, self._digests, self._contexts, self._complete
        )

    def run(self, progress: Callable[[int], None] | None = None) -> Iterator[NDArray[np.void]]:
        """Replay to the log's end; yields the trace in bounded pieces (EVENT[n]; empty when not traced).

        A recording whose recorder was killed ends at its last complete frame. Raises Divergence naming the
        first difference, FormatError when the log is damaged.
        """
        frames = iter_core_records(self._recording, self._number)
        while not self._complete:
            step = self._core.step()
            if isinstance(step, NeedRows):
                piece = next(frames, None)
                if piece is None:
                    break
                self._core.feed(*piece)
                if progress is not None:
                    progress(self._core.count)
            elif isinstance(step, AtBarrier):
                self._pass(step.row)
            elif isinstance(step, TraceFull):
                yield self._core.take_trace()
            else:
                raise self._diverged(step)
        if not self._complete and not self._recording.killed:
            raise self._log_ended()
        self._core.empty_store_buffer()
        yield self._core.take_trace()

    def _pass(self, row: np.void) -> None:
        kind, core = int(row["kind"]), self._core
        if int(row["count"]) != core.count:
            raise self._diverged(
                Diverged(
                    f"the core passed a record of kind {kind}",
                    f"instruction {int(row['count'])}",
                    f"instruction {core.count}",
                )
            )
        if kind == STRATUM:
            self._strata += 1
            wrong = core.set_stratum(self._strata, int(row["addr"]), int(row["size"]))
            if wrong is not None:
                raise self._diverged(wrong)
        elif kind == DIGEST:
            self._compare(core.blob_of(row))
        elif kind == CONTEXT:
            self._contexts += 1
            context = core.blob_of(row)
            if len(context) != self._isa.context_bytes:
                raise self._foreign("a context header")
            if self._contexts > 1:
                core.empty_store_buffer()
            core.restore(context)
        elif kind == END:
            if core.unused_inputs:
                raise self._diverged(
                    Diverged("inputs are left over", "none", f"{core.unused_inputs} at the end of the log")
                )
            self._complete = True
        elif kind not in (MISS, RECEIVED):
            raise self._foreign(f"a record of kind {kind}")
        core.pass_barrier()

    def _compare(self, blob: bytes) -> None:
        expected = Digest.unpack(blob, self._isa)
        if expected is None:
            raise self._foreign("a digest")
        self._digests += 1
        found = Digest(self._core.core.context(), self._fingerprint.update())
        differences = expected.differences(found, self._isa)
        if differences:
            what, wanted, got = differences[0]
            more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
            raise self._diverged(Diverged(f"{what} differs{more}", wanted, got))

    def _diverged(self, step: Diverged) -> Divergence:
        pc, count = self._core.core.pc, self._core.count
        memory = self._core.core.memory
        text = disassemble(memory[pc : pc + _CODE_WINDOW].tobytes(), pc) if pc < len(memory) else "?"
        first = max(0, count - 20)
        return Divergence(
            f"replay diverged: {step.what}",
            expected=step.expected,
            found=step.found,
            where=f"core {self._number}, instruction {count}, pc {pc:#x} ({text})",
            remedy=f"look closer with: corebraid trace {self._recording.path} --core {self._number} "
            f"--from {first} --until {count + 1}",
        )

    def _foreign(self, what: str) -> FormatError:
        return FormatError(
            f"{what} is not of {self._isa.name}",
            where=str(self._recording.core_log_path(self._number)),
            remedy="record again",
        )

    def _log_ended(self) -> FormatError:
        return FormatError(
            "the log stops before its end record",
            where=str(self._recording.core_log_path(self._number)),
            remedy="record again; the file has lost its tail",
        )


def replay_core(
    recording: Recording, core: int, progress: Callable[[int], None] | None = None
) -> ReplayResult:
    """Replay one core to its end without a trace. Raises Divergence, FormatError."""
    replay = CoreReplay(recording, core)
    for _ in replay.run(progress):
        pass
    return replay.result
