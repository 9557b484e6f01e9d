"""Partial replay of a group is bit-exact, whatever the program, the group and the event orders."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from cli_factory import FIRMWARE
from evidence_factory import record_with
from opr_factory import StaleBlock, recorded

from corebraid.base.errors import Contradiction, Divergence, FormatError
from corebraid.study.opr_score import score
from emu.bus.cache import CacheGeometry
from isa.x86_64.registers import X86_64
from recorder.capture import base as capture
from recorder.capture.firmware import RecordOptions, record
from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.opr import collector as opr_collector
from recorder.evidence.opr import log as opr_log
from recorder.evidence.opr.codec import Encoder
from recorder.evidence.opr.log import OprLog, read_opr
from recorder.evidence.opr.rows import CHECK, CODE, EXACT, OPR_ROW, RELAXED, VALUE
from recorder.files.reader import Recording, iter_evidence
from recorder.replay.value_check import compare_replays
from solver.evidence.opr.inference import OUTSIDE, replay_group, select
from solver.evidence.opr.order_log import WAIT, OrderLog

PGAS = sorted(path.stem for path in (FIRMWARE.parent / "src").glob("pgas_*.c"))
PLAIN = [
    "uts",
    "radix",
    "ring",
    "spin_mcs",
    "spin_ticket",
    "smc",
    "timer",
    "dma_race",
    "primitives",
    "fault_ud",
]


@pytest.mark.parametrize("program", PLAIN + PGAS)
@pytest.mark.parametrize(("cores", "rset"), [(2, "0,1"), (4, "1,3"), (8, "0,2,5")])
@pytest.mark.sampled(5)
def test_every_member_is_bit_exact(program: str, cores: int, rset: str, tmp_path: Path) -> None:
    recording = recorded(program, tmp_path, cores, rset, seed=cores)
    log = read_opr(recording)
    assert ",".join(map(str, log.members)) == rset
    strata = recording.manifest.totals["strata"]
    result = replay_group(recording, log, relaxed=cores == 4)
    for member in result.members:
        assert member.instructions == recording.manifest.instructions[member.core]
        assert member.registers == strata + 1
        assert member.checks == strata + 1
        assert member.given_up == 0
        assert compare_replays(recording, log, member.core) == member.accesses > 0


@pytest.mark.parametrize("cache", ["512:1:16", "1k:2:128", "1k:2:256"])
@pytest.mark.parametrize("program", ["smc", "primitives", "dma_race", "pgas_guppie"])
@pytest.mark.sampled(2)
def test_lines_of_other_sizes(program: str, cache: str, tmp_path: Path) -> None:
    recording = recorded(program, tmp_path, 3, "0,1,2", cache=CacheGeometry.parse(cache), longest_slice=20)
    log = read_opr(recording)
    for core in log.members:
        assert compare_replays(recording, log, core) > 0


def wrong_orders(right: OrderLog, seed: int) -> OrderLog:
    """Orders that never were: drawn anew between random accesses, some of which keep each other waiting."""
    draw = random.Random(seed)
    waits = []
    for member, rows in enumerate(right.waits):
        sns = sorted(draw.randint(1, 5000) for _ in range(max(40, len(rows))))
        wrong = np.zeros(len(sns), WAIT)
        wrong["sn"] = sns
        for k in range(len(sns)):
            peer = draw.randrange(len(right.waits) - 1)
            wrong[k]["peer"] = peer + (peer >= member)
            wrong[k]["place"] = draw.randint(1, 6000)
        waits.append(wrong)
    return OrderLog(waits)


@pytest.mark.parametrize("program", ["uts", "pgas_uts", "spin_ticket"])
@pytest.mark.parametrize("seed", [1, 2])
def test_wrong_orders_change_no_replay(program: str, seed: int, tmp_path: Path) -> None:
    recording = recorded(program, tmp_path, 4, "0,2,3")
    log = read_opr(recording)
    right = replay_group(recording, log)
    wrong = replay_group(recording, log, orders=wrong_orders(OrderLog.of(log, False), seed))
    for a, b in zip(right.members, wrong.members, strict=True):
        assert (a.instructions, a.accesses, a.checks) == (b.instructions, b.accesses, b.checks)
    for name in ("reader", "sn", "addr", "value", "size"):
        assert (right.communications[name] == wrong.communications[name]).all()
    assert sum(member.given_up for member in wrong.members) > 0


@pytest.mark.parametrize("program", ["uts", "radix", "ring", "spin_mcs", *PGAS])
@pytest.mark.sampled(2)
def test_exact_clocks_name_the_writer(program: str, tmp_path: Path) -> None:
    """With all cores in the group, only what passed through a third core's memory by a get may be missed."""
    recording = recorded(program, tmp_path, 4, "0,1,2,3")
    exact = score(recording, replay_group(recording))
    assert exact.within > 20
    assert exact.precision == 1.0
    assert exact.recall >= (0.9 if program == "pgas_uts" else 0.99)
    relaxed = score(recording, replay_group(recording, relaxed=True))
    assert relaxed.precision > 0.95
    assert relaxed.recall > 0.8


