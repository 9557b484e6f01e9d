"""The committed firmware images: complete, unchanged, and of the shape that the machine expects."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import capstone
import pytest
from elftools.elf.elffile import ELFFile

FIRMWARE = Path(__file__).resolve().parents[2] / "firmware"
IMAGES = FIRMWARE / "x86_64"
PAGE = 4096
DEFAULT_MEMORY = 64 << 20
MAX_IMAGE_BYTES = 60_000
EXECUTE, WRITE = 1, 2
PROGRAMS = sorted(path.stem for path in (FIRMWARE / "src").glob("*.c"))

EVENT_SYMBOLS = {
    "fig1": {"x", *(f"fig1_{event}" for event in ("R1", "W2", "R3", "W4", "W5", "R6", "W7"))},
    "fig2": {"x", "y", *(f"fig2_{event}" for event in ("x1", "y2", "x3", "x4", "x5", "y6", "y7"))},
    "lightplay_fig1": {"A", "B", "C", "add"},
    "stride_fig2": {
        "x",
        "y",
        *(f"stride_{event}" for event in ["w1", "w2", "w3", "w4", "w5", "r6", "r7", "r8", "r9"]),
    },
    "uts": {"stealStack", "checkSteal", "ss_steal"},
}


def load_module(name: str) -> ModuleType:
    """firmware/<name>.py as a module of its own, run as a script is."""
    spec = importlib.util.spec_from_file_location(f"firmware_{name}", FIRMWARE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BUILD = load_module("build")
EXPECTED = load_module("expected")


def digests() -> dict[str, Any]:
    """The committed digests.json."""
    content: dict[str, Any] = json.loads((FIRMWARE / "digests.json").read_text())
    return content


def digest_problems(name: str, image: bytes) -> list[str]:
    """Empty when `image` has the committed digest of program `name`."""
    return (
        []
        if hashlib.sha256(image).hexdigest() == digests()["images"].get(name)
        else [f"{name}: other digest"]
    )


def segment_problems(elf: ELFFile) -> list[str]:
    """What is wrong with the PT_LOAD segments: pages shared, outside memory, or wrongly writable."""
    problems, owner = [], set()
    for segment in elf.iter_segments("PT_LOAD"):
        first, end = segment["p_vaddr"], segment["p_vaddr"] + segment["p_memsz"]
        pages = set(range(first // PAGE, -(-end // PAGE)))
        if first % PAGE or pages & owner or first == 0 or end > DEFAULT_MEMORY:
            problems.append(f"segment {first:#x}-{end:#x} does not have pages of its own in memory")
        owner |= pages
        patched = elf.get_section_by_name(".patched")
        may_patch = patched is not None and patched["sh_addr"] == first
        if segment["p_flags"] & WRITE and segment["p_flags"] & EXECUTE and not may_patch:
            problems.append(f"segment {first:#x} is writable and executable")
    return problems


def image_problems(image: bytes) -> list[str]:
    """Empty when `image` is a static x86-64 executable that the machine can start."""
    elf = ELFFile(io.BytesIO(image))
    problems = segment_problems(elf)
    if elf["e_machine"] != "EM_X86_64" or elf["e_type"] != "ET_EXEC" or elf.elfclass != 64:
        problems.append("not an x86-64 executable at fixed addresses")
    if any(segment["p_type"] in ("PT_INTERP", "PT_DYNAMIC") for segment in elf.iter_segments()):
        problems.append("not static")
    if not any(
        segment["p_flags"] & EXECUTE
        and segment["p_vaddr"] <= elf["e_entry"] < segment["p_vaddr"] + segment["p_filesz"]
        for segment in elf.iter_segments("PT_LOAD")
    ):
        problems.append("entry is not in an executable segment")
    if len(image) > MAX_IMAGE_BYTES:
        problems.append(f"{len(image)} bytes")
    return problems


def symbols(image: bytes) -> set[str]:
    """Names of the functions and objects of an image."""
    table = ELFFile(io.BytesIO(image)).get_section_by_name(".symtab")
    return {
        entry.name for entry in table.iter_symbols() if entry["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT")
    }


def vex_instructions(image: bytes) -> list[str]:
    """Instructions with a VEX or EVEX prefix in .text (0xC4, 0xC5, 0x62 lead nothing else in 64-bit mode)."""
    text = ELFFile(io.BytesIO(image)).get_section_by_name(".text")
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    return [
        str(found)
        for found in decoder.disasm(text.data(), text["sh_addr"])
        if found.bytes[0] in (0xC4, 0xC5, 0x62)
    ]


def committed(name: str) -> bytes:
    """The committed image of a program."""
    return (IMAGES / f"{name}.elf").read_bytes()


def run_build(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """firmware/build.py as a user runs it; `path` replaces PATH."""
    command = [sys.executable, str(FIRMWARE / "build.py"), *arguments]
    env = None if path is None else {"PATH": path}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_every_source_has_an_image_a_digest_and_an_expectation() -> None:
    assert sorted(path.stem for path in IMAGES.iterdir()) == PROGRAMS
    assert sorted(digests()["images"]) == PROGRAMS
    assert EXPECTED.program_names() == PROGRAMS


def test_images_are_as_new_as_their_sources() -> None:
    assert BUILD.sources_digest() == digests()["sources"], "run firmware/build.py"


@pytest.mark.parametrize("name", PROGRAMS)
def test_image(name: str) -> None:
    image = committed(name)
    assert digest_problems(name, image) == []
    assert image_problems(image) == []
    assert vex_instructions(image) == []
    assert str(FIRMWARE).encode() not in image
    fault = EXPECTED.expectation(name, 2).fault
    named = EVENT_SYMBOLS.get(name, set()) | ({fault.symbol} if fault else set())
    assert {"_start", "main", "park_core", "core_stacks"} | named <= symbols(image)


def test_a_changed_image_is_noticed() -> None:
    image = bytearray(committed("uts"))
    image[-1] ^= 1
    assert digest_problems("uts", bytes(image)) != []


def test_a_wrong_image_is_noticed() -> None:
    image = committed("smc")
    entry_moved = image[:24] + (0x300).to_bytes(8, "little") + image[32:]
    assert image_problems(entry_moved) == ["entry is not in an executable segment"]
    shared_object = image[:16] + b"\x03\x00" + image[18:]
    assert image_problems(shared_object) == ["not an x86-64 executable at fixed addresses"]
    text_flags = ELFFile(io.BytesIO(image))["e_phoff"] + 4
    all_writable = image[:text_flags] + b"\x07" + image[text_flags + 1 :]
    assert image_problems(all_writable) == ["segment 0x100000 is writable and executable"]


def test_a_vex_instruction_is_noticed() -> None:
    image = bytearray(committed("matmul"))
    text = ELFFile(io.BytesIO(bytes(image))).get_section_by_name(".text")
    start = text["sh_offset"]
    image[start : start + 4] = bytes.fromhex("c5f877f4")  # vzeroupper, hlt
    assert len(vex_instructions(bytes(image))) == 1


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("cores", [1, 2, 5, 64])
def test_expectation_is_well_formed(name: str, cores: int) -> None:
    for model in ("sc", "tso"):
        expectation = EXPECTED.expectation(name, cores, model)
        assert bool(expectation.outcomes) != bool(expectation.fault)
        assert all(b"{" not in pattern.pattern for _, pattern in expectation.outcomes)
    if expectation.fault:
        assert expectation.fault.core == (1 if cores > 1 else 0)


def test_expectation_allows_what_it_says_and_nothing_else() -> None:
    lost = EXPECTED.expectation("bug_lost_update", 4)
    assert lost.allows(0, b"bug_lost_update: expected 800 found 800\n")
    assert lost.allows(1, b"bug_lost_update: expected 800 found 314\n")
    assert not lost.allows(0, b"bug_lost_update: expected 800 found 314\n")
    assert not lost.allows(1, b"bug_lost_update: expected 800 found \n")
    assert not EXPECTED.expectation("bug_lost_update", 1).allows(
        1, b"bug_lost_update: expected 200 found 1\n"
    )
    assert EXPECTED.expectation("ring", 5).allows(0, b"ring: pairs 3 items 288 in order 288\n")
    assert EXPECTED.expectation("smc", 1).allows(0, b"smc: calls 40 right 40\n")
    assert not EXPECTED.expectation("peterson_nofence", 2).allows(1, b"peterson_nofence: count 23\n")
    assert EXPECTED.expectation("peterson_nofence", 2, "tso").allows(1, b"peterson_nofence: count 23\n")
    with pytest.raises(KeyError):
        EXPECTED.expectation("no_such_program", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "nowhere", "no_such_program"], "no such program: no_such_program"),
        (["uts"], "give --out"),
        ([], "gcc is not installed"),
    ],
)
def test_build_refuses_clearly(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = run_build(*arguments, path=str(tmp_path))
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert digest_problems("uts", committed("uts")) == []


if shutil.which("gcc"):

    def test_rebuild_runs_and_repeats(tmp_path: Path) -> None:
        names = ["smc", "timer"]
        for folder in ("first", "second"):
            result = run_build("--out", str(tmp_path / folder), *names)
            assert result.returncode == 0, result.stderr
        for name in names:
            first, second = (
                (tmp_path / folder / f"{name}.elf").read_bytes() for folder in ("first", "second")
            )
            assert first == second
            assert image_problems(first) == []
            assert {"_start", "main", "park_core", "core_stacks"} <= symbols(first)
