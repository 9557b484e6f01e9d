"""The stack of the first thread: who may run code on it, and how far it grows."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from guest import Code
from linux_guest_factory import BootedGuest, hello_spec
from static_guest import call, static_program

from bench.linux_soak import examine
from corebraid.base.memory import ADDRESS_SPACE
from emu.linux.memory.mappings import Mapping
from emu.native.state import RIGHT_WRITE
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64
from recorder.capture.guest import LinuxOptions, guest_spec
from recorder.capture.linux import record_linux
from recorder.capture.options import RecordOptions
from recorder.files.reader import Recording

PAGE = 4096
_EXIT_GROUP = 231
#: mov edi,3; ret - which becomes 7 before it is called a second time.
_PUSHED, _CALLED_TWICE = 0x0000C300000003BF, "50 ff d4 c6 44 24 01 07 ff d4"


def _ended(program: Path, folder: Path) -> tuple[str, int | None]:
    """Records it; how it ended, and its exit code."""
    spec = guest_spec(program, "guest", (), 64 << 20, b"", LinuxOptions(system=False))
    options = RecordOptions(cores=2, seed=1, memory_bytes=ADDRESS_SPACE)
    said = bytearray()
    record_linux(spec, folder, X86_64, LINUX_X86_64, options, said.extend, said.extend)
    end = Recording.open(folder).manifest.end
    return end.reason, end.exit_code


@pytest.mark.parametrize(
    ("flags", "result"), [(7, ("exit", 7)), (6, ("signal", 139)), (None, ("signal", 139)), (1, ("exit", 7))]
)
def test_code_on_the_stack(flags: int | None, result: tuple[str, int], tmp_path: Path) -> None:
    """Written there, run, written again and run: where PT_GNU_STACK says so, as of nested functions in C."""
    code = Code().mov("rax", _PUSHED).raw(_CALLED_TWICE).mov("rax", _EXIT_GROUP).raw("0f 05")
    assert _ended(static_program(tmp_path / "guest", code, stack=flags), tmp_path / "rec") == result
    assert examine(tmp_path / "rec").undecided == 0


@pytest.fixture
def guest() -> Iterator[BootedGuest]:
    booted = BootedGuest(hello_spec())
    yield booted
    booted.close()


def _stack(guest: BootedGuest) -> Mapping:
    return next(one for one in guest.process.space.mappings if one.name == "[stack]")


def _limit(guest: BootedGuest, size: int) -> None:
    assert guest.call("setrlimit", 3, guest.put(struct.pack("<QQ", size, (1 << 64) - 1))) == 0


def test_the_stack_at_first(guest: BootedGuest) -> None:
    """Arguments and 128 KiB, as natively with an empty environment; it can grow to 8 MiB."""
    stack, space = _stack(guest), guest.process.space
    assert stack.end - stack.start == 132 << 10
    assert not space.present(stack.end - (8 << 20) - 1, RIGHT_WRITE)
    assert space.present(stack.end - (8 << 20), RIGHT_WRITE)
    assert _stack(guest).end - _stack(guest).start == 8 << 20


def test_the_stack_grows_to_the_limit_of_now(guest: BootedGuest) -> None:
    """Raised, lowered below what there is, and away from a mapping that was put below it."""
    end, space = _stack(guest).end, guest.process.space
    _limit(guest, 64 << 20)
    assert space.present(end - (60 << 20), RIGHT_WRITE)
    assert not space.present(end - (65 << 20), RIGHT_WRITE)
    _limit(guest, 1 << 20)
    assert space.present(end - (59 << 20), RIGHT_WRITE)
    assert not space.present(end - (61 << 20), RIGHT_WRITE)
    _limit(guest, (1 << 64) - 1)
    at = end - (100 << 20)
    assert guest.call("mmap", at, PAGE, 3, 0x32, -1, 0) == at
    assert not space.present(at + 256 * PAGE, RIGHT_WRITE)
    assert space.present(at + 257 * PAGE, RIGHT_WRITE)
    assert guest.call("mmap", 0, PAGE, 3, 0x22, -1, 0) < end - (1 << 30)


@pytest.mark.parametrize(("limit", "result"), [(64 << 20, ("exit", 5)), (2 << 20, ("signal", 139))])
def test_a_program_that_sets_the_limit_of_its_stack(
    limit: int, result: tuple[str, int], tmp_path: Path
) -> None:
    """setrlimit, then a store 30 MiB below: natively it ends with 5, or is killed."""
    code = Code().mov("rax", (1 << 64) - 1).raw("50").mov("rax", limit).raw("50 48 89 e6")
    code = call(code, 160, rdi=3).mov("rdi", 5).raw("48 89 bc 24 00 00 20 fe")
    program = static_program(tmp_path / "guest", code.mov("rax", _EXIT_GROUP).raw("0f 05"), stack=6)
    assert _ended(program, tmp_path / "rec") == result
    assert examine(tmp_path / "rec").undecided == 0
