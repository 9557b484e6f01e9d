"""Strata at which a core stands where it stood are passed at once, and nothing else comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corebraid
from bench.hostile.mutate_records import decoded
from bench.hostile.sample import Frame, Sample
from corebraid.base.rows.event import EVENT
from corebraid.base.rows.record import DIGEST, STRATUM
from corebraid.study.certificates import all_traces_of
from emu.core.isolated import IsolatedCore
from recorder.files import codec
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.contested import ALL, CONTESTED, MARKED, RECEIVED
from recorder.replay.core import replay_core
from recorder.replay.traces import RecordingTraces
from solver.check.braid import braid
from solver.check.certificate import Certificate

FIRMWARE = Path(__file__).parents[3] / "firmware" / "x86_64"
#: Evidence, bus, model, what is traced (rows, by holds).
KINDS = {
    "page": ({}, [(ALL, False), (CONTESTED, False), (MARKED, False), (RECEIVED, False), (CONTESTED, True)]),
    "mesi": ({"bus": "mesi"}, [(ALL, False)]),
    "tso": ({"model": "tso"}, [(ALL, False)]),
}


@pytest.fixture(scope="module", params=list(KINDS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    options, _ = KINDS[request.param]
    folder = tmp_path_factory.mktemp("strata")
    corebraid.record(FIRMWARE / "ring.elf", folder / "whole", cores=4, strata="cycles:40", **options)
    without_digests(folder / "whole").write(folder / "rec")
    return folder / "rec", request.param


def without_digests(path: Path) -> Sample:
    """A recorder writes a digest behind each stratum; here nothing is between some of them."""
    sample = Sample.read(path)
    for name in [one for one in sample.streams if one.startswith("core-")]:
        frames = []
        for frame in sample.streams[name].frames:
            rows, blob = decoded(sample, frame)
            rows = rows[rows["kind"] != DIGEST]
            raw = codec.encode(rows, np.frombuffer(bytes(blob) or b"\0", np.uint8), sample.manifest["line"])
            frames.append(Frame(raw, len(rows), int(rows["count"][0]), int(rows["count"][-1])))
        sample.streams[name].frames = frames
    return sample


def all_of(path: Path, rows: str, holds: bool) -> list[Any]:
    """Each core's rows, and what became of the replays."""
    recording = Recording.open(path)
    traces = RecordingTraces(recording, rows=rows, holds=holds)
    cores = range(recording.manifest.n_cores)
    pieces = [[np.zeros(0, EVENT), *(piece.copy() for piece in traces.chunks(core))] for core in cores]
    return [np.concatenate(one).tolist() for one in pieces] + [replay_core(recording, core) for core in cores]


def test_nothing_else_comes_of_it(made: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    path, kind = made
    passed = []
    pass_strata = IsolatedCore.pass_strata

    def counted(core: IsolatedCore) -> int:
        passed.append(pass_strata(core))
        return passed[-1]

    for rows, holds in KINDS[kind][1]:
        with monkeypatch.context() as one:
            one.setattr(IsolatedCore, "pass_strata", counted)
            found = all_of(path, rows, holds)
        with monkeypatch.context() as one:
            one.setattr(IsolatedCore, "pass_strata", lambda core: 0)
            assert all_of(path, rows, holds) == found, f"{kind}, {rows}, holds {holds}"
    # Under TSO stores leave the buffer between them.
    assert (sum(passed) > 100) == (kind != "tso")


def test_only_the_middle_of_them_is_passed(made: tuple[Path, str]) -> None:
    """As many as the log has, less the first and the last of each run at one count."""
    path, kind = made
    if kind == "tso":
        return
    recording, expected = Recording.open(path), 0
    for core in range(recording.manifest.n_cores):
        for rows, _ in iter_core_records(recording, core):
            run, at = 0, None
            for row in rows:
                same = row["kind"] == STRATUM and row["count"] == at
                run = run + 1 if same else int(row["kind"] == STRATUM)
                at = row["count"] if row["kind"] == STRATUM else None
                expected += run > 2
    seen: list[int] = []
    pass_strata = IsolatedCore.pass_strata

    def noted(core: IsolatedCore) -> int:
        seen.append(pass_strata(core))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IsolatedCore, "pass_strata", noted)
        for core in range(recording.manifest.n_cores):
            replay_core(recording, core)
    assert sum(seen) == expected > 10


@pytest.mark.sampled(1)
def test_an_ordered_trace_has_each_row_where_it_was(
    made: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the certificate's regions one by one as with those without rows together."""
    path, kind = made
    recording = Recording.open(path)
    assert corebraid.order(path).verdict.value == "legal"
    certificate = Certificate(path / ORDER_CERT, recording.manifest.id)
    assert kind != "page" or any(block.regions > 1 for block in certificate.stretches())

    def braided() -> list[Any]:
        pieces = braid(all_traces_of(recording, certificate), certificate)
        return np.concatenate([rows.copy() for rows, _ in pieces]).tolist()

    found, apart = braided(), list(certificate.blocks())
    monkeypatch.setattr(Certificate, "stretches", lambda certificate: iter(apart))
    assert braided() == found
