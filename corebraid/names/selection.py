"""Which rows of a trace are wanted: filters as one vectorised mask."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.rows.event import FETCH, READ, RMW, WRITE
from corebraid.base.wording import Option, Phrase, another, shown
from corebraid.names.symbols import Symbols

Rows = NDArray[np.void]

#: Kinds as they are shown and asked for; F is the bytes that an instruction fetch received.
KINDS = {"R": READ, "W": WRITE, "RMW": RMW, "F": None}
_MOST = (1 << 64) - 1
_COLON = re.compile("(?<!:):(?!:)")


@dataclass(frozen=True)
class AddressRange:
    """Bytes from `low` up to, not including, `high`."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str, symbols: Symbols) -> AddressRange:
        """From 'A:B' (B not included), or one address or symbol; a symbol alone is all its bytes.

        A and B are hexadecimal with 0x, decimal, or names of symbols. Raises UsageError.
        """
        # Names of C++ and Rust have two together.
        first, *rest = _COLON.split(text, maxsplit=1)
        colon, last = bool(rest), "".join(rest)
        low, end = _address(first, text, symbols)
        high = _address(last, text, symbols)[0] if colon else end
        if high <= low:
            raise UsageError(
                "an address range that holds nothing",
                found=repr(text),
                remedy=Phrase("write ", Option("addr"), " FIRST:END with END above FIRST"),
            )
        return cls(low, high)


def _address(text: str, whole: str, symbols: Symbols) -> tuple[int, int]:
    """(address, end of what is there) of a number or a symbol."""
    symbol = symbols.named(text)
    if symbol is not None:
        return symbol.address, symbol.address + symbol.size
    try:
        value = int(text, 16) if text[:2].lower() == "0x" else int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= _MOST:
        raise UsageError(
            f"no such address or symbol {shown(text)!r}",
            found=Option("addr", whole),
            remedy="write hexadecimal as 0x1000, decimal, or the name of a symbol of the program",
        )
    return value, value + 1


def parse_kinds(text: str) -> frozenset[str]:
    """From 'R,W,RMW,F' or some of them. Raises UsageError."""
    kinds = frozenset(part.strip().upper() for part in text.split(","))
    if not kinds <= set(KINDS):
        raise UsageError(
            "no such kind of access",
            expected=", ".join(KINDS),
            found=repr(text),
            remedy=Phrase("write ", Option("kind"), " R,RMW"),
        )
    return kinds


@dataclass(frozen=True)
class Selection:
    """What is wanted of a trace; None is everything. core: the stream. first, until: instruction counts,
    `until` not included. region: strata before the access."""

    core: int | None = None
    addresses: AddressRange | None = None
    first: int | None = None
    until: int | None = None
    kinds: frozenset[str] | None = None
    region: int | None = None

    def check(self, n_regions: int | None) -> None:
        """Raise UsageError for filters that no access can pass. n_regions: None when it is not known."""
        if self.until is not None and self.until <= (self.first or 0):
            raise UsageError(
                "a range of instruction counts that holds nothing",
                found=Phrase(Option("first", self.first or 0), " ", Option("until", self.until)),
                remedy=Phrase(
                    "give ",
                    Option("until"),
                    " a greater count than ",
                    Option("first"),
                    "; it is not included",
                ),
            )
        if self.region is not None and n_regions is not None and self.region >= n_regions:
            raise UsageError(
                "no such region in this recording",
                expected=f"0 to {n_regions - 1}",
                found=str(self.region),
                remedy=another("region"),
            )

    def mask(self, rows: Rows) -> NDArray[np.bool_]:
        """Which of `rows` (EVENT[n]) are wanted: bool[n]."""
        wanted = np.ones(len(rows), bool)
        if self.core is not None:
            wanted &= rows["core"] == self.core
        if self.first is not None:
            wanted &= rows["count"] >= np.uint64(self.first)
        if self.until is not None:
            wanted &= rows["count"] < np.uint64(self.until)
        if self.region is not None:
            wanted &= rows["stratum"] == self.region
        if self.addresses is not None:
            wanted &= _touches(rows, self.addresses)
        if self.kinds is not None:
            wanted &= _is_kind(rows, self.kinds)
        return wanted

    def past(self, rows: Rows, *, braided: bool) -> bool:
        """Whether nothing that follows `rows` (not empty) in the same trace can be wanted.

        Counts ascend within one stream, strata in a braided trace too.
        """
        if self.region is not None and int(rows["stratum"][-1]) > self.region:
            return True
        return not braided and self.until is not None and int(rows["count"][-1]) >= self.until


def _touches(rows: Rows, addresses: AddressRange) -> NDArray[np.bool_]:
    address, low = rows["addr"], np.uint64(addresses.low)
    begins_inside = (address >= low) & (address <= np.uint64(addresses.high - 1))
    reaches_in = (address < low) & (low - address < rows["size"].astype(np.uint64))
    return begins_inside | reaches_in


def _is_kind(rows: Rows, kinds: frozenset[str]) -> NDArray[np.bool_]:
    fetched = (rows["flags"] & np.uint8(FETCH)) != 0
    wanted = np.zeros(len(rows), bool)
    for name in kinds:
        if name == "F":
            wanted |= fetched
        else:
            wanted |= (rows["kind"] == KINDS[name]) & ~fetched
    return wanted