def test_of_outsiders_it_is_said_that_they_are(tmp_path: Path) -> None:
    recording = recorded("ring", tmp_path, 4, "0,2")
    result = replay_group(recording)
    # Core 0 and 1, core 2 and 3 are pairs: what a member reads in its ring was written by no member.
    found = score(recording, result)
    assert found.values > found.within
    assert found.outside_right > 0.9 * (found.values - found.within - found.own)
    assert set(np.unique(result.communications["writer"])) <= {OUTSIDE, 0, 2}


def test_part_of_the_group(tmp_path: Path) -> None:
    recording = recorded("uts", tmp_path, 4, "0,1,3")
    log = read_opr(recording)
    whole, part = replay_group(recording, log), replay_group(recording, select(log, (1, 3)))
    assert [member.core for member in part.members] == [1, 3]
    kept = np.isin(whole.communications["reader"], (1, 3))
    for name in ("reader", "sn", "addr", "value"):
        assert (whole.communications[name][kept] == part.communications[name]).all()
    assert 0 not in part.communications["writer"]


@pytest.mark.parametrize("program", ["uts", "radix", "pgas_is"])
def test_a_stale_shadow_block_is_caught(program: str, tmp_path: Path) -> None:
    with mock.patch.object(opr_collector, "ValueLogger", StaleBlock):
        recording = recorded(program, tmp_path, 4, "0,2")
    log = read_opr(recording)
    with pytest.raises(Divergence, match="partial replay diverged"):
        replay_group(recording, log)
    with pytest.raises(Divergence, match=r"core \d"):
        sum(compare_replays(recording, log, core) for core in log.members)


def test_evidence_changes_no_run(tmp_path: Path) -> None:
    """The same seed gives the same logs with and without the stream."""
    options = {"cores": 3, "longest_slice": 200, "strata": StrataPolicy(cycles=5000)}
    with_it = recorded("pgas_fib", tmp_path, 3, "0,2")
    without = record_with(FIRMWARE / "pgas_fib.elf", tmp_path / "without", **options)
    assert with_it.manifest.instructions == without.manifest.instructions
    assert with_it.manifest.totals == without.manifest.totals


