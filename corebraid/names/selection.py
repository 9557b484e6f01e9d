"""Which rows of a trace are wanted: filters as one vectorised mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.rows.event import FETCH, READ, RMW, WRITE
from corebraid.base.wording import Option, Phrase, another

if TYPE_CHECKING:
    from corebraid.names.threads import Threads

Rows = NDArray[np.void]

#: Kinds as they are shown and asked for; F is the bytes that an instruction fetch received.
KINDS = {"R": READ, "W": WRITE, "RMW": RMW, "F": None}


@dataclass(frozen=True)
class AddressRange:
    """Bytes from `low` up to, not including, `high`."""

    low: int
    high: int


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
class WantedThread:
    """A thread of a Linux guest. threads: of the recording."""

    number: int
    threads: Threads


@dataclass(frozen=True)
class Selection:
    """What is wanted of a trace; None is everything. core: the stream. first, until: instruction counts,
    `until` not included. region: strata before the access. pcs: where the instruction is; `agents`, the
    stream whose rows have none, is needed then. thread: that made the access, or for which the kernel did.
    fetches: also what instruction fetches received."""

    core: int | None = None
    addresses: AddressRange | None = None
    first: int | None = None
    until: int | None = None
    kinds: frozenset[str] | None = None
    region: int | None = None
    pcs: tuple[AddressRange, ...] | None = None
    agents: int | None = None
    thread: WantedThread | None = None
    fetches: bool = True

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
            wanted &= touches(rows, self.addresses)
        if self.kinds is not None:
            wanted &= _is_kind(rows, self.kinds)
        if not self.fetches:
            wanted &= (rows["flags"] & np.uint8(FETCH)) == 0
        if self.pcs is not None:
            wanted &= rows["core"] != self.agents
            wanted &= _is_at(rows["pc"], self.pcs)
        if self.thread is not None and wanted.any():
            wanted[wanted] = self.thread.threads.of(rows[wanted]) == self.thread.number
        return wanted

    def past(self, rows: Rows, *, braided: bool) -> bool:
        """Whether nothing that follows `rows` (not empty) in the same trace can be wanted.

        Counts ascend within one stream, strata in a braided trace too.
        """
        if self.region is not None and int(rows["stratum"][-1]) > self.region:
            return True
        return not braided and self.until is not None and int(rows["count"][-1]) >= self.until


def _is_at(pcs: NDArray[np.uint64], wanted: tuple[AddressRange, ...]) -> NDArray[np.bool_]:
    found = np.zeros(len(pcs), bool)
    for one in wanted:
        found |= (pcs >= np.uint64(one.low)) & (pcs <= np.uint64(one.high - 1))
    return found


def touches(rows: Rows, addresses: AddressRange) -> NDArray[np.bool_]:
    """Which rows (EVENT[n]) access one of the bytes: bool[n]."""
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
