"""Names of one instruction set stay where that one is: in `isa`, and natively in one folder of hooks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_factory import ROOT, run

from emu.board.elf import isa_of
from isa.registry import isa_named, isa_of_machine, linux_abi_of

_NAMES = re.compile(
    r"[xX]86|\b[RE](AX|BX|CX|DX|SI|DI|SP|IP|FLAGS)\b|\b[re](ax|bx|cx|dx|si|di|sp|ip|flags)\b"
    r"|\b(fs|gs)_base\b|\bmxcsr\b|\bfp[cs]w\b|(?i:cpuid|rdtsc|rdrand|cmpxchg)|\b(syscall|iretq?)\b",
)
#: What chooses by an instruction set's name: its tables, its decoder, its natively run parts.
REGISTRIES = ("isa/registry.py", "isa/decoder.py", "emu/hooks/registry.py")
#: What knows the machine code of the host: compiled kernels are kept as that.
HOST = ("corebraid/base/compiled/store.py",)
#: Those of x86-64 themselves.
OWN = ("isa/x86_64/", "emu/hooks/x86_64/")
#: Only words: an example that names a firmware image, a comment that says where something is from; and the C
#: library's function syscall(2), which every instruction set has.
_WORDS = re.compile(
    r"firmware/x86_64/|x86-64|x86-TSO|x86's|arch/x86/|emu\.hooks\.x86_64|syscall\(2\)|^ANY_CALL = \"syscall\""
)
_COMMENT = re.compile(r"#.*")


def _named(path: Path) -> list[str]:
    lines = (_COMMENT.sub("", line) for line in path.read_text().splitlines())
    return [line.strip() for line in lines if _NAMES.search(_WORDS.sub("", line))]


def _files() -> list[Path]:
    rooms = ("isa", "emu", "recorder", "solver", "corebraid")
    return [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]


def test_only_native_files_name_an_instruction_set() -> None:
    named = {str(path.relative_to(ROOT)): found for path in _files() if (found := _named(path))}
    assert not {
        path: found for path, found in named.items() if not path.startswith((*REGISTRIES, *OWN, *HOST))
    }
    assert named.keys() >= set(REGISTRIES)


def test_a_name_would_be_found(tmp_path: Path) -> None:
    for line in (
        'isa.read(context, "rax")',
        "from isa.x86_64.registers import X86_64",
        "x = x86.UC_X86_REG_RIP",
        "def set_cpuid(self) -> None:",
        "from corebraid.base.rows.record import INPUT_RDRAND",
        'return "a system call (syscall)"',
    ):
        path = tmp_path / "file.py"
        path.write_text(f"{line}\n# rax\n'firmware/x86_64/uts.elf'\n")
        assert _named(path) == [line]


# -- which one a program is for ------------------------------------------------------------------------------


def test_a_program_chooses_its_instruction_set() -> None:
    found = isa_of(ROOT / "firmware" / "x86_64" / "uts.elf")
    assert found is isa_named("x86_64") is isa_of_machine(62)
    assert linux_abi_of(found).arguments[0] in {register.name for register in found.registers}
    assert isa_of(ROOT / "README.md") is isa_of(ROOT / "not there") is isa_of_machine(None)


@pytest.mark.parametrize("program", ["linux/x86_64/static_hello", "x86_64/uts.elf"])
@pytest.mark.parametrize("machine", [183, 243, 0xFFFF])
def test_a_program_for_another_one_is_one_clear_error(tmp_path: Path, program: str, machine: int) -> None:
    raw = bytearray((ROOT / "firmware" / program).read_bytes())
    raw[18:20] = machine.to_bytes(2, "little")
    path = tmp_path / Path(program).name
    path.write_bytes(raw)
    path.chmod(0o755)
    ran = run("record", "-o", tmp_path / "rec", path)
    assert ran.code == 2
    assert len(ran.lines) == 1
    assert "EM_X86_64" in ran.lines[0]
    assert not (tmp_path / "rec").exists()
