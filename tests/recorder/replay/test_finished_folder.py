"""The folder of what was replayed: it goes when the command is done, it is this user's, and what is in it
stands nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from handover_factory import left_behind, record_radix

import corebraid
from corebraid.base.errors import CorebraidError, FormatError
from corebraid.base.wording import said
from corebraid.cli.wording import TYPED
from corebraid.study.replays import keeping
from recorder.files.checkpoints import checkpoint_path
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording
from recorder.replay import handovers
from recorder.replay.finished import FinishedReplays
from recorder.replay.interval import Interval


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handovers, "SHORTEST", 1)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return record_radix(tmp_path / "rec")


def left_by_an_order(recording: Recording) -> Path:
    with left_behind():
        corebraid.order(recording, jobs=1)
    folder = recording.path / "order.rows"
    assert len(list(folder.iterdir())) > 10
    return folder


@pytest.mark.parametrize("command", [corebraid.order, corebraid.verify], ids=["order", "verify"])
def test_a_command_that_cannot_use_it_removes_it_too(command: Callable[..., Any], tmp_path: Path) -> None:
    """On the line bus one process replays whole cores."""
    recording = record_radix(tmp_path / "lines", bus="mesi")
    name = "order.rows" if command is corebraid.order else "verify.rows"
    finished = FinishedReplays.of(recording.path / name, recording, {})
    assert finished is not None
    finished.rows(Interval(0)).close()
    # Not under somebody's hands.
    command(recording, jobs=1)
    assert (recording.path / name).exists()
    finished.close()
    command(recording, jobs=1)
    assert not (recording.path / name).exists()


@pytest.mark.parametrize("how", ["linked", "anybody's"])
def test_files_that_others_have_too_are_left_alone(
    how: str, recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = left_by_an_order(recording)
    certificate = (recording.path / ORDER_CERT).read_bytes()
    victim, files = tmp_path / "victim", sorted(folder.glob("core-1-*.rows"))
    victim.write_text("not ours")
    for file in files:
        if how == "linked":
            file.unlink()
            os.link(victim, file)
        else:
            file.chmod(0o666)
    opened, plain = list[int](), os.open

    def note(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if str(path) in {file.name for file in files} and flags & os.O_EXCL:
            opened.append(flags)
        return plain(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", note)
    corebraid.order(recording, jobs=1)
    assert len(opened) == len(files) > 2
    assert victim.read_text() == "not ours"
    assert (recording.path / ORDER_CERT).read_bytes() == certificate
    assert not folder.exists()


def test_a_folder_with_others_in_it_is_emptied(recording: Recording, tmp_path: Path) -> None:
    folder = left_by_an_order(recording)
    (folder / "below" / "deep").mkdir(parents=True)
    (folder / "below" / "file").touch()
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "file").touch()
    (folder / "below" / "link").symlink_to(tmp_path / "away")
    told = list[object]()
    assert corebraid.order(recording, jobs=1, note=told.append).check.events
    assert not told
    assert not folder.exists()
    assert (tmp_path / "away" / "file").exists()


def test_it_is_closed_to_others(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recording.path / "order.rows"
    folder.mkdir()
    folder.chmod(0o777)
    finished = FinishedReplays.of(folder, recording, {})
    assert finished is not None
    finished.rows(Interval(0)).close()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert next(folder.iterdir()).stat().st_mode & 0o777 == 0o600
    finished.close()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert FinishedReplays.of(folder, recording, {}) is None
    told = list[object]()
    assert corebraid.order(recording, jobs=1, note=told.append).check.events
    assert told == ["order.rows: cannot be used, so a run that is broken off starts over"]


def test_rows_that_are_cut_meanwhile_are_an_error_of_their_own(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is said of the recording then, nor is it ordered in another way."""
    plain = keeping.replay_and_keep_parts

    def cut(*asked: Any) -> Any:
        verdicts = plain(*asked)
        for path in (recording.path / "order.rows").glob("core-1-*.rows"):
            os.truncate(path, path.stat().st_size // 2)
        return verdicts

    monkeypatch.setattr(keeping, "replay_and_keep_parts", cut)
    with pytest.raises(
        CorebraidError, match="rows of core 1 that were kept are not there any more"
    ) as caught:
        corebraid.order(recording, jobs=1)
    assert type(caught.value) is CorebraidError
    assert not (recording.path / ORDER_CERT).exists()


def test_that_checkpoints_do_not_fit_is_said(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = corebraid.order(recording, jobs=1).check.events
    plain = keeping.replay_and_keep

    def replay(of: Recording, part: Interval, *rest: Any) -> Any:
        if part.core == 1 and part.first:
            raise FormatError(f"altered at {part.first}", where="checkpoints-1.log")
        return plain(of, part, *rest)

    monkeypatch.setattr(keeping, "replay_and_keep", replay)
    told = list[object]()
    assert corebraid.order(recording, jobs=1, note=told.append).check.events == expected
    (line,) = [said(text, TYPED) for text in told if text]
    assert line.startswith("not replayed from checkpoints: checkpoints-1.log: altered at ")


def test_what_helps_against_damage_is_a_command_that_can_be_given(recording: Recording) -> None:
    path = checkpoint_path(recording, 1)
    path.write_bytes(path.read_bytes()[:-3])
    told = list[str]()
    corebraid.order(recording, jobs=1, note=lambda text: told.append(said(text, TYPED)))
    (line,) = told
    assert line.endswith(f"remove the file, or make it again with corebraid checkpoint {recording.path}")
