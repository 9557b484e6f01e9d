"""The README's examples of the command line can be repeated: what it shows is what is printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from cli_factory import ROOT, Ran, run

PAGES = ("README.md", "docs/sure.md")
_RECORD = ["record", "-o", "REC", "--cores", "4", "--strata", "cycles:10000", "firmware/x86_64/uts.elf"]
#: What differs from run to run.
_SECONDS = re.compile(r"\b\d+\.\d{3}$")


def examples(page: str) -> list[tuple[str, list[str]]]:
    """(command, lines shown) of every command on REC that a page shows something of."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *shown = part.rstrip().split("\n")
            command = command.split("  #")[0].strip()
            alone = command.startswith("corebraid ") and not set("|>&") & set(command)
            if alone and "REC" in command.split():
                found.append((command, [line for line in shown if line.strip()]))
    return found


def shown_by(ran: Ran) -> list[str]:
    """Lines of a command's output, and what it says besides."""
    return [_SECONDS.sub("S", line.rstrip()) for line in (*ran.out.splitlines(), *ran.err.splitlines())]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    folder = tmp_path_factory.mktemp("readme")
    program = ROOT / _RECORD[-1]
    return folder, run(*(folder / "REC" if word == "REC" else word for word in _RECORD[:-1]), program)


@pytest.mark.parametrize("page", PAGES)
def test_every_line_shown_is_printed(
    page: str, recorded: tuple[Path, Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, ran = recorded
    monkeypatch.chdir(folder)
    missing, lines = [], 0
    for command, shown in examples(page):
        words = shlex.split(command)[1:]
        if words[0] != "record":
            ran = run(*words)
        printed = [line.replace(f"{folder}/", "") for line in shown_by(ran)]
        assert ran.code == 0, (command, ran.err)
        lines += len(shown)
        for line in shown:
            if line != "..." and _SECONDS.sub("S", line.rstrip()) not in printed:
                missing.append((command, line, printed[:12]))
    assert lines > 20
    assert not missing, "\n".join(f"$ {command}\n- {line}\n+ " + "\n+ ".join(p) for command, line, p in missing)
