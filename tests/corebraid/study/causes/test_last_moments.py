"""What of a program's end looks suspicious: it is told of the bytes that it is about."""

from __future__ import annotations

from corebraid.base.rows.event import READ, WRITE
from corebraid.study.causes.last_moments import _missed
from corebraid.study.shared_rows import Access
from emu.linux.tasks.waiting import Awaited, Waiting


def test_one_of_two_variables_in_a_word() -> None:
    """Thread 1 looks at the second one, which thread 2 changes, and waits for ever."""
    first, second = 0x1000, 0x1004
    made = [
        Access(0, 1, 0, 5, 0x40, second, 4, READ, 0, 0),
        Access(1, 2, 1, 5, 0x50, first, 4, WRITE, 0, 7),
        Access(2, 2, 1, 6, 0x54, second, 4, WRITE, 0, 1),
    ]
    (moment,) = _missed([Waiting(1, "", Awaited.FUTEX)], made)
    assert moment.address == second
    assert [step.address for step in moment.steps if isinstance(step, Access)] == [second, second]
