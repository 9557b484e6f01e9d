"""The instruction sets there are, by name."""

from __future__ import annotations

from isa.errors import UsageError
from isa.table import Isa
from isa.x86_64 import X86_64

_TABLES = {X86_64.name: X86_64}


def isa_named(name: str) -> Isa:
    """The table called `name`. Raises UsageError."""
    if name not in _TABLES:
        raise UsageError(
            "no such instruction set",
            expected=", ".join(sorted(_TABLES)),
            found=repr(name),
            remedy="a newer corebraid may know it",
        )
    return _TABLES[name]
