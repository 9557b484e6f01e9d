"""Names and code of a Linux guest's files, where they were mapped: files put down by hand, damage."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import ROOT
from elftools.elf.elffile import ELFFile

from corebraid.base.errors import FormatError, UsageError
from corebraid.names import objects, symbols
from corebraid.names.call_stubs import call_stubs
from corebraid.names.objects import linux_objects
from corebraid.names.program import UNKNOWN, WRITTEN, GuestProgram
from corebraid.names.symbols import Symbol, Symbols, read_symbols, with_sizes
from emu.linux.files.open_file import MappedFile
from emu.linux.memory.mappings import Mapping
from isa.x86_64.decode import disassemble
from recorder.files.manifest import Manifest, Program
from recorder.files.objects import MOST_MAPPINGS, ObjectKeeper, load_objects
from recorder.files.sealed_json import seal

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"
MUTEXES = (PROGRAMS / "mutexes").read_bytes()
LIBRARY = (PROGRAMS / "tls_module.so").read_bytes()
R, W, X = 4, 2, 1
BASE, LIBRARY_BASE = 0x1_0000_0000, 0x7_0000_0000


class File(MappedFile):
    """A file in memory."""

    def __init__(self, path: str, raw: bytes) -> None:
        self.path, self.key, self._raw = path, path, raw

    def size(self) -> int:
        return len(self._raw)

    def page(self, offset: int, n: int) -> bytes:
        return self._raw[offset : offset + n]


def loaded(path: str, raw: bytes, base: int) -> list[Mapping]:
    """The mappings that a loader makes of a file, `base` above its own addresses."""
    file, found = File(path, raw), []
    for segment in ELFFile(io.BytesIO(raw)).iter_segments("PT_LOAD"):
        first = (segment["p_vaddr"] + base) & -4096
        last = (segment["p_vaddr"] + base + segment["p_filesz"] + 4095) & -4096
        offset = segment["p_offset"] & -4096
        found.append(Mapping(first, last, segment["p_flags"], file=file, offset=offset))
    return found


def manifest(program: bytes) -> Manifest:
    """Of a Linux recording."""
    digest = hashlib.sha256(program).hexdigest()
    return Manifest("x86_64", Program("mutexes", digest), 1, 1 << 36, options={"guest": "linux"})


def guest(directory: Path, *history: list[Mapping], program: bytes = MUTEXES) -> GuestProgram:
    """What is known of the files that `history` maps, in a recording of `program`."""
    (directory / "program.elf").write_bytes(program)
    keeper = ObjectKeeper(directory, manifest(program))
    keeper.update([mapping for part in history for mapping in part])
    return GuestProgram.of(directory, manifest(program))


def both(directory: Path) -> GuestProgram:
    """The program and the library."""
    library = loaded("/lib/tls_module.so", LIBRARY, LIBRARY_BASE)
    return guest(directory, loaded("/bin/mutexes", MUTEXES, BASE), library)


def section_of(raw: bytes, name: str) -> Any:
    """A section as pyelftools has it."""
    return ELFFile(io.BytesIO(raw)).get_section_by_name(name)


def table_of(raw: bytes, *kinds: str) -> list[Any]:
    """Entries of .symtab."""
    return [
        s
        for s in section_of(raw, ".symtab").iter_symbols()
        if s["st_info"]["type"] in kinds and s["st_shndx"] != "SHN_UNDEF"
    ]


# -- names -----------------------------------------------------------------------------------------------


def test_every_function_and_variable_has_its_name_where_it_was_mapped(tmp_path: Path) -> None:
    program = both(tmp_path)
    for raw, base, prefix in ((MUTEXES, BASE, ""), (LIBRARY, LIBRARY_BASE, "tls_module.so!")):
        symbols = [s for s in table_of(raw, "STT_FUNC", "STT_OBJECT") if s["st_size"]]
        assert len(symbols) > 2
        for symbol in symbols:
            here = {prefix + s.name for s in symbols if s["st_value"] == symbol["st_value"]}
            for inside in (0, symbol["st_size"] - 1):
                name, _, offset = program.symbols.name(symbol["st_value"] + base + inside).partition("+")
                assert name in here
                assert int(offset or "0", 16) == inside


def test_what_no_symbol_names_is_the_file_and_the_distance(tmp_path: Path) -> None:
    program = both(tmp_path)
    assert program.symbols.name(BASE + 4) == "mutexes+0x4"
    assert program.symbols.name(LIBRARY_BASE + 4) == "tls_module.so+0x4"
    last = max(s["p_vaddr"] + s["p_memsz"] for s in ELFFile(io.BytesIO(MUTEXES)).iter_segments("PT_LOAD"))
    assert program.symbols.name(BASE + last - 1)
    for nothing in (0, 16, BASE - 1, BASE + last, BASE + last + 4096, (1 << 36) - 1):
        assert program.symbols.name(nothing) == ""


def test_thread_local_variables_name_nothing() -> None:
    names = {symbol.name for symbol in read_symbols(LIBRARY)}
    local = {symbol.name for symbol in table_of(LIBRARY, "STT_TLS")}
    assert local
    assert not local & names


def test_functions_chosen_at_run_time_count() -> None:
    """STT_GNU_IFUNC, as memcpy is in the C library."""
    symbol = table_of(LIBRARY, "STT_FUNC")[-1]
    section = section_of(LIBRARY, ".symtab")
    number = next(n for n, s in enumerate(section.iter_symbols()) if s.name == symbol.name)
    raw = bytearray(LIBRARY)
    raw[section["sh_offset"] + 24 * number + 4] = 1 << 4 | 10
    assert Symbol(symbol["st_value"], symbol["st_size"], symbol.name) in read_symbols(bytes(raw))


def test_a_file_without_a_full_table_has_its_dynamic_one() -> None:
    raw = bytearray(LIBRARY)
    section = ELFFile(io.BytesIO(LIBRARY))
    number = section.get_section_index(".symtab")
    assert number is not None
    header = section["e_shoff"] + number * section["e_shentsize"]
    raw[header + 4 : header + 8] = bytes(4)
    names = {symbol.name for symbol in read_symbols(bytes(raw))}
    exported = {s.name for s in section_of(LIBRARY, ".dynsym").iter_symbols() if s["st_value"]}
    assert names == exported - {s.name for s in table_of(LIBRARY, "STT_TLS")} != set()


def test_of_several_tables_of_a_kind_the_first_counts() -> None:
    """The section header of what is no table of symbols says that it is one more, of the same symbols."""
    raw = bytearray(MUTEXES)
    elf = ELFFile(io.BytesIO(MUTEXES))
    names = [section.name for section in elf.iter_sections()]
    first, other = (elf["e_shoff"] + 64 * names.index(name) for name in (".symtab", ".comment"))
    raw[other : other + 64] = raw[first : first + 64]
    assert read_symbols(bytes(raw)) == read_symbols(MUTEXES) != []


def test_names_of_any_length_have_so_much_room(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [symbol.name for symbol in read_symbols(LIBRARY)]
    monkeypatch.setattr(symbols, "_MOST_BYTES", sum(map(len, every[:3])))
    assert [symbol.name for symbol in read_symbols(LIBRARY)] == every[:3]


def test_spans_that_overlap_are_one() -> None:
    spans = [(5, 9), (1, 3), (8, 12), (3, 4)]
    merged = objects._merged(spans)
    assert merged == [(1, 4), (5, 12)]
    for low in range(14):
        for high in range(low + 1, 15):
            expected = any(first < high and low < last for first, last in spans)
            assert objects._touches(low, high, merged) == expected, (low, high)


@pytest.mark.parametrize("bound", ["_MOST_SYMBOLS", "_MOST_BYTES"])
def test_a_file_at_many_places_takes_no_more_room(
    bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes are there once; where symbols are too many, or names too long, places have their file's alone."""
    places = [LIBRARY_BASE + (n << 24) for n in range(4)]
    guest(tmp_path, *(loaded("/lib/tls_module.so", LIBRARY, place) for place in places))
    its_own = with_sizes([*read_symbols(LIBRARY), *call_stubs(LIBRARY)])
    one = {
        "_MOST_SYMBOLS": len(its_own),
        "_MOST_BYTES": sum(sys.getsizeof(symbol.name) for symbol in its_own),
    }
    monkeypatch.setattr(objects, bound, 2 * one[bound])
    known = linux_objects(tmp_path, manifest(MUTEXES))
    assert known is not None
    found = [int(np.count_nonzero(known.symbols.address >> 24 == place >> 24)) for place in places]
    assert found[0] == found[1] > found[2] == found[3] == 1
    assert [known.symbols.name(place) for place in places[2:]] == ["tls_module.so"] * 2
    data = [id(segment.data) for segment in known.image.segments]
    assert len(data) == 4 * len(set(data))


