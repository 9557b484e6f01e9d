"""What a machine asks of its bus are seven kernels; nobody else knows of lines' states, or the directory."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from cli_factory import ROOT

#: The seven: `image` for all memory, for some pages and for one word (`newest`).
CONTRACT = {
    "holds", "need", "fetch_code", "claim", "forget_pages", "give_back", "image", "image_of_pages", "newest",
}  # fmt: skip
#: State of the bus, and where others may name it: where it is allocated.
_STATE = re.compile(r"\b(line_state|line_states|sharers|owner)\b")
ALLOCATED = {"emu/core/core.py", "emu/core/line_bus.py", "emu/core/directory.py", "emu/native/state.py"}
_MACHINES = ("emu/hooks", "emu/core", "emu/board", "emu/devices", "emu/code", "emu/native")


def _taken(path: Path, module: str) -> set[str]:
    """Names that a file imports from a module."""
    tree = ast.parse(path.read_text())
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }


def _words(path: Path) -> str:
    """A file without its comments, strings and imports of the bus's own modules."""
    tree = ast.parse(path.read_text())
    names = (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return " ".join([*names, *(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))])


def test_only_the_contract_is_used() -> None:
    taken = {
        str(path.relative_to(ROOT)): _taken(path, "emu.bus.lines")
        for room in ("emu", "recorder", "solver", "corebraid", "bench")
        for path in (ROOT / room).rglob("*.py")
    }
    assert set().union(*taken.values()) <= CONTRACT
    assert taken["emu/hooks/record.py"] == {"fetch_code"}
    assert taken["emu/hooks/paged.py"] == {"fetch_code", "need"}
    assert taken["emu/core/unfetch.py"] == {"give_back"}


def test_nobody_else_knows_its_state() -> None:
    files = [path for room in _MACHINES for path in (ROOT / room).rglob("*.py")]
    assert len(files) > 30
    named = {str(p.relative_to(ROOT)) for p in files if _STATE.search(_words(p))}
    assert named <= ALLOCATED
    assert "emu/core/core.py" in named
