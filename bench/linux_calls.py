"""The tables of system calls in docs/linux.md, written from the kernel's: `python -m bench.linux_calls`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from emu.linux.calls.table import CALLS
from emu.linux.ground.call import Call, Subject, Support

PAGE = Path(__file__).resolve().parent.parent / "docs" / "linux.md"
_BEGIN, _END = "<!-- calls -->\n", "<!-- end of calls -->\n"


def tables() -> str:
    """Markdown: the calls that are served as Linux does, by subject; the others, with what is missing."""
    return "\n".join((_served(), _others()))


def _named(calls: dict[str, Call]) -> str:
    return ", ".join(sorted(calls))


def _served() -> str:
    rows = ["| about | served as Linux does |", "|---|---|"]
    for subject in Subject:
        calls = {
            name: call
            for name, call in CALLS.items()
            if call.subject is subject and call.support is Support.FULL
        }
        if calls:
            rows.append(f"| {subject.value} | {_named(calls)} |")
    return "\n".join(rows) + "\n"


def _others() -> str:
    """One row for all calls of a subject of which the same is to be said."""
    rows = ["| about | call | is served | what is missing or different |", "|---|---|---|---|"]
    subjects, levels = list(Subject), list(Support)

    def key(item: tuple[str, Call]) -> tuple[int, int, str]:
        call = item[1]
        assert call.subject is not None
        return subjects.index(call.subject), levels.index(call.support), call.missing

    others = sorted(((n, c) for n, c in CALLS.items() if c.support is not Support.FULL), key=key)
    for (subject, level, missing), found in groupby(others, key):
        names = _named(dict(found))
        rows.append(f"| {subjects[subject].value} | {names} | {levels[level].value} | {missing} |")
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    """The page `text` with the tables as they are now."""
    before, rest = text.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}\n{tables()}\n{_END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
