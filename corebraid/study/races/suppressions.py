"""Races that are not told: by what functions they are in, and in what data.

A line of a file is three patterns, as a shell's (`*`, `?`, `[a-z]`): one function, the other, the data; what
follows is a reason. '#' begins a remark. Functions are as races name them, without the distance into them; '-'
is what has no name.
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
ld-linux*  *                        *@got        the loader fills in where a function is as it is first called
ld-linux*  *                        ld-linux*    the loader counts, and looks up, without a lock
*pthread_cond_*  *pthread_cond_*    *            the C library reads its own words of a condition variable unlocked
*pthread_rwlock_*  *pthread_rwlock_*  *          who holds a lock for writing is read unlocked, to find deadlocks
*pthread_mutex_*  *pthread_mutex_*  *            who holds a mutex is read unlocked, by who may be it
*pthread_cond_*  *pthread_mutex_*   *            the same
libc.so*   libc.so*                 libc.so*     the C library's own data: streams, arenas, lists of threads
libc.so*   libc.so*                 ld-linux*    the same, as far as the loader keeps it
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

    def fits(self, functions: tuple[str, str], data: str) -> bool:
        """Whether a race is meant: its two functions and its data, '' where there is no name."""
        first, second = (name or _NAMELESS for name in functions)
        sides = (first, second), (second, first)
        here = any(fnmatchcase(a, self.one) and fnmatchcase(b, self.other) for a, b in sides)
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
            "a file of suppressions that is too long", expected=f"at most {_MOST_BYTES:,} bytes", where=str(path)
        )
    return _parsed(text, str(path))
