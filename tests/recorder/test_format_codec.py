"""The codecs against their naive twins, on random rows and on hostile bytes."""

from __future__ import annotations

import random

import format_twin as twin
import numpy as np
import pytest
from format_factory import BLOB, LINE, core_batches, records
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from corebraid.base.errors import FormatError
from corebraid.base.rows.record import CONTEXT, DIGEST, END, INPUT, MISS, RECEIVED, RECORD, STORED, STRATUM
from recorder.files import agent_codec, codec, truth
from recorder.files.agent_codec import AGENT_OP, SYNC

MEMORY = 1 << 40
CORES = 3
U64 = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))


def _row(kind: int, line: int) -> st.SearchStrategy[tuple[int, ...]]:
    """(kind, flags, addr, value, size) of a valid record."""
    zero = st.just(0)
    lines = st.one_of(st.integers(0, 40), st.integers(0, MEMORY // line - 1)).map(lambda n: n * line)
    fields = {
        MISS: (
            st.sampled_from([late | owned for late in range(8) for owned in (0, 16)]),
            lines,
            zero,
            st.just(line) if line < twin.PAGE else st.integers(0, 64).map(lambda n: 1 + 65 * n),
        ),
        STORED: (zero, st.integers(0, MEMORY - 1), U64, st.integers(1, 8)),
        RECEIVED: (zero, lines, zero, st.just(line)),
        INPUT: (st.integers(1, 4), U64, U64, st.integers(0, 8)),
        STRATUM: (zero, zero, st.one_of(st.integers(0, 3), st.sampled_from([2**64 - 1])), zero),
        DIGEST: (zero, U64, U64, st.integers(0, 40)),
        CONTEXT: (st.integers(1, 2), U64, U64, st.integers(0, 300)),
        END: (zero, zero, st.integers(1, 5), zero),
    }
    return st.tuples(st.just(kind), *fields[kind])


@st.composite
def _logs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    line = draw(st.sampled_from([16, 64, 256, twin.PAGE]))
    other = STORED if line == twin.PAGE else RECEIVED
    kinds = st.sampled_from([MISS, MISS, other, INPUT, STRATUM, STRATUM, DIGEST, CONTEXT, END])
    parts = draw(st.lists(kinds.flatmap(lambda kind: _row(kind, line)), max_size=25))
    counts = sorted(draw(st.lists(U64, min_size=len(parts), max_size=len(parts))))
    rows, used = np.zeros(len(parts), dtype=RECORD), 0
    for row, (kind, flags, addr, value, size), count in zip(rows, parts, counts, strict=True):
        carries = kind in (MISS, RECEIVED, DIGEST, CONTEXT)
        row["count"], row["addr"], row["value"], row["offset"] = count, addr, value, used if carries else 0
        row["size"], row["kind"], row["flags"] = size, kind, flags
        used += size if carries else 0
    if draw(st.booleans()):
        # A recording under TSO: stores leave the store buffer, some are in it.
        committed = 0
        for row in rows:
            if row["kind"] not in (MISS, STRATUM):
                continue
            committed += draw(st.sampled_from([0, 0, 1, 200, 2**40]))
            row["value" if row["kind"] == MISS else "addr"] = committed
    strata = rows["kind"] == STRATUM
    rows["size"][strata] = draw(st.sampled_from([0, 0, 16]))
    content = random.Random(used)
    blob = np.frombuffer(content.randbytes(used), dtype=np.uint8).copy()
    for row in rows[rows["kind"] == MISS] if line == twin.PAGE else ():
        n, at = int(row["size"]) // 65, int(row["offset"])
        blob[at : at + 1 + n] = [n, *sorted(content.sample(range(64), n))]
    return rows, blob, line


@seed(20090611)
@settings(max_examples=150, deadline=None)
@given(_logs())
def test_records_round_trip_and_have_the_twins_bytes(log: tuple[np.ndarray, np.ndarray, int]) -> None:
    rows, blob, line = log
    raw = codec.encode(rows, blob, line)
    assert raw == twin.encode_records(rows, blob.tobytes(), line)
    got_rows, got_blob = codec.decode(raw, line, "test", records=len(rows), memory=MEMORY)
    assert got_rows.tolist() == rows.tolist()
    assert got_blob.tobytes() == blob.tobytes()


@pytest.mark.parametrize("seed_", range(40))
def test_hostile_payloads_get_the_twins_verdict(seed_: int) -> None:
    """Damaged payloads are refused by both decoders, or decode to the same and encode back to the same."""
    draw = random.Random(seed_)
    whole = b"".join(codec.encode(batch, BLOB, LINE) for batch in core_batches(0))
    for _ in range(60):
        raw = bytearray(whole)
        for _ in range(draw.randint(0, 3)):
            raw[draw.randrange(len(raw))] = draw.choice([0, 1, 9, 127, 128, 255, draw.randrange(256)])
        damaged = bytes(raw[draw.randrange(20) : len(raw) - draw.randrange(20)])
        try:
            expected = twin.decode_records(damaged, LINE, MEMORY)
        except twin.Refused:
            with pytest.raises(FormatError):
                codec.decode(damaged, LINE, "test", memory=MEMORY)
            continue
        rows, blob = codec.decode(damaged, LINE, "test", memory=MEMORY)
        assert rows.tolist() == expected[0].tolist(), f"seed {seed_}"
        assert blob.tobytes() == expected[1]
        assert codec.encode(rows, blob, LINE) == damaged


@pytest.mark.parametrize("seed_", range(40))
def test_hostile_pages_get_the_twins_verdict(seed_: int) -> None:
    """The same where the bus moves pages."""
    draw = random.Random(f"pages/{seed_}")
    rows, blob = np.zeros(12, RECORD), bytearray()
    for k, row in enumerate(rows):
        row["count"], row["kind"] = 3 * k, draw.choice((MISS, MISS, STORED, DIGEST))
        row["addr"] = draw.randrange(9) * (twin.PAGE if row["kind"] == MISS else 1)
        n, row["size"] = draw.choice((0, 1, 2, 64)), draw.randint(1, 8)
        if row["kind"] == MISS:
            row["size"], row["offset"] = 1 + 65 * n, len(blob)
            blob += bytes([n, *sorted(draw.sample(range(64), n))]) + draw.randbytes(64 * n)
        elif row["kind"] == DIGEST:
            row["offset"] = len(blob)
            blob += draw.randbytes(int(row["size"]))
    whole = codec.encode(rows, np.frombuffer(bytes(blob), np.uint8), twin.PAGE)
    for _ in range(60):
        raw = bytearray(whole)
        for _ in range(draw.randint(0, 3)):
            raw[draw.randrange(len(raw))] = draw.choice([0, 1, 2, 63, 64, 65, 128, 255])
        damaged = bytes(raw[draw.randrange(3) : len(raw) - draw.randrange(20)])
        try:
            expected = twin.decode_records(damaged, twin.PAGE, 1 << 16)
        except twin.Refused:
            with pytest.raises(FormatError):
                codec.decode(damaged, twin.PAGE, "test", memory=1 << 16)
            continue
        got, data = codec.decode(damaged, twin.PAGE, "test", memory=1 << 16)
        assert got.tolist() == expected[0].tolist(), f"seed {seed_}"
        assert data.tobytes() == expected[1]
        assert codec.encode(got, data, twin.PAGE) == damaged


_V, _TOP = twin.varint, 2**64 - 1


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\1\0" + _V(MEMORY // LINE * 2) + bytes(LINE), "outside the memory"),
        (b"\1\0" + _V(1) + bytes(LINE), "outside the memory"),
        (b"\1\0\0" + bytes(LINE - 1), "past the end"),
        (b"\6" + _V(_TOP) + b"\1\6\1\1", "goes back"),
        (b"\6" + b"\xff" * 9 + b"\2\1", "shortest form"),
        (b"\6\x80\0\1", "shortest form"),
        (b"\6\0", "cut short"),
        (b"\6\0\0", "reason for the end"),
        (b"\3\0", "stratum's number"),
        (b"\x0b\0\0\x0b\0\1", "stratum's number"),
        (b"\x0a\0\0\0\x09", "size"),
        (b"\4\0\0\0" + _V(65536) + bytes(65536), "size"),
        (b"\4\0\0\0" + _V(40) + bytes(39), "past the end"),
        (b"\0\0", "no such kind"),
        (b"\x0f\0\0" + bytes(LINE), "flags"),
        (b"\7\0\0" + bytes(LINE - 1), "past the end"),
        (b"\x41\0\0\0" + bytes(LINE), "follows by itself"),
        (b"\x1b\0\0\0\0", "follows by itself"),
        (b"\x1b\0\0\1" + _V(65536), "size"),
        (b"\x41\0\0\1" + bytes(LINE) + b"\x41\0\0" + _V(_TOP) + bytes(LINE), "goes back"),
        (b"\2\0\0\0\0", "flags"),
        (b"\x0c\0", "flags"),
    ],
)
def test_hostile_payloads_by_hand(raw: bytes, reason: str) -> None:
    with pytest.raises(twin.Refused):
        twin.decode_records(raw, LINE, MEMORY)
    with pytest.raises(FormatError, match=reason):
        codec.decode(raw, LINE, "test", memory=MEMORY)


