"""Opening a recording. Nothing here is read before it is asked for, and one core's log needs no other file.

Only the manifest is read on opening, and neither Numba nor an emulator is imported before records are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from corebraid.base.errors import ExcessError, FormatError, UsageError
from corebraid.base.rows.record import END, STRATUM
from corebraid.base.wording import Option, Phrase
from recorder.files.evidence_names import STREAMS
from recorder.files.frame import (
    AGENT,
    CORE,
    FINAL_IMAGE,
    INITIAL_IMAGE,
    TRUTH,
    DamageError,
    FileHeader,
    FrameHeader,
    iter_frames,
)
from recorder.files.manifest import AGENT_LOG, FINAL_IMG, INITIAL_IMG, TRUTH_LOG, Manifest, core_log, load

Rows = npt.NDArray[np.void]
Bytes = npt.NDArray[np.uint8]
Cuts = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.uint64]
_NO_COUNTS = np.empty(0, np.uint64)
#: Strata; counts of streams at them; sync points. The last two are held in memory, some half a gigabyte each.
_MOST_STRATA, _MOST_COUNTS, _MOST_POINTS = 1 << 22, 1 << 25, 1 << 23


@dataclass(frozen=True)
class Recording:
    """A recording on disk: its directory and its manifest, which has been checked."""

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: Path | str) -> Recording:
        """Open the recording in the directory `path`. Raises FormatError."""
        return cls(Path(path), load(Path(path)))

    def core_log_path(self, core: int) -> Path:
        """The file of a core's log."""
        return self.path / core_log(core)

    @property
    def agent_log_path(self) -> Path:
        """The file of the agent log."""
        return self.path / AGENT_LOG

    @property
    def truth_path(self) -> Path:
        """The file of the sealed truth, which only tests and `verify` may open."""
        return self.path / TRUTH_LOG

    def image_path(self, name: str) -> Path:
        """The file of the "initial" or "final" image."""
        return self.path / {"initial": INITIAL_IMG, "final": FINAL_IMG}[name]

    def header(self, kind: int, stream: int = 0) -> FileHeader:
        """What the header of a file of this recording must say."""
        return FileHeader(kind, stream, self.manifest.id, self.manifest.line, self.manifest.version)

    def header_of(self, name: str) -> FileHeader:
        """What the header of the file called `name` (one of `Manifest.file_names`) must say."""
        kinds = {AGENT_LOG: AGENT, TRUTH_LOG: TRUTH, INITIAL_IMG: INITIAL_IMAGE, FINAL_IMG: FINAL_IMAGE}
        kinds |= {row.file: row.kind for row in STREAMS.values()}
        if name in kinds:
            return self.header(kinds[name])
        return self.header(CORE, int(name.removeprefix("core-").removesuffix(".log")))

    def checked(self, path: Path) -> Path:
        """`path`, if the file has as many bytes as the manifest says; frames missing at its end are so found.

        An image must be in the manifest. Raises FormatError.
        """
        facts = self.manifest.files.get(path.name)
        if facts is None:
            if self.empty and (path.name in (INITIAL_IMG, FINAL_IMG) or not path.exists()):
                remedy = "record again: the recorder was killed before the guest began"
                raise FormatError("the recording is empty", where=str(self.path), remedy=remedy)
            if path.name not in (INITIAL_IMG, FINAL_IMG):
                return path
            remedy = "record again: the recorder was killed before it had written the image"
            raise DamageError(path, 0, "there is no such image", remedy=remedy)
        try:
            size = path.stat().st_size
        except OSError:
            raise DamageError(path, 0, "the file is missing") from None
        if size != facts.bytes:
            what = "truncated" if size < facts.bytes else "longer than it was written"
            at = min(size, facts.bytes)
            raise DamageError(path, at, what, expected=f"{facts.bytes} bytes", found=f"{size} bytes")
        return path

    @property
    def has_losses(self) -> bool:
        """Whether the recording says when its cores lost lines (recorder/evidence/losses/log.py)."""
        return self.manifest.has_losses

    @property
    def killed(self) -> bool:
        """Whether the recorder was killed, so that each stream may end in an incomplete frame."""
        return not self.manifest.complete

    @property
    def empty(self) -> bool:
        """Whether the recorder was killed before the guest began: its memory was not yet written."""
        return self.killed and INITIAL_IMG not in self.manifest.files


