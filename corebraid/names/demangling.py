"""Names of C++ and Rust as they stand in the source, from what compilers make of them.

The work is LLVM's (pydemumble). What a name may become is bounded before: each part of it that stands for an
earlier one may double it, so that fifty bytes of a damaged file could ask for all memory.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: How names of C++ (Itanium ABI) and Rust (v0) begin.
_MANGLED = ("_Z", "_R")
#: What stands for an earlier part (substitutions, template parameters, Rust's references back), or is made
#: for each of several parts (pack expansions).
_REPEATS = re.compile(r"[ST][0-9A-Z]*_|B[0-9A-Za-z]*_|Dp|sp")
#: Characters that one of a name becomes at most ('o' is 'unsigned __int128'), and those of a whole name.
_EACH, _MOST = 40, 1 << 24
#: No name of so many characters becomes too long: it takes some eight of them to have a part twice.
_SHORT = 96
#: Longest name that is shown, and where a longer one is cut.
_LONGEST, _CUT = 4096, "..."


def demangled(name: str) -> str:
    """The name as it stands in the source; the same where it is not mangled, or cannot be read. A library's
    that is before it (LIBRARY!name) and what a linker has put behind it (name@plt) stay."""
    library, mark, own = name.rpartition("!")
    if not own.startswith(_MANGLED):
        return name
    core, at, behind = own.partition("@")
    return f"{library}{mark}{_demangled(core)}{at}{behind}"


@lru_cache(maxsize=1 << 14)
def _demangled(name: str) -> str:
    from pydemumble import demangle

    found: str = demangle(name) if len(name) <= _SHORT or _becomes_at_most(name) <= _MOST else ""
    found = found if found.isprintable() else ""
    return (found if len(found) <= _LONGEST else found[:_LONGEST] + _CUT) or name


def _becomes_at_most(name: str) -> int:
    """A bound of how long a name becomes. What stands for an earlier part is no longer than all before it was
    when that part was named first; what stands for a template's parameter, than all before it."""
    length, before, named = 0, 0, dict[str, int]()
    for part in _REPEATS.finditer(name):
        length += _EACH * (part.end() - before)
        if part[0][-1] != "_":
            length *= part.end()
        else:
            length += length if part[0][0] == "T" else named.setdefault(part[0], length)
        before = part.end()
        if length > _MOST:
            break
    return length + _EACH * (len(name) - before)
