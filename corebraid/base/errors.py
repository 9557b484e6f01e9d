"""The one exception tree. The command line catches `CorebraidError` and nothing else."""

from __future__ import annotations

import errno
import os
from typing import Any

from corebraid.base.wording import MOST_OF_PLACE, Option, Phrase, Text, Wording, said, shown, shown_words


class CorebraidError(Exception):
    """A failure that a user can act on.

    what: one clause naming what is wrong. expected / found: the two sides of a comparison, when there
    is one. where: file, offset, core, instruction count, ... . remedy: what to do next. Options are named by
    `Option`, whose words depend on who reads the message (`wording.py`).
    `exit_code` is what the command line exits with (2: wrong use or unreadable input).
    """

    exit_code = 2

    def __init__(
        self,
        what: Text,
        *,
        expected: object = None,
        found: object = None,
        where: str | None = None,
        remedy: Text | None = None,
    ) -> None:
        self.what, self.expected, self.found = what, expected, found
        self.where, self.remedy = where, remedy
        super().__init__(self.line())

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between processes as they are, whatever a class's constructor asks for."""
        return _restore, (type(self), self.args, self.__dict__)

    def line(self, wording: Wording | None = None) -> str:
        """The whole message as one line. wording: how options are called, by default as in Python."""
        what = said(self.what, wording)
        text = f"{shown(self.where, MOST_OF_PLACE)}: {what}" if self.where else what
        if self.expected is not None or self.found is not None:
            sides = [f"expected {said(self.expected, wording)}"] if self.expected is not None else []
            sides += [f"found {self._found(wording)}"] if self.found is not None else []
            text += ": " + ", ".join(sides)
        if self.remedy:
            text += f"; {said(self.remedy, wording)}"
        return " ".join(text.split())

    def _found(self, wording: Wording | None) -> str:
        return said(self.found, wording)


def reason_of(error: Exception) -> str:
    """Why the system refused a file, without its name, which the message has already."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _restore(kind: type[CorebraidError], args: tuple[Any, ...], values: dict[str, Any]) -> CorebraidError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(values)
    return error


class UsageError(CorebraidError):
    """Wrong use: an option or argument that makes no sense. Messages show the beginning of what was given."""

    def line(self, wording: Wording | None = None) -> str:
        return shown_words(super().line(wording))

    def _found(self, wording: Wording | None) -> str:
        parts = self.found.parts if isinstance(self.found, Phrase) else (self.found,)
        return "".join(shown(said(part, wording)) for part in parts)


class ImageError(CorebraidError):
    """A guest program that cannot be loaded."""


class FormatError(CorebraidError):
    """A file of a recording that cannot be read: missing, damaged, truncated, of another version."""


class ExcessError(FormatError):
    """A file that says more than can be held in memory: whoever reads it in another way need not begin."""


class GuestFault(CorebraidError):
    """The guest failed: a fault, an unsupported instruction, a non-zero exit."""

    exit_code = 3


class Divergence(CorebraidError):
    """A replay that did not repeat what was recorded."""

    exit_code = 1


class Contradiction(CorebraidError):
    """Evidence that tells of another run than the replayed cores. It says nothing of the recording itself."""

    exit_code = 1


class ShortageError(CorebraidError):
    """The machine has no more of something: memory, open files. That is no finding about any file, so whoever
    looks for what is wrong with a recording lets it pass."""


_MEMORY, _FILES = "out of memory", "too many open files"
_FEWER_JOBS = ", or use fewer "
_REMEDIES = {
    _MEMORY: Phrase("free some", _FEWER_JOBS, Option("jobs")),
    _FILES: Phrase("allow more (ulimit -n)", _FEWER_JOBS, Option("jobs")),
}
_SHORT_OF = {errno.ENOMEM: _MEMORY, errno.EMFILE: _FILES, errno.ENFILE: _FILES}
#: What the linker says in words alone.
_SAID = {
    os.strerror(errno.ENOMEM): _MEMORY,
    "failed to map segment from shared object": _MEMORY,
    os.strerror(errno.EMFILE): _FILES,
    os.strerror(errno.ENFILE): _FILES,
}


def shortage_of(error: BaseException) -> ShortageError | None:
    """What the machine has no more of, where that is what an error tells of; None where it is another one."""
    what = None
    if isinstance(error, MemoryError):
        what = _MEMORY
    elif isinstance(error, OSError) and error.errno:
        what = _SHORT_OF.get(error.errno)
    elif isinstance(error, OSError | ImportError):
        what = next((short for words, short in _SAID.items() if words in str(error)), None)
    return ShortageError(what, remedy=_REMEDIES[what]) if what else None


def unless_short(error: BaseException) -> None:
    """For whoever is about to say what an error means: raises ShortageError if it is one of those."""
    short = shortage_of(error)
    if short is not None:
        raise short from None


class OrderError(CorebraidError):
    """An order or certificate that is not legal for the traces."""

    exit_code = 1
