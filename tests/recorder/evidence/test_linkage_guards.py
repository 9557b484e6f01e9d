"""What locks protect, as Stride's recorder finds it, against a naive twin on random turns and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from linkage_factory import LINE, MEMORY, Frames, Taken, guest, random_turns, spelled_out
from linkage_locks_twin import LockedTurns, LockTwin

from corebraid.base.errors import FormatError
from corebraid.base.rows.event import EVENT, READ, RMW, WRITE
from recorder.evidence.linkage import collector as linkage
from recorder.evidence.linkage.codec import (
    ALL,
    DOUBLE,
    GUARDED,
    LOOSE,
    LOOSENED,
    OPENED,
    PAPERS,
    REPLAYED,
    SHARE,
    Grouping,
    Head,
    LinkageWriter,
)
from recorder.evidence.linkage.collector import LinkageCollector

N_CORES = 3
LOCK, X, Y = 0x1000, 0x1040, 0x1080


def taken(
    turns: list[tuple[int, Any]], group: str = "word", compressions: int = ALL, loose: int = 0
) -> Taken:
    """What the collector has taken down. loose: LOOSE, or 0."""
    frames = Frames()
    collector = LinkageCollector(guest(N_CORES), frames, group, compressions | GUARDED | loose)
    for stream, rows in turns:
        collector.take(stream, rows)
    collector.finish()
    return spelled_out(frames.items(N_CORES + 1))


@pytest.mark.parametrize("group", ["word", "line"])
@pytest.mark.parametrize("compressions", [0, DOUBLE, PAPERS, ALL])
@pytest.mark.parametrize("wrong", [0.0, 0.02, 0.2])
@pytest.mark.parametrize(("loose", "peeks"), [(0, 0.0), (LOOSE, 0.0), (LOOSE, 0.1)])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled(48)
def test_the_collector_is_its_twin(
    group: str, compressions: int, wrong: float, loose: int, peeks: float, seed: int
) -> None:
    turns = LockedTurns(seed, wrong, peeks=peeks).turns(80 if not peeks else 160)
    shift = 3 if group == "word" else 6
    twin = LockTwin(
        lambda address: address >> shift,
        N_CORES,
        compressions | loose,
        linkage.SHADOW_BITS,
        linkage.SEEN_BITS,
    )
    for stream, rows in turns:
        twin.take(stream, rows)
    twin.finish()
    found = taken(turns, group, compressions, loose)
    assert found.guards == twin.guarded_by
    assert (found.opened, found.loosened) == (twin.opened, twin.loosened)
    assert found.skipped == tuple(twin.skipped)
    assert (found.shares, found.orders, found.values) == (twin.shares, twin.orders, twin.values)
    if compressions == ALL:
        assert found.followed == twin.followed
    else:
        assert found.bounds == twin.bounds
    assert twin.guarded_by or wrong > 0.1
    assert twin.loosened or not peeks or wrong > 0.1 or group == "line"


@pytest.mark.parametrize("seed", range(4))
def test_without_locks_nothing_is_skipped_that_would_be_read_wrong(seed: int) -> None:
    """Random turns make zeros nonzero by atomics, too: whoever is taken to hold such a word, the twin says
    the same."""
    turns = random_turns(seed)
    twin = LockTwin(lambda address: address >> 3, N_CORES, ALL, linkage.SHADOW_BITS, linkage.SEEN_BITS)
    for stream, rows in turns:
        twin.take(stream, rows)
    twin.finish()
    found = taken(turns)
    assert (found.guards, found.opened) == (twin.guarded_by, twin.opened)
    assert (found.orders, found.followed) == (twin.orders, twin.followed)


# -- by hand -------------------------------------------------------------------------------------------------


class Script:
    """Turns, one access at a time; values follow from memory."""

    def __init__(self) -> None:
        self.turns: list[tuple[int, Any]] = []
        self._memory: dict[int, int] = {}
        self._numbers = [0] * (N_CORES + 1)

    def do(self, stream: int, kind: int, address: int, new: int = 0, size: int = 8) -> Script:
        """An access."""
        rows = np.zeros(1, EVENT)
        rows["seq"] = rows["count"] = self._numbers[stream]
        old = self._memory.get(address, 0)
        rows["core"], rows["kind"], rows["addr"], rows["size"] = stream, kind, address, size
        rows["old"], rows["new"] = old, old if kind == READ else new
        self._memory[address] = int(rows["new"][0])
        self._numbers[stream] += 1
        self.turns.append((stream, rows))
        return self

    def under(self, stream: int, *accesses: tuple[int, int]) -> Script:
        """Writes (address, value) under the lock."""
        self.do(stream, RMW, LOCK, 1)
        for address, value in accesses:
            self.do(stream, WRITE, address, value)
        return self.do(stream, WRITE, LOCK, 0)


def word(address: int) -> int:
    """The variable."""
    return address >> 3


def test_what_is_always_under_a_lock_is_not_logged() -> None:
    script = Script()
    for k in range(6):
        script.under(k % 3, (X, k + 1), (Y, k + 1))
    found = taken(script.turns)
    assert found.guards == {word(X): word(LOCK), word(Y): word(LOCK)}
    assert not found.opened
    # The first stream's are before the share; ten accesses of others, all writes.
    assert found.skipped == (10, 10)
    assert set(found.orders) == {word(LOCK)}
    assert all(not values for values in found.values.values())


def test_an_access_without_the_lock_opens_at_once() -> None:
    script = Script().under(0, (X, 1)).under(1, (X, 2)).under(0, (X, 3))
    script.do(2, READ, X).under(1, (X, 4)).do(2, READ, X)
    found = taken(script.turns)
    # After three writes, when cores 0 and 1 had made 6 and 3 events: core 2's first access is logged.
    assert found.opened == {word(X): (3, 6, 3, 0, 0)}
    assert not found.loosened
    assert found.orders[word(X)] == [1]
    # Both of its reads look at version 4, the first late; what the second finds follows.
    assert [value for value, _ in found.values[2]] == [3]
    assert found.followed[2] == [(8, 0), (8, 0)]


@pytest.mark.parametrize(
    ("kind", "address", "new", "size"),
    [(RMW, X, 5, 8), (WRITE, X + 4, 5, 8)],
    ids=["an atomic access", "an access to two words"],
)
def test_even_the_holder_opens(kind: int, address: int, new: int, size: int) -> None:
    script = Script().under(0, (X, 1)).under(1, (X, 2)).do(0, RMW, LOCK, 1)
    script.do(0, kind, address, new, size).do(0, WRITE, LOCK, 0)
    assert word(X) in taken(script.turns).opened


@pytest.mark.parametrize(("new", "size", "breaks"), [(0, 8, True), (2, 8, False), (7, 1, True)])
def test_who_makes_anothers_lock_zero_breaks_it(new: int, size: int, breaks: bool) -> None:
    """A waiter may mark the word; what makes it 0, or writes over a part of it, ends all trust in it."""
    script = Script().under(0, (X, 1)).under(1, (X, 2))
    script.do(0, RMW, LOCK, 1).do(1, WRITE, LOCK, new, size).do(0, WRITE, X, 3).do(0, WRITE, LOCK, 0)
    script.under(1, (Y, 1)).under(0, (Y, 2))
    found = taken(script.turns)
    assert (word(X) in found.opened) == breaks
    assert (word(Y) in found.guards) != breaks


def test_of_what_is_read_without_its_lock_writes_are_not_logged() -> None:
    script = Script()
    for k in range(4):
        script.under(k % 2, (X, k + 1))
    script.do(2, READ, X).under(1, (X, 5)).do(2, READ, X).do(0, RMW, LOCK, 1).do(0, READ, X).do(
        0, WRITE, LOCK
    )
    found = taken(script.turns, loose=LOOSE)
    # The first one's write comes before the share; of cores that have touched it since it is told where.
    assert found.loosened == {word(X): (0, 6, 6, 0, 0)}
    assert not found.opened
    assert found.skipped == (4, 4)
    assert word(X) not in found.orders
    # Whoever reads it is logged, the lock's holder too. Core 2's first look is late, and sees the fifth
    # write: of its second read nothing is new.
    assert [value for value, _ in found.values[2]] == [4]
    assert 5 in [value for value, _ in found.values[0]]
    assert [version for version, _ in found.followed[2]] == [10, 10]


def test_its_own_skipped_write_is_known_to_a_stream() -> None:
    script = Script()
    for k in range(4):
        script.under(k % 2, (X, k + 1))
    script.do(2, READ, X).do(0, RMW, LOCK, 1).do(0, WRITE, X, 9).do(0, READ, X).do(0, READ, X).do(
        0, WRITE, LOCK
    )
    found = taken(script.turns, loose=LOOSE)
    # Neither bound nor value of what it has written itself is written down.
    assert found.skipped == (4, 4)
    assert not found.values[0]
    assert not [row for row in found.followed[0] if row[1] == 0 and row[0] == 10][1:]


def test_a_write_without_the_lock_opens_what_is_loose() -> None:
    script = Script()
    for k in range(4):
        script.under(k % 2, (X, k + 1))
    script.do(2, READ, X).do(2, WRITE, X, 7).under(0, (X, 8))
    found = taken(script.turns, loose=LOOSE)
    assert found.loosened == {word(X): (0, 6, 6, 0, 0)}
    assert found.opened == {word(X): (4, 6, 6, 1, 0)}
    assert found.orders[word(X)] == [2, 0]


def test_few_writes_are_no_reason_to_log_reads() -> None:
    script = Script().under(0, (X, 1)).under(1, (X, 2)).under(0, (X, 3)).do(2, READ, X)
    found = taken(script.turns, loose=LOOSE)
    assert not found.loosened
    assert word(X) in found.opened


@pytest.mark.parametrize("locked", [True, False])
def test_what_is_first_read_without_a_lock_is_loose_if_its_first_write_is_under_one(locked: bool) -> None:
    script = Script().do(0, WRITE, X, 1).do(1, READ, X).do(2, READ, X)
    if locked:
        script.under(2, (X, 2)).under(0, (X, 3))
    else:
        script.do(2, WRITE, X, 2).under(0, (X, 3))
    found = taken(script.turns, loose=LOOSE)
    assert found.loosened == ({word(X): (word(LOCK) + 1, 0, 0, 0, 0)} if locked else {})
    assert found.skipped == ((2, 2) if locked else (0, 0))
    assert found.orders.get(word(X), []) == ([] if locked else [2, 0])


def test_a_lock_itself_is_never_guarded() -> None:
    """An inner lock that is always taken under an outer one is logged all the same."""
    inner = Y
    script = Script()
    for k in range(4):
        script.do(k % 2, RMW, LOCK, 1).do(k % 2, READ, inner).do(k % 2, RMW, inner, 1)
        script.do(k % 2, WRITE, X, k).do(k % 2, WRITE, inner, 0).do(k % 2, WRITE, LOCK, 0)
    found = taken(script.turns)
    assert found.guards == {word(X): word(inner)}
    assert found.orders[word(inner)] == [1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (SHARE, [(5, 0, 0, 0, MEMORY)]),
        (OPENED, [(1 << 40, 0, 0, 0, 0, 0)]),
        (OPENED, [(5, 1 << 48, 0, 0, 0, 0)]),
        (LOOSENED, [(1 << 40, 0, 0, 0, 0, 0)]),
        (LOOSENED, [(5, MEMORY, 0, 0, 0, 0)]),
        (LOOSENED, [(5, 0, 0, 1 << 48, 0, 0)]),
    ],
)
def test_rows_that_cannot_be_are_refused(kind: int, rows: list[tuple[int, ...]]) -> None:
    frames = Frames()
    head = Head(Grouping("word", LINE, MEMORY), ALL | REPLAYED | GUARDED | LOOSE, 15, 14)
    LinkageWriter(frames, head).write(kind, 0, np.array(rows, np.uint64))
    with pytest.raises(FormatError):
        frames.items(N_CORES + 1)


@pytest.mark.parametrize("compressions", [ALL | GUARDED, ALL | LOOSE])
def test_rows_of_what_is_loose_are_refused_where_the_head_has_none(compressions: int) -> None:
    frames = Frames()
    head = Head(Grouping("word", LINE, MEMORY), compressions, 15, 14)
    LinkageWriter(frames, head).write(LOOSENED, 0, np.array([(5, 0, 0, 0, 0, 0)], np.uint64))
    with pytest.raises(FormatError):
        frames.items(N_CORES + 1)


def test_a_stream_that_is_cut_is_refused() -> None:
    frames = Frames()
    head = Head(Grouping("word", LINE, MEMORY), ALL | REPLAYED | GUARDED | LOOSE, 15, 14)
    LinkageWriter(frames, head).write(LOOSENED, 0, np.array([(5, 0, 1, 2, 3, 4)], np.uint64))
    assert len(frames.items(N_CORES + 1)) == 2
    for n in range(len(frames.kept[1][1])):
        cut = Frames([frames.kept[0], (frames.kept[1][0], frames.kept[1][1][:n])])
        with pytest.raises(FormatError):
            cut.items(N_CORES + 1)
