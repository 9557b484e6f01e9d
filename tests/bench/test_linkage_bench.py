"""Stride's benchmarks: logs taken apart, late looks, and the model of what cores wait for, by hand and by a
twin."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from line_twin import Lines
from linkage_factory import guest, random_turns
from rich.console import Console

from bench import linkage_late, linkage_leap, linkage_waits, report
from bench.linkage_baselines import Counter
from bench.linkage_waits import GLOBAL, LEAP, PLAIN, STRIDE, Costs, model
from bench.shared_accesses import Accesses, SharedAccesses
from corebraid.base.rows.event import EVENT, READ, UNCACHED, WRITE
from recorder.evidence.linkage.codec import ALL, HEAD
from recorder.evidence.linkage.collector import LinkageCollector

COSTS = Costs(100, 20, 5)


@pytest.fixture(autouse=True)
def _results_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path / "out")


def quiet() -> Console:
    """A console that prints nowhere."""
    return Console(file=io.StringIO(), width=200)


def of(*cores: list[tuple[int, str, int]], rest: tuple[int, ...] = ()) -> SharedAccesses:
    """A run: of each core (word, "R" or "W", gap). A variable is a word."""
    flat = [access for core in cores for access in core]
    first = np.cumsum([0, *(len(core) for core in cores)]).astype(np.int64)
    words = np.array([word for word, _, _ in flat], np.int64)
    writes = np.array([does == "W" for _, does, _ in flat], np.bool_)
    gaps = np.array([gap for _, _, gap in flat], np.int64)
    return SharedAccesses(first, words, words.copy(), writes, gaps, np.array(rest or [0] * len(cores)), 0)


def test_time_of_one_core_by_hand() -> None:
    run = of([(0, "W", 10), (0, "R", 10)], rest=(3,))
    # The word's line; then it has it.
    assert model(run, PLAIN, COSTS) == (123, 0)
    # The lock's line and two atomic instructions, two rows.
    assert model(run, LEAP, COSTS) == (123 + 100 + 2 * 20 + 2 * 5, 0)
    # A read takes no lock; it looks at the version, whose line the core has.
    assert model(run, STRIDE, COSTS) == (123 + 100 + 20 + 2 * 5, 0)


def test_readers_wait_for_each_other_only_under_leap() -> None:
    run = of([(0, "R", 0)], [(0, "R", 0)])
    # The first has the lock from 0 to 225; the second then takes 225 more.
    assert model(run, LEAP, COSTS) == (450, 225)
    assert model(run, STRIDE, COSTS) == (205, 0)
    assert model(run, GLOBAL, COSTS) == (205, 0)


def test_writers_of_two_variables_wait_only_under_one_lock() -> None:
    run = of([(0, "W", 0)], [(1, "W", 0)])
    assert model(run, STRIDE, COSTS) == (225, 0)
    assert model(run, LEAP, COSTS) == (225, 0)
    assert model(run, GLOBAL, COSTS) == (450, 225)


def twin(cores: list[list[tuple[int, str, int]]], way: int, costs: Costs) -> tuple[int, int]:
    """The model, written down anew."""
    lines = Lines(costs.transfer)
    free: dict[int, int] = {}
    now, at, waited = [0] * len(cores), [0] * len(cores), 0

    while any(at[k] < len(core) for k, core in enumerate(cores)):
        begins = {k: now[k] + core[at[k]][2] for k, core in enumerate(cores) if at[k] < len(core)}
        core = min(begins, key=lambda k: (begins[k], k))
        word, does, _ = cores[core][at[core]]
        at[core] += 1
        time, lock = begins[core], 0 if way == GLOBAL else word
        locked = way == LEAP or (way in (GLOBAL, STRIDE) and does == "W")
        if locked:
            waited += max(0, free.get(lock, 0) - time)
            time = max(time, free.get(lock, 0)) + costs.atomic + lines.get(("lock", lock), core, True)
        time += lines.get(("word", word), core, does == "W")
        if way != PLAIN:
            time += costs.log
        if locked:
            free[lock] = time
        elif way != PLAIN:
            time += lines.get(("lock", lock), core, False)
        now[core] = time
    return max(now), waited


@pytest.mark.parametrize("seed", range(5))
def test_the_model_is_the_twins(seed: int) -> None:
    draw = random.Random(seed)
    cores = [
        [(draw.randrange(4), draw.choice("RRW"), draw.randrange(60)) for _ in range(40)] for _ in range(4)
    ]
    # Words are numbered without gaps.
    run = of(*cores)
    for way in (PLAIN, LEAP, GLOBAL, STRIDE):
        assert model(run, way, COSTS) == twin(cores, way, COSTS)


def _rows(*accesses: tuple[int, int, int, int]) -> Any:
    rows = np.zeros(len(accesses), EVENT)
    for row, (count, word, kind, value) in zip(rows, accesses, strict=True):
        row["count"], row["addr"], row["size"], row["kind"] = count, 8 * word, 8, kind
        row["old"] = row["new"] = value
    return rows


def test_only_shared_accesses_are_kept_and_no_waiting() -> None:
    watcher = Accesses(guest(2))
    watcher.take(0, _rows((5, 100, WRITE, 0), (7, 1, WRITE, 0), (9, 2, READ, 3), (12, 2, READ, 3)))
    watcher.take(1, _rows((4, 2, READ, 0), (6, 200, READ, 0), (8, 2, READ, 0), (10, 2, READ, 1)))
    watcher.take(0, _rows((20, 1, READ, 0), (30, 100, READ, 0)))
    watcher.take(1, _rows((40, 1, READ, 0)))
    agents = _rows((0, 100, WRITE, 0))
    watcher.take(2, agents)
    hidden = _rows((50, 1, READ, 0))
    hidden["flags"] = UNCACHED
    watcher.take(0, hidden)
    shared = watcher.shared("word")
    # Core 0 at 7, 9 and 20, without its waiting at 12; core 1 at 4, 10 and 40, without its waiting at 8.
    assert shared.first.tolist() == [0, 3, 6]
    assert shared.word.tolist() == shared.variable.tolist() == [0, 1, 0, 1, 1, 0]
    assert shared.writes.tolist() == [True, False, False, False, False, False]
    assert shared.gap.tolist() == [7, 2, 8, 4, 2, 30]
    assert shared.rest.tolist() == [10, 0]
    assert shared.spun == 2


def test_symbols_are_variables() -> None:
    watcher = Accesses(guest(2, ((8, 16),)))
    watcher.take(0, _rows((1, 1, WRITE, 0), (2, 7, READ, 0)))
    watcher.take(1, _rows((1, 2, READ, 0)))
    shared = watcher.shared("symbol")
    assert (shared.word.tolist(), shared.variable.tolist()) == ([0, 1], [0, 0])


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_stride_are_all_of_it(seed: int) -> None:
    parts, whole = linkage_leap.Parts(), Counter()
    collectors = [LinkageCollector(guest(3), writer, "word", ALL) for writer in (parts, whole)]
    for stream, rows in random_turns(seed):
        for collector in collectors:
            collector.take(stream, rows)
    for collector in collectors:
        collector.finish()
    assert parts.of(parts.raw) + parts.raw[HEAD] == whole.raw
    assert all(parts.rows[kind] > 0 for kind in range(5))


def test_logs_are_compared_on_a_small_program() -> None:
    turns, cores = linkage_leap.main(quiet(), ("fig2",), (1, 100))
    assert [row[2:4] for row in turns.rows] == [[n, group] for n in (1, 100) for group in linkage_leap.GROUPS]
    assert [row[1] for row in cores.rows] == [2, 4, 8]
    at = {column.name: number for number, column in enumerate(turns.columns)}
    for row in (*turns.rows, *cores.rows):
        product = row[at["rows"]] * row[at["bytes a row"]] * row[at["LZ4"]]
        assert product == pytest.approx(row[at["LEAP / Stride"]])


@pytest.mark.soak
def test_looks_are_late_in_short_turns() -> None:
    table = linkage_late.late_table(("ring",), (1, 1000))
    short, long = table.rows
    assert short[3] > 10 * long[3]
    # Comparisons can be more than one, and are.
    assert short[5] > 1.01


def test_the_model_runs_on_a_small_program() -> None:
    table, costs = linkage_waits.main(quiet(), ("ring",), "", (2, 4), 4)
    assert len(table.rows) == 4
    assert len(costs.rows) == 6
    at = {column.name: number for number, column in enumerate(table.columns)}
    for row in table.rows:
        assert row[at["LEAP"]] > row[at["Stride"]] > 0
