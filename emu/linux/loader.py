"""Loading a program: its segments, its interpreter and the first stack.

Sources: execve(2); System V AMD64 ABI, 3.4.1 (initial process stack); getauxval(3).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from corebraid.base.errors import ImageError
from corebraid.base.memory import PAGE_BYTES
from emu.linux.files.open_file import MappedFile
from emu.linux.ground.limits import RESOURCES, RLIMIT_STACK
from emu.linux.memory.address_space import AddressSpace
from emu.linux.memory.pages import page_ceiling, page_floor
from emu.linux.program import Program
from emu.native.state import RIGHT_EXECUTE, RIGHT_READ, RIGHT_WRITE
from isa.abi import LinuxAbi

#: Where relocatable programs and, if nothing else fits, the heap begin.
_PROGRAM_BASE = 0x1_0000_0000
_STACK_BYTES = RESOURCES[RLIMIT_STACK].soft
#: Free space below the end of the address space.
_STACK_GAP = 1 << 20
#: What is mapped below the arguments at first; the rest comes by growing (stack_expand in fs/exec.c).
_STACK_AHEAD = 128 << 10
#: Below the end of the stack nothing is put unless asked for, so that a program that raises RLIMIT_STACK can
#: use it. Linux keeps 128 MiB at least, and as a rule some GiB (mmap_base in arch/x86/mm/mmap.c).
_STACK_ROOM = 1 << 30
#: Most bytes of arguments and environment together (a quarter of the stack, execve(2)).
_MOST_ARGUMENTS = _STACK_BYTES // 4

(
    _AT_PHDR, _AT_PHENT, _AT_PHNUM, _AT_PAGESZ, _AT_BASE, _AT_FLAGS, _AT_ENTRY,
) = range(3, 10)  # fmt: skip
_AT_UID, _AT_EUID, _AT_GID, _AT_EGID, _AT_PLATFORM, _AT_HWCAP, _AT_CLKTCK = range(11, 18)
_AT_SECURE, _AT_RANDOM, _AT_HWCAP2, _AT_EXECFN = 23, 25, 26, 31

#: Puts bytes into memory before anything runs.
Store = Callable[[int, bytes], None]


@dataclass(frozen=True)
class Executable:
    """A program or interpreter with its bytes. path: in the guest."""

    path: str
    raw: bytes
    program: Program
    file: MappedFile


@dataclass(frozen=True)
class Loaded:
    """Where a process begins. auxiliary: the vector's bytes, for /proc/self/auxv."""

    entry: int
    stack_pointer: int
    auxiliary: bytes


def load_process(
    space: AddressSpace,
    store: Store,
    program: Executable,
    interpreter: Executable | None,
    arguments: tuple[bytes, ...],
    environment: tuple[bytes, ...],
    abi: LinuxAbi,
    source: random.Random,
    ids: tuple[int, int] = (1000, 1000),
) -> Loaded:
    """Map everything, and build the stack. Raises ImageError where the program does not fit."""
    bias = _map(space, store, program, _PROGRAM_BASE if program.program.relocatable else 0)
    heap = page_ceiling(program.program.high + bias)
    space.heap = space.heap_end = heap
    entry, base = program.program.entry + bias, 0
    top = space.size - _STACK_GAP
    space.mappings.begin_below(top - _STACK_ROOM)
    if interpreter is not None:
        size = page_ceiling(interpreter.program.high)
        place = space.mappings.find_room(size, False) if interpreter.program.relocatable else 0
        if place is None:
            raise ImageError("no room for the interpreter", where=interpreter.path, remedy="report this")
        base = _map(space, store, interpreter, place)
        entry = interpreter.program.entry + base
    rights = RIGHT_READ | RIGHT_WRITE | (RIGHT_EXECUTE if program.program.executable_stack else 0)
    space.map(top - _STACK_AHEAD, _STACK_AHEAD, rights, name="[stack]", grows=True)
    vector = [
        (_AT_HWCAP, abi.hwcap), (_AT_PAGESZ, PAGE_BYTES), (_AT_CLKTCK, 100),
        (_AT_PHDR, program.program.headers + bias), (_AT_PHENT, program.program.header_bytes),
        (_AT_PHNUM, program.program.n_headers), (_AT_BASE, base), (_AT_FLAGS, 0),
        (_AT_ENTRY, program.program.entry + bias), (_AT_UID, ids[0]), (_AT_EUID, ids[0]), (_AT_GID, ids[1]),
        (_AT_EGID, ids[1]), (_AT_SECURE, 0), (_AT_HWCAP2, abi.hwcap2),
    ]  # fmt: skip
    return _build_stack(space, store, top, entry, vector, program.path, arguments, environment, abi, source)