@pytest.mark.parametrize("records", [1, 3])
def test_the_number_of_records_must_be_the_declared_one(records: int) -> None:
    with pytest.raises(FormatError, match="records"):
        codec.decode(b"\6\0\1\6\0\1", LINE, "test", records=records)


def test_a_stratum_costs_three_bytes() -> None:
    rows = records(*((15000 * k, STRATUM, 0, 0, k, 0, 0) for k in range(100)))
    assert len(codec.encode(rows, BLOB, LINE)) <= 3 * 100 + 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((5, 0, 0, 0, 0, 0, 0), "no such kind"),
        ((5, INPUT, 0, 0, 0, 0, 8), "flags"),
        ((5, MISS, 8, 0, 0, 0, LINE), "flags"),
        ((1, STRATUM, 0, 0, 0, 0, 0), "goes back"),
        ((5, MISS, 0, 8, 0, 0, LINE), "not aligned"),
        ((5, MISS, 0, 1 << 48, 0, 0, LINE), "outside the memory"),
        ((5, MISS, 0, 0, 0, 0, LINE + 1), "size"),
        ((5, MISS, 0, 0, 0, 190, LINE), "past the end"),
        ((5, INPUT, 1, 0, 0, 0, 9), "size"),
        ((5, END, 0, 0, 7, 0, 0), "reason for the end"),
        ((5, END, 0, 4, 1, 0, 0), "does not use"),
        ((5, RECEIVED, 0, 0, 1, 0, LINE), "does not use"),
        ((5, MISS, 0, 0, 1, 0, LINE), "committed stores goes back"),
    ],
)
def test_rows_that_the_format_cannot_hold(row: tuple[int, ...], reason: str) -> None:
    first = (4, STRATUM, 0, 2, 0, 0, 0)
    with pytest.raises(FormatError, match=reason):
        codec.encode(records(first, row), BLOB, LINE)  # type: ignore[arg-type]


