"""Types of command-line options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from isa.errors import UsageError

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MOST_DIGITS = 15


def size(text: str) -> int:
    """Bytes of '64m': a number, with k, m or g for powers of 1024. Raises UsageError."""
    unit = _UNITS.get(text[-1:].lower(), 1)
    digits = text[:-1] if unit > 1 else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _MOST_DIGITS:
        raise UsageError("not a size", found=repr(text), remedy="write 64m, 512k or a number of bytes")
    return int(digits) * unit


COUNT = click.IntRange(min=0, max=(1 << 64) - 1)
POSITIVE = click.IntRange(min=1, max=(1 << 62))

#: The recording that a command reads.
recording_argument = click.argument("recording", metavar="REC", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
