"""Barriers in two phases, relaxed and strict accesses: what they promise holds under every schedule, and
what they leave open happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_factory import FIRMWARE

from isa.x86_64.registers import X86_64
from recorder.capture.firmware import RecordOptions, record

_SAID = re.compile(rb"pgas_phases: wrong (\d+) strict (\d+) relaxed (\d+)\n")


def overtaken(folder: Path, cores: int, seed: int, model: str = "sc") -> tuple[int, int, int]:
    """What a run prints: words that were not there after a barrier, strict flags and relaxed flags that came
    before their message."""
    said: list[bytes] = []
    options = RecordOptions(cores=cores, seed=seed, longest_slice=300, model=model)
    outcome = record(FIRMWARE / "pgas_phases.elf", folder, X86_64, options, said.append)
    found = _SAID.fullmatch(b"".join(said))
    assert found is not None, said
    assert outcome.manifest.end is not None
    assert outcome.manifest.end.exit_code == int(found[1] != b"0" or found[2] != b"0")
    wrong, strict, relaxed = map(int, found.groups())
    return wrong, strict, relaxed


def test_only_relaxed_flags_overtake(tmp_path: Path) -> None:
    runs = [overtaken(tmp_path / f"{seed}", 4, seed) for seed in (1, 2, 3)]
    assert [(wrong, strict) for wrong, strict, _ in runs] == [(0, 0)] * 3
    assert any(relaxed for _, _, relaxed in runs)


@pytest.mark.parametrize(("cores", "model"), [(1, "sc"), (3, "sc"), (3, "tso")])
def test_other_machines(cores: int, model: str, tmp_path: Path) -> None:
    assert overtaken(tmp_path / "rec", cores, 5, model)[:2] == (0, 0)
