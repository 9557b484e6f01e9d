"""When a run of a hunt is taken not to end: by its instructions, or by its system calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from guest import Code
from static_guest import call, static_program

from corebraid.study.attempts import Attempt
from corebraid.study.hunting import prepare, record_attempt
from corebraid.study.subjects import Asked, subject_of
from recorder.files.manifest import load

LINUX = Path(__file__).parents[3] / "firmware" / "linux" / "x86_64"
_YIELD = 24


def test_both_limits_come_from_a_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of(Asked(str(LINUX / "mutexes"), schedule="chaos"))
    options = prepare(subject).options
    assert options.most_calls == 50_000
    assert options.limit >= 30_000_000
    monkeypatch.setattr("corebraid.study.hunting._CALLS_LEAST", 10)
    assert prepare(subject).options.most_calls > 50 * 50
    # Whoever sets a limit has set it.
    asked = replace(subject, options=replace(subject.options, limit=10_000_000))
    assert prepare(asked).options.most_calls == 0


def test_a_run_ends_at_its_calls(tmp_path: Path) -> None:
    """It does nothing but yield."""
    made = Code()
    made.label("again")
    call(made, _YIELD)
    made.jump("again")
    guest = static_program(tmp_path / "guest", made)
    subject = subject_of(Asked(str(guest), schedule="chaos", guest="linux"))
    options = replace(subject.options, limit=1_000_000, most_calls=300)
    record_attempt(replace(subject, options=options), Attempt(0, 0, "chaos"), tmp_path / "rec", [])
    manifest = load(tmp_path / "rec")
    assert manifest.end is not None
    assert manifest.end.reason == "limit"
    assert 300 <= int(str(manifest.totals["calls"])) < 310
    assert sum(manifest.instructions) < 10_000
