"""The codec of evidence `losses` against a naive decoder, on random losses and on hostile bytes; what
`verify` finds wrong with a stream."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
from cli_factory import ROOT, record, run
from format_twin import varint, zigzag
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from losses_damage import rewrite
from losses_factory import EVIDENCE, firmware, losses_of

from corebraid.base.errors import FormatError
from emu.bus.losses import DOWNGRADED, LOSS_NOTE, LOST
from recorder.evidence.integrity import integrity
from recorder.evidence.losses import codec as loss_codec
from recorder.evidence.losses.codec import FRAME_ROWS, decode, encode
from recorder.files.evidence_names import LOSSES
from recorder.files.manifest import MANIFEST
from recorder.files.reader import Recording

CORES, LINE, MEMORY = 5, 32, 1 << 20
LINES = MEMORY // LINE
Note = tuple[int, int, int, int]

_LINE = st.one_of(st.integers(0, 4), st.integers(0, 80), st.integers(0, LINES - 1))
_STEP = st.one_of(st.just(0), st.integers(0, 300), st.integers(0, 1 << 61))
_LOSS = st.tuples(st.integers(0, CORES - 1), _STEP, _LINE, st.sampled_from([LOST, DOWNGRADED]))


def notes_of(drawn: list[Note]) -> np.ndarray:
    """LOSS_NOTE[n], ascending by core; of each core counts go on by the steps."""
    rows, counts = np.zeros(len(drawn), LOSS_NOTE), [0] * CORES
    for row, (core, step, line, way) in zip(rows, sorted(drawn, key=lambda loss: loss[0]), strict=True):
        counts[core] = min(counts[core] + step, (1 << 64) - 1)
        row["count"], row["line"], row["core"], row["way"] = counts[core], line * LINE, core, way
    return rows


def naive(rows: np.ndarray) -> bytes:
    """A payload as docs/format.md has it, from lists."""
    heads, counts, codes, fresh = [], [], [], []
    after = 0
    for core, mine in groupby(rows.tolist(), key=lambda row: row[2]):
        before, recent, last, groups = 0, [], 0, 0
        for count, group in groupby(mine, key=lambda row: row[0]):
            steps = [(address // LINE, way) for _, address, _, way in group]
            merged: list[tuple[int, int]] = []
            for line, way in steps:
                if way == LOST and merged and merged[-1] == (line, 0):
                    merged[-1] = (line, 2)
                else:
                    merged.append((line, int(way == LOST)))
            for number, (line, what) in enumerate(merged):
                place = recent.index(line) + 1 if line in recent else 0
                codes.append(place * 6 + what * 2 + (number < len(merged) - 1))
                if not place:
                    fresh.append(zigzag(line - last))
                    last = line
                recent = [line, *(other for other in recent if other != line)][:64]
            counts.append(count - before)
            before, groups = count, groups + 1
        heads += [core - after, groups]
        after = core + 1
    numbers = [len(heads) // 2, *heads, *counts, *codes, *fresh]
    return b"".join(map(varint, numbers))


@seed(1)
@settings(max_examples=250, deadline=None)
@given(st.lists(_LOSS, min_size=1, max_size=60))
def test_payload_is_the_naive_one_and_comes_back(drawn: list[Note]) -> None:
    rows = notes_of(drawn)
    payload = encode(rows, LINE)
    assert payload == naive(rows)
    assert decode(payload, len(rows), LINE, CORES, MEMORY).tobytes() == rows.tobytes()


@pytest.mark.parametrize("lines", [3, 63, 64, 65, 200])
def test_lines_lost_in_turn(lines: int) -> None:
    """Around the number of lines that are remembered."""
    draw = random.Random(lines)
    drawn = [(draw.randrange(2), draw.randrange(3), k % lines, LOST) for k in range(1000)]
    rows = notes_of(drawn)
    payload = encode(rows, LINE)
    assert payload == naive(rows)
    assert decode(payload, len(rows), LINE, CORES, MEMORY).tobytes() == rows.tobytes()


@seed(2)
@settings(max_examples=250, deadline=None)
@given(st.lists(_LOSS, min_size=1, max_size=25), st.data())
def test_hostile_bytes_are_refused_or_are_the_one_encoding(drawn: list[Note], data: st.DataObject) -> None:
    rows = notes_of(drawn)
    raw = bytearray(encode(rows, LINE))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    records = data.draw(st.sampled_from([len(rows), len(rows) + 1, max(1, len(rows) - 1)]))
    try:
        found = decode(bytes(raw), records, LINE, CORES, MEMORY)
    except FormatError:
        return
    assert encode(found, LINE) == bytes(raw)
    assert (found["line"] < MEMORY).all()


def payload(*numbers: int) -> bytes:
    return b"".join(map(varint, numbers))


#: What is wrong, a payload, losses declared. One core, one group at count 7: 1, 0, 1, 7, codes and lines.
BROKEN = [
    ("no such core", payload(6, 0, 1), 1),
    ("no such core", payload(1, 5, 1, 7, 2, 0), 1),
    ("without losses", payload(1, 0, 0), 1),
    ("more losses than", payload(1, 0, 9, 7, 2, 0), 1),
    ("more losses than", payload(1, 0, 1, 7, 4, 8), 1),
    ("does not go on", payload(1, 0, 2, 7, 0, 2, 8, 8), 2),
    ("does not go on", payload(1, 0, 2, 7, (1 << 64) - 1, 2, 8, 8), 2),
    ("not lost so many", payload(1, 0, 1, 7, 3, 14, 8), 2),
    ("outside the memory", payload(1, 0, 1, 7, 2, 2 * LINES), 1),
    ("a short while ago", payload(1, 0, 1, 7, 3, 2, 8, 0), 2),
    ("two losses", payload(1, 0, 1, 7, 1, 8, 8), 2),
    ("bytes follow", payload(1, 0, 1, 7, 2, 8, 0), 1),
    ("cut short", payload(1, 0, 1, 7), 1),
    ("cut short", payload(1, 0, 1, 7, 2), 1),
    ("shortest form", bytes([0x81, 0x00]), 1),
    ("losses in the frame", payload(1, 0, 1, 7, 2, 8), 2),
    ("losses in a frame", payload(1, 0, 1, 7, 2, 8), FRAME_ROWS + 1),
]


@pytest.mark.parametrize(("what", "raw", "records"), BROKEN, ids=lambda value: str(value)[:24])
def test_every_fault_of_a_payload_has_its_message(what: str, raw: bytes, records: int) -> None:
    with pytest.raises(FormatError, match=what):
        decode(raw, records, LINE, CORES, MEMORY)


def test_a_sound_payload_beside_the_broken_ones() -> None:
    rows = decode(payload(1, 0, 1, 7, 5, 8, 8), 3, LINE, CORES, MEMORY)
    assert rows.tolist() == [(7, 128, 0, DOWNGRADED), (7, 128, 0, LOST), (7, 128, 0, LOST)]


def test_the_example_of_the_page() -> None:
    page = (ROOT / "docs" / "format.md").read_text()
    shown = page.split("<!-- payload of evidence-losses.log -->\n```\n")[1].split("```")[0]
    rows = np.array(
        [
            (7, 4 * LINE, 1, DOWNGRADED),
            (7, 4 * LINE, 1, LOST),
            (7, 5 * LINE, 1, LOST),
            (300, 4 * LINE, 1, LOST),
        ],
        LOSS_NOTE,
    )
    assert encode(rows, LINE) == bytes.fromhex(shown)


# -- a whole recording ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return firmware(tmp_path_factory.mktemp("losses") / "rec", "uts", seed=1, longest_slice=500).path


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "copy"))


def _late(rows: np.ndarray) -> None:
    rows["count"][np.flatnonzero(rows["core"] == 1)[-1]] = 1 << 40


def _dropped(rows: np.ndarray) -> np.ndarray:
    return np.delete(rows, len(rows) // 2)


def _elsewhere(rows: np.ndarray) -> None:
    rows["line"][rows["way"] == LOST] += 0x8000


def _early(rows: np.ndarray) -> None:
    rows["count"][rows["core"] == 2] = 0


def _twice(rows: np.ndarray) -> None:
    """One downgrade says what the one before it says."""
    mine = np.flatnonzero((rows["core"] == 0) & (rows["way"] == DOWNGRADED))
    for first, second in pairwise(mine.tolist()):
        if second == first + 1 and rows["count"][first] == rows["count"][second]:
            rows["line"][second] = rows["line"][first]
            return
    raise AssertionError("the program has no such losses")


PLANTED = [
    (_late, "after the core's end"), (_dropped, "as the bus counted them"), (_elsewhere, "was not there"),
    (_early, "was not there"), (_twice, "had none"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "what"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_verify_finds_losses_that_cannot_be(
    copy: Path, change: Callable[[np.ndarray], np.ndarray | None], what: str
) -> None:
    assert integrity(rewrite(copy, lambda rows: None)) == []
    findings = integrity(rewrite(copy, change))
    assert len(findings) == 1
    assert what in findings[0].what
    ran = run("verify", copy)
    assert ran.code == 1
    assert [line for line in ran.lines if what in line]


def test_damage_is_a_line_and_exit_code_1(copy: Path) -> None:
    data = bytearray((copy / EVIDENCE).read_bytes())
    for at in (2, 40, len(data) - 1):
        changed = bytes([*data[:at], data[at] ^ 0x10, *data[at + 1 :]])
        (copy / EVIDENCE).write_bytes(changed)
        ran = run("verify", copy)
        assert (ran.code, len([line for line in ran.lines if EVIDENCE in line])) == (1, 1)
        with pytest.raises(FormatError):
            losses_of(Recording.open(copy))
    (copy / EVIDENCE).write_bytes(data[:-3])
    assert run("verify", copy).code == 1
    (copy / EVIDENCE).unlink()
    assert run("verify", copy).code == 1
    # A core replays without it.
    assert run("replay", copy, "--core", 1).code == 0


def test_a_killed_recorders_stream_ends_quietly(copy: Path) -> None:
    opened = Recording.open(copy)
    whole = losses_of(opened)
    killed = replace(opened.manifest, complete=False, end=None, instructions=(), totals={}, files={})
    (copy / MANIFEST).write_bytes(killed.render())
    assert losses_of(Recording.open(copy)) == whole
    data = (copy / EVIDENCE).read_bytes()
    for kept in (len(data) - 1, 32 + 20, 32, 10, 0):
        (copy / EVIDENCE).write_bytes(data[:kept])
        assert losses_of(Recording.open(copy)) == [[] for _ in whole]


def test_record_has_losses_unless_told_not_to(tmp_path: Path) -> None:
    for name, options, expected in (
        ("default", (), ("losses",)),
        ("none", ("--evidence", "none"), ()),
        ("named", ("--evidence", "slices"), ("slices",)),
        ("both", ("--evidence", "losses,linkage"), ("linkage", "losses")),
    ):
        path = tmp_path / name
        assert record(path, "fig1", "--cores", 2, *options).code == 0
        opened = Recording.open(path)
        assert opened.manifest.evidence == expected
        assert opened.has_losses == (LOSSES in expected)
        assert (path / EVIDENCE).exists() == (LOSSES in expected)
    assert run("record", "-o", tmp_path / "bad", "--evidence", "none,losses", "x").code == 2


def test_the_reasons_are_all_tried() -> None:
    tried = {what for what, _, _ in BROKEN}
    assert all(any(what in reason for what in tried) for reason in loss_codec._REASONS.values())
