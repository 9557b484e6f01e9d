"""The examples of the README and the docs can be repeated: what they show is what is printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from cli_factory import ROOT, Ran, run

PAGES = ("README.md", "docs/sure.md", "docs/linkage.md", "docs/opr.md", "docs/crosscheck.md")
#: What differs from run to run.
_SECONDS = re.compile(r" *\b\d+\.\d{3,}\b")


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
    return [_SECONDS.sub(" S", line.rstrip()) for line in (*ran.out.splitlines(), *ran.err.splitlines())]


def is_printed(line: str, printed: list[str]) -> bool:
    """Whether a line shown is among them; one that ends in ... may go on."""
    wanted = _SECONDS.sub(" S", line.rstrip())
    if wanted.endswith(" ..."):
        return any(one.startswith(wanted[:-4]) for one in printed)
    return wanted in printed


@pytest.mark.parametrize("page", PAGES)
def test_every_line_shown_is_printed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "firmware").symlink_to(ROOT / "firmware")
    missing, lines = [], 0
    for command, shown in examples(page):
        words = shlex.split(command)[1:]
        if not shown and words[0] != "record":
            continue
        ran = run(*words)
        assert ran.code == 0, (command, ran.err)
        printed = shown_by(ran)
        lines += len(shown)
        for line in shown:
            if line != "..." and not is_printed(line, printed):
                missing.append((command, line, printed[:12]))
    assert lines > 5
    assert not missing, "\n".join(
        f"$ {command}\n- {line}\n+ " + "\n+ ".join(p) for command, line, p in missing
    )
