"""A program file as the loader sees it: an ELF file or a script. Sources: elf(5), execve(2)."""

from __future__ import annotations

import io
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment, Segment

from corebraid.base.errors import ImageError
from corebraid.base.memory import PAGE_BYTES
from isa.table import Isa

_DAMAGE = (
    ELFError, ValueError, KeyError, IndexError, OverflowError, TypeError, AssertionError, AttributeError,
    UnicodeDecodeError,
)  # fmt: skip
_PF_X = 1
#: Longest first line of a script that counts (execve(2)).
_SCRIPT_LINE = 255
#: Scripts that are interpreted by scripts, at most (execve(2)).
MOST_SCRIPTS = 4


@dataclass(frozen=True)
class Load:
    """A PT_LOAD segment: where, how long in memory, from where in the file, how long there, p_flags."""

    address: int
    memory: int
    offset: int
    file: int
    flags: int


@dataclass(frozen=True)
class Program:
    """An ELF file that can be loaded. relocatable: its addresses are relative to where it is put. headers:
    address of the program headers; interpreter: path, or ""; needed: names of shared libraries.
    executable_stack: it asks for one (PT_GNU_STACK)."""

    relocatable: bool
    entry: int
    loads: tuple[Load, ...]
    headers: int
    header_bytes: int
    n_headers: int
    interpreter: str
    needed: tuple[str, ...]
    library_path: tuple[str, ...]
    executable_stack: bool = False

    @property
    def low(self) -> int:
        """The lowest address."""
        return min(load.address for load in self.loads)

    @property
    def high(self) -> int:
        """The first address behind it."""
        return max(load.address + load.memory for load in self.loads)


def script_interpreter(raw: bytes) -> tuple[str, str] | None:
    """(interpreter, its one argument or "") of a script, None of anything else."""
    if raw[:2] != b"#!":
        return None
    line = raw[2:_SCRIPT_LINE].split(b"\n")[0].strip(b" \t\r")
    path, _, argument = line.partition(b" ")
    return path.decode("utf-8", "surrogateescape"), argument.strip(b" \t").decode("utf-8", "surrogateescape")


def found_by_env(interpreter: str, argument: str) -> str | None:
    """The program of a line `#!/usr/bin/env NAME`, None of another: env would replace itself by it."""
    if interpreter.rpartition("/")[2] != "env" or not argument or " " in argument:
        return None
    return None if argument.startswith("-") or "=" in argument or "/" in argument else argument


def is_linux_program(raw: bytes, name: str = "") -> bool:
    """Whether these bytes are a Linux program (or script), as far as can be told from firmware: that is
    static, and does not load its own headers. What shows neither is firmware if its name ends in .elf."""
    by_name = not name.endswith(".elf")
    if raw[:4] != b"\x7fELF":
        return by_name
    try:
        elf = ELFFile(io.BytesIO(raw))
        for segment in elf.iter_segments():
            if segment["p_type"] in ("PT_INTERP", "PT_TLS", "PT_NOTE", "PT_DYNAMIC", "PT_PHDR"):
                return True
            if segment["p_type"] == "PT_LOAD" and not segment["p_offset"] and segment["p_filesz"]:
                return True
        return by_name and elf["e_type"] != "ET_EXEC"
    except _DAMAGE:
        return by_name


def parse_program(raw: bytes, where: str, isa: Isa) -> Program:
    """Read an ELF file. Raises ImageError that says what is wrong with it and what to do."""
    if raw[:4] != b"\x7fELF":
        raise ImageError(
            "not a program",
            expected="an ELF file or a script with #!",
            found=raw[:4].hex(" ") or "an empty file",
            where=where,
            remedy="name an executable for Linux",
        )
    if len(raw) > 4 and raw[4] == 1:
        raise ImageError(
            "a 32-bit program", expected="a 64-bit one", where=where, remedy="build it without -m32"
        )
    try:
        return _parse(ELFFile(io.BytesIO(raw)), where, isa)
    except ImageError:
        raise
    except _DAMAGE as error:
        raise ImageError(
            "the ELF file is damaged", found=str(error) or type(error).__name__, where=where,
            remedy="get the program again",
        ) from None  # fmt: skip


def _parse(elf: ELFFile, where: str, isa: Isa) -> Program:
    if elf["e_machine"] != isa.elf_machine:
        raise ImageError(
            "a program for another instruction set",
            expected=isa.elf_machine,
            found=elf["e_machine"],
            where=where,
            remedy=f"use a program for {isa.name}",
        )
    kind = elf["e_type"]
    if kind == "ET_CORE":
        raise ImageError("a core dump, not a program", where=where, remedy="name the program that left it")
    if kind not in ("ET_EXEC", "ET_DYN"):
        raise ImageError(
            "not an executable", expected="ET_EXEC or ET_DYN", found=kind, where=where, remedy="link it first"
        )
    segments = list(elf.iter_segments())
    loads = tuple(
        Load(s["p_vaddr"], s["p_memsz"], s["p_offset"], s["p_filesz"], s["p_flags"])
        for s in segments
        if s["p_type"] == "PT_LOAD" and s["p_memsz"]
    )
    if not loads:
        raise ImageError("the program has nothing to load", where=where, remedy="get the program again")
    if any(
        load.file > load.memory or load.address % PAGE_BYTES != load.offset % PAGE_BYTES for load in loads
    ):
        raise ImageError("a segment that cannot be mapped", where=where, remedy="get the program again")
    _check_bytes(elf, loads, where)
    headers = next((s["p_vaddr"] for s in segments if s["p_type"] == "PT_PHDR"), None)
    if headers is None:
        inside = [x for x in loads if x.offset <= elf["e_phoff"] < x.offset + x.file]
        headers = inside[0].address + elf["e_phoff"] - inside[0].offset if inside else 0
    interpreter = next((s.get_interp_name() for s in segments if isinstance(s, InterpSegment)), "")
    tags = [tag for s in segments if isinstance(s, DynamicSegment) for tag in s.iter_tags()]
    return Program(
        kind == "ET_DYN", elf["e_entry"], loads, headers, elf["e_phentsize"], elf["e_phnum"], interpreter,
        tuple(str(getattr(t, "needed", "")) for t in tags if t.entry.d_tag == "DT_NEEDED"),
        tuple(
            part
            for name, tag in (("runpath", "DT_RUNPATH"), ("rpath", "DT_RPATH"))
            for t in tags
            if t.entry.d_tag == tag
            for part in str(getattr(t, name)).split(":")
            if part
        ),
        _wants_executable_stack(segments),
    )  # fmt: skip


def _wants_executable_stack(segments: list[Segment]) -> bool:
    """Whether the last PT_GNU_STACK says so. A file without one does not, as Linux has it for 64 bits;
    what the interpreter's says is nobody's concern (load_elf_binary in fs/binfmt_elf.c)."""
    flags = [s["p_flags"] for s in segments if s["p_type"] == "PT_GNU_STACK"]
    return bool(flags and flags[-1] & _PF_X)


def _check_bytes(elf: ELFFile, loads: tuple[Load, ...], where: str) -> None:
    elf.stream.seek(0, io.SEEK_END)
    size = elf.stream.tell()
    short = next((load for load in loads if load.offset + load.file > size), None)
    if short is not None:
        raise ImageError(
            "the program is cut off",
            expected=f"at least {short.offset + short.file} bytes",
            found=f"{size}",
            where=where,
            remedy="get the program again",
        )
