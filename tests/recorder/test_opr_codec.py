"""The OPR stream: what is written is read, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corebraid.base.errors import FormatError
from recorder.evidence.opr.codec import Encoder, decode
from recorder.evidence.opr.rows import CHECK, CODE, EXACT, OPR_ROW, RELAXED, VALUE, Rows

MEMORY = 1 << 20
MEMBERS = 5
numbers = st.integers(0, (1 << 64) - 1) | st.integers(0, 300)


@st.composite
def opr_rows(draw: st.DrawFn) -> Rows:
    """Rows that the stream can hold: SNs of a member and kind do not go back."""
    rows = np.zeros(draw(st.integers(1, 40)), OPR_ROW)
    last: dict[tuple[int, int], int] = {}
    for row in rows:
        kind, member = draw(st.integers(VALUE, CHECK)), draw(st.integers(0, MEMBERS - 1))
        before = last.get((member, kind), 0)
        sn = min(before + draw(st.integers(0, 1 << 20) | st.just(1 << 62)), (1 << 64) - 1)
        last[member, kind] = sn
        row["kind"], row["member"], row["sn"] = kind, member, sn
        if kind == VALUE:
            row["size"] = draw(st.integers(1, 8))
            row["value"] = draw(numbers) & ((1 << 8 * int(row["size"])) - 1)
        elif kind == CODE:
            row["size"], row["value"] = draw(st.integers(0, 1)), draw(numbers)
            row["place"] = 8 * draw(st.integers(0, MEMORY // 8 - 1) | st.integers(0, 3))
        elif kind == CHECK:
            row["value"] = draw(numbers)
        else:
            row["peer"] = draw(st.sampled_from([k for k in range(MEMBERS) if k != member]))
            row["place"] = draw(numbers)
    return rows


def encode(rows: Rows, capacity: int = 1 << 16) -> list[tuple[int, bytes]]:
    """The payloads of all rows, and how many each has."""
    encoder, start, payloads = Encoder(MEMBERS, capacity, MEMORY), 0, []
    while start < len(rows):
        end, payload = encoder.encode_some(rows, start)
        payloads.append((end - start, bytes(payload)))
        start = end
    return payloads


@settings(max_examples=150, deadline=None)
@given(opr_rows(), st.sampled_from([40, 64, 1 << 16]))
def test_round_trip(rows: Rows, capacity: int) -> None:
    pieces = [decode(raw, MEMBERS, MEMORY, n, "here") for n, raw in encode(rows, capacity)]
    assert np.concatenate(pieces).tobytes() == rows.tobytes()


@pytest.mark.soak
@settings(max_examples=200, deadline=None)
@given(opr_rows(), st.data())
def test_damage_is_found_or_is_another_list(rows: Rows, data: st.DataObject) -> None:
    """What decodes is what the writer would have written so."""
    [(n, raw)] = encode(rows)
    hurt = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        hurt[data.draw(st.integers(0, len(hurt) - 1))] = data.draw(st.integers(0, 255))
    hurt = hurt[: data.draw(st.integers(1, len(hurt)) | st.just(len(hurt)))]
    for count in (n, n + 1):
        try:
            found = decode(bytes(hurt), MEMBERS, MEMORY, count, "here")
        except FormatError:
            continue
        assert encode(found) == [(count, bytes(hurt))]


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=1, max_size=60))
def test_any_bytes(raw: bytes) -> None:
    try:
        found = decode(raw, MEMBERS, MEMORY, len(raw) // 3, "here")
    except FormatError:
        return
    assert encode(found) == [(len(raw) // 3, raw)]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"kind": 0}, "no such kind"),
        ({"kind": CHECK + 1}, "no such kind"),
        ({"kind": VALUE, "size": 9}, "no such kind"),
        ({"kind": VALUE, "size": 1, "value": 256}, "does not fit"),
        ({"kind": VALUE, "size": 1, "member": MEMBERS}, "no member"),
        ({"kind": CODE, "place": 4}, "not aligned"),
        ({"kind": CODE, "place": MEMORY}, "outside"),
        ({"kind": EXACT, "member": 1, "peer": 1}, "with itself"),
        ({"kind": RELAXED, "peer": MEMBERS}, "no member"),
    ],
)
def test_rows_that_cannot_be(fields: dict[str, int], what: str) -> None:
    rows = np.zeros(1, OPR_ROW)
    for name, value in fields.items():
        rows[name] = value
    with pytest.raises(FormatError, match=what):
        encode(rows)


def test_numbers_do_not_go_back() -> None:
    rows = np.zeros(2, OPR_ROW)
    rows["kind"], rows["sn"] = CHECK, [5, 4]
    with pytest.raises(FormatError, match="goes back"):
        encode(rows)
