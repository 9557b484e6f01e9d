"""The benchmark modules run on tiny input, and their arithmetic is right on cases done by hand."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from losses_factory import firmware
from rich.console import Console

from bench import corrections, ordering, ordering_path, pages, paper, report, scored, settled, speed, sure
from bench.bare import run_bare
from bench.logsize import log_bytes, strata_bytes
from bench.paper_tables import correlation, removed
from bench.programs import FIRMWARE, Clock, image, recorded
from bench.report import Column, Table
from bench.slowdown import total_cycles
from bench.strata_regions import RegionFacts, cuts_of_bound, distribution, own_regions, regions_by_bound
from emu.bus.cache import CacheGeometry
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import RecordOptions
from recorder.capture.strata_policy import StrataPolicy
from recorder.replay.traces import RecordingTraces
from solver.sifting.filters import Counts

SCALED = sorted((FIRMWARE).glob("x86_64-*/*.elf"))


@pytest.fixture(autouse=True)
def _results_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path / "out")


def quiet() -> Console:
    """A console that prints nowhere."""
    return Console(file=io.StringIO(), width=200)


@pytest.mark.parametrize("path", SCALED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_larger_images_have_their_digests(path: Path) -> None:
    digests = json.loads((FIRMWARE / "digests.json").read_text())
    size = path.parent.name.removeprefix("x86_64-")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digests[size][path.stem]


def test_every_digest_of_a_larger_image_has_one() -> None:
    digests = json.loads((FIRMWARE / "digests.json").read_text())
    for size in ("large", "medium"):
        found = {path.stem for path in SCALED if path.parent.name == f"x86_64-{size}"}
        assert found == set(digests[size])


def test_the_bare_emulator_agrees_with_the_program() -> None:
    assert run_bare(image("nqueens")).exit_code == 0
    assert run_bare(image("nqueens"), own_pages=True).exit_code == 0


def test_pages_runs_on_a_small_program() -> None:
    console = Console(record=True, width=200, quiet=True)
    (table,) = pages.main(console, rounds=1, cases=(pages.Case("bug_lost_update", 2, ""),))
    ((name, instructions, *rest),) = table.rows
    assert (name, len(rest)) == ("bug_lost_update, 2 cores", 5)
    assert isinstance(instructions, int)
    assert instructions > 1000


def test_speed_runs_on_a_small_program() -> None:
    console = quiet()
    tables = speed.main(console, rounds=2, size="", programs=("fig1",))
    ratios, own_pages, tso, many, commands = tables
    assert ratios.rows[0][0] == own_pages.rows[0][0] == tso.rows[0][0] == "fig1"
    assert len(ratios.rows[0]) == len(own_pages.rows[0]) + 3
    assert len(many.rows) == 1
    assert [row[0] for row in commands.rows] == ["corebraid --help", "corebraid info REC"]
    saved = json.loads((report.OUT / "speed.json").read_text())
    assert saved["ratios"]["rows"] == ratios.rows
    assert "| fig1 |" in (report.OUT / "speed.md").read_text()


def test_ratios_are_taken_within_a_round_against_either_yardstick() -> None:
    seconds = {
        "replay": [speed.Seconds(9, 6), speed.Seconds(9, 8)],
        speed.BARE: [speed.Seconds(3, 2), speed.Seconds(3, 4)],
        speed.BARE_PAGES: [speed.Seconds(1, 1), speed.Seconds(1, 2)],
    }
    measured = speed.Measured(seconds, instructions=6_000_000)
    assert speed.ratios(measured, "replay", lambda s: s.run) == [3, 2]
    assert speed.ratios(measured, "replay", lambda s: s.run, speed.BARE_PAGES) == [6, 4]
    assert speed.mega_per_second(measured, speed.BARE) == 2


def test_paper_runs_on_a_small_program() -> None:
    targets = (30, 60, 100, 150, 200, 300, 400)
    made = paper.main(quiet(), ("spin_ticket",), (8,), "", targets)
    tables = {table.key: table for table in made}
    assert set(tables) == {
        "input-log", "strata-log", "filtering", "regions", "correlation", "smt", "slowdown"
    }  # fmt: skip
    assert all(table.rows for table in tables.values())
    assert [row[2] for row in tables["regions"].rows] == [
        "c 10k",
        "c 100k",
        "c 1M",
        "d 10",
        "d 100",
        "d 1000",
    ]


def test_joined_regions_are_those_of_a_recording_with_that_bound() -> None:
    def options(bound: int) -> RecordOptions:
        return RecordOptions(cores=4, seed=7, strata=StrataPolicy(cycles=bound))

    with recorded(image("ring"), options(10_000)) as made:
        joined = regions_by_bound(RecordingTraces(made.recording), made.clock, (10_000, 30_000))
    for bound, facts in joined.items():
        with recorded(image("ring"), options(bound)) as made:
            assert own_regions(RecordingTraces(made.recording), made.clock) == facts
            assert sum(region.downgrades for region in facts) == made.total("downgrades")
    assert 1 < len(joined[30_000]) < len(joined[10_000])


def test_log_bytes_are_the_records_bytes() -> None:
    options = RecordOptions(
        cores=2, seed=7, cache=CacheGeometry.parse("1k:2:32"), strata=StrataPolicy(cycles=1000)
    )
    with recorded(image("ring"), options) as made:
        found = log_bytes(made.recording)
        assert found.miss > made.total("misses") * 32
        strata = made.total("strata")
        assert strata > 10
        assert found.strata == strata_bytes(made.recording, list(range(strata)))
        assert strata_bytes(made.recording, [0, 5]) < found.strata


def test_a_coarser_bound_takes_the_first_cut_past_each_multiple() -> None:
    cycles = np.array([11, 19, 32, 41, 43, 75], np.uint64)
    clock = Clock(np.arange(6, dtype=np.uint64), cycles, np.zeros(6, np.uint64), np.zeros(1, np.uint64))
    assert cuts_of_bound(clock, np.arange(6), 20) == [2, 3, 5]


def test_distribution_has_the_papers_ranges() -> None:
    assert distribution([0, 99, 100, 499, 500, 999, 1000, 5000]) == [2, 2, 2, 2]


def facts(total: int, events: int, downgrades: int) -> RegionFacts:
    """A region with so many rows, of which `events` are unfiltered, one of them collapsed."""
    return RegionFacts(Counts(total, 0, total - events, 0, 1, events - 1), downgrades)


def test_removed_counts_repeats_as_left() -> None:
    assert removed([facts(100, 10, 0), facts(300, 30, 0)]) == pytest.approx(0.9)


def test_correlation_of_a_line_is_one() -> None:
    assert correlation([facts(100, 2 * k + 1, k) for k in range(1, 5)], False) == pytest.approx(1.0)
    assert correlation([facts(100, 10, 3)] * 5, False) is None


def cycles(scheme: int, *, cores: int, latency: float, buffered: int = 32) -> float:
    """Cores that miss at instructions 10 and 11 and end at 100; 3 link cycles a miss, 4 a log record."""
    first = np.arange(cores + 1) * 2
    counts = np.tile(np.array([10, 11]), cores)
    ends, latencies = np.full(cores, 100), np.full(cores, latency)
    return float(total_cycles(first, counts, ends, latencies, 3.0, 4.0, scheme, buffered))


def test_link_model_of_two_cores_by_hand() -> None:
    # Core 0 fetches at 10, core 1 waits until 13; they miss again at 61 and 64, without waiting.
    assert cycles(0, cores=2, latency=50) == 200 + 203
    # Core 0's log record keeps core 1 waiting 4 more; at 61 and 68 nobody waits.
    assert cycles(1, cores=2, latency=50) == 200 + 207
    # The records go out while nobody fetches.
    assert cycles(2, cores=2, latency=50) == 200 + 203


def test_link_model_of_one_core_by_hand() -> None:
    # It misses at 10, and at 16 while its record is under way from 13 to 17.
    assert [cycles(scheme, cores=1, latency=5) for scheme in (0, 1, 2)] == [110, 111, 111]
    # It misses at 10 and 13; a buffer of one record has to be emptied first.
    assert [cycles(2, cores=1, latency=2, buffered=n) for n in (32, 1)] == [104, 108]


def test_a_table_refuses_a_short_row() -> None:
    table = Table("t", "T", [Column("a"), Column("b", ".1f")])
    table.add("x", 0.25)
    assert table.texts() == [["x", "0.2"]]
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        table.add("x")


@pytest.mark.soak
def test_sure_runs_on_small_regions() -> None:
    pairs, counts = sure.main(quiet(), events=40, seeds=1, classes=("mixed", "locks"), count_events=24)
    for row in pairs.rows:
        shares = row[2:5]
        assert abs(sum(float(share or 0) for share in shares) - 100) < 1e-6
        assert row[5] == "1 of 1"
    assert [row[1] for row in counts.rows] == ["1 of 1"] * 2


@pytest.mark.soak
def test_the_ordering_path_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path)
    stages, jobs = ordering_path.main(Console(quiet=True), ("fig1",), "", 2)
    assert stages.texts()[0][0] == jobs.texts()[0][0] == "fig1"
    assert all(float(cell) > 0 for cell in jobs.texts()[0][1:])
    assert (tmp_path / "path.md").exists()


@pytest.mark.soak
def test_ordering_is_measured_on_small_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "SMALL", 40)
    monkeypatch.setattr(ordering, "LARGE", 60)
    monkeypatch.setattr(ordering, "HUGE", ((80, 2),))
    monkeypatch.setattr(ordering, "TSO_LARGE", 60)
    small, large, tso = ordering.main(quiet(), seeds=2, timeout_s=30)
    assert (len(small.rows), len(large.rows), len(tso.rows)) == (18, 7, 20)
    rows = (*small.rows, *large.rows, *tso.rows)
    assert not any("undecided" in str(cell) for row in rows for cell in row)


@pytest.mark.soak
def test_what_losses_settle_is_shown_beside_what_values_leave_open(tmp_path: Path) -> None:
    recording = firmware(tmp_path / "rec", "bug_dcl", seed=1, longest_slice=2000)
    table = settled.settled_table("one", "one", iter([("bug_dcl", "none", recording)]), 30, lambda _: None)
    assert [column.name for column in table.columns][-3:] == ["may %", "orders", "executions"]
    (row,) = table.texts()
    before, after = row[-3].split(" -> ")
    assert float(before.split()[0]) > 10 * float(after.split()[0])


@pytest.mark.soak
def test_orders_are_held_against_the_truth() -> None:
    """By values, tenures and losses; an engine whose evidence a recording lacks is left out."""
    arguments = [
        "--programs",
        "fig2,input_echo",
        "--cores",
        "2",
        "--strata",
        "none",
        "--engines",
        "auto,linkage",
    ]
    assert scored.main(arguments) == 0
    tables = json.loads((report.OUT / "scored.json").read_text())
    rows = tables["scored"]["rows"]
    assert {tuple(row[4:6]) for row in rows} == {
        ("auto", "values"),
        ("auto", "tenures"),
        ("auto", "losses"),
        ("linkage", "values"),
    }
    assert sum(row[3] for row in tables["scored-all"]["rows"] if row[1] == "auto") >= 2


@pytest.mark.soak
def test_corrections_cost_is_measured_for_every_revision(tmp_path: Path) -> None:
    """Of programs that end, whatever they repeat."""
    times = corrections.measured("x87: fsin", rounds=1, lasting=1e-6)
    assert len(times) == X86_64.revision + 1
    for body in (*corrections.BODIES.values(), "90"):
        path = corrections.program(tmp_path / "guest", bytes.fromhex(body), 3)
        assert corrections.seconds(path, X86_64) > 0
