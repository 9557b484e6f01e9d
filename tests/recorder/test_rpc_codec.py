"""The codec of evidence `rpc` against its naive twin, on random happenings and on hostile bytes."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import rpc_twin as twin
from cli_factory import FIRMWARE, run
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from corebraid.base.errors import FormatError
from corebraid.base.varint import get_varint, put_varint
from emu.devices.mail_state import ENTRY_POINTS, MAIL_EVENT, POSTED, RECEIVED, TESTED
from recorder.evidence.rpc import receipts
from recorder.evidence.rpc.receipts import ReceiptDecoder, decode_receipts, encode, read_receipts, receipts_of
from recorder.files.evidence_names import RPC, evidence_log
from recorder.files.frame import FrameWriter, iter_frames
from recorder.files.reader import Recording

CORES = 5
_FIELD = st.one_of(st.integers(0, 5), st.integers(0, 0xFFFFFF))
_IDENTIFIER = st.builds(
    lambda vp, entry, thread, request: vp << 56 | entry << 48 | thread << 24 | request,
    st.integers(0, 127), st.integers(0, 255), _FIELD, _FIELD,
)  # fmt: skip
_EVENT = st.one_of(
    st.tuples(st.just(RECEIVED), st.integers(0, CORES - 1), st.integers(0, ENTRY_POINTS - 1), _IDENTIFIER),
    st.tuples(st.just(RECEIVED), st.just(1), st.just(2), _IDENTIFIER),
    st.tuples(st.just(TESTED), st.just(0), st.integers(0, 1), st.sampled_from([7, 1 << 56, 3 << 24])),
    st.tuples(st.just(TESTED), st.just(0), st.integers(0, 1), _IDENTIFIER),
    st.tuples(st.just(POSTED), st.just(0), st.just(1), _IDENTIFIER),
)


def rows_of(events: list[tuple[int, int, int, int]]) -> np.ndarray:
    """Happenings, of which receipts carry the entry point in their head and tests the answer."""
    rows = np.zeros(len(events), MAIL_EVENT)
    for row, (what, core, entry, number) in zip(rows, events, strict=True):
        row["what"], row["core"], row["id"] = what, core, number
        row["head"] = entry if what == TESTED else entry << 8 | 1 << 16 | 2 << 20
    return rows


@seed(1)
@settings(max_examples=120, deadline=None)
@given(st.lists(_EVENT, max_size=40))
def test_payload_is_the_twins_and_comes_back(events: list[tuple[int, int, int, int]]) -> None:
    rows = rows_of(events)
    payload, records = encode(rows)
    assert payload == twin.encode(events)
    decoder = ReceiptDecoder(CORES)
    assert decoder.add(payload, records) is None
    found = decoder.result()
    for core, entry in {(core, entry) for what, core, entry, _ in events if what == RECEIVED}:
        wanted = [n for what, c, e, n in events if (what, c, e) == (RECEIVED, core, entry)]
        assert found.histories[core, entry].tolist() == wanted
    assert found.requests == sum(what == RECEIVED for what, *_ in events)
    for number, (noes, yes) in found.tests.items():
        answers = [entry for what, _, entry, n in events if (what, n) == (TESTED, number)]
        assert yes == (1 in answers)
        assert noes == (answers.index(1) if yes else len(answers))


@seed(2)
@settings(max_examples=60, deadline=None)
@given(st.lists(_EVENT, max_size=60), st.integers(1, 20))
def test_frames_add_up(events: list[tuple[int, int, int, int]], size: int) -> None:
    rows = rows_of(events)
    whole, decoder = receipts_of(rows, CORES), ReceiptDecoder(CORES)
    for start in range(0, len(rows), size):
        payload, records = encode(rows[start : start + size])
        if records:
            assert decoder.add(payload, records) is None
    found = decoder.result()
    assert found.tests == whole.tests
    assert {k: v.tolist() for k, v in found.histories.items()} == {
        k: v.tolist() for k, v in whole.histories.items()
    }


def test_nothing_else_is_in_it() -> None:
    """Receipts of different entry points may change places without any effect on the bytes."""
    draw = random.Random(3)
    events = [(RECEIVED, draw.randrange(3), draw.randrange(4), n << 24) for n in range(60)]
    events += [(TESTED, 0, 0, n % 5) for n in range(10)]
    parts: dict[tuple[int, int, int], list[tuple[int, int, int, int]]] = {}
    for event in events:
        key = event[:3] if event[0] == RECEIVED else (TESTED, 0, event[3])
        parts.setdefault(key, []).append(event)
    other = []
    while parts:
        key = draw.choice(list(parts))
        other.append(parts[key].pop(0))
        if not parts[key]:
            del parts[key]
    assert other != events
    assert encode(rows_of(other)) == encode(rows_of(events))


def _accepted(payload: bytes, records: int) -> str | None:
    return ReceiptDecoder(CORES).add(payload, records)


@pytest.mark.parametrize(
    ("payload", "records", "reason"),
    [
        ("", 1, "cut short"),
        ("01 05 00 01 00 00 00 00", 1, "no such core"),
        ("01 00 40 01 00 00 00 00", 1, "no such core or entry point"),
        ("01 00 00 00 00", 1, "holds nothing"),
        ("02 01 00 01 00 00 00 00 00 01 00 00 00 00", 2, "not in their order"),
        ("02 01 00 01 00 00 00 01 00 01 00 00 00 00", 2, "not in their order"),
        ("01 00 00 02 00 00 00", 1, "more records"),
        ("01 00 00 01 01 00 00 00", 1, "not in its one form"),
        ("01 00 00 01 00 01 00 00", 1, "not in its one form"),
        ("01 00 00 01 80 00 00 00 00", 1, "shortest form"),
        ("01 00 00 01 00 00 00 00 00", 1, "follow the last"),
        ("00 01 00 00 00 00", 1, "holds nothing"),
        ("00 02 00 00 02 02 00 00 00 02", 2, "not in their order"),
        ("00 01 00 00 00 02", 2, "records in a frame: expected 2, found 1"),
        ("ff ff ff ff ff ff ff ff ff 01", 1, "cut short"),
    ],
)
def test_bad_payloads_are_refused(payload: str, records: int, reason: str) -> None:
    wrong = _accepted(bytes.fromhex(payload), records)
    assert wrong is not None
    assert reason in wrong


@seed(4)
@settings(max_examples=150, deadline=None)
@given(st.lists(_EVENT, min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_what_is_accepted_is_its_one_encoding(
    events: list[tuple[int, int, int, int]], draw: random.Random
) -> None:
    """A payload with a byte changed is refused, or is what the encoder writes for what it says."""
    payload, records = encode(rows_of(events))
    if not records:
        return
    changed = bytearray(payload)
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    places, numbers = np.empty(records, np.int64), np.empty(records, np.uint64)
    tested, noes, yes = (
        np.empty(records, np.uint64),
        np.empty(records, np.uint64),
        np.empty(records, np.bool_),
    )
    raw = np.frombuffer(bytes(changed), np.uint8)
    n, m, error, _ = decode_receipts(raw, CORES, places, numbers, tested, noes, yes)
    if error:
        return
    out = np.empty(len(changed) + 64, np.uint8)
    length = receipts.encode_receipts(places[:n], numbers[:n], tested[:m], noes[:m], yes[:m], out)
    assert out[:length].tobytes() == bytes(changed)


def test_kernels_are_what_python_runs() -> None:
    """The decoder as compiled and as Python, on one payload."""
    payload, records = encode(rows_of([(RECEIVED, 1, 2, 5 << 24 | 9), (TESTED, 0, 1, 7)]))
    raw = np.frombuffer(payload, np.uint8)
    assert put_varint.py_func(np.zeros(10, np.uint8), 0, np.uint64(300)) == 2
    assert get_varint.py_func(raw, 0)[0] == 1
    results = []
    for kernel in (decode_receipts, decode_receipts.py_func):
        arrays = [np.zeros(records, kind) for kind in ("<i8", "<u8", "<u8", "<u8", "?")]
        n, m, error, _ = kernel(raw, CORES, *arrays)
        results.append((n, m, error, [array.tolist() for array in arrays]))
    assert results[0] == results[1]


# -- on disk ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of the farm on 2 cores with its evidence."""
    path = tmp_path_factory.mktemp("codec") / "rec"
    assert run("record", "-o", path, "--cores", 2, "--evidence", "rpc", FIRMWARE / "rpc_queens.elf").code == 0
    return path


