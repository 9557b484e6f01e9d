"""Paths that a guest asks for in vain though the host has them: told once, with what would show them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_factory import run
from guest import DATA, Code
from static_guest import call, static_program

import corebraid
from emu.linux.files.absent import AbsentPaths

_OPEN, _STAT, _EXIT = 2, 4, 231
_CREATE = 0o101
RECORD = ("record", "--guest", "linux", "-o")


def program(folder: Path, *asked: tuple[int, str, int], code: int = 0) -> Path:
    """Makes calls with a path and one more argument, and exits with `code`."""
    made = Code()
    for number, path, flags in asked:
        for at, byte in enumerate(path.encode() + b"\0"):
            made.mov("rbx", DATA + at).mov("rax", byte).raw("88 03")
        call(made, number, rdi=DATA, rsi=flags, rdx=0o600)
    call(made, _EXIT, rdi=code)
    return static_program(folder / "guest", made)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "conf").write_text("x")
    return tmp_path / "there"


def test_they_are_named_with_what_shows_them(there: Path, tmp_path: Path) -> None:
    conf = str(there / "conf")
    asked = [
        (_OPEN, f"{there}/./conf", 0),
        (_OPEN, conf, 0),
        (_OPEN, f"{there}/none", 0),
        (_STAT, str(there), DATA),
    ]
    ran = run(*RECORD, tmp_path / "rec", program(tmp_path, *asked))
    assert ran.code == 0
    told = [line for line in ran.lines if "does not see" in line]
    assert told == [
        f"corebraid: the guest asked for what is on the host and it does not see: {conf}, {there}; "
        f"it would, for one, with --bind {conf}:{conf}"
    ]
    seen = run(*RECORD, tmp_path / "seen", "--bind", f"{there}:{there}", tmp_path / "guest")
    assert not [line for line in seen.lines if "does not see" in line]


@pytest.mark.parametrize("code", [0, 1])
def test_a_hunt_names_them_too(code: int, there: Path, tmp_path: Path) -> None:
    """Whether it finds something or not: a file that is not seen looks like a bug."""
    conf = str(there / "conf")
    guest = program(tmp_path, (_OPEN, conf, 0), code=code)
    hunt = ("hunt", "--guest", "linux", "--no-reduce", "--no-explain", "--runs", 1, "--json")
    ran = run(*hunt, "-o", tmp_path / "rec", guest)
    assert ran.code == 1 - code
    told = [line for line in ran.lines if "does not see" in line]
    assert len(told) == 1
    assert f"--bind {conf}:{conf}" in told[0]
    assert json.loads(ran.out)["not_seen"] == [conf]


def test_what_every_program_looks_for_is_told_where_one_fails(there: Path, tmp_path: Path) -> None:
    asked = [(_OPEN, "/etc/shadow", 0), (_OPEN, str(there / "conf"), 0), (_OPEN, "/proc/version", 0)]
    found = corebraid.record(program(tmp_path, *asked), tmp_path / "rec", guest="linux", system=False)
    assert found.hidden == (str(there / "conf"), "/etc/shadow")
    for code, lines in ((0, 0), (3, 1)):
        ran = run(*RECORD, tmp_path / str(code), "--no-system", program(tmp_path, asked[0], code=code))
        assert sum("/etc/shadow" in line for line in ran.lines) == lines, ran.err


def test_a_file_that_is_made_is_not_asked_for(there: Path, tmp_path: Path) -> None:
    (there / "new").write_text("the host's")
    guest = program(tmp_path, (_OPEN, str(there / "new"), _CREATE))
    assert corebraid.record(guest, tmp_path / "rec", guest="linux").hidden in ((), (str(there),))


def test_they_are_bounded_and_each_is_kept_once(there: Path) -> None:
    absent = AbsentPaths()
    for n in range(5000):
        absent.note(f"{there}/{n}/../conf")
        absent.note(f"/{n}")
    assert absent.hidden() == (str(there / "conf"),)
    assert len(absent._paths) == 2000
    absent = AbsentPaths()
    absent.note("/bad\0name")
    assert absent.hidden() == ()