def iter_core_records(
    recording: Recording, core: int, wanted: Callable[[FrameHeader], bool] | None = None
) -> Iterator[tuple[Rows, Bytes]]:
    """The records of a core's log, frame by frame: (RECORD[n], uint8[] that they index).

    wanted: other frames are passed over. Reads no other file of the recording, and holds one frame. Raises
    FormatError.
    """
    from recorder.files.codec import decode

    manifest = recording.manifest
    path = recording.checked(recording.core_log_path(core))
    header = recording.header(CORE, core)
    for frame, raw in iter_frames(path, header, partial_tail=recording.killed, wanted=wanted):
        try:
            rows, blob = decode(raw, manifest.line, "", records=frame.records, memory=manifest.memory)
        except FormatError as error:
            sides = error.expected, error.found
            raise DamageError(path, frame.offset, error.what, expected=sides[0], found=sides[1]) from None
        if (int(rows["count"][0]), int(rows["count"][-1])) != (frame.first, frame.last):
            raise DamageError(path, frame.offset, "a frame's records are not in the range it declares")
        yield rows, blob


def iter_agent_rows(recording: Recording) -> Iterator[Rows]:
    """The agent log, frame by frame: AGENT_OP[n] (recorder/files/agent_codec.py). Raises FormatError."""
    from recorder.files.agent_log import iter_agent_ops

    path, header = recording.checked(recording.agent_log_path), recording.header(AGENT)
    manifest = recording.manifest
    cores = manifest.n_cores if manifest.has_syncs else 0
    return iter_agent_ops(path, header, manifest.memory, cores, partial_tail=recording.killed)


def iter_agent_trace(recording: Recording) -> Iterator[Rows]:
    """The agents' accesses, frame by frame: EVENT[n] (recorder/files/agent_log.py). Raises FormatError."""
    from recorder.files.agent_log import iter_agent_events

    return iter_agent_events(iter_agent_rows(recording), recording.manifest.n_cores)


def sync_points(recording: Recording) -> Rows:
    """Where agents met cores, in the agents' order: SYNC_POINT[n] (emu/bus/sync_points.py); none in a
    recording of a version that has none. Raises FormatError."""
    return agent_marks(recording)[1]


def agent_marks(recording: Recording) -> tuple[Counts, Rows]:
    """(how many accesses agents had made at each stratum that their log has, `sync_points`), both at once.
    Raises FormatError."""
    from recorder.files.agent_log import agent_cuts, no_sync_points, sync_points_of

    cuts, found, n, n_points = [_NO_COUNTS], [no_sync_points()], 0, 0
    for rows in iter_agent_rows(recording):
        if len(marks := agent_cuts(rows)):
            n = _counted(recording, recording.agent_log_path, n + len(marks))
            cuts.append(marks.astype(np.uint64))
        points = sync_points_of(rows)
        n_points += len(points)
        if n_points > _MOST_POINTS:
            raise ExcessError(
                "agents meet cores more often than can be held",
                expected=f"at most {_MOST_POINTS:,} times",
                where=str(recording.agent_log_path),
                remedy="record a shorter run",
            )
        # A frame that has none is nearly every one, and numpy takes its time over each that it joins.
        if len(points):
            found.append(points)
    return np.concatenate(cuts), np.concatenate(found)


def iter_sealed_truth(recording: Recording) -> Iterator[Rows]:
    """The interleaving that really ran, frame by frame: TRUTH[n]. Only tests and `verify` may call this.

    Raises FormatError.
    """
    from recorder.files.truth import iter_truth

    path, header = recording.checked(recording.truth_path), recording.header(TRUTH)
    return iter_truth(path, header, recording.manifest.n_streams, partial_tail=recording.killed)


def iter_image(recording: Recording, name: str) -> Iterator[tuple[int, bytes]]:
    """The pages of the "initial" or "final" image: (address, 4096 bytes). Raises FormatError."""
    from recorder.files.image_file import read_image

    path = recording.checked(recording.image_path(name))
    return read_image(path, recording.header_of(path.name), recording.manifest.memory)


def iter_evidence(
    recording: Recording, name: str, wanted: Callable[[FrameHeader], bool] | None = None
) -> Iterator[tuple[FrameHeader, bytes]]:
    """The frames of an evidence stream, each with its bytes, which its own codec reads. wanted: other frames
    are passed over.

    Raises UsageError if the recording has no such stream, FormatError.
    """
    row = STREAMS[name]
    if name not in recording.manifest.evidence:
        raise no_evidence(recording, name)
    path = recording.checked(recording.path / row.file)
    return iter_frames(path, recording.header(row.kind), partial_tail=recording.killed, wanted=wanted)


