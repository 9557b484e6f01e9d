"""What a command may load, and what --help teaches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_factory import FIRMWARE, ROOT, record, run

HEAVY = ("numba", "unicorn", "z3", "pyarrow", "capstone", "numpy", "rich", "elftools")


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small recording."""
    path = tmp_path_factory.mktemp("light") / "rec"
    assert record(path, "fig1", "--cores", 2).code == 0
    return path


def light(rec: Path) -> list[list[str]]:
    """Commands that load neither kernels nor an emulator."""
    return [
        ["--help"],
        ["--version"],
        ["trace", "--help"],
        ["example"],
        ["info", str(rec)],
        ["info", str(rec), "--json"],
    ]


def test_light_commands_load_nothing_heavy(rec: Path) -> None:
    code = (
        "import sys\nfrom corebraid.__main__ import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    for arguments in light(rec):
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert ran.stderr.splitlines()[-1] == "[]", arguments
        assert ran.stdout


def commands_that_compute(rec: Path) -> list[list[str]]:
    """On a small recording, and one that makes another."""
    traces = rec.with_name("traces")
    traces.write_text("0: M[0] := 1\n1: M[0] == 1\ncheck\n")
    return [
        ["record", "-o", "{new}", "--cores", "2", str(FIRMWARE / "fig1.elf")],
        ["replay", str(rec), "--all"],
        ["trace", str(rec), "--limit", "3"],
        ["order", str(rec)],
        ["verify", str(rec)],
        ["crosscheck", str(rec)],
        ["pairs", str(rec)],
        ["check", "--model", "sc", str(traces)],
    ]


def test_what_was_done_once_is_done_without_numba(rec: Path, tmp_path: Path) -> None:
    """Compiled kernels are loaded by themselves."""
    code = (
        "import sys\nfrom corebraid.__main__ import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "print('numba' in sys.modules, file=sys.stderr)"
    )
    for arguments in commands_that_compute(rec):
        said = [
            subprocess.run(
                [sys.executable, "-c", code, *(word.format(new=tmp_path / str(k)) for word in arguments)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            ).stderr.splitlines()[-1]
            for k in range(2)
        ]
        assert said[-1] == "False", arguments


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = f"import sys, corebraid; print([name for name in {HEAVY!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize(
    "command", ["record", "info", "replay", "order", "pairs", "check-order", "check", "trace", "verify"]
)
def test_help_teaches(command: str) -> None:
    ran = run(command, "--help")
    assert ran.code == 0
    assert f"corebraid {command} " in ran.out.split("Options:")[0].split("Example")[1]
    assert all(len(line) <= 100 for line in ran.out.splitlines())


def test_the_front_page_names_every_command_and_exit_code() -> None:
    out = run("--help").out
    for part in ("record", "check-order", "verify", "Exit codes: 0 fine; 1", "2 wrong use", "3 the guest"):
        assert part in " ".join(out.split())