def test_symbols_are_asked_for_by_name() -> None:
    library = [Symbol(0x100, 8, "a.so!stdout"), Symbol(0x200, 8, "b.so!environ")]
    program = [Symbol(0x10, 4, "main"), Symbol(0x20, 4, "stdout")]
    table = Symbols([*library, *program, Symbol(0x300, 8, "c.so!environ")], [Symbol(0, 0x1000, "main")])
    assert table.named("stdout") == program[1]
    assert table.named("a.so!stdout") == library[0]
    assert table.named("main") == program[0]
    assert table.named("environment") is table.named("") is None
    with pytest.raises(UsageError, match=r"b\.so!environ \(0x200\), c\.so!environ \(0x300\)"):
        table.named("environ")
    assert Symbols([], [Symbol(8, 8, "x.so")]).named("x.so") == Symbol(8, 8, "x.so")


def test_call_stubs_have_the_names_of_what_they_call() -> None:
    """Against the order of .rela.plt, which is that of the stubs after the first."""
    plt, names = section_of(MUTEXES, ".plt"), section_of(MUTEXES, ".dynsym")
    found = {symbol.name: symbol for symbol in call_stubs(MUTEXES)}
    relocations = list(section_of(MUTEXES, ".rela.plt").iter_relocations())
    assert relocations
    for number, relocation in enumerate(relocations):
        name = names.get_symbol(relocation["r_info_sym"]).name
        assert found[f"{name}@plt"] == Symbol(plt["sh_addr"] + 16 * (number + 1), 16, f"{name}@plt")
        assert found[f"{name}@got"] == Symbol(relocation["r_offset"], 8, f"{name}@got")
    assert found["__cxa_finalize@plt"].address == section_of(MUTEXES, ".plt.got")["sh_addr"]
    assert call_stubs(b"\x7fELF") == call_stubs(b"") == []


