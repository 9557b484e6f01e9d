"""Evidence whose values are others, in files that are sound: it contradicts the replay, and says nothing of
the recording."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import FIRMWARE, ROOT, run
from evidence_factory import record_with

import corebraid
from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.linkage.codec import BOUND, LOOSENED, ORDER, SKIPPED, VALUE, LinkageWriter
from recorder.evidence.opr import rows as opr_rows
from recorder.evidence.opr.log import OprWriter
from recorder.files.frame import iter_frames
from recorder.files.reader import Recording

CONTRADICTS = "the evidence contradicts the replay"


def racy(directory: Path, *evidence: str, seed: int = 6, **options: Any) -> Recording:
    """A recording of several regions with races."""
    return record_with(
        FIRMWARE / "bug_lost_update.elf", directory, cores=3, seed=seed, longest_slice=40, evidence=evidence,
        evidence_options=options, strata=StrataPolicy(cycles=3000),
    )  # fmt: skip


def linkage_with(kind: int, change: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorders write tables of a kind as `change` leaves them."""
    write = LinkageWriter.write

    def other(self: LinkageWriter, of: int, stream: int, table: Any) -> None:
        if of == kind and len(table):
            table = table.copy()
            change(table)
        write(self, of, stream, table)

    monkeypatch.setattr(LinkageWriter, "write", other)


def other_values(table: Any) -> None:
    table[:, 0] ^= np.uint64(1)


def lower_bounds(table: Any) -> None:
    table[:, 0] = table[:, 0] // np.uint64(2)


def other_writers(table: Any) -> None:
    table[:2, 1] = table[1::-1, 1]


def contradicted(recording: Recording, engine: str) -> None:
    """`order`, `crosscheck` and `verify` say so; order.cert stays as it is, and the recording is sound."""
    assert run("order", recording.path).code == 0
    kept = (recording.path / "order.cert").read_bytes()
    ran = run("order", recording.path, "--engine", engine)
    assert ran.code == 1
    assert CONTRADICTS in ran.err
    assert "stream" in ran.err
    assert "event" in ran.err
    assert "no legal order" not in ran.err + ran.out
    assert (recording.path / "order.cert").read_bytes() == kept
    crossed(recording, engine)
    verified = run("verify", recording.path)
    assert verified.code == 1
    assert CONTRADICTS in verified.err
    assert "certificate  legal" in verified.out
    assert run("check-order", recording.path).code == 0


def crossed(recording: Recording, engine: str) -> None:
    ran = run("crosscheck", recording.path)
    assert ran.code == 1
    line = next(line for line in ran.out.splitlines() if line.startswith("disagreement"))
    assert CONTRADICTS in line
    assert engine in line
    assert "event" in line or "access" in line
    facts = json.loads(run("crosscheck", recording.path, "--json").out)
    assert facts["disagreements"]


