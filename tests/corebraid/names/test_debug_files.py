"""Debug information that is kept apart: found where debuggers look for it, and taken only where it fits."""

from __future__ import annotations

import random
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from cli_factory import ROOT, elf, record
from stack_factory import compiled, elf_with, needs_gcc

from corebraid.base.errors import UsageError
from corebraid.names.asked_places import AskedPlaces
from corebraid.names.debug_files import DebugFiles, build_id, debug_link
from corebraid.names.placed_files import PlacedPart
from corebraid.names.program import GuestProgram
from corebraid.study.stacks import stack_at_end
from recorder.files.reader import Recording

pytestmark = pytest.mark.skipif(shutil.which("objcopy") is None, reason="there is no objcopy to part files")


@pytest.fixture
def parted(tmp_path: Path) -> tuple[Path, Path]:
    """A program without symbols, and its debug file."""
    program = compiled(tmp_path, "small.c", "int main(void) { return 0; }", "-Wl,--build-id=sha1")
    debug = tmp_path / "small.debug"
    for command in (
        ["objcopy", "--only-keep-debug", program, debug],
        ["strip", program],
        ["objcopy", f"--add-gnu-debuglink={debug}", program],
    ):
        subprocess.run(command, check=True)
    return program, debug


def found(program: Path) -> bytes | None:
    return DebugFiles().of(PlacedPart(0, 1, 0, program.name, program.read_bytes(), str(program)))


def look_in(folder: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COREBRAID_DEBUG_FILES", str(folder))


@needs_gcc
def test_by_the_identifier_of_the_build(
    parted: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, debug = parted
    build = build_id(program.read_bytes())
    assert build is not None
    assert len(build) == 20
    assert build_id(debug.read_bytes()) == build
    folder = tmp_path / "root" / ".build-id" / build.hex()[:2]
    folder.mkdir(parents=True)
    place = folder / f"{build.hex()[2:]}.debug"
    raw = debug.read_bytes()
    debug.rename(place)
    look_in(tmp_path / "root", monkeypatch)
    assert found(program) == raw
    # Of another build.
    place.write_bytes((ROOT / "firmware" / "linux" / "x86_64" / "crash").read_bytes())
    assert found(program) is None
    place.unlink()
    place.mkdir()
    assert found(program) is None


@needs_gcc
@pytest.mark.parametrize("where", ["beside", "hidden", "root"])
def test_by_name_and_checksum(
    where: str, parted: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, debug = parted
    raw = debug.read_bytes()
    assert debug_link(program.read_bytes()) == ("small.debug", zlib.crc32(raw))
    root = tmp_path / "root"
    look_in(root, monkeypatch)
    places = {"beside": tmp_path, "hidden": tmp_path / ".debug", "root": Path(root, *tmp_path.parts[1:])}
    place = places[where] / debug.name
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(debug, place)
    assert found(program) == raw
    look_in("", monkeypatch)
    assert found(program) is None
    look_in(root, monkeypatch)
    place.write_bytes(raw + b"\0")
    assert found(program) is None


@pytest.mark.parametrize("name", [b"a/b\0", b"../x\0", b"\x1b[31m\0", b"", b"no end"])
def test_names_that_lead_elsewhere(name: bytes) -> None:
    link = name + bytes(-len(name) % 4) + b"\x01\x02\x03\x04"
    assert debug_link(elf_with({".gnu_debuglink": (link if name.endswith(b"\0") else name, 0)})) is None


def test_damage() -> None:
    assert build_id(b"no ELF") is debug_link(b"no ELF") is None
    assert build_id(elf()) is debug_link(elf()) is None
    link = b"x.debug\0" + b"\x01\x00\x00\x00"
    assert debug_link(elf_with({".gnu_debuglink": (link, 0)})) == ("x.debug", 1)
    draw = random.Random(5)
    raw = Path(shutil.which("objcopy") or "").read_bytes()[:200_000]
    for _ in range(50):
        changed = bytearray(raw)
        for _ in range(30):
            changed[draw.randrange(0x1000)] = draw.randrange(256)
        build_id(bytes(changed))
        debug_link(bytes(changed))


@needs_gcc
def test_a_stack_has_names_and_lines_from_there(
    parted: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "int *volatile p; __attribute__((noinline)) int leaf(void) { return *p; }\n"
    source += "int main(void) { return leaf() + 1; }\n"
    program, debug = compiled(tmp_path, "small.c", source, "-O1"), tmp_path / "small.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", program], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    record(tmp_path / "rec", program, "--cores", 1)

    def told() -> list[tuple[str, str]]:
        stack = stack_at_end(tmp_path / "rec", Recording.open(tmp_path / "rec").manifest)
        assert stack is not None
        return [(one.name.partition("+")[0].rpartition("!")[2], one.line) for one in stack.first[:2]]

    assert told() == [("small", ""), ("small", "")]
    look_in(tmp_path / "nothing", monkeypatch)
    assert told() == [("leaf", "small.c:1"), ("main", "small.c:2")]
    stack = stack_at_end(tmp_path / "rec", Recording.open(tmp_path / "rec").manifest)
    assert stack is not None
    assert stack.first[0].text().startswith("#0 leaf")
    # What is shown is accepted.
    recording = Recording.open(tmp_path / "rec")
    asked = AskedPlaces(GuestProgram.of(recording.path, recording.manifest))
    at = stack.first[0].pc
    for places in (asked.function("leaf"), asked.instruction("small.c:1")):
        assert any(one.low <= at < one.high for one in places)
    assert asked.instruction(stack.first[0].name)[0].low == at
    with pytest.raises(UsageError, match="no code of the line"):
        asked.instruction("small.c:9")
    with pytest.raises(UsageError, match="no such address or symbol"):
        asked.function("nobody")