# -- code ------------------------------------------------------------------------------------------------


def test_instructions_are_the_files(tmp_path: Path) -> None:
    program = both(tmp_path)
    for raw, base in ((MUTEXES, BASE), (LIBRARY, LIBRARY_BASE)):
        text = section_of(raw, ".text")
        at = text["sh_offset"]
        assert program.instruction(text["sh_addr"] + base) == disassemble(
            raw[at : at + 16], text["sh_addr"] + base
        )
    assert program.instruction(BASE) == program.instruction(BASE - 1) == program.instruction(0) == UNKNOWN


def test_a_program_at_fixed_addresses(tmp_path: Path) -> None:
    raw = (PROGRAMS / "affinity").read_bytes()
    program = guest(tmp_path, loaded("/bin/affinity", raw, 0), program=raw)
    main = next(s for s in table_of(raw, "STT_FUNC") if s.name == "main")
    assert program.symbols.name(main["st_value"]) == "main"
    assert program.lines.at(main["st_value"]).startswith("affinity.c:")


def test_code_that_was_made_writable_is_not_guessed_at(tmp_path: Path) -> None:
    history = loaded("/bin/mutexes", MUTEXES, BASE)
    code = next(mapping for mapping in history if mapping.rights & X)
    changed = Mapping(code.start, code.end, R | W, file=code.file, offset=code.offset)
    assert guest(tmp_path, history).instruction(code.start) != WRITTEN
    program = guest(tmp_path, [*history, changed])
    assert program.instruction(code.start) == WRITTEN
    assert program.symbols.name(code.start)


