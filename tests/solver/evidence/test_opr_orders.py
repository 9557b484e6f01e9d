"""Event orders against the order that really ran: exact clocks are never wrong, relaxed ones often are."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_factory import FIRMWARE
from evidence_factory import spy_on
from opr_factory import recorded

from corebraid.base.rows.event import FETCH
from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.opr.log import read_opr


def violated(program: str, folder: Path) -> dict[bool, tuple[int, int]]:
    """By whether the clocks were relaxed: orders, and those that ran the other way round."""
    recording = recorded(program, folder, 4, "0,1,3")
    spy, _ = spy_on(
        FIRMWARE / f"{program}.elf", folder / "again", cores=4, longest_slice=200,
        strata=StrataPolicy(cycles=5000),
    )  # fmt: skip
    when: dict[int, list[int]] = {core: [] for core in range(4)}
    time = 0
    for stream, rows in spy.turns:
        n = int(((rows["flags"] & FETCH) == 0).sum()) if stream < 4 else 0
        when.get(stream, []).extend(range(time, time + n))
        time += n
    log, found = read_opr(recording), {}
    for relaxed in (False, True):
        orders = wrong = 0
        for member, core in enumerate(log.members):
            for row in log.orders(member, relaxed):
                before = when[log.members[int(row["peer"])]][int(row["place"]) - 1]
                wrong += before > when[core][int(row["sn"]) - 1]
                orders += 1
        found[relaxed] = orders, wrong
    return found


@pytest.mark.parametrize("program", ["uts", "spin_ticket", "pgas_fib", "pgas_cg"])
def test_exact_orders_are_true_and_relaxed_ones_may_not_be(program: str, tmp_path: Path) -> None:
    found = violated(program, tmp_path)
    assert found[False][0] > 50
    assert found[False][1] == 0
    assert found[True][0] > found[True][1] > 0
