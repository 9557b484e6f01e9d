"""The files that a Linux guest ran code of, at the addresses where they were mapped: code, symbols, lines.

What the program itself defines keeps its name; `libc.so.6!malloc` is the malloc of that library. What no
symbol names is the file's name and the distance from where it begins: `libc.so.6+0x9f1a0`. Where two files
were at one address at different times, neither is believed.
"""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from sys import getsizeof

from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

from corebraid.base.memory import PAGE_BYTES
from corebraid.names.call_stubs import call_stubs
from corebraid.names.debug_sections import Effort
from corebraid.names.lines import Lines, LineTable, PlacedLines
from corebraid.names.placed_files import PlacedFiles, PlacedPart
from corebraid.names.symbols import ELF_DAMAGE, Symbol, Symbols, read_symbols, with_sizes
from emu.board.elf import Image, Segment
from recorder.files.manifest import Manifest
from recorder.files.objects import ObjectMapping, load_objects, object_bytes

_WRITE, _EXECUTE = 2, 1
_MOST_SEGMENTS = 256
#: Of all files at all their places, and what their names take. Of what is beyond, addresses are named by the
#: file.
_MOST_SYMBOLS, _MOST_BYTES = 500_000, 1 << 28


@dataclass(frozen=True)
class _Load:
    """A segment to be loaded, as the file counts addresses. offset, file: of its bytes in the file. size: in
    memory. flags: of the ELF specification (R 4, W 2, X 1)."""

    address: int
    offset: int
    file: int
    size: int
    flags: int


@dataclass(frozen=True)
class _Placed:
    """A file at one place. bias: from the addresses that it counts to those of the guest."""

    path: str
    raw: bytes
    loads: tuple[_Load, ...]
    bias: int
    is_program: bool

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The guest's addresses that it takes, by segment."""
        return [(load.address + self.bias, load.address + self.bias + load.size) for load in self.loads]

    @property
    def name(self) -> str:
        """The file's name."""
        return PurePosixPath(self.path).name or self.path

    @property
    def prefix(self) -> str:
        """What its symbols are shown with."""
        return "" if self.is_program else f"{self.name}!"


@dataclass(frozen=True)
class LinuxObjects:
    """What is known of all of them. missing: paths of files that the recording lacks."""

    image: Image
    symbols: Symbols
    lines: Lines
    files: PlacedFiles
    data: PlacedFiles
    missing: tuple[str, ...]


def linux_objects(directory: Path, manifest: Manifest) -> LinuxObjects | None:
    """The files of the recording in `directory`; None if it has no index. Raises FormatError."""
    mappings = load_objects(directory, manifest)
    if mappings is None:
        return None
    raws: dict[str, bytes | None] = {}
    for mapping in mappings:
        if mapping.sha256 not in raws:
            raws[mapping.sha256] = object_bytes(directory, manifest, mapping.sha256)
    missing = tuple(dict.fromkeys(m.path for m in mappings if raws[m.sha256] is None))
    placed = _placed(mappings, raws, manifest)
    doubtful = _merged(_doubtful(placed))
    written = _merged([(m.start, m.end) for m in mappings if "w" in m.rights] + doubtful)
    data: dict[tuple[int, int, int], bytes] = {}
    segments = [segment for one in placed for segment in _segments(one, written, data)]
    symbols, areas = _symbols(placed, doubtful)
    code, data_of = (list(_parts(placed, doubtful, executed)) for executed in (True, False))
    image, names, lines = Image(0, tuple(segments)), Symbols(symbols, areas), Lines(_lines(code))
    return LinuxObjects(image, names, lines, PlacedFiles(code), PlacedFiles(data_of), missing)


# -- where they lay ----------------------------------------------------------------------------------------


def _placed(
    mappings: Sequence[ObjectMapping], raws: dict[str, bytes | None], manifest: Manifest
) -> list[_Placed]:
    """Each file at each place where its code was mapped, in the order of the mappings."""
    loads = {digest: _loads(raw) for digest, raw in raws.items() if raw is not None}
    found: dict[tuple[str, int], _Placed] = {}
    for mapping in mappings:
        raw = raws[mapping.sha256]
        if raw is None or "x" not in mapping.rights:
            continue
        bias = _bias(mapping, loads[mapping.sha256])
        if bias is not None and (mapping.sha256, bias) not in found:
            is_program = mapping.sha256 == manifest.program.sha256
            one = _Placed(mapping.path, raw, loads[mapping.sha256], bias, is_program)
            if all(0 <= low < high <= manifest.memory for low, high in one.spans):
                found[mapping.sha256, bias] = one
    return list(found.values())