def test_two_files_at_one_address_are_both_not_believed(tmp_path: Path) -> None:
    """A library that is unloaded, and another one loaded at its place; the same one again is no matter."""
    first = loaded("/lib/a.so", LIBRARY, LIBRARY_BASE)
    code = next(mapping.start for mapping in first if mapping.rights & X)
    assert guest(tmp_path, first, first).instruction(code) not in (WRITTEN, UNKNOWN)
    program = guest(tmp_path, first, loaded("/lib/b.so", MUTEXES, LIBRARY_BASE), program=b"\x7fELF")
    assert program.instruction(code) == WRITTEN
    assert "!" not in "".join(program.symbols.name(code + n) for n in range(0, 64, 4))
    assert program.lines.at(code + 0x200) == ""


def test_other_mappings_of_a_file_do_not_move_it(tmp_path: Path) -> None:
    """A program that looks at its own file, and a file that holds no program."""
    data = Mapping(0x5000_0000, 0x5000_4000, R, file=File("/bin/mutexes", MUTEXES))
    text = Mapping(0x6000_0000, 0x6000_1000, R | X, file=File("/etc/text", b"hello"))
    program = guest(tmp_path, [data, text], loaded("/bin/mutexes", MUTEXES, BASE))
    assert program.symbols.name(0x5000_1000) == program.symbols.name(0x6000_0000) == ""
    assert program.symbols.name(BASE) == "mutexes"
    assert not (tmp_path / "objects").exists()


# -- the index -------------------------------------------------------------------------------------------


def test_files_are_kept_once_and_mappings_too(tmp_path: Path) -> None:
    keeper = ObjectKeeper(tmp_path, manifest(MUTEXES))
    keeper.update([])
    assert not (tmp_path / "objects.json").exists()
    history = loaded("/bin/mutexes", MUTEXES, BASE)
    keeper.update(history)
    assert not (tmp_path / "objects").exists()
    before = (tmp_path / "objects.json").read_bytes()
    history = [*history, *history, *loaded("/lib/tls_module.so", LIBRARY, LIBRARY_BASE)]
    keeper.update(history)
    keeper.update(history)
    index = load_objects(tmp_path, manifest(MUTEXES))
    assert index is not None
    assert len(index) == len({*index}) == len(history) - 4
    assert [path.name for path in (tmp_path / "objects").iterdir()] == [hashlib.sha256(LIBRARY).hexdigest()]
    assert before != (tmp_path / "objects.json").read_bytes()
    assert not (tmp_path / "objects.json.partial").exists()


def test_a_program_that_maps_without_end_fills_no_index(tmp_path: Path) -> None:
    file = File("/bin/mutexes", MUTEXES)
    history = [Mapping(n << 12, (n + 1) << 12, R | X, file=file) for n in range(16, MOST_MAPPINGS + 100)]
    keeper = ObjectKeeper(tmp_path, manifest(MUTEXES))
    keeper.update(history)
    index = load_objects(tmp_path, manifest(MUTEXES))
    assert index is not None
    assert len(index) == MOST_MAPPINGS


def test_paths_that_are_not_printable(tmp_path: Path) -> None:
    guest(tmp_path, loaded("/bin/\x1b[2J\udcff" + "x" * 5000, LIBRARY, LIBRARY_BASE))
    index = load_objects(tmp_path, manifest(MUTEXES))
    assert index is not None
    assert index[0].path == "x" * 1024


