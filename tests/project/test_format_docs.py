"""docs/format.md shows what the code writes, and its example decodes by hand as it says."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import format_twin as twin
import lz4.block
import numpy as np
import pytest
from format_factory import records

from corebraid.base.rows import record
from corebraid.base.rows.event import WRITE
from emu.bus.sync_points import ENTER
from recorder.files import frame, manifest
from recorder.files.agent_codec import AGENT_OP, DMA, MARK, SYNC
from recorder.files.end import End
from recorder.files.manifest import Manifest, Program
from recorder.files.truth import TRUTH
from recorder.files.writer import RecordingWriter

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "format.md").read_text()


def _example(path: Path) -> Path:
    what = Manifest(
        "x86_64",
        Program("hello.elf", "5a" * 32),
        1,
        1 << 20,
        line=16,
        strata="cycles:100000",
        agents=("dma",),
    )
    rows = records(
        (7, record.MISS, record.MISS_WRITE, 0x1040, 0, 0, 16),
        (300, record.INPUT, record.INPUT_TIME, 0, 1234, 0, 8),
        (1000, record.STRATUM, 0, 0, 0, 0, 0),
        (1200, record.END, 0, 0, record.END_POWER_OFF, 0, 0),
    )
    ops = np.zeros(3, dtype=AGENT_OP)
    ops[0] = (0, 481, 0, 0, 0, 0, SYNC, 0, ENTER)
    ops[1] = (0, 0x2000, 0, 0x2A, 0, 8, WRITE, DMA, 0)
    ops[2] = (1, 0, 0, 0, 0, 0, MARK, 0, 0)
    with RecordingWriter.create(path, what) as writer:
        writer.write_image("initial", [(0x1000, np.full(4096, 0x90, dtype=np.uint8))])
        writer.append_core(0, rows, np.arange(16, dtype=np.uint8))
        writer.append_agent(ops)
        writer.append_truth(np.array([(0, 500), (1, 1), (0, 1200)], dtype=TRUTH))
        writer.write_image("final", [])
        writer.finish(End("power-off", 0, 0, 1200), (1200,))
    return path


def _hexdump(data: bytes) -> str:
    """As `hexdump -C` prints it."""
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        columns = [" ".join(f"{byte:02x}" for byte in part) for part in (row[:8], row[8:])]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {columns[0]:<23}  {columns[1]:<23}  |{text}|")
    return "\n".join([*lines, f"{len(data):08x}"])


@pytest.mark.parametrize("name", ["core-0.log", "agent.log", "truth.log", "initial.img"])
def test_the_example_is_what_the_code_writes(tmp_path: Path, name: str) -> None:
    shown = re.search(rf"<!-- {re.escape(name)} -->\n```\n(.*?)\n```", DOCS, re.DOTALL)
    assert shown is not None
    assert shown.group(1) == _hexdump((_example(tmp_path / "rec") / name).read_bytes())


def test_the_example_decodes_without_the_reader(tmp_path: Path) -> None:
    data = (_example(tmp_path / "rec") / "core-0.log").read_bytes()
    assert zlib.crc32(data[:28]) == int.from_bytes(data[28:32], "little")
    body = data[32:76]
    assert zlib.crc32(body[:40], zlib.crc32(data[:28])) == int.from_bytes(body[40:], "little")
    assert zlib.crc32(data[76:]) == int.from_bytes(body[36:40], "little")
    rows, blob = twin.decode_records(lz4.block.decompress(data[76:], uncompressed_size=35), 16, 1 << 20)
    assert [int(row["count"]) for row in rows] == [7, 300, 1000, 1200]
    assert blob == bytes(range(16))


def test_the_bounds_in_the_page_are_the_codes() -> None:
    assert f"1 to {frame.MAX_RAW:,}" in DOCS
    assert f"1 to {frame.MAX_STORED:,}" in DOCS
    assert f"at most\n{frame.MAX_RAW * AGENT_OP.itemsize >> 20} MiB of records" in DOCS
    for key in Manifest("x", Program("p", "0" * 64), 1, 4096)._configuration:
        assert f"| `{key}` * |" in DOCS
    assert manifest.MAX_CORES == 64
    assert manifest.MAX_MEMORY == 1 << 40
