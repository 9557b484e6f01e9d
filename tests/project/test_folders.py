"""A folder of ours can be read: it says what it is and where to begin, and does not hold too many files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("isa", "emu", "recorder", "solver", "corebraid")
MOST_FILES = 30
FOLDERS = sorted({path.parent for room in ROOMS for path in (ROOT / room).rglob("*.py")})
TESTS = sorted({path.parent for path in (ROOT / "tests").rglob("test_*.py")})


def name(folder: Path) -> str:
    return folder.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("folder", [*FOLDERS, *TESTS], ids=name)
def test_a_folder_is_small_enough(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= MOST_FILES


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_folder_says_what_it_is_and_names_files_of_its_own(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    assert text
    # A name may begin at the root, too, if it is of another folder.
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", text)
    assert [file for file in named if not (folder / file).exists() and not (ROOT / file).exists()] == []


def test_tests_are_laid_out_like_the_rooms() -> None:
    others = {ROOT / "tests" / folder for folder in ("bench", "project")}
    for folder in set(TESTS) - others:
        room = folder.relative_to(ROOT / "tests")
        assert (ROOT / room).is_dir(), f"there are tests of {room}, which is no room"
    assert list((ROOT / "tests").glob("test_*.py")) == []


def other_imports(text: str) -> list[str]:
    """Imports of modules of ours in another way than `from package.module import name`."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names if one.name.split(".")[0] in ROOMS and "." in one.name]
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.append("." * node.level + (node.module or ""))
    return found


def test_modules_are_imported_in_one_way() -> None:
    files = [path for room in (*ROOMS, "tests", "bench") for path in (ROOT / room).rglob("*.py")]
    assert {path: found for path in files if (found := other_imports(path.read_text()))} == {}
    assert other_imports("import emu.bus.lines as lines") == ["emu.bus.lines"]
    assert other_imports("from . import lines") == ["."]