def _loads(raw: bytes) -> tuple[_Load, ...]:
    """The segments of an ELF file of 64 bits; none of one that cannot be read."""
    try:
        elf = ELFFile(io.BytesIO(raw))
        if elf.elfclass != 64 or elf.num_segments() > _MOST_SEGMENTS:
            return ()
        # `iter_segments` reads what segments of other types hold, too.
        first, size = elf["e_phoff"], elf["e_phentsize"]
        places = (first + size * n for n in range(elf.num_segments()))
        headers = [struct_parse(elf.structs.Elf_Phdr, elf.stream, at) for at in places]
        return tuple(
            _Load(h["p_vaddr"], h["p_offset"], h["p_filesz"], h["p_memsz"], h["p_flags"])
            for h in headers
            if h["p_type"] == "PT_LOAD" and 0 < h["p_memsz"] >= h["p_filesz"]
        )
    except ELF_DAMAGE:
        return ()


def _bias(mapping: ObjectMapping, loads: Sequence[_Load]) -> int | None:
    """From the code that a mapping shows: what was added to the file's own addresses."""
    for load in loads:
        first = load.offset // PAGE_BYTES * PAGE_BYTES
        if load.flags & _EXECUTE and first <= mapping.offset < load.offset + load.file:
            bias = mapping.start - (load.address - load.offset + mapping.offset)
            return None if bias % PAGE_BYTES else bias
    return None


def _doubtful(placed: Sequence[_Placed]) -> list[tuple[int, int]]:
    """Addresses that more than one of them had, at different times."""
    spans = sorted((low, high, number) for number, one in enumerate(placed) for low, high in one.spans)
    found = []
    reached, owner = 0, -1
    for low, high, number in spans:
        if low < reached and number != owner:
            found.append((low, min(high, reached)))
        if high > reached:
            reached, owner = high, number
    return found


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same addresses, ascending, none twice."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _touches(low: int, high: int, spans: Sequence[tuple[int, int]]) -> bool:
    """spans: `_merged`."""
    at = bisect_left(spans, (high, 0))
    return at > 0 and low < spans[at - 1][1]


# -- what they tell ----------------------------------------------------------------------------------------


def _segments(
    one: _Placed, written: Sequence[tuple[int, int]], data: dict[tuple[int, int, int], bytes]
) -> Iterator[Segment]:
    """Its segments; code that could be written is marked so. data: of segments there were; a file is the same
    at all its places."""
    for load, (low, high) in zip(one.loads, one.spans, strict=True):
        may_change = load.flags & _EXECUTE and _touches(low, high, written)
        part = (id(one.raw), load.offset, load.file)
        if part not in data:
            data[part] = one.raw[load.offset : load.offset + load.file]
        yield Segment(low, data[part], load.size, load.flags | (_WRITE if may_change else 0))


def _symbols(
    placed: Sequence[_Placed], doubtful: Sequence[tuple[int, int]]
) -> tuple[list[Symbol], list[Symbol]]:
    """The symbols of all, as far as they are not too many, and a name for all the addresses of each."""
    symbols: list[Symbol] = []
    areas: list[Symbol] = []
    its_own: dict[int, list[Symbol]] = {}
    looked_at = room = 0
    for one in placed:
        spans = one.spans
        low, high = min(spans)[0], max(high for _, high in spans)
        areas.append(Symbol(low // PAGE_BYTES * PAGE_BYTES, high - low // PAGE_BYTES * PAGE_BYTES, one.name))
        if id(one.raw) not in its_own:
            its_own[id(one.raw)] = with_sizes([*read_symbols(one.raw), *call_stubs(one.raw)])
        found = its_own[id(one.raw)]
        more = sum(getsizeof(symbol.name) for symbol in found)
        if looked_at + len(found) > _MOST_SYMBOLS or room + more > _MOST_BYTES:
            continue
        looked_at, room = looked_at + len(found), room + more
        symbols += _moved(found, one, doubtful)
    return symbols, areas


def _moved(found: Iterable[Symbol], one: _Placed, doubtful: Sequence[tuple[int, int]]) -> Iterator[Symbol]:
    """Symbols of a file where it lay, as far as they are within its segments."""
    spans, bias, prefix = sorted(one.spans), one.bias, one.prefix
    firsts = [first for first, _ in spans]
    for symbol in found:
        address = symbol.address + bias
        inside = spans[bisect_right(firsts, address) - 1][1]
        if firsts[0] <= address < inside:
            size = min(symbol.size, inside - address)
            if not doubtful or not _touches(address, address + size, doubtful):
                yield Symbol(address, size, prefix + symbol.name)


def _parts(
    placed: Sequence[_Placed], doubtful: Sequence[tuple[int, int]], executed: bool
) -> Iterator[PlacedPart]:
    for one in placed:
        for load, (low, high) in zip(one.loads, one.spans, strict=True):
            if bool(load.flags & _EXECUTE) is executed and not _touches(low, high, doubtful):
                yield PlacedPart(low, high, one.bias, one.name, one.raw, one.path, one.prefix)


def _lines(code: Iterable[PlacedPart]) -> Iterator[PlacedLines]:
    tables: dict[int, LineTable] = {}
    effort = Effort()
    for one in code:
        # A file that lay at several places has one.
        table = tables.setdefault(id(one.raw), LineTable(one.raw, one.name, effort))
        yield PlacedLines(one.start, one.end, one.bias, table)
