"""The certificate's bytes: what is written is read back; whatever is damaged is refused in one line."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from engine_suite import RECORDING, shape_of
from trace_factory import make

from corebraid.base.errors import CorebraidError, FormatError
from solver.check import certificate as certificate_module
from solver.check.braid import braid
from solver.check.certificate import ORDERED, Certificate, CertificateWriter, Head, decode, encode
from solver.check.checker import check_certificate
from solver.passes.order import order_recording


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def write(path: Path) -> None:
    writer = CertificateWriter(path, RECORDING, Head("cut", 3, 3))
    writer.ordered(0, ints(0, 2, 0), ints(5, 7, 1))
    writer.unordered(1, 2, ints(4, 0, 9))
    writer.ordered(2, ints(), ints())
    writer.finish(ints(10, 0, 16))


def read(path: Path) -> list[tuple[int, int, list[int], list[int], bool]]:
    blocks = Certificate(path, RECORDING).blocks()
    return [(b.region, b.status, b.stream.tolist(), b.rows.tolist(), b.last) for b in blocks]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write(tmp_path / "c")
    assert Certificate(tmp_path / "c", RECORDING).head == Head("cut", 3, 3)
    assert read(tmp_path / "c") == [
        (0, ORDERED, [0, 2, 0], [5, 7, 1], True),
        (1, 2, [0, 1, 2], [4, 0, 9], True),
        (2, ORDERED, [], [], True),
    ]


def test_a_long_region_comes_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_module, "_FRAME_VALUES", 7)
    rng = np.random.default_rng(3)
    stream, rows = rng.integers(0, 3, 100), rng.integers(1, 1 << 50, 100)
    writer = CertificateWriter(tmp_path / "c", RECORDING, Head("cut", 3, 1))
    writer.ordered(0, stream, rows)
    writer.finish(np.array([rows[stream == s].sum() for s in range(3)]))
    blocks = list(Certificate(tmp_path / "c", RECORDING).blocks())
    assert len(blocks) > 10
    assert [b.last for b in blocks] == [False] * (len(blocks) - 1) + [True]
    assert np.concatenate([b.stream for b in blocks]).tolist() == stream.tolist()
    assert np.concatenate([b.rows for b in blocks]).tolist() == rows.tolist()


def test_integers_of_every_length() -> None:
    values = np.array([0, 1, 127, 128, 1 << 35, (1 << 64) - 1], np.uint64)
    out, back = np.zeros(100, np.uint8), np.zeros(100, np.uint64)
    n = encode(values, out)
    assert decode(out[:n], back) == len(values)
    assert back[: len(values)].tolist() == values.tolist()
    assert decode(out[: n - 1], back) == -1
    assert encode.py_func(values, out) == n


def test_every_truncation_and_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "c")
    good, expected = (tmp_path / "c").read_bytes(), read(tmp_path / "c")
    for length in range(len(good)):
        (tmp_path / "c").write_bytes(good[:length])
        with pytest.raises(FormatError):
            read(tmp_path / "c")
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        (tmp_path / "c").write_bytes(bad)
        with pytest.raises(FormatError) as refused:
            read(tmp_path / "c")
        assert refused.value.line().endswith("; order the recording again")
    (tmp_path / "c").write_bytes(good)
    assert read(tmp_path / "c") == expected


@pytest.mark.parametrize(
    "values",
    [
        [1, 0, 0, 1, 0, 0],  # regions out of order
        [0, 77, 0, 0, 1, 0, 0],  # no such status
        [0, 0, 1, 2, 5, 1, 0, 0],  # no such stream
        [0, 0, 1, 0, 0, 1, 0, 0],  # a run of no rows
        [0, 0, 1, 0, 1 << 60, 1, 0, 0],  # rows beyond reason
        [0, 0, 1 << 62, 0, 5, 1, 5, 0],  # more runs than there are
        [0, 0, 1, 0, 5, 2, 5, 0],  # ends as another region
        [0, 0, 1, 0, 5, 1, 6, 0],  # totals that disagree
        [0, 0, 1, 0, 5, 1, 5, 0, 0],  # more after the end
        [0, 0, 1, 0, 5],  # no end
    ],
)
def test_a_certificate_that_contradicts_itself_is_refused(tmp_path: Path, values: list[int]) -> None:
    writer = CertificateWriter(tmp_path / "c", RECORDING, Head("cut", 2, 1))
    writer._put(0, np.array(values[:3], np.uint64), np.array(values[3:], np.uint64))
    writer._writer.close()
    with pytest.raises(FormatError, match="order the recording again"):
        read(tmp_path / "c")


def test_integers_of_a_frame_are_not_copied_for_each_region() -> None:
    """Copied each time, a frame of 100,000 regions took minutes."""
    frames = iter([np.arange(10, dtype=np.uint64), np.arange(10, 30, dtype=np.uint64)])
    source = certificate_module._Source(frames, FormatError)  # type: ignore[arg-type]
    taken = [source.take(n) for n in (1, 3, 3, 7, 2, 0, 4)]
    assert np.concatenate(taken).tolist() == list(range(20))
    for one, other in ((0, 1), (1, 2), (3, 4), (4, 6)):
        assert taken[one].base is taken[other].base


def test_another_number_of_regions_is_said_before_any_is_read(tmp_path: Path) -> None:
    made = make(4, shape_of(4, (60,)))
    for streams, regions in ((0, 1 << 30), (1, 0)):
        head = Head("cut", made.traces.n_streams + streams, len(made.traces.strata) + 1 + regions)
        path = tmp_path / f"{streams}"
        writer = CertificateWriter(path, RECORDING, head)
        writer._put(0, ints(7).astype(np.uint64), ints(7).astype(np.uint64))
        writer._writer.close()
        for read_all in (lambda *two: list(braid(*two)), check_certificate):
            with pytest.raises(
                FormatError, match="another number of " + ("streams" if streams else "regions")
            ):
                read_all(made.traces, Certificate(path, RECORDING))


def test_another_recordings_certificate_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "c")
    with pytest.raises(FormatError, match="another recording"):
        Certificate(tmp_path / "c", bytes(16))
    with pytest.raises(FormatError, match="missing"):
        Certificate(tmp_path / "none", RECORDING)


def test_damage_to_a_real_certificate_never_escapes_as_anything_but_one_error(tmp_path: Path) -> None:
    made = make(4, shape_of(4, (60,)))
    order_recording(made.traces, tmp_path / "good", RECORDING)
    rng = random.Random(1)
    for _ in range(200):
        shutil.copy(tmp_path / "good", tmp_path / "c")
        data = bytearray((tmp_path / "c").read_bytes())
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if bytes(data) == (tmp_path / "good").read_bytes():
            continue
        (tmp_path / "c").write_bytes(data)
        with pytest.raises(CorebraidError):
            read(tmp_path / "c")


@pytest.mark.parametrize("full", [1, 9, 40, 10_000])
def test_regions_without_rows_come_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: int
) -> None:
    """pytest tests/solver/test_solver_certificate.py -k come_together"""
    monkeypatch.setattr(certificate_module, "_FULL_FRAME", full)
    draw, n = random.Random(full), 3000
    writer = CertificateWriter(tmp_path / "c", RECORDING, Head("cut", 3, n))
    expected: list[tuple[int, int, list[int], list[int], bool]] = []
    totals = ints(0, 0, 0)
    while len(expected) < n:
        region, kind = len(expected), draw.choice(("empty", "ordered", "unordered", "one empty"))
        if kind == "empty":
            end = min(n, region + draw.randint(1, 60))
            writer.empty(region, end)
            expected += [(k, ORDERED, [], [], True) for k in range(region, end)]
        elif kind == "unordered":
            rows = ints(*(draw.randint(0, 5) for _ in range(3)))
            writer.unordered(region, 1, rows)
            totals += rows
            expected.append((region, 1, [0, 1, 2], rows.tolist(), True))
        else:
            run = [] if kind == "one empty" else [draw.randint(0, 2) for _ in range(draw.randint(1, 9))]
            writer.ordered(region, ints(*run), ints(*(k + 1 for k in run)))
            np.add.at(totals, run, [k + 1 for k in run])
            expected.append((region, ORDERED, run, [k + 1 for k in run], True))
    writer.finish(totals)
    assert read(tmp_path / "c") == expected
    stretches = list(Certificate(tmp_path / "c", RECORDING).stretches())
    assert sum(block.regions for block in stretches) == n
    assert len(stretches) < 0.5 * n if full > 9 else len(stretches) <= n
    assert all(not len(block.stream) and block.status == ORDERED for block in stretches if block.regions > 1)
