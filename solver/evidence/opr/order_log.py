"""What the order logs say (OPR, section 5): which accesses wait for which, what each new value's vector
clock is, and after which access a producer must look for readers of what it wrote (Algorithm 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recorder.evidence.opr.log import OprLog

#: `wait`: access `sn` of a member waits until access `place` of `peer` has been done.
WAIT = np.dtype([("sn", "<u8"), ("place", "<u8"), ("peer", "<i8")])
#: Write-check log: after its access `sn` a producer compares what it wrote with the new values [first,
#: last) of `reader`.
CHECK = np.dtype([("sn", "<u8"), ("reader", "<i8"), ("first", "<i8"), ("last", "<i8")])


@dataclass(frozen=True)
class OrderLog:
    """waits: by member, WAIT[n], ascending by SN."""

    waits: list[NDArray[np.void]]

    @classmethod
    def of(cls, log: OprLog, relaxed: bool) -> OrderLog:
        """From the stream: by exact clocks, or by the relaxed ones of section 4.3."""
        waits = []
        for member in range(len(log.members)):
            rows = log.orders(member, relaxed)
            wait = np.zeros(len(rows), WAIT)
            wait["sn"], wait["place"], wait["peer"] = rows["sn"], rows["place"], rows["peer"]
            waits.append(wait)
        return cls(waits)

    def clock(self, member: int, peer: int, sns: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The peer's entry in the member's vector clock after its accesses `sns` (ascending): uint64[n].

        An order is logged whenever the entry grows, so it is that of the last order up to there.
        """
        mine = self.waits[member][self.waits[member]["peer"] == peer]
        places = np.concatenate([np.zeros(1, np.uint64), np.maximum.accumulate(mine["place"])])
        known: NDArray[np.uint64] = places[np.searchsorted(mine["sn"], sns, side="right")]
        return known


def write_checks(orders: OrderLog, new_values: list[NDArray[np.void]]) -> list[NDArray[np.void]]:
    """Algorithm 3: the write-check log of each member, CHECK[n], ascending by SN.

    new_values: by member, NEW_VALUE[n]. Those for which a reader had not heard of the producer are not
    checked.
    """
    r = len(new_values)
    logs = []
    for producer in range(r):
        pieces = [np.zeros(0, CHECK)]
        for reader in range(r):
            values = new_values[reader]
            if reader == producer or not len(values):
                continue
            known = orders.clock(reader, producer, values["sn"])
            starts = np.flatnonzero(np.diff(known, prepend=known[:1] + np.uint64(1)))
            checks = np.zeros(len(starts), CHECK)
            checks["sn"], checks["reader"] = known[starts], reader
            checks["first"], checks["last"] = starts, [*starts[1:], len(values)]
            pieces.append(checks[checks["sn"] > 0])
        joined = np.concatenate(pieces)
        logs.append(joined[np.argsort(joined["sn"], kind="stable")])
    return logs