_GOOD = {"path": "/a", "sha256": "0" * 64, "start": 4096, "end": 8192, "offset": 0, "rights": "r-x"}


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "../../../../etc/passwd"}, {"sha256": "A" * 64}, {"sha256": None}, {"start": 8192},
        {"start": -4096}, {"start": 1}, {"end": 1 << 40}, {"end": 1 << 70}, {"offset": 5},
        {"offset": 1 << 63}, {"offset": True}, {"rights": "rwxp"}, {"rights": 7}, {"path": "\x1b[2J"},
        {"path": "a" * 5000}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_hostile_indexes_are_one_clear_error(tmp_path: Path, change: dict[str, object]) -> None:
    what = manifest(MUTEXES)
    fields: dict[str, object] = {"id": what.id.hex(), "mappings": [_GOOD]}
    path = tmp_path / "objects.json"
    path.write_bytes(seal(fields))
    assert load_objects(tmp_path, what) is not None
    path.write_bytes(seal({**fields, "mappings": [{**_GOOD, **change}]}))
    with pytest.raises(FormatError, match=r"objects\.json.*mappings"):
        load_objects(tmp_path, what)


@pytest.mark.parametrize(
    "fields",
    [
        {"mappings": []}, {"id": "0" * 32, "mappings": []}, {"id": None, "mappings": []},
        {"mappings": {}}, {"mappings": [1]}, {"mappings": [_GOOD] * (MOST_MAPPINGS + 1)},
    ],
    ids=lambda fields: str(fields)[:40],
)  # fmt: skip
def test_hostile_indexes_as_a_whole(tmp_path: Path, fields: dict[str, object]) -> None:
    what = manifest(MUTEXES)
    known = {} if fields == {"mappings": []} or "id" in fields else {"id": what.id.hex()}
    (tmp_path / "objects.json").write_bytes(seal({**known, **fields}))
    with pytest.raises(FormatError, match=r"objects\.json"):
        load_objects(tmp_path, what)


def test_every_changed_byte_of_the_index_is_found(tmp_path: Path) -> None:
    both(tmp_path)
    path = tmp_path / "objects.json"
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(FormatError):
            load_objects(tmp_path, manifest(MUTEXES))
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(FormatError):
        load_objects(tmp_path, manifest(MUTEXES))


def test_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    both(tmp_path)
    kept = tmp_path / "objects" / hashlib.sha256(LIBRARY).hexdigest()
    kept.write_bytes(LIBRARY[:-1])
    with pytest.raises(FormatError, match="not the file that the guest mapped"):
        GuestProgram.of(tmp_path, manifest(MUTEXES))
    kept.unlink()
    program = GuestProgram.of(tmp_path, manifest(MUTEXES))
    assert program.lacks == ("copy of /lib/tls_module.so",)
    assert program.symbols.name(BASE) == "mutexes"
    (tmp_path / "program.elf").unlink()
    assert len(GuestProgram.of(tmp_path, manifest(MUTEXES)).lacks) == 2
    (tmp_path / "objects.json").unlink()
    assert GuestProgram.of(tmp_path, manifest(MUTEXES)).lacks == ("objects.json",)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_library_with_the_right_digest_is_no_error(tmp_path: Path, seed: int) -> None:
    """As a hostile author would write it."""
    choose = np.random.default_rng(seed)
    raw = np.frombuffer(LIBRARY, np.uint8).copy()
    headers = len(raw) - 64 * 34 if seed % 2 else 0
    places = choose.integers(headers, headers + (64 * 34 if seed % 2 else 0x400), 40)
    raw[places[places >= 4]] = choose.integers(0, 256, int((places >= 4).sum()))
    history = [
        Mapping(
            LIBRARY_BASE + (n << 12),
            LIBRARY_BASE + ((n + 1) << 12),
            R | X,
            file=File("/a", raw.tobytes()),
            offset=n << 12,
        )
        for n in range(4)
    ]
    program = guest(tmp_path, history)
    for address in range(LIBRARY_BASE, LIBRARY_BASE + 0x2000, 61):
        program.symbols.name(address), program.lines.at(address), program.instruction(address)
    shutil.rmtree(tmp_path / "objects", ignore_errors=True)
    json.loads((tmp_path / "objects.json").read_text())
