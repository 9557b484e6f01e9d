"""The files that a Linux program ran code of, kept for symbols, lines and disassembly.

`objects.json` says where they were mapped, `objects/SHA-256` are their bytes (docs/format.md, section 13).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from corebraid.base.errors import FormatError
from corebraid.base.memory import PAGE_BYTES
from emu.linux.files.open_file import MappedFile
from emu.linux.memory.mappings import Mapping
from emu.native.state import RIGHT_EXECUTE, RIGHT_READ, RIGHT_WRITE
from recorder.files.frame import open_regular, read_bytes
from recorder.files.json_fields import Fields
from recorder.files.manifest import MOST_PROGRAM_BYTES, PROGRAM_ELF, Manifest
from recorder.files.one_step import in_one_step
from recorder.files.sealed_json import HEX_256, seal, sealed_fields

OBJECTS, OBJECTS_INDEX = "objects", "objects.json"
#: Longest file that is kept, bytes; the program itself is kept whatever its length.
MOST_BYTES = 64 << 20
#: Most mappings in the index, and most bytes of the index.
MOST_MAPPINGS, _MOST_INDEX = 1 << 14, 16 << 20
_MOST_PATH = 1024
_MAGIC = b"\x7fELF"
_REMEDY = "copy the recording again from its source"


@dataclass(frozen=True)
class ObjectMapping:
    """Bytes of a file from `offset` on at the guest addresses [start, end), all multiples of 4096.

    path: in the guest. sha256: of the file, in hexadecimal. rights: the letters r, w and x, or - for each.
    """

    path: str
    sha256: str
    start: int
    end: int
    offset: int
    rights: str


class ObjectKeeper:
    """Keeps files of one run in the recording `directory`. manifest: of that recording."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self._directory, self._manifest = directory, manifest
        self._seen = 0
        #: What was mapped, in the order in which it was first, with the key of its file. No digests yet.
        self._mappings: dict[tuple[object, ObjectMapping], None] = {}
        #: SHA-256 of each file with code, by key; None: not an ELF file, or too long.
        self._digests: dict[object, str | None] = {}

    def update(self, history: Sequence[Mapping]) -> None:
        """Take in what `history`, every mapping of a file so far, has more than last time."""
        if self._seen == len(history):
            return
        before = len(self._mappings), len(self._digests)
        for mapping in history[self._seen :]:
            file = mapping.file
            if file is None or len(self._mappings) == MOST_MAPPINGS:
                continue
            self._mappings[file.key, _described(mapping, file)] = None
            if mapping.rights & RIGHT_EXECUTE and file.key not in self._digests:
                self._digests[file.key] = self._keep(file)
        self._seen = len(history)
        if (len(self._mappings), len(self._digests)) != before:
            self._write_index()

    def _keep(self, file: MappedFile) -> str | None:
        if file.page(0, len(_MAGIC)) != _MAGIC:
            return None
        raw = file.page(0, file.size())
        digest = hashlib.sha256(raw).hexdigest()
        if digest != self._manifest.program.sha256:
            if len(raw) > MOST_BYTES:
                return None
            (self._directory / OBJECTS).mkdir(exist_ok=True)
            (self._directory / OBJECTS / digest).write_bytes(raw)
        return digest

    def _write_index(self) -> None:
        kept = [
            {**asdict(mapping), "sha256": digest}
            for key, mapping in self._mappings
            if (digest := self._digests.get(key)) is not None
        ]
        with in_one_step(self._directory / OBJECTS_INDEX) as partial:
            partial.write_bytes(seal({"id": self._manifest.id.hex(), "mappings": kept}))


def _described(mapping: Mapping, file: MappedFile) -> ObjectMapping:
    rights = "".join(
        letter if mapping.rights & right else "-"
        for letter, right in (("r", RIGHT_READ), ("w", RIGHT_WRITE), ("x", RIGHT_EXECUTE))
    )
    path = "".join(c if c.isprintable() else "?" for c in file.path[-_MOST_PATH:])
    return ObjectMapping(path, "", mapping.start, mapping.end, mapping.offset, rights)


# -- reading ---------------------------------------------------------------------------------------------


def load_objects(directory: Path, manifest: Manifest) -> tuple[ObjectMapping, ...] | None:
    """The index of the recording in `directory`; None if it has none. Raises FormatError."""
    path = directory / OBJECTS_INDEX
    if not path.exists():
        return None
    data = _read(path, _MOST_INDEX)
    fields = sealed_fields(data, path, "an index", manifest.id)
    listed = fields.take("mappings")
    if not isinstance(listed, list) or len(listed) > MOST_MAPPINGS:
        raise fields.error("mappings", f"a list of at most {MOST_MAPPINGS} objects", listed)
    fields.done()
    return tuple(_mapping(Fields(item, path, "mappings"), manifest.memory) for item in listed)


def _mapping(fields: Fields, memory: int) -> ObjectMapping:
    found = ObjectMapping(
        path=fields.text("path"),
        sha256=fields.text("sha256", HEX_256),
        start=fields.integer("start", 0, memory),
        end=fields.integer("end", 0, memory),
        offset=fields.integer("offset", 0, 1 << 62),
        rights=fields.text("rights", "[r-][w-][x-]"),
    )
    fields.done()
    if found.start >= found.end or (found.start | found.end | found.offset) % PAGE_BYTES:
        raise fields.error("start", f"whole pages of {PAGE_BYTES} bytes, at least one", hex(found.start))
    return found


def object_bytes(directory: Path, manifest: Manifest, sha256: str) -> bytes | None:
    """The bytes of a kept file; None if the recording lacks it.

    Raises FormatError if they are not the bytes that were mapped.
    """
    is_program = sha256 == manifest.program.sha256
    path = directory / PROGRAM_ELF if is_program else directory / OBJECTS / sha256
    if not path.exists():
        return None
    raw = _read(path, MOST_PROGRAM_BYTES if is_program else MOST_BYTES)
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        what = "not the program that was recorded" if is_program else "not the file that the guest mapped"
        raise FormatError(what, expected=sha256, found=found, where=str(path), remedy=_REMEDY)
    return raw


def _read(path: Path, most: int) -> bytes:
    with open_regular(path, most) as file:
        return read_bytes(file, most, path)
