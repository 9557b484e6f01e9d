"""No two files import each other, not late and not for their types only."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

from cli_factory import ROOT

ROOMS = ("isa", "emu", "recorder", "solver", "corebraid")
#: A task has a process, and a process tasks that wait for its futexes: each names the others' types.
MUTUAL = {f"emu.linux.tasks.{name}" for name in ("futex", "futex_locks", "process", "task")}


def module_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")


def imports(text: str, modules: Iterable[str]) -> tuple[set[str], set[str]]:
    """(modules imported, wherever it stands, modules imported for their types only)."""
    tree = ast.parse(text)
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    real: set[str] = set()
    typed: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                whole = f"{node.module}.{one.name}"
                found = whole if whole in modules else node.module
                if found in modules:
                    (typed if id(node) in for_types else real).add(found)
    return real, typed - real


def circles(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """Sets of modules of which each leads to each other."""
    reached = {module: _reached(module, edges) for module in edges}
    found: list[set[str]] = []
    for module in edges:
        circle = {other for other in reached[module] if module in reached.get(other, ())}
        if circle and circle not in found:
            found.append(circle)
    return found


def _reached(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    left = [start]
    while left:
        for other in edges.get(left.pop(), set()) - reached:
            reached.add(other)
            left.append(other)
    return reached


def test_no_circle() -> None:
    files = {module_of(path): path for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    edges = {module: imports(path.read_text(), files) for module, path in files.items()}
    assert sum(len(real) for real, _ in edges.values()) > 2000
    assert circles({module: real - {module} for module, (real, _) in edges.items()}) == []
    assert circles({module: (real | typed) - {module} for module, (real, typed) in edges.items()}) == [MUTUAL]


def test_a_circle_would_be_found() -> None:
    late = imports("def f() -> None:\n    from emu.b import g\n", {"emu.b"})
    typed = imports("if TYPE_CHECKING:\n    from emu import a\n", {"emu", "emu.a"})
    assert (late, typed) == (({"emu.b"}, set()), (set(), {"emu.a"}))
    assert circles({"emu.a": late[0], "emu.b": typed[1], "emu.c": {"emu.a"}}) == [{"emu.a", "emu.b"}]