def _ops(draw: random.Random, count: int) -> np.ndarray:
    rows = np.zeros(count, dtype=AGENT_OP)
    number, stratum, nxt = draw.randrange(1 << 40), draw.randrange(1000), 0
    counts = [0] * CORES
    for index, row in enumerate(rows):
        if draw.random() < 0.2:
            row["number"], row["stratum"] = number, stratum
            stratum += 1
            continue
        if draw.random() < 0.3:
            core, who = draw.randrange(CORES), draw.choice([0, 0, 7, (1 << 32) - 1])
            counts[core] += draw.choice([0, 0, 5, 1 << 33])
            rows[index] = (number, counts[core], who, 0, stratum, 0, SYNC, core, draw.randint(1, 3))
            continue
        size, kind = draw.randint(1, 8), draw.randint(1, 3)
        addr = nxt if nxt <= MEMORY - 8 and draw.random() < 0.5 else draw.randrange(MEMORY - 8)
        old = draw.randrange(1 << 8 * size)
        new = old if kind == 1 else draw.randrange(1 << 8 * size)
        flags, cause = draw.choice([0, 0, 1, 2]) | draw.choice([0, 8]), draw.choice([1, 1, 2, 3])
        rows[index] = (number, addr, old, new, stratum, size, kind, cause, flags)
        number, nxt = number + 1, addr + size
    return rows


def test_formats_without_sync_points_do_not_say_whose_a_line_was() -> None:
    rows = np.zeros(1, dtype=AGENT_OP)
    rows[0] = (0, 64, 5, 5, 0, 8, 1, 1, 8)
    raw = np.frombuffer(bytes(agent_codec.Encoder(1 << 16, MEMORY).encode_some(rows, 0)[1]), np.uint8)
    out = np.empty(1, dtype=AGENT_OP)
    assert agent_codec.decode_ops(raw, np.uint64(MEMORY), CORES, out)[:2] == (1, 0)
    assert out.tolist() == rows.tolist()
    error = agent_codec.decode_ops(raw, np.uint64(MEMORY), 0, out)[1]
    assert agent_codec.REASONS[error] == "no such kind or size of access"


