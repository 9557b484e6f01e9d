"""Orders and verifications that are broken off, and go on; and what others put where their rows are kept."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handover_factory import left_behind, record_radix, replayed_parts, traces_of

import corebraid
from corebraid.base.errors import CorebraidError
from corebraid.base.wording import said
from corebraid.cli.wording import TYPED
from corebraid.study.replays import cores, keeping
from corebraid.study.replays.unfinished import Unfinished
from recorder.files.checkpoints import checkpoint_path
from recorder.files.frame import UnwrittenError
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording
from recorder.files.sealed_json import seal
from recorder.replay import finished as finished_module
from recorder.replay import handovers
from recorder.replay.finished import FinishedReplays
from recorder.replay.handovers import at_checkpoints
from recorder.replay.interval import Interval, intervals_at
from solver.check.certificate import Certificate, CertificateWriter


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handovers, "SHORTEST", 1)


class BrokenOffError(Exception):
    """As by a signal."""


@pytest.mark.parametrize("command", [corebraid.order, corebraid.verify], ids=["order", "verify"])
def test_who_is_broken_off_goes_on_from_there(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = record_radix(tmp_path / "rec")
    corebraid.order(recording, jobs=1)
    expected, certificate = (
        corebraid.verify(recording.path).facts(),
        (recording.path / ORDER_CERT).read_bytes(),
    )
    parts, plain = replayed_parts(monkeypatch), FinishedReplays.finish

    def finish(self: FinishedReplays, *finished: Any) -> None:
        plain(self, *finished)
        if len(parts) == 4:
            raise BrokenOffError

    monkeypatch.setattr(FinishedReplays, "finish", finish)
    with pytest.raises(BrokenOffError):
        command(recording, jobs=1)
    (folder,) = recording.path.glob("*.rows")
    known = set(parts)
    assert len(known) == 4
    # One of them whose rows are not what was written.
    worst = next(path for path in sorted(folder.glob("*.rows")) if path.stat().st_size)
    worst.write_bytes(worst.read_bytes()[:-1] + b"!")
    monkeypatch.setattr(FinishedReplays, "finish", plain)
    parts.clear()
    done = command(recording, jobs=1)
    again = known & set(parts)
    assert [f"core-{part.core}-{part.first}.rows" for part in again] == [worst.name]
    assert len(parts) > 4
    assert not folder.exists()
    if command is corebraid.verify:
        assert done.facts() == expected
    assert (recording.path / ORDER_CERT).read_bytes() == certificate
    assert corebraid.verify(recording.path).facts() == expected


@pytest.mark.parametrize("command", [corebraid.order, corebraid.verify], ids=["order", "verify"])
def test_fresh_goes_on_from_nothing(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = record_radix(tmp_path / "rec")
    corebraid.order(recording, jobs=1)
    parts = replayed_parts(monkeypatch)
    with left_behind():
        command(recording, jobs=1)
    (folder,) = recording.path.glob("*.rows")
    n = len(parts)
    kept, told = tmp_path / "kept", list[str]()
    shutil.copytree(folder, kept)
    command(recording, jobs=1, note=lambda text: told.append(said(text, TYPED)))
    assert len(parts) == n
    assert told == [f"{n} replayed intervals are kept from an earlier run (--fresh starts over)"]
    assert not folder.exists()
    shutil.copytree(kept, folder)
    command(recording, jobs=1, fresh=True)
    assert len(parts) == 2 * n


def test_two_at_once_do_not_share_a_folder(tmp_path: Path) -> None:
    recording = record_radix(tmp_path / "rec")
    first = FinishedReplays.of(recording.path / "order.rows", recording, {})
    assert first is not None
    assert FinishedReplays.of(recording.path / "order.rows", recording, {}) is None
    assert corebraid.order(recording, jobs=1).check.events
    first.close()
    again = FinishedReplays.of(recording.path / "order.rows", recording, {})
    assert again is not None
    again.close()


def test_damaged_checkpoints_are_not_used(tmp_path: Path) -> None:
    recording = record_radix(tmp_path / "rec")
    path = checkpoint_path(recording, 1)
    path.write_bytes(path.read_bytes()[:-3] + b"???")
    told = list[object]()
    ordered = corebraid.order(recording, jobs=2, note=told.append)
    assert ordered.check.events
    assert len(told) == 1
    assert str(told[0]).startswith("checkpoints are not used: ")
    assert Certificate(recording.path / ORDER_CERT, recording.manifest.id).head.version == 4


def complete_folder(recording: Recording) -> Path:
    """All that an order has replayed."""
    with left_behind():
        corebraid.order(recording, jobs=1)
    return recording.path / "order.rows"


def test_what_is_kept_is_of_this_recording_alone(tmp_path: Path) -> None:
    """One with the same number, the same checkpoints and another log has none of it."""
    recording = record_radix(tmp_path / "rec")
    complete_folder(recording)
    other = Recording(recording.path, replace(recording.manifest, totals={"strata": 1}))
    what = traces_of(recording).kind._asdict()
    known = []
    for one in (recording, other):
        finished = FinishedReplays.of(recording.path / "order.rows", one, what)
        assert finished is not None
        parts = intervals_at(recording, 0, at_checkpoints(recording)[0])
        known.append([finished.find(part) is not None for part in parts])
        finished.close()
    assert all(known[0])
    assert not any(known[1])


def test_what_others_have_made_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sealed as it should be, but by somebody else."""
    recording = record_radix(tmp_path / "rec")
    folder = complete_folder(recording)
    certificate = (recording.path / ORDER_CERT).read_bytes()
    parts = replayed_parts(monkeypatch)
    path = min(folder.glob("core-1-*.json"))
    fields = json.loads(path.read_bytes())
    del fields["digest"]
    fields["sizes"][0][0] -= 1
    path.write_bytes(seal(fields))
    corebraid.order(recording, jobs=1)
    assert [f"core-1-{part.first}.json" for part in parts] == [path.name]
    assert (recording.path / ORDER_CERT).read_bytes() == certificate
    # Another user's, as a whole.
    complete_folder(recording)
    parts.clear()
    monkeypatch.setattr(finished_module, "own_secret", lambda: b"another")
    corebraid.order(recording, jobs=1)
    assert len(parts) > 4
    assert (recording.path / ORDER_CERT).read_bytes() == certificate


