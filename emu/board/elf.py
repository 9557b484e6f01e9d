"""Loading a firmware image: a static 64-bit ELF whose segments lie in RAM."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from corebraid.base.errors import ImageError, unless_short
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.wording import Option, Phrase
from isa.registry import isa_of_machine
from isa.table import Isa

#: What pyelftools raises on damaged input, besides its own exception.
ELF_DAMAGE = (
    ELFError, ValueError, KeyError, IndexError, OverflowError, TypeError, AssertionError, AttributeError,
)  # fmt: skip

#: Each has its bytes to itself.
_MOST_SEGMENTS = 256


@dataclass(frozen=True)
class Segment:
    """One loadable segment: address, bytes in the file, size in memory, p_flags (R 4, W 2, X 1)."""

    address: int
    data: bytes
    size: int
    flags: int


@dataclass(frozen=True)
class Image:
    """A loaded program: its entry point and segments."""

    entry: int
    segments: tuple[Segment, ...]


def isa_of(program: Path) -> Isa:
    """The instruction set of an ELF file. Of what is none, or of an instruction set that is not here, the
    first there is: `load_image` and `parse_program` then say what they expected and found."""
    try:
        with program.open("rb") as file:
            head = file.read(20)
    except OSError:
        head = b""
    elf = len(head) == 20 and head[:4] == b"\x7fELF"
    return isa_of_machine(int.from_bytes(head[18:], "little") if elf else None)


def load_image(path: Path, isa: Isa, memory_bytes: int) -> tuple[Image, bytes]:
    """Read and check an ELF file for `isa`. Returns the image and the file's bytes.

    Raises ImageError naming the file, what is wrong with it and what to do.
    """
    where = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        unless_short(error)
        raise ImageError(
            "the program cannot be read", found=error.strerror, where=where, remedy="check the path"
        ) from None
    if raw[:4] != b"\x7fELF":
        raise ImageError(
            "not an ELF image",
            expected="bytes 7f 45 4c 46",
            found=raw[:4].hex(" ") or "an empty file",
            where=where,
            remedy="build a static ELF for this machine, as firmware/build.py does",
        )
    try:
        return _parse(raw, where, isa, memory_bytes), raw
    except ImageError:
        raise
    except ELF_DAMAGE as error:
        raise ImageError(
            "the ELF image is damaged", found=str(error) or type(error).__name__, where=where,
            remedy="build it again",
        ) from None  # fmt: skip


def _parse(raw: bytes, where: str, isa: Isa, memory_bytes: int) -> Image:
    elf = ELFFile(io.BytesIO(raw))
    if elf.elfclass != 64 or elf["e_machine"] != isa.elf_machine:
        raise ImageError(
            "the image is for another instruction set",
            expected=f"64-bit {isa.elf_machine}",
            found=f"{elf.elfclass}-bit {elf['e_machine']}",
            where=where,
            remedy=f"build it for {isa.name}",
        )
    if elf["e_type"] != "ET_EXEC":
        raise ImageError(
            "the image is not a static executable",
            expected="ET_EXEC",
            found=elf["e_type"],
            where=where,
            remedy="link with -static -no-pie",
        )
    if elf.num_segments() > _MOST_SEGMENTS:
        raise ImageError(
            "the image has too many segments",
            expected=f"at most {_MOST_SEGMENTS}",
            found=str(elf.num_segments()),
            where=where,
            remedy="check the linker script",
        )
    segments = []
    for header in elf.iter_segments():
        if header["p_type"] == "PT_LOAD" and header["p_memsz"]:
            segments.append(_segment(header, where, memory_bytes))
    if not segments:
        raise ImageError("the image has nothing to load", where=where, remedy="check the linker script")
    entry = elf["e_entry"]
    if not any(s.address <= entry < s.address + s.size and s.flags & 1 for s in segments):
        raise ImageError(
            "the entry point lies outside the image's executable segments",
            found=f"{entry:#x}",
            where=where,
            remedy="check ENTRY in the linker script",
        )
    return Image(entry, tuple(segments))


def _segment(header: object, where: str, memory_bytes: int) -> Segment:
    address, size = header["p_vaddr"], header["p_memsz"]  # type: ignore[index]
    data = header.data()  # type: ignore[attr-defined]
    if address < PAGE_BYTES or address + size > memory_bytes:
        raise ImageError(
            "the image needs memory that is not there",
            expected=f"segments in [{PAGE_BYTES:#x}, {memory_bytes:#x})",
            found=f"[{address:#x}, {address + size:#x})",
            where=where,
            remedy=Phrase("give more with ", Option("memory"), ", or link it lower"),
        )
    if len(data) != header["p_filesz"] or len(data) > size:  # type: ignore[index]
        raise ImageError("a segment's bytes are cut off", where=where, remedy="build it again")
    return Segment(address, data, size, header["p_flags"])  # type: ignore[index]
