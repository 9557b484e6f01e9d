"""When a core gets a checkpoint, and what of its memory goes into it: while it is recorded, or replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from emu.core.changed_pages import ChangedPages
from emu.core.core import Core
from emu.core.saved_pages import take_pages
from recorder.files.checkpoints import CheckpointWriter

#: By size: at least so many instructions lie between two checkpoints, a replay of some 0.1 s, and so many for
#: each page that has changed, so that to write it costs a small part of what running them did.
_LEAST, _FOR_A_PAGE = 16_000_000, 10_000
_MOST_DIGITS = 15


@dataclass(frozen=True)
class CheckpointPolicy:
    """every: instructions of a core that lie between two of its checkpoints at least; 0: by size."""

    every: int = 0

    @classmethod
    def parse(cls, text: str, option: str = "checkpoint", *, none: bool = True) -> CheckpointPolicy | None:
        """From 'auto', a number of instructions, or 'none', which is None. option: what it was given to.
        none: whether there may be none. Raises UsageError."""
        if text == "auto" or (none and text == "none"):
            return cls() if text == "auto" else None
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS) or not int(text):
            raise UsageError(
                "no such distance between checkpoints",
                expected=f"a number of instructions from 1 on, or auto{', or none' if none else ''}",
                found=repr(text),
                remedy=Phrase("write ", Option(option, "10000000")),
            )
        return cls(int(text))

    def due(self, instructions: int, pages: int) -> bool:
        """Whether so many instructions after the last one, with so many pages changed, there is to be one."""
        return instructions >= (self.every or max(_LEAST, _FOR_A_PAGE * pages))


class CoreCheckpoints:
    """The checkpoints of a core that runs, or is replayed. The file is made with the first one.

    pages: the core's, brought up to date at every digest. create: makes the file.
    """

    def __init__(
        self,
        core: Core,
        pages: ChangedPages,
        line_bytes: int,
        policy: CheckpointPolicy,
        create: Callable[[], CheckpointWriter],
    ) -> None:
        self._core, self._pages, self._line, self._policy = core, pages, line_bytes, policy
        self._create = create
        self._writer: CheckpointWriter | None = None
        self._last = self._since_whole = 0
        #: How many were written, and their bytes.
        self.written = self.stored = 0

    def at_stratum(self, stratum: int) -> None:
        """The core has passed a stratum and its digest. Raises FormatError if a checkpoint cannot be
        written."""
        count, changed, ever = self._core.count, self._pages.changed, self._pages.ever
        if not self._policy.due(count - self._last, len(changed)):
            return
        if self._writer is None:
            self._writer = self._create()
        # So what makes up memory at a checkpoint is never more than twice what it holds.
        whole = not self.written or self._since_whole + len(changed) > len(ever)
        self._since_whole = 0 if whole else self._since_whole + len(changed)
        pages = take_pages(self._core, ever if whole else changed, self._line)
        self.stored += self._writer.append(stratum, count, pages, self._core.unlisted(), whole=whole)
        self._pages.forget()
        self._last = count
        self.written += 1
