"""Debug information that is kept apart from its program: found by the build's identifier, or by the name and
checksum that the program holds (GDB manual, "Debugging Information in Separate Files")."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile

from corebraid.base.errors import FormatError
from corebraid.names.placed_files import PlacedPart
from corebraid.names.sections import sections_of
from corebraid.names.symbols import ELF_DAMAGE
from recorder.files.frame import open_regular, read_bytes

#: Where they are looked for, and what says otherwise; empty: nowhere.
_FOLDER, _VARIABLE = "/usr/lib/debug", "COREBRAID_DEBUG_FILES"
#: Longest debug file, bytes.
_MOST_BYTES = 1 << 28
#: NT_GNU_BUILD_ID; bytes of an identifier.
_BUILD_ID, _SHORTEST, _LONGEST = 3, 2, 64
_OWNER = b"GNU\0"


class DebugFiles:
    """Those of files, each looked for once."""

    def __init__(self) -> None:
        self._found: dict[int, bytes | None] = {}

    def of(self, part: PlacedPart) -> bytes | None:
        """The bytes of the debug file of the file that a part is of; None: there is none that fits."""
        if id(part.raw) not in self._found:
            self._found[id(part.raw)] = _find(part.raw, part.path)
        return self._found[id(part.raw)]


def _find(raw: bytes, path: str) -> bytes | None:
    folder = os.environ.get(_VARIABLE, _FOLDER)
    if not folder:
        return None
    build, link = build_id(raw), debug_link(raw)
    if build is not None:
        name = build.hex()
        found = _read(Path(folder, ".build-id", name[:2], f"{name[2:]}.debug"))
        if found is not None and build_id(found) == build:
            return found
    if link is None:
        return None
    beside = Path(path).parent
    for place in (beside, beside / ".debug", Path(folder, *beside.parts[1:])):
        found = _read(place / link[0]) if beside.is_absolute() else None
        if found is not None and zlib.crc32(found) == link[1]:
            return found
    return None


def _read(path: Path) -> bytes | None:
    try:
        with open_regular(path, _MOST_BYTES) as file:
            return read_bytes(file, _MOST_BYTES, path)
    except FormatError:
        return None


def build_id(raw: bytes) -> bytes | None:
    """The identifier of the build that made an ELF file (gABI, note section); None: it has none."""
    for section in _sections(raw, "SHT_NOTE"):
        while len(section) >= 12:
            owner, size, kind = (int.from_bytes(section[at : at + 4], "little") for at in (0, 4, 8))
            begin = 12 + (owner + 3) // 4 * 4
            if kind == _BUILD_ID and section[12 : 12 + owner] == _OWNER:
                found = section[begin : begin + size]
                return found if len(found) == size and _SHORTEST <= size <= _LONGEST else None
            section = section[begin + (size + 3) // 4 * 4 :]
    return None


def debug_link(raw: bytes) -> tuple[str, int] | None:
    """(name, CRC of its bytes) of the debug file that an ELF file names; None: it names none."""
    for section in _sections(raw, "SHT_PROGBITS", ".gnu_debuglink"):
        name, zero, _ = section.partition(b"\0")
        at = (len(name) + 4) // 4 * 4
        text = name.decode("utf-8", "replace")
        if zero and len(section) >= at + 4 and text.isprintable() and Path(text).name == text:
            return text, int.from_bytes(section[at : at + 4], "little")
    return None


def _sections(raw: bytes, kind: str, name: str = "") -> Iterator[bytes]:
    try:
        for section in sections_of(ELFFile(io.BytesIO(raw)), kind):
            if name in ("", section.name):
                yield raw[section["sh_offset"] : section["sh_offset"] + section["sh_size"]]
    except ELF_DAMAGE:
        return
