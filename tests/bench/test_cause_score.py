"""How causes that hunts name are counted, and some programs whose cause must be named first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.cause_score import CAUSES, Program, Score, programs, score, table_of

SOURCE = """/* class: lost-update; fails by: exit; cause: one
   is lost */
static int n;
void add(void) {
    int old = n; // CAUSE
    (void) old;
    (void) old;
    n = old + 1; // CAUSE
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    path = tmp_path / "some.c"
    path.write_text(SOURCE)
    return Program.of(path)


def test_marks_are_read(program: Program) -> None:
    assert (program.kind, program.fails_by, program.lines) == ("lost-update", "exit", {5, 8})
    assert program.twin.name == "some_ok.c"


@pytest.mark.parametrize(
    ("lines", "named"), [((5, 8), True), ((5, 9), True), ((8, 8), True), ((5, 12), False), ((), False)]
)
def test_a_hint_names_the_cause_by_two_steps(lines: tuple[int, ...], named: bool, program: Program) -> None:
    steps = [f"thread 1 read 0 at add+0x1 (some.c:{line})" for line in lines]
    assert program.named_by({"steps": steps}) == named


def test_rates(program: Program) -> None:
    scores = [Score(program, 1, [True], ["a"]), Score(program, 2, [False, True], ["b", "c"]),
              Score(program, 3, [], []), Score(program, 0)]  # fmt: skip
    assert [one.first for one in scores] == ["cause", "other", "nothing", "nothing"]
    (note,) = table_of(scores, ["-O1"], "some").notes
    assert "3 of 4 found. First the cause: 1 (33%); something else first: 1 (33%); nothing said: 1" in note
    assert "the cause among the hints: 2 (67%)" in note


def test_every_program_has_marks_and_a_twin() -> None:
    every = programs("all")
    assert len(every) >= 60
    for one in every:
        assert one.lines, one.path
        assert one.twin.is_file(), one.path
        assert "// CAUSE" not in one.twin.read_text(), one.twin


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to make guests")
@pytest.mark.parametrize(
    "name",
    ["ord_logger", *(pytest.param(one, marks=pytest.mark.soak) for one in ("lu_histogram", "rwr_withdraw"))],
)
def test_the_cause_is_named_first(name: str, tmp_path: Path) -> None:
    """Also of null pointers, of which it was said that memory had been given back."""
    found = score(Program.of(CAUSES / "seen" / f"{name}.c"), ["-O1"], tmp_path)
    assert found.run
    assert found.first == "cause", found.titles
    assert not any("given back" in title for title in found.titles)
