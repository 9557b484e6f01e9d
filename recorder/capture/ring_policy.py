"""How much of a long run is kept: `--last`."""

from __future__ import annotations

from dataclasses import dataclass

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase

#: A ring has so many intervals, and one that grows; it begins with the oldest.
INTERVALS = 4
_UNITS = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
_MOST_DIGITS = 15


@dataclass(frozen=True)
class RingPolicy:
    """amount: instructions of all cores that are kept at least; timed: milliseconds of recording instead."""

    amount: int
    timed: bool = False

    @classmethod
    def parse(cls, text: str) -> RingPolicy:
        """From '60s', or '100M' or another number of instructions. Raises UsageError."""
        unit = text[-1:].lower()
        digits = text[:-1] if unit in (*_UNITS, "s") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS) or not int(digits):
            raise UsageError(
                "no such part of a run",
                expected="instructions, as 100M (k, m and g for thousands, millions and so on), or "
                f"seconds, as 60s, of {_MOST_DIGITS} digits at most",
                found=repr(text),
                remedy=Phrase("write ", Option("last", "100M")),
            )
        return cls(int(digits) * (1000 if unit == "s" else _UNITS.get(unit, 1)), unit == "s")

    def __str__(self) -> str:
        return f"{self.amount // 1000}s" if self.timed else str(self.amount)

    @property
    def interval(self) -> int:
        """As much of it makes up an interval."""
        return max(1, self.amount // INTERVALS)