def test_a_killed_recorder(tmp_path: Path) -> None:
    """What is left replays up to the last stratum that the stream reaches."""

    class Killed(Exception):
        pass

    def kill(instructions: int) -> None:
        if instructions > 60_000:
            raise Killed

    options = RecordOptions(
        cores=3,
        longest_slice=200,
        strata=StrataPolicy(cycles=5000),
        evidence=("opr",),
        evidence_options={"rset": "0,2"},
    )
    with mock.patch.object(capture, "FLUSH_EVERY", 7000), pytest.raises(Killed):
        record(FIRMWARE / "pgas_fib.elf", tmp_path / "rec", X86_64, options, lambda _: None, kill)
    recording = Recording.open(tmp_path / "rec")
    assert recording.killed
    found = []
    for cut in (0, 1, 200, 4000):
        path = tmp_path / "rec" / "evidence-opr.log"
        data = path.read_bytes()
        path.write_bytes(data[: len(data) - cut])
        result = replay_group(recording)
        # As far as both logs reach, they say the same: no disagreement in a cross-check.
        log = read_opr(recording)
        assert all(compare_replays(recording, log, core) > 0 for core in log.members)
        found.append([member.checks for member in result.members])
        assert all(member.registers == member.checks for member in result.members)
    assert found[0][0] > 2
    assert found == sorted(found, reverse=True)
    assert found[0] != found[-1]


@pytest.mark.parametrize(("second", "fine"), [(5, True), (4, False)])
def test_numbers_of_a_later_frame_do_not_go_back(
    second: int, fine: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay would wait for ever for an access that it has had."""
    recording = recorded("ring", tmp_path, 2, "0,1")
    frames = list(iter_evidence(recording, "opr"))[:2]
    payloads = []
    for sn in (5, second):
        rows = np.zeros(1, OPR_ROW)
        rows["kind"], rows["sn"] = CHECK, sn
        payloads.append(bytes(Encoder(2, 100, 1 << 20).encode_some(rows, 0)[1]))
    header = frames[1][0]
    made = [(replace(header, records=1, first=k, last=k), raw) for k, raw in enumerate(payloads)]
    monkeypatch.setattr(opr_log, "iter_evidence", lambda *_: iter([frames[0], *made]))
    if fine:
        assert read_opr(recording).checks(0)["sn"].tolist() == [5, 5]
        return
    with pytest.raises(FormatError, match="goes back"):
        read_opr(recording)


def hostile(log: OprLog, draw: random.Random) -> OprLog:
    """The evidence with some rows changed to others that the format can hold."""
    rows = log.rows.copy()
    for _ in range(draw.randint(1, 4)):
        row = rows[draw.randrange(len(rows))]
        what = draw.choice(["value", "sn", "place", "late", "kind"])
        if what == "value":
            row["value"] = draw.getrandbits(8 * max(1, int(row["size"]) if row["kind"] == VALUE else 8))
        elif what == "sn":
            row["sn"] = draw.choice([0, 1, draw.randrange(3000), (1 << 64) - 1])
        elif what == "place" and row["kind"] != VALUE:
            row["place"] = 8 * draw.choice([0, draw.randrange(3000), (1 << 16) - 1])
        elif what == "late" and row["kind"] == CODE:
            row["size"] ^= 1
        elif row["kind"] in (EXACT, RELAXED):
            row["peer"] = draw.choice([k for k in range(len(log.members)) if k != row["member"]])
    kept = [
        np.sort(part, order="sn", kind="stable")
        for member in range(len(log.members))
        for kind in range(VALUE, CHECK + 1)
        if len(part := rows[(rows["member"] == member) & (rows["kind"] == kind)])
    ]
    return OprLog(log.members, log.unit, np.concatenate(kept))


@pytest.mark.parametrize("seed", range(4))
def test_hostile_evidence_is_refused_or_harmless(seed: int, tmp_path: Path) -> None:
    """Whatever the stream says, a replay ends; and what it calls bit-exact is."""
    recording = recorded("pgas_guppie", tmp_path, 2, "0,1")
    log, draw, refused = read_opr(recording), random.Random(seed), 0
    for _ in range(12):
        wrong = hostile(log, draw)
        try:
            result = replay_group(recording, wrong, relaxed=bool(draw.getrandbits(1)))
        except (Divergence, Contradiction):
            refused += 1
            continue
        for member in result.members:
            assert compare_replays(recording, wrong, member.core) == member.accesses
    assert refused > 2, f"seed {seed}"