def no_evidence(recording: Recording, name: str) -> UsageError:
    """The error that a recording has no stream of this name, and what may help."""
    manifest, row = recording.manifest, STREAMS[name]
    remedy = Phrase("record again with ", Option("evidence", name))
    if manifest.linux and row.only_for:
        remedy = Phrase(f"that is for {row.only_for}")
    elif manifest.model not in row.models:
        remedy = Phrase(*remedy.parts, " ", Option("model", row.models[0]))
    return UsageError(
        f"the recording has no evidence {name}",
        found=", ".join(manifest.evidence) or "none",
        where=str(recording.path),
        remedy=remedy,
    )


def load_image(recording: Recording, name: str, memory: Bytes) -> None:
    """Copy the "initial" or "final" image into `memory` (uint8[], zero before). Raises FormatError."""
    from recorder.files.image_file import load_into

    path = recording.checked(recording.image_path(name))
    load_into(path, recording.header_of(path.name), memory)


def _core_cuts(recording: Recording, core: int) -> tuple[Counts, Counts, int | None]:
    """The core's instruction count at each stratum, how many stores had left its store buffer, and where its
    log ends, if it says so."""
    cuts, committed, n = [_NO_COUNTS], [_NO_COUNTS], 0
    end: int | None = None
    path = recording.core_log_path(core)
    for rows, _ in iter_core_records(recording, core):
        marks = rows[rows["kind"] == STRATUM]
        if not np.array_equal(marks["value"], np.arange(n, n + len(marks), dtype=np.uint64)):
            raise DamageError(path, 0, "strata are out of sequence", expected=f"stratum {n} next")
        n = _counted(recording, path, n + len(marks))
        if len(marks):
            cuts.append(marks["count"].copy())
            if recording.manifest.model == "tso":
                committed.append(marks["addr"].copy())
        if len(ends := rows[rows["kind"] == END]):
            end = int(ends["count"][-1])
    return np.concatenate(cuts), np.concatenate(committed), end


def _counted(recording: Recording, path: Path, n: int) -> int:
    """A number of strata, if they can be held. Raises FormatError."""
    most = most_strata(recording.manifest.n_streams)
    if n > most:
        raise ExcessError(
            "more strata than can be held",
            expected=f"at most {most:,} of {recording.manifest.n_streams} streams",
            where=str(path),
            remedy="record again, with fewer strata",
        )
    return n


def most_strata(n_streams: int) -> int:
    """How many a recording may have: each takes its time, and what each stream had done at each is held in
    memory, 8 bytes each."""
    return min(_MOST_STRATA, _MOST_COUNTS // n_streams)


def strata(recording: Recording, agents: Counts | None = None) -> Cuts:
    """Where every stream stands at each stratum: uint64[strata, streams], the cores, the agents, and
    under TSO how many stores of each core had left its store buffer. agents: of `agent_marks`, read unless
    given.

    A core whose log has ended stands at its end for all later strata. Of a recording whose recorder was
    killed, only the strata that all logs have. Raises FormatError, also when complete logs disagree.
    """
    n_cores = recording.manifest.n_cores
    read = [_core_cuts(recording, core) for core in range(n_cores)]
    logs = [(cuts, end) for cuts, _, end in read]
    logs.append((agent_marks(recording)[0] if agents is None else agents, None))
    lengths = [len(cuts) for cuts, _ in logs]
    open_lengths = [len(cuts) for cuts, end in logs if end is None]
    count = min(open_lengths)
    if recording.manifest.complete and max(lengths) != count:
        found = ", ".join(str(length) for length in lengths)
        path = recording.agent_log_path
        raise DamageError(path, 0, "strata in the logs", expected=f"{count} in each", found=found)
    if recording.manifest.model == "tso":
        logs += [(done, None if end is None else int(done.max(initial=0))) for _, done, end in read]
    table = np.empty((count, len(logs)), dtype=np.uint64)
    for stream, (cuts, end) in enumerate(logs):
        table[: len(cuts), stream] = cuts[:count]
        table[len(cuts) :, stream] = end or 0
    return table
