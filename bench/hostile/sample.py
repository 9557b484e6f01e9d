"""A recording in memory, to be changed and written with all checksums right again (docs/format.md)."""

from __future__ import annotations

import copy
import hashlib
import json
import zlib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from struct import Struct
from typing import Any

import lz4.block

from recorder.files.frame import FileHeader, iter_frames, read_header
from recorder.files.manifest import INTERVALS, MANIFEST
from recorder.files.objects import OBJECTS_INDEX
from recorder.files.sealed_json import canonical

_FRAME, _CRC = Struct("<4sIIIIQQI"), Struct("<I")
_FILE_BODY = 28
_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1
#: Fields of the manifest that the recording's id is of (docs/format.md, section 7).
CONFIGURATION = (
    "isa",
    "program",
    "cores",
    "memory",
    "line",
    "cache",
    "seed",
    "schedule",
    "model",
    "strata",
    "agents",
    "options",
    "processor",
)
PROGRAM = "program.elf"


@lru_cache(maxsize=4096)
def _block(raw: bytes) -> bytes:
    """Compressed. Most payloads of a case are those of the recording that it changes."""
    found: bytes = lz4.block.compress(raw, store_size=False)
    return found


@dataclass
class Frame:
    """What a frame holds. lies: fields of its header that say something else; stored: other bytes on disk."""

    raw: bytes
    records: int
    first: int
    last: int
    lies: dict[str, int] = field(default_factory=dict)
    stored: bytes | None = None

    def copy(self) -> Frame:
        """One that can be changed."""
        return replace(self, lies=dict(self.lies))

    def pack(self, sequence: int, seed: int) -> bytes:
        """The bytes on disk. seed: what the checksum of its header goes on from."""
        payload = _block(self.raw) if self.stored is None else self.stored
        said = {
            "sequence": sequence,
            "raw": len(self.raw),
            "stored": len(payload),
            "records": self.records,
            "first": self.first,
            "last": self.last,
        } | self.lies
        small = [said[name] & _U32 for name in ("sequence", "raw", "stored", "records")]
        body = _FRAME.pack(b"CBFR", *small, said["first"] & _U64, said["last"] & _U64, zlib.crc32(payload))
        return body + _CRC.pack(zlib.crc32(body, seed)) + payload


@dataclass
class Stream:
    """A file of frames. recording: its id if that is not the manifest's. tail: bytes after the last frame."""

    kind: int
    number: int
    line: int
    version: int
    frames: list[Frame]
    recording: bytes | None = None
    tail: bytes = b""

    def render(self, recording: bytes) -> bytes:
        """The file's bytes."""
        own = recording if self.recording is None else self.recording
        head = FileHeader(self.kind, self.number, own, self.line, self.version).pack()
        seed = zlib.crc32(head if self.version == 1 else head[:_FILE_BODY])
        return b"".join([head, *(frame.pack(k, seed) for k, frame in enumerate(self.frames)), self.tail])

    def copy(self) -> Stream:
        """One that can be changed."""
        return replace(self, frames=[one.copy() for one in self.frames])

    @property
    def records(self) -> int:
        """How many records its frames hold."""
        return sum(frame.records for frame in self.frames)


