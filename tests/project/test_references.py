"""Every file, page and section that a text of ours names is there: docstrings and comments as well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("isa", "emu", "recorder", "solver", "corebraid", "bench", "release", "tests")
#: Programs of the reader's own, in examples.
EXAMPLES = {"script.py"}

_FILE = re.compile(r"(?<![\w.*/{}-])((?:[\w-]+/)*[a-z]\w*\.py)\b")
_PAGE = re.compile(r"(?<![\w*/{}-])((?:docs/)?[\w-]+\.md)(?:#([\w-]+))?")
_MODULE = re.compile(rf"`((?:{'|'.join(ROOMS)})(?:\.\w+)+)`")


def sources() -> list[Path]:
    """All modules but tests, which plant names."""
    return sorted(path for room in ROOMS[:-1] for path in (ROOT / room).rglob("*.py"))


def pages() -> list[Path]:
    """All pages but the history, which names what was there once."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


FILES = {
    path.relative_to(ROOT).as_posix() for room in (*ROOMS, "firmware") for path in (ROOT / room).rglob("*.py")
}


def missing_files(text: str) -> list[str]:
    """Python files that a text names and that there are not; one may be named without its folders."""
    named = set(_FILE.findall(text)) - EXAMPLES
    return sorted(name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in FILES))


def missing_pages(text: str, own: Path) -> list[str]:
    """Pages, or sections of pages, that a text in the file `own` names and that there are not."""
    found = []
    for name, section in set(_PAGE.findall(text)):
        at = next(
            (path for path in (own.parent / name, ROOT / name, ROOT / "docs" / name) if path.is_file()), None
        )
        if at is None or (section and section not in sections(at)):
            found.append(f"{name}#{section}" if section else name)
    return sorted(found)


def missing_modules(text: str) -> list[str]:
    """Modules, or names in modules, that a text has in backticks and that there are not."""
    return sorted(name for name in set(_MODULE.findall(text)) if not _exists(name.split(".")))


def _exists(parts: list[str]) -> bool:
    for n in range(len(parts), 0, -1):
        for path in ("/".join(parts[:n]) + ".py", "/".join(parts[:n]) + "/__init__.py"):
            if path in FILES:
                text = (ROOT / path).read_text()
                return n == len(parts) or re.search(rf"\b{parts[n]}\b", text) is not None
    return (ROOT / "/".join(parts)).is_dir()


def sections(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", [*sources(), *pages()], ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_text_names_is_there(path: Path) -> None:
    text = path.read_text()
    assert missing_files(text) == []
    assert missing_pages(text, path) == []
    assert missing_modules(text) == []


def test_what_is_not_there_is_found() -> None:
    own = ROOT / "docs" / "tso.md"
    assert missing_files("`emu/bus/lines.py`, `bus/lines.py`, emu/gone.py, gone.py and `x/bus.py`") == [
        "emu/gone.py", "gone.py", "x/bus.py"
    ]  # fmt: skip
    assert missing_pages("docs/tso.md, [a](sure.md), GONE.md, docs/sure.md#gone", own) == [
        "GONE.md", "docs/sure.md#gone"
    ]  # fmt: skip
    assert missing_pages("docs/architecture.md#ordering", own) == []
    there = "`emu.bus.lines`, `solver.passes.order.order_recording`"
    gone = missing_modules(f"{there}, `solver.gone`, `emu.bus.lines.gone`")
    assert gone == ["emu.bus.lines.gone", "solver.gone"]
