"""What the kernel knows of a system call: who serves it, what that takes, and how well it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

#: Given the task and as many arguments as it declares, unsigned; what it returns:
#: `emu.linux.ground.wait.Handler`.
Handler = Callable[..., Any]


class Support(Enum):
    """How well a call is served."""

    FULL = "as Linux does"
    PARTIAL = "in part"
    IDLE = "without effect"
    REFUSED = "refused"


class FileBytes(Enum):
    """What a call does to the bytes of files; mappings that are shared hold the same ones."""

    UNTOUCHED = "nothing"
    READ = "looks at them"
    CHANGED = "may change them"


class Subject(Enum):
    """What a call is about, as docs/linux.md groups them."""

    THREADS = "threads"
    MEMORY = "memory"
    FILES = "files"
    WAITING = "waiting"
    SOCKETS = "sockets"
    SIGNALS = "signals"
    TIME = "time"
    ITSELF = "about itself"
    SYSTEM = "the system's own"


@dataclass(frozen=True)
class Call:
    """One system call.

    missing: in a few words, what is not as in Linux; empty only of FULL. tells_time: it says what time it is,
    so that the core of the caller must not lag behind the clock. subject: set by `table` unless it differs.
    """

    handler: Handler
    support: Support = Support.FULL
    missing: str = ""
    files: FileBytes = FileBytes.UNTOUCHED
    tells_time: bool = False
    subject: Subject | None = None

    @property
    def arity(self) -> int:
        """Arguments that the handler takes, besides the task."""
        code = self.handler.__code__
        return 6 if code.co_flags & 4 else code.co_argcount - 1


def in_part(handler: Handler, missing: str, files: FileBytes = FileBytes.UNTOUCHED) -> Call:
    """A call that does most of what Linux does."""
    return Call(handler, Support.PARTIAL, missing, files)


def idle(handler: Handler, missing: str) -> Call:
    """A call that succeeds and need not do anything here."""
    return Call(handler, Support.IDLE, missing)


def refused(handler: Handler, missing: str) -> Call:
    """A call that fails as it would of a process without the right, or of a kernel without the thing."""
    return Call(handler, Support.REFUSED, missing)


def table(subject: Subject, rows: Mapping[str, Handler | Call]) -> dict[str, Call]:
    """Rows of calls by name; a handler alone is a call that is served as Linux does."""
    calls = {name: row if isinstance(row, Call) else Call(row) for name, row in rows.items()}
    return {name: replace(call, subject=call.subject or subject) for name, call in calls.items()}
