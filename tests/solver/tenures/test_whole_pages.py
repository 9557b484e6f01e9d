"""A core that gets lines by whole pages has one from its record on, accessed or not."""

from __future__ import annotations

import numpy as np
import pytest

from corebraid.base.rows.event import EVENT, READ
from corebraid.base.rows.record import MISS, RECORD
from solver.tenures.scan import CONTINUED, FIRST, MISSED, Scanner

LINE = 64


def how_it_begins(came: list[int], strata: list[int] | None) -> list[int]:
    """Of one line, whose records came at these counts, and which is accessed at 15, 25 and 35, in regions
    that begin at 0, 10, 20 and 30."""
    records = np.zeros(len(came), RECORD)
    records["kind"], records["count"] = MISS, came
    counts = None if strata is None else np.array(strata, np.uint64)
    pieces = iter([(records, np.zeros(0, np.uint8))])
    scanner = Scanner(pieces, 4096, LINE, strata=counts)
    found = []
    for region, count in ((0, None), (1, 15), (2, 25), (3, 35)):
        rows = np.zeros(0 if count is None else 1, EVENT)
        rows["count"], rows["kind"], rows["size"], rows["stratum"] = count or 0, READ, 8, region
        found += scanner.scan(region, iter([rows] if count else [])).how.tolist()
    return found


@pytest.mark.parametrize(
    ("came", "expected"),
    [
        ([3], [CONTINUED, CONTINUED, CONTINUED]),
        ([10], [FIRST, CONTINUED, CONTINUED]),
        ([12], [FIRST, CONTINUED, CONTINUED]),
        ([3, 22], [CONTINUED, MISSED, CONTINUED]),
        ([3, 17], [CONTINUED, CONTINUED, CONTINUED]),
        ([3, 17, 24], [CONTINUED, MISSED, CONTINUED]),
    ],
)
def test_a_record_of_an_earlier_region_began_it_there(came: list[int], expected: list[int]) -> None:
    assert how_it_begins(came, [10, 20, 30]) == expected


def test_elsewhere_it_begins_with_the_access() -> None:
    """A record may be that of an access that was stopped, and the line be gone again."""
    assert how_it_begins([3], None) == [FIRST, CONTINUED, CONTINUED]
    assert how_it_begins([3, 17], None) == [FIRST, MISSED, CONTINUED]