@pytest.mark.parametrize(
    ("kind", "change"), [(VALUE, other_values), (BOUND, lower_bounds), (ORDER, other_writers)]
)
def test_linkages(
    kind: int, change: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linkage_with(kind, change, monkeypatch)
    contradicted(racy(tmp_path / "rec", "linkage", group="word"), "linkage")


def loosened_later(table: Any) -> None:
    table[:, 2:] += np.uint64(1000)


@pytest.mark.parametrize(("kind", "change"), [(LOOSENED, loosened_later), (VALUE, other_values)])
def test_linkages_without_what_locks_protect(
    kind: int, change: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linkage_with(kind, change, monkeypatch)
    path = tmp_path / "rec"
    given = {"cores": 3, "evidence": "linkage", "protected": "writes", "slice": 300}
    corebraid.record(ROOT / "firmware/linux/x86_64/mutexes", path, strata="cycles:20000", **given)
    contradicted(Recording.open(path), "linkage")


def more_skipped(table: Any) -> None:
    table[:, 0] += np.uint64(1)


def test_accesses_that_are_said_to_be_skipped_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"cores": 3, "evidence": "linkage", "protected": "skip", "slice": 300}
    program = ROOT / "firmware/linux/x86_64/mutexes"
    corebraid.record(program, tmp_path / "sound", strata="cycles:20000", **given)
    assert run("linkage", tmp_path / "sound").code == 0
    assert run("verify", tmp_path / "sound").code == 0
    assert run("crosscheck", tmp_path / "sound").code == 0
    linkage_with(SKIPPED, more_skipped, monkeypatch)
    corebraid.record(program, tmp_path / "rec", strata="cycles:20000", **given)
    ran = run("linkage", tmp_path / "rec")
    assert ran.code == 1
    assert "contradicts its evidence" in ran.out + ran.err
    assert "are said to be skipped" in ran.out + ran.err
    for command in ("verify", "crosscheck"):
        judged = run(command, tmp_path / "rec")
        assert judged.code == 1
        assert CONTRADICTS in judged.out + judged.err
        assert "are said to be skipped" in judged.out + judged.err


def test_a_replay_from_altered_values_says_that_they_contradict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linkage_with(VALUE, other_values, monkeypatch)
    recording = racy(tmp_path / "rec", "linkage", group="word")
    ran = run("linkage", recording.path, "--replay")
    assert ran.code == 1
    assert CONTRADICTS in ran.lines[-1]


def test_event_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = OprWriter.append

    def other(self: OprWriter, rows: Any) -> None:
        rows = rows.copy()
        waits = rows["kind"] == opr_rows.EXACT
        rows["place"][waits] += 100_000
        append(self, rows)

    monkeypatch.setattr(OprWriter, "append", other)
    recording = racy(tmp_path / "rec", "opr", rset="0,1,2")
    contradicted(recording, "opr")
    ran = run("opr", recording.path)
    assert ran.code == 1
    assert not ran.out
    assert CONTRADICTS in ran.lines[-1]
    assert "stream" in ran.lines[-1]
    assert "which never comes" in ran.lines[-1]
    assert run("opr", recording.path, "--relaxed").code == 0


def test_values_of_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = OprWriter.append

    def other(self: OprWriter, rows: Any) -> None:
        rows = rows.copy()
        rows["value"][rows["kind"] == opr_rows.VALUE] ^= np.uint64(1)
        append(self, rows)

    monkeypatch.setattr(OprWriter, "append", other)
    recording = racy(tmp_path / "rec", "opr", rset="0,1,2")
    crossed(recording, "opr")
    verified = run("verify", recording.path)
    assert verified.code == 1
    assert CONTRADICTS in verified.err


def test_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from recorder.evidence.slices.codec import Sequence

    decode = Sequence.next

    def other(self: Sequence, *frame: Any) -> Any:
        table = decode(self, *frame)
        table.updated[:] ^= np.uint64(1)
        return table

    monkeypatch.setattr(Sequence, "next", other)
    contradicted(racy(tmp_path / "rec", "slices"), "slices")


@pytest.mark.parametrize("name", ["linkage", "slices", "opr"])
def test_evidence_of_another_recording(name: str, tmp_path: Path) -> None:
    options = {"linkage": {"group": "word"}, "slices": {}, "opr": {"rset": "0,1,2"}}[name]
    one, two = (racy(tmp_path / str(seed), name, seed=seed, **options) for seed in (6, 7))
    file = next(two.path.glob(f"evidence-{name}*"))
    shutil.copy(file, one.path / file.name)
    before = {path.name: path.read_bytes() for path in one.path.iterdir() if path.is_file()}
    for command in (("order", "--engine", name), ("crosscheck",)):
        ran = run(command[0], one.path, *command[1:])
        assert ran.code == 2
        assert len(ran.lines) == 1
    assert {path.name: path.read_bytes() for path in one.path.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("name", ["linkage", "slices", "opr"])
def test_a_stream_that_is_cut_after_any_frame(name: str, tmp_path: Path) -> None:
    options = {"linkage": {"group": "word"}, "slices": {}, "opr": {"rset": "0,1,2"}}[name]
    recording = racy(tmp_path / "rec", name, **options)
    file = next(recording.path.glob(f"evidence-{name}*"))
    whole = file.read_bytes()
    ends = [frame.offset for frame, _ in iter_frames(file, recording.header_of(file.name))]
    assert ends
    for end in ends[:12]:
        file.write_bytes(whole[:end])
        for command in (("order", "--engine", name), ("crosscheck",)):
            ran = run(command[0], recording.path, *command[1:])
            assert (ran.code, len(ran.lines)) == (2, 1), (command, end)
        assert not (recording.path / "order.cert").exists()