@dataclass
class Sample:
    """manifest, index: the JSON objects of manifest.json and objects.json. streams, others: files by name.

    parts: of a ring that is not finished what each interval says, by name; `manifest` is its first one's,
    called `named`, and what decides the run is in all of them as it is in that.

    own_id: the id if it is not what follows from the manifest. told: names of files whose facts in the
    manifest stay as they are. edits: (old, new) texts, changed in manifest.json after it was sealed.
    wrong_program: the manifest's digest of the program is left as it is.
    """

    manifest: dict[str, Any]
    streams: dict[str, Stream]
    others: dict[str, bytes]
    index: dict[str, Any] | None = None
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    named: str = MANIFEST
    own_id: str | None = None
    told: set[str] = field(default_factory=set)
    edits: list[tuple[bytes, bytes]] = field(default_factory=list)
    wrong_program: bool = False

    @classmethod
    def read(cls, path: Path) -> Sample:
        """Take the recording at `path` apart. Raises FormatError."""
        streams, others = {}, {}
        for file in sorted(one for one in path.rglob("*") if one.is_file()):
            name = str(file.relative_to(path))
            data = file.read_bytes()
            if data[:4] != b"CBRD":
                others[name] = data
                continue
            header = read_header(file)
            frames = [Frame(raw, one.records, one.first, one.last) for one, raw in iter_frames(file, header)]
            streams[name] = Stream(header.kind, header.stream, header.line, header.version, frames)
        named = min(name for name in others if Path(name).name == MANIFEST)
        manifest = json.loads(others.pop(named))
        index = json.loads(others.pop(OBJECTS_INDEX)) if OBJECTS_INDEX in others else None
        names = [name for name in others if name.startswith(INTERVALS) and name.endswith(".json")]
        parts = {name: json.loads(others.pop(name)) for name in names}
        return cls(manifest, streams, others, index, parts, named)

    def copy(self) -> Sample:
        """One that can be changed."""
        return replace(
            self,
            manifest=copy.deepcopy(self.manifest),
            streams={name: stream.copy() for name, stream in self.streams.items()},
            others=dict(self.others),
            index=copy.deepcopy(self.index),
            parts=copy.deepcopy(self.parts),
            told=set(self.told),
            edits=list(self.edits),
        )

    def write(self, path: Path) -> None:
        """Put it together in the new folder `path`, all checksums right."""
        path.mkdir()
        self._name_program()
        recording = self._id()
        _put(path, self._streams(bytes.fromhex(recording)))
        _put(path, self.others)
        self.manifest["id"] = recording
        text = _sealed(self.manifest)
        for old, new in self.edits:
            text = text.replace(old, new)
        _put(path, {self.named: text, **self._parts(recording)})
        if self.index is not None:
            if "id" in self.index:
                self.index["id"] = recording
            (path / OBJECTS_INDEX).write_bytes(_sealed(self.index))

    def _parts(self, recording: str) -> dict[str, bytes]:
        decided = {name: self.manifest[name] for name in CONFIGURATION if name in self.manifest}
        found = {}
        for name, one in self.parts.items():
            shared = decided if Path(name).name == MANIFEST else {}
            found[name] = _sealed({**one, **shared, "id": recording})
        return found

    def _name_program(self) -> None:
        """Enter the program's digest where the one of before stood."""
        said = self.manifest.get("program")
        if PROGRAM not in self.others or self.wrong_program or not isinstance(said, dict):
            return
        before, now = said.get("sha256"), hashlib.sha256(self.others[PROGRAM]).hexdigest()
        said["sha256"] = now
        mappings = self.index.get("mappings") if self.index else None
        for mapping in mappings if isinstance(mappings, list) else []:
            if isinstance(mapping, dict) and mapping.get("sha256") == before:
                mapping["sha256"] = now

    def _id(self) -> str:
        if self.own_id is not None:
            return self.own_id
        said = {name: self.manifest[name] for name in CONFIGURATION if name in self.manifest}
        return hashlib.blake2b(canonical(said)).hexdigest()[:32]

    def _streams(self, recording: bytes) -> dict[str, bytes]:
        """The files of frames; the manifest learns what they are."""
        rendered = {name: stream.render(recording) for name, stream in self.streams.items()}
        files = self.manifest.get("files")
        for name, data in rendered.items():
            if isinstance(files, dict) and isinstance(files.get(name), dict) and name not in self.told:
                stream = self.streams[name]
                files[name].update(bytes=len(data), frames=len(stream.frames), records=stream.records)
                files[name]["sha256"] = hashlib.sha256(data).hexdigest()
        return rendered


def _put(path: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (path / name).parent.mkdir(exist_ok=True, parents=True)
        (path / name).write_bytes(data)


def _sealed(values: dict[str, Any]) -> bytes:
    """As `recorder.files.sealed_json.seal`, also of what no manifest may hold."""
    bare = {key: value for key, value in values.items() if key != "digest"}
    digest = values["digest"] if "digest" in values and not _hexadecimal(values["digest"]) else None
    whole = {**bare, "digest": hashlib.sha256(canonical(bare)).hexdigest() if digest is None else digest}
    if "digest" not in values:
        whole = bare
    return json.dumps(whole, sort_keys=True, indent=1).encode("ascii") + b"\n"


def _hexadecimal(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64
