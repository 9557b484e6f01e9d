"""The program that is to be recorded, before anything is written."""

from __future__ import annotations

from corebraid.base.errors import UsageError
from recorder.files.json_fields import MOST_TEXT
from recorder.files.manifest import MOST_PROGRAM_BYTES


def check_program(name: str, program: bytes) -> None:
    """Raises UsageError if the recording could not tell of it."""
    if len(name) > MOST_TEXT or not name.isprintable():
        what = "the program's name has characters that are not printable, or is too long"
        raise UsageError(what, found=repr(name), remedy="give it another one; a link to it will do")
    if len(program) > MOST_PROGRAM_BYTES:
        most = f"at most {MOST_PROGRAM_BYTES:,} bytes"
        remedy = "leave debugging information out (strip -g)"
        raise UsageError("the program is too long", expected=most, found=f"{len(program):,}", remedy=remedy)