@pytest.mark.parametrize("seed_", range(20))
def test_agent_accesses_round_trip_and_survive_damage(seed_: int) -> None:
    draw = random.Random(seed_)
    rows = _ops(draw, draw.randint(1, 40))
    end, payload = agent_codec.Encoder(1 << 16, MEMORY).encode_some(rows, 0)
    raw = bytes(payload)
    assert end == len(rows)
    assert raw == twin.encode_ops(rows)
    out = np.empty(len(rows), dtype=AGENT_OP)
    assert agent_codec.decode_ops(np.frombuffer(raw, np.uint8), np.uint64(MEMORY), CORES, out)[:2] == (end, 0)
    assert out.tolist() == rows.tolist()
    for _ in range(60):
        damaged = bytearray(raw[: len(raw) - draw.randrange(4)] or raw)
        damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        data, table = np.frombuffer(bytes(damaged), np.uint8), np.empty(len(damaged), dtype=AGENT_OP)
        n, error, _ = agent_codec.decode_ops(data, np.uint64(MEMORY), CORES, table)
        assert error == 0 or error in agent_codec.REASONS
        if error == 0 and n > 0:
            assert twin.encode_ops(table[:n]) == bytes(damaged), f"seed {seed_}"


def test_agent_accesses_that_the_format_cannot_hold() -> None:
    encoder = agent_codec.Encoder(1 << 16, 1 << 16)
    good = (0, 0x100, 1, 1, 0, 8, 1, 1, 0)
    sync = (0, 9, 3, 0, 0, 0, SYNC, 1, 3)
    bad = [(1, 0xFFFC), (2, 2), (5, 0), (5, 9), (6, 4), (7, 0), (8, 4), (8, 16)]
    bad_sync = [(2, 1 << 32), (3, 1), (5, 1), (7, 64), (8, 0), (8, 4)]
    cases = [(good, *one) for one in bad] + [(sync, *one) for one in bad_sync]
    for whole, position, value in cases:
        row = np.zeros(1, dtype=AGENT_OP)
        row[0] = (*whole[:position], value, *whole[position + 1 :])
        with pytest.raises(FormatError):
            encoder.encode_some(row, 0)
    two = np.array([good, good], dtype=AGENT_OP)
    with pytest.raises(FormatError, match="out of sequence"):
        encoder.encode_some(two, 0)


@pytest.mark.parametrize("seed_", range(10))
def test_slices_round_trip(seed_: int) -> None:
    draw = random.Random(seed_)
    ends = [0] * 5
    rows = np.zeros(draw.randint(1, 60), dtype=truth.TRUTH)
    for row in rows:
        stream = draw.randrange(5)
        ends[stream] += draw.choice([0, 1, 500, 1 << 40])
        row["stream"], row["end"] = stream, ends[stream]
    end, payload = truth.Encoder(5, 1 << 16).encode_some(rows, 0)
    assert (end, bytes(payload)) == (len(rows), twin.encode_slices(rows))
    out = np.empty(len(rows), dtype=truth.TRUTH)
    result = truth.decode_slices(np.frombuffer(bytes(payload), np.uint8), np.zeros(5, np.uint64), out)
    assert result[:2] == (end, 0)
    assert out.tolist() == rows.tolist()


def test_slices_that_the_format_cannot_hold() -> None:
    for bad in ([(0, 5), (0, 4)], [(3, 1)]):
        with pytest.raises(FormatError):
            truth.Encoder(3, 1 << 16).encode_some(np.array(bad, dtype=truth.TRUTH), 0)


def test_a_full_buffer_splits_and_each_part_decodes_alone() -> None:
    n = 6000
    rows = records(*((k, MISS, 0, (k % 100) * LINE, 0, k % 150, LINE) for k in range(n)))
    encoder, start, found = codec.Encoder(LINE, 1 << 15), 0, []
    while start < n:
        start, payload = encoder.encode_some(rows, BLOB, start)
        part, blob = codec.decode(bytes(payload), LINE, "test")
        found += [(int(row["count"]), blob[row["offset"] :][:LINE].tobytes()) for row in part]
    assert found == [(k, BLOB[k % 150 :][:LINE].tobytes()) for k in range(n)]
    assert encoder.encode_some(rows, BLOB, 0)[0] < n
