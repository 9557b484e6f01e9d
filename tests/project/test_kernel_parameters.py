"""Kernels take few parameters: what belongs together is a NamedTuple of arrays, with each array's shape and
meaning in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ROOMS = ("corebraid", "isa", "emu", "recorder", "solver", "bench")
MOST = 8
#: One row of a log, written where a bus or a hook is at its hottest: each parameter is a column.
ROWS_OF_LOGS = {
    "emu/bus/kernel_agent.py _note",
    "emu/devices/mailbox.py _log",
    "emu/hooks/trace.py _append",
}


def crowded(source: str) -> Iterator[str]:
    """Names of the kernels with more than MOST parameters."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef):
            continue
        marks = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
        taken = node.args
        if any(mark in marks for mark in ("jit", "inner", "inlined", "cfunc")):
            n = len(taken.posonlyargs) + len(taken.args) + len(taken.kwonlyargs)
            if n > MOST:
                yield node.name


def test_no_kernel_has_many_parameters() -> None:
    found = {
        f"{path.relative_to(REPOSITORY).as_posix()} {name}"
        for room in ROOMS
        for path in sorted((REPOSITORY / room).rglob("*.py"))
        for name in crowded(path.read_text(encoding="utf-8"))
    }
    assert found <= ROWS_OF_LOGS


def test_a_crowded_kernel_is_found() -> None:
    names = ", ".join("abcdefghi")
    assert list(crowded(f"@njit(cache=True)\ndef many({names}): ...\ndef plain({names}): ...")) == ["many"]
    assert list(crowded(f"@inner\ndef few({names[3:]}): ...")) == []
