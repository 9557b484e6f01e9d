"""What the checkers say of an order that is not legal."""

from __future__ import annotations

import numpy as np

from corebraid.base.errors import OrderError
from corebraid.base.rows.event import OF_HOLD

LEFT_OUT = "an event that the order leaves out"
TOO_MANY = "the order has more events of a stream than its trace"


def name_row(stream: int, row: np.void) -> str:
    """A row of a stream, as errors name it."""
    what = f"pc {int(row['pc']):#x}, address {int(row['addr']):#x}"
    if _is_of_hold(row):
        what = f"a hold of the page at {int(row['pc']) & -4096:#x}"
    return (
        f"stream {stream}, event {row['seq']}, instruction count {row['count']}, {what}, "
        f"region {row['stratum']}"
    )


def _is_of_hold(row: np.void) -> bool:
    return int(row["flags"]) & OF_HOLD == OF_HOLD


def differs(address: int, held: int, found: int, where: str) -> OrderError:
    """Something that does not see the byte `held` at an address."""
    return OrderError(
        f"an event does not read what memory holds at {address:#x}",
        expected=f"{held:#04x}",
        found=f"{found:#04x}",
        where=where,
    )


def not_as_held(row: np.void, byte: int, held: int, where: str) -> OrderError:
    """An event whose old bytes are not what memory holds. byte: the number of the first that differs. held:
    what is there instead."""
    if _is_of_hold(row):
        return OrderError(
            "a core's hold of a page does not begin or end with what the hold before it left",
            expected="the page as it was left",
            found="other bytes, or the page in somebody's hands",
            where=where,
        )
    return differs(int(row["addr"]) + byte, held, (int(row["old"]) >> (8 * byte)) & 0xFF, where)


def held_by_others(where: str) -> OrderError:
    """A core gets a page that another has alone, or takes one for itself that another holds."""
    return OrderError("a core has a page alone, and another holds it", where=where)


def not_the_page(address: int, where: str) -> OrderError:
    """A page that a core received is not what memory holds."""
    return OrderError(
        "a page that a core received is not what memory held",
        expected=f"page {address:#x} as the events before leave it",
        found="other bytes",
        where=where,
    )


def not_final(address: int, expected: int, found: int) -> OrderError:
    """A byte that all events together leave as it is not in the final image."""
    return OrderError(
        "memory after the last event is not the final image",
        expected=f"{expected:#04x}",
        found=f"{found:#04x}",
        where=f"address {address:#x}",
    )


def misplaced(where: str) -> OrderError:
    """An event that is not in the region where it says it is."""
    return OrderError("an event's stratum is not what its instruction count says", where=where)


def split_access(unfinished: int, where: str) -> OrderError:
    """An event between those of an indivisible access of another stream."""
    return OrderError(
        "an event stands inside an indivisible access",
        found=f"one of stream {unfinished} is unfinished",
        where=where,
    )


def outside_memory(where: str) -> OrderError:
    """An event at no address that there is."""
    return OrderError("an event outside memory", where=where)


def unfinished_access(where: str) -> OrderError:
    """An indivisible access that is begun and not ended."""
    return OrderError("the order ends inside an indivisible access", where=where)


def too_many(where: str) -> OrderError:
    """Runs that go beyond a stream."""
    return OrderError(TOO_MANY, where=where)
