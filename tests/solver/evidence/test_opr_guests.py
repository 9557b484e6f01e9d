"""Members of a replay set that are hard to replay: stores into running code, instructions of many
accesses, stops in the middle of blocks, interrupts, DMA, tiny caches."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from guest import DATA, Code, run_many_ways
from guest_bodies import GUESTS, build
from random_code import random_program

from recorder.evidence.opr.log import read_opr
from recorder.replay.value_check import compare_replays
from solver.evidence.opr.inference import replay_group


def hold(program: Path, folder: Path, cores: int) -> None:
    """Every way to record a guest, and every core a member."""
    rset = ",".join(map(str, range(cores)))
    runs = run_many_ways(program, folder, cores, evidence=("opr",), evidence_options={"rset": rset})
    for run in runs:
        log = read_opr(run.recording)
        for core in range(cores):
            compare_replays(run.recording, log, core)
    assert len(replay_group(runs[0].recording, relaxed=True).members) == cores


@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
@pytest.mark.sampled(2)
def test_guests_that_are_hard_to_record(body: Callable[[Code], None], tmp_path: Path) -> None:
    hold(build(tmp_path, body), tmp_path, GUESTS[body])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.sampled(1)
def test_random_guests(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    cores = draw.choice((1, 2, 2, 3))
    places = [draw.choice((DATA + 8, DATA + 0x40, DATA + 0xFE0)) + draw.randrange(64) for _ in range(4)]
    hold(random_program(tmp_path / f"random-{seed}.elf", draw, places, 2), tmp_path, cores)
