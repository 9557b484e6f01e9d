"""When a stratum is recorded: the paper's two schemes (MICRO 2009, 4.2 and 5.2), by fills, or never."""

from __future__ import annotations

from dataclasses import dataclass, fields

from corebraid.base.errors import UsageError

#: Digits that are enough for any bound.
_MOST_DIGITS = 15


@dataclass(frozen=True)
class StrataPolicy:
    """Each a bound, 0 for none; what comes first counts. All 0: no strata.

    cycles: whenever the fastest core's clock passes a multiple of so many. events: after the slice in which
    the cores have been given a right so many times since the last stratum (misses and upgrades, of lines or
    of pages). downgrades: as soon as a core has lost so many permissions since the last multiple.
    """

    cycles: int = 0
    events: int = 0
    downgrades: int = 0

    @classmethod
    def parse(cls, text: str) -> StrataPolicy:
        """From 'cycles:N', 'events:N', 'downgrades:N', several of them with commas, or 'none'. Raises
        UsageError."""
        bounds: dict[str, int] = {}
        for part in text.split(",") if text != "none" else ():
            kind, _, number = part.partition(":")
            if kind in bounds or kind not in KINDS or not _is_bound(number):
                raise UsageError(
                    "no such strata scheme",
                    found=repr(text),
                    remedy="write cycles:100000, events:1000, downgrades:100, some of these with commas, "
                    "none or auto",
                )
            bounds[kind] = int(number)
        return cls(**bounds)

    def __str__(self) -> str:
        said = [f"{kind}:{bound}" for kind in KINDS if (bound := getattr(self, kind))]
        return ",".join(said) or "none"


#: What can be counted until a stratum is due.
KINDS = tuple(field.name for field in fields(StrataPolicy))


def _is_bound(number: str) -> bool:
    digits = number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS
    return digits and 1 <= int(number) < 1 << 48


#: Where nobody says: on the line bus, where every access is to be ordered, and on that of pages.
STRATA_OF_LINES, STRATA_OF_PAGES = StrataPolicy(cycles=100_000), StrataPolicy(cycles=400_000)
