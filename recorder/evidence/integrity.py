"""Checking every byte of a recording, for `corebraid verify` and `corebraid info`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from corebraid.base.errors import FormatError
from corebraid.base.wording import Wording
from recorder.files.evidence_names import STREAMS, loaded, stream_of
from recorder.files.frame import DamageError, FileFacts, iter_frames, open_regular, read_bytes
from recorder.files.manifest import (
    AGENT_LOG,
    FINAL_IMG,
    INITIAL_IMG,
    MOST_PROGRAM_BYTES,
    PROGRAM_ELF,
    TRUTH_LOG,
)
from recorder.files.reader import Recording, iter_agent_rows, iter_core_records, iter_image, iter_sealed_truth

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Finding:
    """One thing wrong with a recording: in which file, from which byte on, and what."""

    file: str
    offset: int
    wrong: str | FormatError

    @property
    def what(self) -> str:
        """What is wrong, with options as Python calls them."""
        return self.message()

    def message(self, wording: Wording | None = None) -> str:
        """The same. wording: how options are called."""
        return self.wrong.line(wording) if isinstance(self.wrong, FormatError) else self.wrong

    def facts(self, wording: Wording | None = None) -> dict[str, object]:
        """As JSON."""
        return {"file": self.file, "offset": self.offset, "what": self.message(wording)}


def integrity(recording: Recording) -> list[Finding]:
    """Everything wrong with the files of `recording`, at most one finding a file; empty: nothing.

    Reads every frame of every file, and compares every file with the manifest. An image that the recorder
    did not come to write before it was killed is no damage, nor is any file before the guest began.
    """
    findings = [check_file(recording, name) for name in _expected(recording)]
    findings += [_check_program(recording), *_check_objects(recording)]
    found = [finding for finding in findings if finding]
    return found or [*_check_syncs(recording), *_check_evidence(recording)]


def _check_evidence(recording: Recording) -> Iterable[Finding]:
    """The streams held against the other files, where each is sound by itself."""
    if recording.killed:
        return
    for name in recording.manifest.evidence:
        if faults := STREAMS[name].faults:
            for file, what in loaded(faults)(recording):
                yield Finding(file, 0, f"{recording.path / file}: {what}")


def _check_syncs(recording: Recording) -> Iterable[Finding]:
    """What the logs say of each other, where each is sound by itself."""
    if not recording.manifest.has_syncs or recording.killed:
        return
    from recorder.evidence.sync_integrity import sync_fault

    try:
        fault = sync_fault(recording)
    except FormatError as error:
        yield Finding(AGENT_LOG, 0, error)
        return
    if fault:
        yield Finding(AGENT_LOG, 0, f"{recording.agent_log_path}: {fault}")


def _expected(recording: Recording) -> list[str]:
    manifest = recording.manifest
    images = (INITIAL_IMG, FINAL_IMG)
    names = [name for name in manifest.file_names() if name in manifest.files or name not in images]
    return [name for name in names if (recording.path / name).exists()] if recording.empty else names


def _check_program(recording: Recording) -> Finding | None:
    """The copy of the guest program, if the recording has one."""
    if not (recording.path / PROGRAM_ELF).exists():
        return None
    try:
        found = _digest(recording, PROGRAM_ELF, MOST_PROGRAM_BYTES)
    except FormatError as error:
        return Finding(PROGRAM_ELF, 0, error)
    expected = recording.manifest.program.sha256
    if found != expected:
        return Finding(PROGRAM_ELF, 0, f"not the program that ran: expected {expected}, found {found}")
    return None


def _check_objects(recording: Recording) -> Iterable[Finding]:
    """The copies of the files that a Linux program ran code of."""
    if not recording.manifest.linux:
        return
    # Only these recordings need what the index is made of.
    from recorder.files.objects import OBJECTS, OBJECTS_INDEX, load_objects, object_bytes

    try:
        mappings = load_objects(recording.path, recording.manifest)
    except FormatError as error:
        yield Finding(OBJECTS_INDEX, 0, error)
        return
    if mappings is None:
        if not recording.killed:
            where = recording.path / OBJECTS_INDEX
            yield Finding(OBJECTS_INDEX, 0, f"{where}: the file is missing")
        return
    for digest in dict.fromkeys(mapping.sha256 for mapping in mappings):
        if digest == recording.manifest.program.sha256:
            continue
        name = f"{OBJECTS}/{digest}"
        try:
            if object_bytes(recording.path, recording.manifest, digest) is None:
                yield Finding(name, 0, f"{recording.path / name}: the file is missing")
        except FormatError as error:
            yield Finding(name, 0, error)


def check_file(recording: Recording, name: str) -> Finding | None:
    """What is wrong with one file of `recording` (one of `Manifest.file_names`), if anything."""
    try:
        frames = records = 0
        path = recording.checked(recording.path / name)
        for frame, _ in iter_frames(path, recording.header_of(name), partial_tail=recording.killed):
            frames, records = frames + 1, records + frame.records
        for _ in _contents(recording, name):
            pass
        facts = recording.manifest.files.get(name)
        if facts is None:
            return None
        found = FileFacts(facts.bytes, frames, records, _digest(recording, name))
        if found != facts:
            return Finding(name, 0, f"not the bytes that were written: expected {facts}, found {found}")
    except DamageError as error:
        return Finding(name, error.offset, error)
    except FormatError as error:
        return Finding(name, 0, error)
    return None


def _contents(recording: Recording, name: str) -> Iterable[object]:
    if name == AGENT_LOG:
        return iter_agent_rows(recording)
    if name == TRUTH_LOG:
        return iter_sealed_truth(recording)
    if name in (INITIAL_IMG, FINAL_IMG):
        return iter_image(recording, "initial" if name == INITIAL_IMG else "final")
    if (stream := stream_of(name)) is not None:
        frames: Iterable[object] = loaded(stream.frames)(recording)
        return frames
    return iter_core_records(recording, recording.header_of(name).stream)


def _digest(recording: Recording, name: str, most: int | None = None) -> str:
    path = recording.path / name
    digest = hashlib.sha256()
    with open_regular(path, most) as file:
        while data := read_bytes(file, _CHUNK, path):
            digest.update(data)
    return digest.hexdigest()