def test_every_changed_byte_is_found(rec: Path) -> None:
    path = rec / evidence_log(RPC)
    good = path.read_bytes()
    draw = random.Random(5)
    try:
        for at in [*range(40), *(draw.randrange(len(good)) for _ in range(60))]:
            bad = bytearray(good)
            bad[at] ^= 1 << draw.randrange(8)
            path.write_bytes(bad)
            with pytest.raises(FormatError):
                read_receipts(Recording.open(rec))
        for cut in (1, 32, 60, len(good) - 1):
            path.write_bytes(good[:cut])
            with pytest.raises(FormatError):
                read_receipts(Recording.open(rec))
    finally:
        path.write_bytes(good)
    assert run("verify", rec).code == 0


def test_a_frame_that_lies_about_its_range_is_refused(rec: Path, tmp_path: Path) -> None:
    recording = Recording.open(rec)
    header = recording.header(11)
    path = rec / evidence_log(RPC)
    good = path.read_bytes()
    ((frame, raw),) = list(iter_frames(path, header))
    try:
        path.unlink()
        writer = FrameWriter(path, header)
        writer.append(raw, frame.records, 1, frame.records)
        writer.close()
        with pytest.raises(FormatError, match="not in the range"):
            list(receipts.iter_receipts(recording))
    finally:
        path.write_bytes(good)


def test_the_documents_example() -> None:
    """docs/format.md, section 11.4, byte by byte."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "format.md").read_text()
    shown = bytes.fromhex(text.split("<!-- payload of evidence-rpc.log -->\n```\n")[1].split("```")[0])
    requests = [0, 1, 2 << 56 | 3 << 48 | 5 << 24]
    events = [(RECEIVED, 1, 2, number) for number in requests] + [(TESTED, 0, n, 1) for n in (0, 0, 1)]
    assert encode(rows_of(events)) == (shown, 4)
    assert _accepted(shown, 4) is None
