"""Lines that were fetched for an instruction which then does not run, because its slice ends before it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from cli_factory import BASE, EXIT_7, elf, record, run

from bench.true_order import compare_boundaries, held_traces
from corebraid.base.rows.event import FETCH
from recorder.files.reader import Recording, iter_sealed_truth

_LINE = 64
_TIMES = 300


def _counting_lines() -> bytes:
    """Two lines of code, each of which begins with a locked increment of a counter in the other one, so that
    every core's increment takes the others' code away."""
    code = bytearray(3 * _LINE)
    code[0:10] = b"\xb9" + struct.pack("<I", _TIMES) + b"\xe9" + struct.pack("<i", _LINE - 10)  # mov ecx; jmp
    for line in (1, 2):
        at, other = line * _LINE, (3 - line) * _LINE
        counter = BASE + other + 56
        piece = b"\xf0\xff\x04\x25" + struct.pack("<I", counter)  # lock inc dword [counter]
        if line == 1:
            piece += b"\xe9" + struct.pack("<i", _LINE - 13)
        else:
            # dec ecx; jnz to the first of the two
            piece += b"\xff\xc9\x0f\x85" + struct.pack("<i", -_LINE - 16)
            piece += b"\xe9" + struct.pack("<i", _LINE - 21)
        code[at : at + len(piece)] = piece
    return bytes(code) + EXIT_7


@pytest.mark.parametrize("options", [(), ("--model", "tso"), ("--evidence", "linkage")])
@pytest.mark.parametrize("schedule", ["chaos", "pct:200"])
@pytest.mark.sampled(1)
def test_a_line_is_given_back_with_the_slice(tmp_path: Path, schedule: str, options: tuple[str, ...]) -> None:
    image = tmp_path / "image.elf"
    image.write_bytes(elf(_counting_lines()))
    fetched = 0
    for seed in range(3):
        directory = tmp_path / f"rec{seed}"
        ran = record(directory, image, "--cores", 3, "--schedule", schedule, "--seed", seed, *options)
        assert ran.code == 0, ran.err
        recording = Recording.open(directory)
        traces = held_traces(recording)
        compare_boundaries(traces, np.concatenate(list(iter_sealed_truth(recording))))
        fetched += sum(int((rows["flags"] & FETCH != 0).sum()) for rows in traces.rows)
        verified = run("verify", directory)
        assert verified.code == 0, verified.err + verified.out
        assert "the interleaving that ran is one of the legal orders" in verified.out
    assert fetched > 100
