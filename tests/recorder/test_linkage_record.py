"""Stride's recorder against its naive twin, on random turns; its stream on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from linkage_factory import LINE, MEMORY, Frames, guest, random_turns, spelled_out
from linkage_twin import Twin

from corebraid.base.errors import FormatError
from corebraid.base.rows.event import EVENT
from corebraid.base.rows.event import FETCH as FETCH_FLAG
from recorder.evidence.linkage import collector as linkage
from recorder.evidence.linkage.codec import (
    ALL,
    CHECK,
    DOUBLE,
    FETCH,
    FOLLOW,
    PAPERS,
    PREDICT,
    REPLAYED,
    RUNS,
    Grouping,
    Head,
    LinkageWriter,
    Machine,
    Piece,
    decode_linkage,
)
from recorder.evidence.linkage.collector import LinkageCollector
from recorder.evidence.linkage.kernels import note_fetches
from recorder.files.access_digest import AccessDigest
from recorder.files.frame import FrameHeader

N_CORES = 3
SYMBOLS = ((0x1004, 4), (0x1008, 9), (0x1040, 0x100))


def variable_of(group: str) -> Callable[[int], int]:
    """Address -> variable, word by word."""

    def find(address: int) -> int:
        word = address >> 3
        if group == "line":
            return address // LINE
        if group == "word":
            return word
        for number, (first, size) in enumerate(SYMBOLS):
            if first >> 3 <= word <= (first + size - 1) >> 3:
                return number
        return len(SYMBOLS) + word

    return find


def both(seed: int, group: str, compressions: int) -> tuple[Twin, Frames]:
    """The twin and the collector after the same turns."""
    frames = Frames()
    collector = LinkageCollector(guest(N_CORES, SYMBOLS), frames, group, compressions)
    twin = Twin(variable_of(group), N_CORES, compressions, linkage.SHADOW_BITS, linkage.SEEN_BITS)
    for stream, rows in random_turns(seed):
        twin.take(stream, rows)
        collector.take(stream, rows)
    twin.finish()
    collector.finish()
    return twin, frames


@pytest.mark.parametrize("group", ["word", "line", "symbol"])
@pytest.mark.parametrize("compressions", [0, PREDICT, RUNS, DOUBLE, PAPERS, FOLLOW, ALL])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(20)
def test_the_collector_is_its_twin(group: str, compressions: int, seed: int) -> None:
    twin, frames = both(seed, group, compressions)
    taken = spelled_out(frames.items(N_CORES + 1))
    assert taken.shares == twin.shares
    assert taken.orders == twin.orders
    if compressions & FOLLOW:
        assert taken.followed == twin.followed
    else:
        assert taken.bounds == twin.bounds
    assert taken.values == twin.values


@pytest.mark.sampled(4)
@pytest.mark.parametrize("compressions", [RUNS, PAPERS, ALL])
def test_bounds_are_never_before_the_version_that_was_read_and_some_are_after(compressions: int) -> None:
    later = 0
    for seed in range(20):
        twin, _ = both(seed, "word", compressions)
        for stream, exact in twin.exact.items():
            bounds = np.array(twin.bounds[stream])
            if compressions & DOUBLE:
                bounds = (bounds + 1) // 2
            assert (bounds >= exact).all(), seed
            later += int((bounds > exact).sum())
    assert later > 20


def test_flushing_in_between_changes_no_more_than_where_runs_end() -> None:
    plain, flushed = Frames(), Frames()
    for frames in (plain, flushed):
        collector = LinkageCollector(guest(N_CORES), frames, compressions=PAPERS)
        for number, (stream, rows) in enumerate(random_turns(11)):
            collector.take(stream, rows)
            if frames is flushed and number % 7 == 0:
                collector.flush()
        collector.finish()
    assert len(flushed.kept) > len(plain.kept)
    one, two = (spelled_out(frames.items(N_CORES + 1)) for frames in (flushed, plain))
    assert (one.shares, one.orders, one.bounds, one.values) == (
        two.shares,
        two.orders,
        two.bounds,
        two.values,
    )


@pytest.mark.parametrize("seed", range(3))
def test_each_compression_makes_the_tables_smaller(seed: int) -> None:
    def cells(compressions: int) -> int:
        _, frames = both(seed, "line", compressions)
        return sum(item.table.size for item in frames.items(N_CORES + 1) if hasattr(item, "table"))

    # Values are what DOUBLE and PREDICT leave out.
    assert cells(DOUBLE) < cells(0)
    assert cells(PREDICT) < cells(0)


@pytest.mark.sampled(1)
@settings(max_examples=150, deadline=None)
@example([(0, bytes([1, 0, 0, 0, 0, 0, 0, 0]), 8)])
@given(st.lists(st.tuples(st.integers(0, 6), st.binary(max_size=40), st.integers(0, 9)), max_size=4))
def test_hostile_frames_give_an_error_and_nothing_else(parts: list[tuple[int, bytes, int]]) -> None:
    _, frames = both(1, "symbol", ALL)
    good = frames.kept[:2]
    hostile = [
        (header(2 + k, bytes([kind]) + raw, n), bytes([kind]) + raw) for k, (kind, raw, n) in enumerate(parts)
    ]
    for kept in (
        good + hostile,
        [(header(k, raw, one.records), raw) for k, (one, raw) in enumerate(hostile)],
    ):
        error = error_of(kept)
        assert error is None or "x, offset" in error


def error_of(kept: list[tuple[FrameHeader, bytes]]) -> str | None:
    """What decoding says, if it does not accept the frames."""
    try:
        list(decode_linkage(iter(kept), Machine(LINE, MEMORY, N_CORES + 1), Path("x")))
    except FormatError as error:
        return error.line()
    return None


def header(number: int, raw: bytes, records: int) -> FrameHeader:
    """A frame's header."""
    return FrameHeader(number, len(raw), len(raw), records, number, number, 0, 0)


