"""A folder of ours can be read: it says what it is and where to begin, and does not hold too many files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("isa", "emu", "recorder", "solver", "corebraid")
MOST_FILES = 30
FOLDERS = sorted({path.parent for room in ROOMS for path in (ROOT / room).rglob("*.py")})


def name(folder: Path) -> str:
    return folder.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_folder_is_small_enough(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= MOST_FILES


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_folder_says_what_it_is_and_names_files_of_its_own(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    assert text
    # A name may begin at the root, too, if it is of another folder.
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", text)
    assert [file for file in named if not (folder / file).exists() and not (ROOT / file).exists()] == []
