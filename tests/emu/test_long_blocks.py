"""Straight code that is longer than what the emulator translates at once: it is broken off at other places in
a replay than in the recorder, which has more hooks."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from cli_factory import BASE, EXIT_7, elf, record, run

from bench.true_order import held_traces
from recorder.files.reader import Recording

#: mov [BASE + 0x8000], rax; more often than one translation holds.
STORE = b"\x48\x89\x04\x25" + struct.pack("<I", BASE + 0x8000)
TIMES = 2000


@pytest.mark.parametrize(
    "options", [("--model", "sc"), ("--model", "tso"), ("--model", "sc", "--evidence", "linkage")]
)
def test_a_fetch_in_the_middle_of_a_block_is_an_event_there(tmp_path: Path, options: tuple[str, ...]) -> None:
    image = tmp_path / "straight.elf"
    image.write_bytes(elf(STORE * TIMES + EXIT_7, memory=0x9000))
    ran = record(tmp_path / "rec", image, "--cores", 2, "--schedule", "pct:3", *options)
    assert ran.code == 0, ran.err
    for rows in held_traces(Recording.open(tmp_path / "rec")).rows:
        assert (np.diff(rows["count"].astype(np.int64)) >= 0).all()
    verified = run("verify", tmp_path / "rec")
    assert verified.code == 0, verified.err
    assert "the interleaving that ran is one of the legal orders" in verified.out
