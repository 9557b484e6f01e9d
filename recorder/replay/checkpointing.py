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

#: By size: at least so many instructions lie between two checkpoints, a replay of some 0.1 s; so many for
#: each page that has changed, so that to write it costs a small part of what running them did; and so many
#: for each byte that was stored before, which bounds what they take on disk.
_LEAST, _FOR_A_PAGE, _FOR_A_BYTE = 16_000_000, 10_000, 64
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
                expected=f"a number of instructions from 1 to {10**_MOST_DIGITS - 1}, or auto"
                + (", or none" if none else ""),
                found=repr(text),
                remedy=Phrase("write ", Option(option, "10000000")),
            )
        return cls(int(text))

    def due(self, last: int, count: int, pages: int, stored: int) -> bool:
        """Whether there is to be one at an instruction count. last: where the last one was, 0 for none;
        pages: changed since; stored: bytes of all before."""
        if self.every:
            return count - last >= self.every
        return count - last >= max(_LEAST, _FOR_A_PAGE * pages) and count >= _FOR_A_BYTE * stored


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
        self._whole = False
        #: How many were written, and their bytes.
        self.written = self.stored = 0

    def forgotten(self) -> None:
        """The core has given back all that it had received: the next checkpoint needs none before it."""
        self._whole = True

    def at_stratum(self, stratum: int) -> None:
        """The core has passed a stratum and its digest. Raises FormatError if a checkpoint cannot be
        written."""
        count, changed, ever = self._core.count, self._pages.changed, self._pages.ever
        if not self._policy.due(self._last, count, len(changed), self.stored):
            return
        if self._writer is None:
            self._writer = self._create()
        # So what makes up memory at a checkpoint is never more than twice what it holds.
        whole = self._whole or not self.written or self._since_whole + len(changed) > len(ever)
        self._whole = False
        self._since_whole = 0 if whole else self._since_whole + len(changed)
        pages = take_pages(self._core, ever if whole else changed, self._line)
        self.stored += self._writer.append(stratum, count, pages, self._core.unlisted(), whole=whole)
        self._pages.forget()
        self._last = count
        self.written += 1
