"""Races that are not told: by what functions they are in, and in what data.

A line of a file is three patterns, as a shell's (`*`, `?`, `[a-z]`): one function, the other, the data; what
follows is a reason. '#' begins a remark. Functions are as races name them, without the distance into them,
or, in a library, one of those that led there; '-' is what has no name.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from corebraid.base.errors import UsageError, reason_of
from corebraid.base.wording import Option, Phrase

#: Bytes of a file, at most.
_MOST_BYTES = 1 << 20
_NAMELESS = "-"
#: What runtimes do on purpose. Only what runs in the C library or the loader itself is meant, or what the
#: loader alone writes: a function of the library that works on the program's data (`memcpy`) is not.
_BUILT_IN = """
ld-linux*          *                  *@got      where a function is, is filled in as it is first called
ld-linux*          ld-linux*          *          the loader counts, and looks up, without a lock
ld-linux*          *                  ld-linux*  the same
*pthread_cond_*    *pthread_cond_*    *          words of a condition variable are read unlocked
*pthread_rwlock_*  *pthread_rwlock_*  *          who holds a lock for writing is read unlocked
*pthread_mutex_*   *pthread_mutex_*   *          who holds a mutex is read unlocked, by who may be it
*pthread_mutex_*   *pthread_cond_*    *          the same
libc.so*           libc.so*           libc.so*   data of the C library: streams, arenas, lists of threads
libc.so*           libc.so*           ld-linux*  the same, as far as the loader keeps it
libc.so*           libc.so*!free      -          what is kept beside memory is read unlocked
libc.so*           libc.so*!malloc    -          the same
libc.so*           libc.so*!calloc    -          the same
libc.so*           libc.so*!realloc   -          the same
"""


@dataclass(frozen=True)
class Suppression:
    """one, other: patterns of the functions of both sides, either way round. data: of the data's name.
    reason: in words. where: file and line, '' of one that is built in."""

    one: str
    other: str
    data: str
    reason: str
    where: str = ""

    def fits(self, functions: tuple[frozenset[str], frozenset[str]], data: str) -> bool:
        """Whether a race is meant: the names by which its two functions are known, and that of its data, ''
        where there is none."""
        first, second = functions

        def known(names: frozenset[str], pattern: str) -> bool:
            return any(fnmatchcase(name, pattern) for name in names or {_NAMELESS})

        here = any(known(a, self.one) and known(b, self.other) for a, b in ((first, second), (second, first)))
        return here and fnmatchcase(data or _NAMELESS, self.data)

    @property
    def text(self) -> str:
        """As it is written in a file."""
        return " ".join(part for part in (self.one, self.other, self.data, self.reason) if part)


def _parsed(text: str, where: str) -> list[Suppression]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split(maxsplit=3)
        if not words:
            continue
        place = f"{where}:{number}" if where else ""
        if len(words) < 3:
            raise UsageError(
                "not a suppression",
                expected="two patterns of functions and one of data",
                found=repr(line.strip()),
                where=place,
                remedy="write '*' for any",
            )
        found.append(Suppression(words[0], words[1], words[2], words[3] if words[3:] else "", place))
    return found


def built_in() -> list[Suppression]:
    """Those that are always there, unless nobody wants them."""
    return _parsed(_BUILT_IN, "")


def from_file(path: Path) -> list[Suppression]:
    """Raises UsageError."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "the file of suppressions cannot be read",
            found=reason_of(error),
            where=str(path),
            remedy=Phrase("give ", Option("suppressions"), " a text file"),
        ) from None
    if len(raw) > _MOST_BYTES:
        raise UsageError(
            "a file of suppressions that is too long",
            expected=f"at most {_MOST_BYTES:,} bytes",
            where=str(path),
        )
    return _parsed(text, str(path))