def _map(space: AddressSpace, store: Store, executable: Executable, base: int) -> int:
    """Map the segments with `base` added. Returns the bias."""
    program = executable.program
    bias = base - page_floor(program.low) if program.relocatable else 0
    for load in program.loads:
        start = page_floor(load.address + bias)
        file_end = page_ceiling(load.address + bias + load.file)
        end = page_ceiling(load.address + bias + load.memory)
        if end > space.size >> 1 and not program.relocatable:
            raise ImageError(
                "the program is linked to addresses that the guest does not have",
                expected=f"below {space.size >> 1:#x}",
                found=f"{end:#x}",
                where=executable.path,
                remedy="link it position-independent",
            )
        if load.file:
            offset = page_floor(load.offset)
            space.map(start, file_end - start, load.flags & 7, file=executable.file, offset=offset)
        if end > file_end or not load.file:
            begin = file_end if load.file else start
            space.map(begin, end - begin, load.flags & 7)
        if load.file and load.memory > load.file:
            # The rest of the last page of the file is zero.
            zero = load.address + bias + load.file
            if zero < file_end:
                space.reach(page_floor(zero), PAGE_BYTES, RIGHT_READ)
                store(zero, bytes(file_end - zero))
    return bias


def _build_stack(
    space: AddressSpace,
    store: Store,
    top: int,
    entry: int,
    vector: list[tuple[int, int]],
    path: str,
    arguments: tuple[bytes, ...],
    environment: tuple[bytes, ...],
    abi: LinuxAbi,
    source: random.Random,
) -> Loaded:
    at = top - 8

    def put(data: bytes) -> int:
        nonlocal at
        at -= len(data)
        pieces.append((at, data))
        return at

    pieces: list[tuple[int, bytes]] = []
    if sum(len(text) + 9 for text in arguments + environment) > _MOST_ARGUMENTS:
        raise ImageError(
            "the arguments are too long", expected=f"at most {_MOST_ARGUMENTS} bytes", where=path
        )
    name = put(path.encode("utf-8", "surrogateescape") + b"\0")
    environment_at = [put(text + b"\0") for text in reversed(environment)][::-1]
    arguments_at = [put(text + b"\0") for text in reversed(arguments)][::-1]
    platform = put(abi.platform.encode() + b"\0")
    at &= -16
    random_at = put(source.randbytes(16))
    vector = [
        *vector, (_AT_RANDOM, random_at), (_AT_EXECFN, name), (_AT_PLATFORM, platform), (0, 0)
    ]  # fmt: skip
    auxiliary = b"".join(number.to_bytes(8, "little") for pair in vector for number in pair)
    words = [len(arguments), *arguments_at, 0, *environment_at, 0]
    table = b"".join(word.to_bytes(8, "little") for word in words) + auxiliary
    at = (at - len(table)) & -16
    pieces.append((at, table))
    space.reach(at, top - at, RIGHT_WRITE)
    space.mappings.grow(page_floor(at) - _STACK_AHEAD)
    for address, data in pieces:
        store(address, data)
    return Loaded(entry, at, auxiliary)
