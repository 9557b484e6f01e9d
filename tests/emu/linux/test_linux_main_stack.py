"""The stack of the first thread: who may run code on it, and how far it grows."""

from __future__ import annotations

from pathlib import Path

import pytest
from guest import Code
from static_guest import static_program

from bench.linux_soak import examine
from corebraid.base.memory import ADDRESS_SPACE
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64
from recorder.capture.guest import LinuxOptions, guest_spec
from recorder.capture.linux import record_linux
from recorder.capture.options import RecordOptions
from recorder.files.reader import Recording

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
