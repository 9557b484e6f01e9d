"""The hint that tells where a bad address came from comes first."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from corebraid.base.rows.event import READ, RMW, WRITE
from corebraid.study.causes import bad_pointer, suspects
from corebraid.study.causes.bad_pointer import pointer_read
from corebraid.study.findings import Hunted
from corebraid.study.shared_rows import Access


def access(at: int, old: int, who: int = 7, size: int = 8, kind: int = READ) -> Access:
    return Access(at, who, who, 10 * at, 0x400 + at, 0x1000 + 8 * at, size, kind, old, 5)


HEAP = 0x100005000


@pytest.mark.parametrize(
    ("address", "accesses", "found"),
    [
        (0x8, [access(1, 0), access(2, HEAP)], 1),
        (HEAP + 0x10, [access(1, 0), access(2, HEAP), access(3, 1)], 2),
        # A member before the pointer; of a null pointer that is at the end of all addresses.
        (HEAP - 0x10, [access(1, HEAP)], 1),
        ((1 << 64) - 8, [access(1, 0)], 1),
        # The last one.
        (0x8, [access(1, 0), access(2, 0)], 2),
        (0x8, [access(1, 0, kind=RMW), access(2, HEAP)], 1),
        # Of another thread, a write, half a pointer, too far.
        (0x8, [access(1, 0, who=8)], None),
        (0x8, [access(1, 0, kind=WRITE)], None),
        (0x8, [access(1, 0, size=4)], None),
        (HEAP + 4096, [access(1, HEAP)], None),
        (None, [access(1, 0)], None),
        # A small number is no pointer.
        (0x60, [access(1, 0), access(2, 0x58)], 1),
    ],
)
def test_which_read_it_was(
    address: int | None, accesses: list[Access], found: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = SimpleNamespace(address=address, core=7, count=100)
    recording: Any = SimpleNamespace(manifest=SimpleNamespace(end=end))
    monkeypatch.setattr(bad_pointer, "thread_at", lambda _, core, count: core)
    read = pointer_read(recording, accesses)
    assert (None if read is None else read.at) == found


def test_of_the_programs_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    recording: Any = SimpleNamespace(
        manifest=SimpleNamespace(end=SimpleNamespace(address=8, core=7, count=9))
    )
    monkeypatch.setattr(bad_pointer, "thread_at", lambda _, core, count: core)
    accesses = [access(1, 0), access(2, 0)._replace(caller=0x99)]
    found = [pointer_read(recording, accesses, own=own) for own in (False, True)]
    assert [one.at for one in found if one is not None] == [2, 1]


def test_what_it_saw_and_what_it_mostly_sees() -> None:
    """Of a pointer that threads 1 and 2 write at different places."""
    read = access(5, 0)
    early, late = (read._replace(at=at, kind=WRITE, pc=at, who=1) for at in (2, 4))
    assert bad_pointer.seen_write(read, [early, late, read, read._replace(at=9, kind=WRITE)]) == late
    assert bad_pointer.seen_write(read, [early._replace(address=0x40), read]) is None
    runs = [[early, read], [early, late, read], [late, read, read], [read]]
    assert bad_pointer.usual_write(read, runs) == (4, 0)
    assert bad_pointer.usual_write(read, [[read], [read], [early, read]]) is None
    assert bad_pointer.usual_write(read, [[early, read._replace(pc=1)]]) is None


@pytest.mark.soak
def test_its_hint_comes_first(small: Hunted, monkeypatch: pytest.MonkeyPatch) -> None:
    assert small.finding is not None
    hunted = replace(small, finding=replace(small.finding, reduction=None))
    told, read = suspects.novelties, access(3, 0)

    def misled(*asked: Any) -> Any:
        found = told(*asked)
        other = replace(found[0], steps=(access(1, 0, kind=WRITE), read), score=0.0)
        return [*found, other]

    def first() -> tuple[int, ...]:
        finding = hunted.explained().finding
        assert finding is not None
        assert finding.suspicions is not None
        return finding.suspicions[0].pcs

    monkeypatch.setattr(suspects, "novelties", misled)
    pcs = (access(1, 0).pc, read.pc)
    assert first() != pcs
    monkeypatch.setattr(suspects, "pointer_read", lambda *_, own=False: read)
    assert first() == pcs
    # One that no hint is about is told by itself, first.
    alone = access(4, 0)
    monkeypatch.setattr(suspects, "pointer_read", lambda *_, own=False: alone)
    assert first() == (alone.pc,)