@pytest.mark.parametrize("what", ["rows", "json", "json.partial", "folder", "fifo", "file"])
def test_nothing_in_the_folder_leads_elsewhere(what: str, tmp_path: Path) -> None:
    recording = record_radix(tmp_path / "rec")
    victim, folder = tmp_path / "victim", recording.path / "order.rows"
    victim.write_text("not ours")
    (tmp_path / "away").mkdir()
    if what == "folder":
        folder.symlink_to(tmp_path / "away")
    elif what == "file":
        folder.write_text("a file")
    else:
        folder.mkdir()
        for core in range(3):
            for part in intervals_at(recording, core, at_checkpoints(recording)[core]):
                if what == "fifo":
                    os.mkfifo(folder / f"core-{core}-{part.first}.json")
                else:
                    (folder / f"core-{core}-{part.first}.{what}").symlink_to(victim)
    assert corebraid.order(recording, jobs=1).check.events
    assert corebraid.check_order(recording).events
    assert victim.read_text() == "not ours"
    assert not list((tmp_path / "away").iterdir())


def test_a_worker_that_is_killed_costs_its_interval_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = record_radix(tmp_path / "rec")
    plain = keeping.replay_and_keep

    def replay(of: Recording, part: Interval, *rest: Any) -> Any:
        if part.core == 2 and part.end is None:
            # After all others of a queue that is served in order.
            time.sleep(3)
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(of, part, *rest)

    monkeypatch.setattr(keeping, "replay_and_keep", replay)
    with pytest.raises(CorebraidError, match="was killed"):
        corebraid.order(recording, jobs=2)
    monkeypatch.setattr(keeping, "replay_and_keep", plain)
    parts = replayed_parts(monkeypatch)
    assert corebraid.order(recording, jobs=1).check.events
    assert len(parts) == 1


def test_a_full_disk_is_no_reason_to_order_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record_radix(tmp_path / "rec")
    plain = CertificateWriter.__init__

    def full(*_: object) -> None:
        raise UnwrittenError("cannot be written (No space left on device)", where="order.cert")

    monkeypatch.setattr(CertificateWriter, "__init__", full)
    with pytest.raises(UnwrittenError):
        corebraid.order(recording, jobs=1)
    assert (recording.path / "order.rows").exists()
    monkeypatch.setattr(CertificateWriter, "__init__", plain)
    parts = replayed_parts(monkeypatch)
    assert corebraid.order(recording, jobs=1).check.events
    assert not parts


def test_where_no_rows_are_kept_replays_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record_radix(tmp_path / "rec")
    monkeypatch.setattr(cores, "_WORTH_A_PROCESS", 5000)
    expected = cores.replay_in_intervals(recording, range(3), 3, lambda _: None)
    told, kept, plain = list[str](), list[object](), FinishedReplays.finish
    unfinished = Unfinished(recording.path / "some.rows", say=lambda text: told.append(said(text, TYPED)))

    def finish(self: FinishedReplays, *finished: Any) -> None:
        plain(self, *finished)
        kept.append(finished)
        if len(kept) == 2:
            raise BrokenOffError

    monkeypatch.setattr(FinishedReplays, "finish", finish)
    with pytest.raises(BrokenOffError):
        cores.replay_in_intervals(recording, range(3), 1, lambda _: None, unfinished)
    found = cores.replay_in_intervals(recording, range(3), 1, lambda _: None, unfinished)
    assert found == expected
    assert told == ["2 replayed intervals are kept from an earlier run (--fresh starts over)"]
    assert len(kept) > 4
    assert not unfinished.folder.exists()
