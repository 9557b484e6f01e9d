"""What OPR says each read found, against the order that really ran."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_factory import FIRMWARE
from evidence_factory import spy_on
from opr_factory import recorded

from corebraid.base.rows.event import FETCH, READ, UNCACHED, WRITE
from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.opr.log import read_opr
from solver.evidence.opr.inference import OUTSIDE, replay_group
from solver.evidence.opr.reads_from import reads_from


@pytest.mark.parametrize(("program", "rset"), [("ring", "0,1,2"), ("spin_mcs", "0,1,2"), ("radix", "0,2")])
def test_every_read_found_a_write_of_its_value(program: str, rset: str, tmp_path: Path) -> None:
    """The write named left those bytes, before the read; most often it is the very last one there."""
    recording = recorded(program, tmp_path, 3, rset)
    spy, _ = spy_on(
        FIRMWARE / f"{program}.elf", tmp_path / "again", cores=3, longest_slice=200,
        strata=StrataPolicy(cycles=5000),
    )  # fmt: skip
    log = read_opr(recording)
    result = replay_group(recording, log)
    said = {core: reads_from(recording, log, result, core) for core in log.members}
    lookup = {
        (core, int(row["sn"])): (int(row["writer"]), int(row["writer_sn"]), bool(row["mixed"]))
        for core, rows in said.items()
        for row in rows
    }
    sns = dict.fromkeys(range(3), 0)
    writes: dict[tuple[int, int], tuple[int, int, bytes]] = {}
    last: dict[int, tuple[int, int]] = {}
    reads = same = 0
    for stream, rows in spy.turns:
        for row in rows if stream < 3 else ():
            if row["flags"] & FETCH:
                continue
            sns[stream] += 1
            sn, addr, size = sns[stream], int(row["addr"]), int(row["size"])
            if row["flags"] & UNCACHED:
                continue
            if row["kind"] != WRITE and stream in said:
                writer, writer_sn, mixed = lookup.pop((stream, sn))
                if not mixed and writer != OUTSIDE:
                    at, length, content = writes[writer, writer_sn]
                    assert at <= addr
                    assert addr + size <= at + length
                    read = int(row["old"]).to_bytes(8, "little")[:size]
                    assert content[addr - at : addr - at + size] == read
                    reads += 1
                    same += last[addr] == (writer, writer_sn)
            if row["kind"] != READ:
                writes[stream, sn] = addr, size, int(row["new"]).to_bytes(8, "little")[:size]
                last.update({addr + k: (stream, sn) for k in range(size)})
    assert not lookup
    assert reads > 100
    assert same > 0.98 * reads


def test_sns_ascend(tmp_path: Path) -> None:
    recording = recorded("uts", tmp_path, 2, "1")
    log = read_opr(recording)
    rows = reads_from(recording, log, replay_group(recording, log), 1)
    assert (np.diff(rows["sn"].astype(np.int64)) > 0).all()
    assert set(np.unique(rows["writer"])) == {OUTSIDE, 1}