def test_every_cut_of_a_table_is_found() -> None:
    _, frames = both(2, "word", ALL)
    kept = frames.kept
    for k in range(1, len(kept)):
        one, raw = kept[k]
        for end in range(len(raw)):
            cut = [*kept[:k], (one, raw[:end]), *kept[k + 1 :]]
            with pytest.raises(FormatError):
                list(decode_linkage(iter(cut), Machine(LINE, MEMORY, N_CORES + 1), Path("x")))


@pytest.mark.parametrize("seed", range(4))
def test_fetches_and_digests_of_accesses(seed: int) -> None:
    """What a replay needs besides, one row at a time: every fetch, and a digest wherever a stratum is cut."""
    frames = Frames()
    collector = LinkageCollector(guest(N_CORES), frames, "word", ALL | REPLAYED)
    fetches: dict[int, list[tuple[int, ...]]] = {core: [] for core in range(N_CORES)}
    checks: dict[int, list[tuple[int, int]]] = {core: [] for core in range(N_CORES)}
    digests = [AccessDigest() for _ in range(N_CORES)]
    for number, (stream, rows) in enumerate(random_turns(seed)):
        collector.take(stream, rows)
        for row in rows if stream < N_CORES else ():
            if row["flags"] & FETCH_FLAG:
                fetches[stream].append((int(row["seq"]), int(row["count"]), int(row["addr"])))
            digests[stream].take(np.array([row]))
        if number % 7 == 0:
            collector.stratum()
            _check(digests, checks)
    collector.finish()
    _check(digests, checks)
    found = frames.items(N_CORES + 1)
    for core in range(N_CORES):
        tables = {kind: _table(found, kind, core) for kind in (FETCH, CHECK)}
        spelled = [
            (first + k, count, address + 8 * k)
            for first, count, address, words in tables[FETCH]
            for k in range(words)
        ]
        assert spelled == fetches[core]
        assert tables[CHECK] == checks[core]


def _check(digests: list[AccessDigest], checks: dict[int, list[tuple[int, int]]]) -> None:
    for core, digest in enumerate(digests):
        if digest.accesses != (checks[core][-1][0] if checks[core] else 0):
            checks[core].append((digest.accesses, digest.value))


def _table(items: list[Head | Piece], kind: int, stream: int) -> list[tuple[int, ...]]:
    pieces = [
        piece for piece in items if isinstance(piece, Piece) and (piece.kind, piece.stream) == (kind, stream)
    ]
    return [tuple(row) for piece in pieces for row in piece.table.tolist()]


def test_words_of_code_that_follow_each_other_are_one_row() -> None:
    rows = np.zeros(9000, EVENT)
    rows["seq"], rows["flags"], rows["size"] = np.arange(9000), FETCH_FLAG, 8
    rows["addr"] = 0x1000 + 8 * np.arange(9000)
    rows["count"][8500:] = 1
    found = np.zeros((9000, 4), np.uint64)
    assert note_fetches(rows, found) == 4
    assert found[:4, 3].tolist() == [4096, 4096, 308, 500]


@pytest.mark.parametrize(
    "row", [(0, 0, 0, 0), (0, 0, MEMORY - 8, 2), (0, 0, MEMORY, 1), (0, 0, 0, 4097), (1 << 48, 0, 0, 1)]
)
def test_fetches_that_cannot_be_are_refused(row: tuple[int, ...]) -> None:
    frames = Frames()
    writer = LinkageWriter(frames, Head(Grouping("word", LINE, MEMORY), ALL | REPLAYED, 15, 14))
    writer.write(FETCH, 0, np.array([row], np.uint64))
    with pytest.raises(FormatError):
        frames.items(N_CORES + 1)
