"""Code of a header is told with the line of the compiled file that calls it."""

from __future__ import annotations

import subprocess

import pytest
from stack_factory import needs_gcc

from corebraid.names.inlined_calls import InlinedCalls
from corebraid.names.lines import Lines, LineTable, PlacedLines

HEADER = """
static inline __attribute__((always_inline)) int load(volatile int *from) {
    return *from;
}
static inline __attribute__((always_inline)) int twice(volatile int *from) {
    return load(from) + load(from);
}
"""
PROGRAM = """#include "loads.h"
volatile int word;
static inline __attribute__((always_inline)) int again(void) {
    return load(&word);
}
int main(void) {
    word = 1;
    int a = load(&word);
    int b = twice(&word);
    return a + b + again();
}
"""
BIAS = 0x10000


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    folder = tmp_path_factory.mktemp("inlined")
    (folder / "loads.h").write_text(HEADER)
    (folder / "program.c").write_text(PROGRAM)
    command = ["gcc", "-g", "-O1", "-no-pie", "program.c", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True)
    return Lines(
        [PlacedLines(BIAS, BIAS + (1 << 32), BIAS, LineTable((folder / "program").read_bytes(), "program"))]
    )


@needs_gcc
def test_code_of_a_header_has_the_line_that_calls_it(lines: Lines) -> None:
    calls, table = InlinedCalls(lines), lines.of(BIAS)
    assert table is not None
    found: dict[str, set[str]] = {}
    for number in range(1, 20):
        for file, start, _ in table.table.of_line(number):
            at = BIAS + start
            if calls.at(at):
                found.setdefault(lines.at(at).rpartition("/")[2], set()).add(calls.at(at).rpartition("/")[2])
            else:
                assert file.endswith("program.c")
    # Called from main, by way of another of the header, and by way of one of the program's own.
    assert found == {
        "loads.h:3": {"program.c:8", "program.c:9", "program.c:4"},
        "loads.h:6": {"program.c:9"},
    }


@needs_gcc
def test_what_stands_in_the_file_itself_has_none(lines: Lines) -> None:
    calls, table = InlinedCalls(lines), lines.of(BIAS)
    assert table is not None
    (start, *_) = [start for _, start, _ in table.table.of_line(7)]
    assert lines.at(BIAS + start).endswith("program.c:7")
    assert calls.at(BIAS + start) == ""


def test_where_nothing_is_known() -> None:
    assert InlinedCalls(Lines()).at(0x1000) == ""
