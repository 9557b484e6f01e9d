"""A deadlock in words, with the names that the program has for what its threads wait for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corebraid.symbols import Symbols
    from recorder.manifest import Manifest

_ADDRESS = re.compile(r"0x[0-9a-f]+")


def with_names(text: str, symbols: Symbols) -> list[str]:
    """`End.text` of a deadlock as lines, one a thread and one for the cycle, addresses with their names."""

    def named(match: re.Match[str]) -> str:
        name = symbols.name(int(match[0], 16))
        return f"{match[0]} ({name})" if name else match[0]

    return [_ADDRESS.sub(named, line) for line in text.split("; ") if line]


def deadlock_lines(recording: Path, manifest: Manifest) -> list[str]:
    """The lines of a recording that ended in a deadlock of threads; none for others. Raises FormatError."""
    end = manifest.end
    if end is None or end.reason != "deadlock" or not end.text:
        return []
    from corebraid.program import GuestProgram

    return with_names(end.text, GuestProgram.of(recording, manifest).symbols)
