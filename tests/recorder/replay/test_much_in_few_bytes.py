"""Files that say more than can be held, which compressed well: they are refused before it is held."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from problem_factory import random_problem

import corebraid
from bench.soak import IMAGES
from corebraid.base.errors import FormatError, ImageError
from corebraid.base.hold_places import OF_CORES
from emu.board.elf import load_image
from emu.bus.losses import LOSS
from isa.x86_64.registers import X86_64
from recorder.capture import base
from recorder.evidence.losses import log
from recorder.files import reader
from recorder.files.reader import Recording, agent_marks, strata
from recorder.replay import holds
from recorder.replay.contested import Contested
from solver.passes import partial
from solver.passes.answers import Options
from solver.passes.partial import Partial
from solver.passes.results import Answer
from solver.regions.problem import Verdict
from solver.tenures.placed import LossCursor

UTS = IMAGES / "uts.elf"
#: Of a program header, in an ELF file of 64 bits; where its header says where they are, and how many.
_HEADER, _TABLE_AT, _NUMBER_AT = 56, 32, 56


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    path = tmp_path_factory.mktemp("much") / "rec"
    corebraid.record(UTS, path, cores=3, strata="cycles:10000")
    return Recording.open(path)


def test_strata_are_counted_before_they_are_held(kept: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    n, streams = strata(kept).shape
    monkeypatch.setattr(reader, "_MOST_COUNTS", n * streams)
    assert len(strata(kept)) == n > 3
    monkeypatch.setattr(reader, "_MOST_COUNTS", n * streams - 1)
    told = rf"core-0\.log: more strata than can be held: expected at most {n - 1}"
    with pytest.raises(FormatError, match=told):
        strata(kept)
    with pytest.raises(FormatError, match=r"agent\.log: more strata than can be held"):
        agent_marks(kept)
    monkeypatch.setattr(reader, "_MOST_STRATA", 3)
    assert reader.most_strata(1) == 3


def test_no_more_strata_are_cut_than_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "most_strata", lambda streams: 3)
    ran = corebraid.record(UTS, tmp_path / "rec", cores=3, strata="cycles:10000")
    assert ran.facts()["end"] is not None
    assert len(strata(Recording.open(tmp_path / "rec"))) == 3
    assert corebraid.replay(tmp_path / "rec", 0).facts()["bit_exact"] is True


def test_points_are_counted_before_they_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = shutil.which("true")
    assert program is not None
    corebraid.record(Path(program), tmp_path / "rec", cores=2, guest="linux")
    recording = Recording.open(tmp_path / "rec")
    n = len(agent_marks(recording)[1])
    monkeypatch.setattr(reader, "_MOST_POINTS", n)
    assert len(agent_marks(recording)[1]) == n > 0
    monkeypatch.setattr(reader, "_MOST_POINTS", n - 1)
    with pytest.raises(FormatError, match=r"agent\.log: agents meet cores more often than can be held"):
        agent_marks(recording)


def test_accesses_are_ordered_where_losses_are_too_many(
    kept: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(Contested(kept, strata(kept), holds=OF_CORES).by_holds)
    monkeypatch.setattr(holds, "_MOST_LOSSES", 1)
    assert not len(Contested(kept, strata(kept), holds=OF_CORES).by_holds)


def test_losses_of_a_region_are_counted_before_they_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.zeros(4, LOSS)
    rows["stratum"] = 0, 0, 1, 1
    for most in (2, 1):
        monkeypatch.setattr(log, "_MOST_IN_A_REGION", most)
        cursor = LossCursor(iter([rows[:3], rows[3:]]), 64)
        if most == 2:
            assert [len(cursor.take(region).line) for region in (0, 1)] == [2, 2]
            continue
        with pytest.raises(
            FormatError, match="region 0: a core lost more lines in a region than can be held"
        ):
            cursor.take(0)


def test_and_before_anything_is_ordered(kept: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a region whose losses are in several frames, too."""
    table = strata(kept)
    most = max(
        int(
            np.bincount(
                np.concatenate([rows["stratum"] for rows in log.iter_losses(kept, core, table)])
            ).max()
        )
        for core in range(3)
    )
    monkeypatch.setattr(log, "_MOST_IN_A_REGION", most)
    Contested(kept, table, holds=OF_CORES)
    count = log.RegionCount()
    for regions in ([0, 1, 1], [1] * (most - 3), [2] * most):
        count.add(np.array(regions))
    with pytest.raises(FormatError, match="region 2: a core lost more lines"):
        count.add(np.array([2]))
    monkeypatch.setattr(log, "_MOST_IN_A_REGION", most - 1)
    with pytest.raises(FormatError, match="a core lost more lines in a region than can be held"):
        Contested(kept, table, holds=OF_CORES)


def test_an_image_of_many_segments_is_refused(tmp_path: Path) -> None:
    """All of the same bytes, each of which would have them to itself."""
    raw = bytearray(UTS.read_bytes())
    (table,) = struct.unpack_from("<Q", raw, _TABLE_AT)
    header = bytes(raw[table : table + _HEADER])
    struct.pack_into("<Q", raw, _TABLE_AT, len(raw))
    for n in (256, 257):
        struct.pack_into("<H", raw, _NUMBER_AT, n)
        path = tmp_path / f"{n}.elf"
        path.write_bytes(bytes(raw) + header * n)
        if n == 256:
            assert len(load_image(path, X86_64, 64 << 20)[0].segments) == n
        else:
            with pytest.raises(ImageError, match="too many segments: expected at most 256, found 257"):
                load_image(path, X86_64, 64 << 20)


def test_kept_answers_of_any_length_are_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = random_problem(1, damaged=False)
    path, options = tmp_path / "order.partial", Options("auto", 1.0)
    written = Partial(path, bytes(16), options, fresh=True)
    runs = np.ones(50, np.int64)
    written.add(problem, Answer(Verdict.LEGAL, "cut", 0.0, "", runs, runs))
    written.close()
    for most, taken in ((100, 1), (98, 0)):
        monkeypatch.setattr(partial, "_MOST_VALUES", most)
        again = Partial(path, bytes(16), options, fresh=False)
        assert (again.taken_over, "malformed" in again.note) == (taken, not taken)
