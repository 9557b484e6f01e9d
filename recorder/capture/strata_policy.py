"""When a stratum is recorded: the paper's two schemes (MICRO 2009, 4.2 and 5.2), or never."""

from __future__ import annotations

from dataclasses import dataclass

from corebraid.base.errors import UsageError

#: Digits that are enough for any bound.
_MOST_DIGITS = 15


@dataclass(frozen=True)
class StrataPolicy:
    """kind 'cycles': whenever the fastest core's clock passes a multiple of `bound` cycles.

    kind 'downgrades': as soon as a core has lost `bound` permissions since the last multiple. 'none'.
    """

    kind: str
    bound: int

    @classmethod
    def parse(cls, text: str) -> StrataPolicy:
        """From 'cycles:N', 'downgrades:N' or 'none'. Raises UsageError."""
        kind, _, number = text.partition(":")
        if text == "none":
            return cls("none", 0)
        if (
            kind not in ("cycles", "downgrades")
            or not (number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS)
            or not 1 <= int(number) < 1 << 48
        ):
            raise UsageError(
                "no such strata scheme",
                found=repr(text),
                remedy="write cycles:100000, downgrades:100, none or auto",
            )
        return cls(kind, int(number))

    def __str__(self) -> str:
        return "none" if self.kind == "none" else f"{self.kind}:{self.bound}"


#: Where nobody says: on the line bus, where every access is to be ordered, and on that of pages.
STRATA_OF_LINES, STRATA_OF_PAGES = StrataPolicy("cycles", 100_000), StrataPolicy("cycles", 400_000)
