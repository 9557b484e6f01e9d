"""Writing a recording, append only: what was appended can be read even if the recorder is killed.

The same calls give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from corebraid.base.errors import FormatError, UsageError, unless_short
from corebraid.base.removal import remove_tree
from corebraid.base.wording import Option, Phrase, another
from recorder.files import agent_codec, codec, truth
from recorder.files.checkpoints import CheckpointWriter
from recorder.files.collectors import EvidenceWriter
from recorder.files.end import End
from recorder.files.evidence_names import STREAMS, evidence_log
from recorder.files.frame import (
    AGENT,
    CHECKPOINTS,
    CORE,
    FINAL_IMAGE,
    INITIAL_IMAGE,
    TRUTH,
    FileHeader,
    FrameWriter,
    UnwrittenError,
)
from recorder.files.image_file import write_image
from recorder.files.json_fields import Scalar
from recorder.files.manifest import (
    AGENT_LOG,
    FINAL_IMG,
    INITIAL_IMG,
    MANIFEST,
    TRUTH_LOG,
    Manifest,
    check,
    checkpoint_log,
    core_log,
)
from recorder.files.one_step import in_one_step

Rows = npt.NDArray[np.void]

#: Bytes of a frame before compression, about: what a killed recorder can lose of a stream.
FRAME_BYTES = 1 << 18


class RecordingWriter:
    """One recording being written; use it as a context manager so that its files are closed.

    Frames are written by each call of append, none are held back: call it with some hundred rows or more.
    """

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self._directory, self._manifest = directory, manifest
        cores = manifest.n_cores
        self._checkpoints: list[CheckpointWriter] = []
        self._logs: dict[str, FrameWriter] = {}
        wanted = [
            *((core_log(core), CORE, core) for core in range(cores)),
            (AGENT_LOG, AGENT, 0),
            (TRUTH_LOG, TRUTH, 0),
            *((evidence_log(name), STREAMS[name].kind, 0) for name in manifest.evidence),
        ]
        try:
            for name, kind, stream in wanted:
                self._logs[name] = FrameWriter(directory / name, self._header(kind, stream))
        except BaseException:
            # Whoever removes them may open no more files otherwise.
            self.close()
            raise
        self._core_encoder = codec.Encoder(manifest.line, FRAME_BYTES, manifest.memory)
        self._agent_encoder = agent_codec.Encoder(FRAME_BYTES, manifest.memory)
        self._truth_encoder = truth.Encoder(manifest.n_streams, FRAME_BYTES)
        self._accesses = self._strata = self._slices = 0
        self._reached = np.zeros(manifest.n_streams, dtype=np.uint64)

    @property
    def manifest(self) -> Manifest:
        """What the recording is, as far as it was known when it began."""
        return self._manifest

    @classmethod
    def create(cls, directory: Path, manifest: Manifest) -> RecordingWriter:
        """Begin a recording in the new directory `directory`; what `manifest` says of files is ignored.

        Raises UsageError if the path exists or cannot be made, FormatError if `manifest` has a field out
        of range. Nothing is ever written over.
        """
        started = replace(manifest, complete=False, end=None, instructions=(), totals={}, files={})
        check(started)
        new_directory(directory)
        try:
            _write_manifest(directory, started)
            return cls(directory, started)
        except BaseException:
            remove_tree(directory)
            raise

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append_core(self, core: int, rows: Rows, blob: npt.NDArray[np.uint8]) -> None:
        """Append to a core's log. rows: RECORD[n], counts not decreasing; blob: uint8[], what they carry.

        Raises FormatError if the format cannot hold a row (frames before it are written).
        """
        log, start = self._logs[core_log(core)], 0
        while start < len(rows):
            end, payload = self._core_encoder.encode_some(rows, blob, start)
            log.append(payload, end - start, int(rows[start]["count"]), int(rows[end - 1]["count"]))
            start = end

    def append_agent(self, rows: Rows) -> None:
        """Append to the agent log. rows: AGENT_OP[n], numbers and strata going on from the last call's.

        Raises FormatError if they do not, or if the format cannot hold a row.
        """
        log, start = self._logs[AGENT_LOG], 0
        while start < len(rows):
            found = int(rows[start]["number"]), int(rows[start]["stratum"])
            if found != (self._accesses, self._strata):
                expected = (self._accesses, self._strata)
                raise FormatError("number and stratum of an agent's access", expected=expected, found=found)
            end, payload = self._agent_encoder.encode_some(rows, start)
            log.append(payload, end - start, found[0], int(rows[end - 1]["number"]))
            kinds = rows["kind"][start:end]
            marks = int(np.count_nonzero(kinds == agent_codec.MARK))
            syncs = int(np.count_nonzero(kinds == agent_codec.SYNC))
            self._accesses, self._strata = found[0] + end - start - marks - syncs, found[1] + marks
            start = end

    def append_truth(self, rows: Rows) -> None:
        """Append slices to the sealed truth. rows: TRUTH[n] in the order they ran.

        Raises FormatError if a slice ends before it begins or names no stream.
        """
        log, start = self._logs[TRUTH_LOG], 0
        while start < len(rows):
            end, payload = self._truth_encoder.encode_some(rows, start)
            if not truth.advance(rows[start:end], self._reached):
                raise FormatError("a slice ends before it begins", where=f"slices from {self._slices} on")
            log.append(payload, end - start, self._slices, self._slices + end - start - 1)
            self._slices += end - start
            start = end

    def evidence(self, name: str) -> EvidenceWriter:
        """Where the frames of an evidence stream go that the manifest names."""
        return self._logs[evidence_log(name)]

    def checkpoints(self, core: int) -> CheckpointWriter:
        """Begin a core's checkpoints. The manifest does not name them: what was recorded is whole without."""
        name = checkpoint_log(core)
        writer = CheckpointWriter(self._directory / name, self._header(CHECKPOINTS, core))
        self._checkpoints.append(writer)
        return writer

    def write_image(
        self, which: Literal["initial", "final"], pages: Iterable[tuple[int, npt.NDArray[np.uint8]]]
    ) -> None:
        """Write an image of guest memory: (address, uint8[4096]), ascending; zero pages are left out.

        A killed recorder leaves an image whole or not at all. Raises FormatError.
        """
        name = INITIAL_IMG if which == "initial" else FINAL_IMG
        kind = INITIAL_IMAGE if which == "initial" else FINAL_IMAGE
        facts = write_image(self._directory / name, self._header(kind, 0), pages)
        self._replace_manifest(replace(self._manifest, files={**self._manifest.files, name: facts}))

    def finish(
        self, end: End, instructions: Iterable[int], totals: Mapping[str, Scalar] | None = None
    ) -> Manifest:
        """Close the recording: it is complete from here on. Both images must have been written.

        end: why it ended. instructions: retired by each core. totals: further counts. Returns the final
        manifest. Raises FormatError if a field is out of range or an image is missing.
        """
        self.close()
        files = {**self._manifest.files, **{name: log.facts() for name, log in self._logs.items()}}
        missing = sorted(set(self._manifest.file_names()) - set(files))
        if missing:
            raise FormatError(f"not written: {', '.join(missing)}", where=str(self._directory))
        finished = replace(
            self._manifest,
            complete=True,
            end=end,
            instructions=tuple(int(count) for count in instructions),
            totals=dict(totals or {}),
            files=files,
        )
        self._replace_manifest(finished)
        return finished

    def note(self, totals: Mapping[str, Scalar]) -> None:
        """Say something of the recording before it is finished. Raises FormatError."""
        self._replace_manifest(replace(self._manifest, totals=dict(totals)))

    def seal(self) -> None:
        """Close the files, and say how long each is: what follows stands elsewhere. Raises FormatError."""
        self.close()
        logs = {name: log.facts() for name, log in self._logs.items()}
        self._replace_manifest(replace(self._manifest, files={**self._manifest.files, **logs}))

    def close(self) -> None:
        """Close the files. Without `finish`, the recording is like that of a killed recorder."""
        for log in self._logs.values():
            log.close()
        for checkpoints in self._checkpoints:
            checkpoints.close()

    def discard(self) -> None:
        """Remove the whole directory: nothing has run yet that it could tell of."""
        self.close()
        remove_tree(self._directory)

    def _header(self, kind: int, stream: int) -> FileHeader:
        return FileHeader(kind, stream, self._manifest.id, self._manifest.line, self._manifest.version)

    def _replace_manifest(self, manifest: Manifest) -> None:
        check(manifest)
        _write_manifest(self._directory, manifest)
        self._manifest = manifest


def new_directory(directory: Path) -> None:
    """Make it. Raises UsageError if the path exists or cannot be made."""
    try:
        directory.mkdir()
    except FileExistsError:
        kind = "directory" if directory.is_dir() else "file"
        remedy = Phrase("choose another ", Option("directory"), "; nothing was written over")
        raise UsageError(f"there is already a {kind} here", where=str(directory), remedy=remedy) from None
    except OSError as error:
        unless_short(error)
        what = f"the directory cannot be made ({error.strerror})"
        raise UsageError(what, where=str(directory), remedy=another("directory")) from None


def _write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest, or replace it in one step. Raises FormatError if it cannot be written."""
    path = directory / MANIFEST
    try:
        with in_one_step(path) as partial:
            partial.write_bytes(manifest.render())
    except OSError as error:
        unless_short(error)
        raise UnwrittenError(f"cannot be written ({error.strerror})", where=str(path)) from None
