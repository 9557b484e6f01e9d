"""LightPlay's other benchmarks: the model of what cores wait for by hand and by a twin, devices that agree,
steps timed apart."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pytest
from lightplay_factory import interleavings, is_correct, random_instance
from line_twin import Lines
from rich.console import Console

from bench import lightplay_ahead, lightplay_devices, lightplay_stages, lightplay_total, report
from bench.lightplay_devices import NO_GPU, SIMULATOR, chosen, numba_search, phases_table, python_search
from bench.lightplay_total import APART, PLAIN, SLICES, TOTAL, model
from bench.linkage_waits import Costs
from bench.programs import image
from bench.shared_accesses import SharedAccesses
from solver.evidence.lightplay.interleavings import count
from solver.evidence.lightplay.search_cuda import PHASES

COSTS = Costs(100, 20, 5)
Core = list[tuple[int, str, int]]


@pytest.fixture(autouse=True)
def _results_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path / "out")


def quiet() -> Console:
    """A console that prints nowhere."""
    return Console(file=io.StringIO(), width=300)


def of(*cores: Core, rest: tuple[int, ...] = ()) -> SharedAccesses:
    """A run: of each core (word, "R" or "W", gap)."""
    flat = [access for core in cores for access in core]
    first = np.cumsum([0, *(len(core) for core in cores)]).astype(np.int64)
    words = np.array([word for word, _, _ in flat], np.int64)
    writes = np.array([does == "W" for _, does, _ in flat], np.bool_)
    gaps = np.array([gap for _, _, gap in flat], np.int64)
    return SharedAccesses(first, words, words.copy(), writes, gaps, np.array(rest or [0] * len(cores)), 0)


def test_one_core_by_hand() -> None:
    run = of([(0, "W", 10), (0, "R", 10)], rest=(3,))
    assert model(run, PLAIN, COSTS) == (123, 0, 0)
    # The lock's line, two atomic instructions, two rows.
    assert model(run, TOTAL, COSTS) == (123 + 100 + 2 * 20 + 2 * 5, 0, 0)
    # The counter's line, two atomic instructions, four rows.
    assert model(run, SLICES, COSTS, 2) == (123 + 100 + 2 * 20 + 4 * 5, 0, 0)
    # The second begins a slice: it looks at the word that was written, and counts back.
    assert model(run, SLICES, COSTS, 1) == (123 + 100 + 2 * 20 + 4 * 5 + 5 + 20, 0, 1)


def test_who_comes_later_waits_for_the_lock_and_hardly_for_the_counter() -> None:
    run = of([(0, "R", 0)], [(1, "R", 0)])
    assert model(run, PLAIN, COSTS) == (100, 0, 0)
    # The first has the lock from 0 to 225; the second then takes 225 more.
    assert model(run, TOTAL, COSTS) == (450, 225, 0)
    # The counter is had for 120; then each is by itself.
    assert model(run, SLICES, COSTS) == (120 + 120 + 100 + 10, 120, 0)


def test_who_ends_a_slice_waits_for_its_accesses_and_others_for_who_ends_it() -> None:
    # Core 0 writes until 230; core 1 counts up by 240 in the same slice and writes until 350: its last.
    run = of([(0, "W", 0)], [(1, "W", 0)], [(2, "R", 0)])
    # Core 2 has the counter at 240, ends it at 360; waits not, looks at two words, 2 * 105, counts back with
    # the line at hand, 20; then its own access.
    assert model(run, SLICES, COSTS, 2) == (360 + 210 + 20 + 110, 120 + 240, 1)


def twin(cores: list[Core], way: int, costs: Costs, most: int) -> tuple[int, int, int]:
    """The model, written down anew."""
    lines = Lines(costs.transfer)
    now, at, waited, slices = [0] * len(cores), [0] * len(cores), 0, 0
    free = ready = over = 0
    in_slice: list[tuple[int, str]] = []

    while any(at[k] < len(core) for k, core in enumerate(cores)):
        begins = {k: now[k] + core[at[k]][2] for k, core in enumerate(cores) if at[k] < len(core)}
        core = min(begins, key=lambda k: (begins[k], k))
        word, does, _ = cores[core][at[core]]
        at[core] += 1
        time = begins[core]

        def until(when: int, time: int) -> tuple[int, int]:
            return max(time, when), max(0, when - time)

        if way != PLAIN:
            time, lost = until(free, time)
            waited += lost
            time += costs.atomic + lines.get("lock", core, True)
        if way in (SLICES, APART):
            free = time
            if len(in_slice) == most:
                time, lost = until(over, time)
                waited += lost
                for one in dict.fromkeys(w for w, d in in_slice if d == "W" and way == SLICES):
                    time += costs.log + lines.get(one, core, False)
                time += costs.atomic + lines.get("lock", core, True)
                free, ready, slices, in_slice = max(free, time), time, slices + 1, []
            time, lost = until(ready, time)
            waited += lost
            in_slice.append((word, does))
        time += lines.get(word, core, does == "W")
        if way == TOTAL:
            free = time = time + costs.log
        if way in (SLICES, APART):
            time += 2 * costs.log
            over = max(over, time)
        now[core] = time
    return max(now), waited, slices


@pytest.mark.parametrize("seed", range(6))
def test_the_model_is_the_twins(seed: int) -> None:
    draw = random.Random(seed)
    cores = [
        [(draw.randrange(5), draw.choice("RRW"), draw.randrange(90)) for _ in range(40)] for _ in range(4)
    ]
    run = of(*cores)
    for way in (PLAIN, TOTAL, SLICES, APART):
        for most in (1, 3, 16):
            assert model(run, way, COSTS, most) == twin(cores, way, COSTS, most)


def test_total_order_is_modelled_of_a_run() -> None:
    tables = lightplay_total.main(quiet(), ("uts",), "", (2,), 2)
    (row,), costs = tables[0].rows, tables[1].rows
    _, cores, every, shared, *figures = row
    assert isinstance(every, int)
    assert isinstance(shared, int)
    assert (cores, 0 < shared < every, len(costs)) == (2, True, 4)
    assert all(isinstance(one, float) and one >= 0 for one in figures)


@pytest.mark.parametrize("seed", range(8))
def test_python_and_numba_find_what_a_plain_walk_finds(seed: int) -> None:
    one = random_instance(seed, ops=7)
    naive = sum(is_correct(one, order) for order in interleavings(one.sizes))
    assert (python_search(one), numba_search(one)) == (naive, naive)


def test_slices_are_chosen_by_how_many_interleavings_they_have() -> None:
    slices = [random_instance(seed, ops=4 + seed % 4) for seed in range(20)]
    ways = [count(one.sizes) for one in slices]
    found = chosen(slices, 10, 100, 1 << 30)
    assert [count(one.sizes) for one in found] == [n for n in ways if 10 <= n <= 100]
    assert 0 < sum(count(one.sizes) for one in chosen(slices, 10, 100, 150)) <= 150


@pytest.mark.soak
def test_devices_are_measured_and_a_missing_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lightplay_devices, "device", lambda: NO_GPU)
    classes = ((2, 40, 200), (41, 1 << 12, 1 << 13))
    devices, phases = lightplay_devices.main(quiet(), ("peterson",), 4, (1,), classes, 1)
    small, large = devices.rows
    assert small[-2:] == large[-2:] == [NO_GPU, None]
    # Only what is small is left to Python.
    assert isinstance(small[4], float)
    assert large[4] is None
    assert phases.rows[0][3:] == [NO_GPU] * len(PHASES) + [None]


def test_where_the_time_of_a_gpu_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table from what a search says; the search itself runs in the simulator (test_lightplay_cuda.py)."""
    calls: list[bool] = []

    def search(slices: list[object], phases: dict[str, float] | None = None) -> list[object]:
        calls.append(phases is not None)
        if phases is not None:
            phases.update(pack=9.0, copy=0.25, launch=0.25, kernel=3.0, collect=0.5)
        return []

    slices = {"some": [random_instance(1, ops=6)]}
    monkeypatch.setattr(lightplay_devices, "search_cuda", search)
    monkeypatch.setattr(lightplay_devices, "device", lambda: "")
    (row,) = phases_table(slices, ((1, 1 << 20, 1 << 20),)).rows
    # Kernels are compiled before anything is timed.
    assert calls == [False, True]
    assert row[3:] == [9000.0, 250.0, 250.0, 3000.0, 500.0, 75.0]
    monkeypatch.setattr(lightplay_devices, "device", lambda: SIMULATOR)
    (row,) = phases_table(slices, ((1, 1 << 20, 1 << 20),)).rows
    assert row[3:] == [SIMULATOR] * len(PHASES) + [None]


@pytest.mark.soak
def test_steps_are_timed_apart() -> None:
    (table,) = lightplay_stages.main(quiet(), ("litmus",), (2,), (1,))
    _, _, run, searched, fixed, search, replay, fixing, *_ = table.rows[0]
    assert isinstance(searched, int)
    assert isinstance(fixed, int)
    assert 0 < fixed < searched
    for seconds in (run, search, replay, fixing):
        assert isinstance(seconds, float)
        assert seconds > 0


def test_the_search_while_the_program_runs_is_measured() -> None:
    (table,) = lightplay_ahead.main(quiet(), ((image("spin_ticket"), 60),), 1)
    name, turns, instructions, slices, running, ready, lag, *seconds = table.rows[0]
    assert (name, turns) == ("spin_ticket", 60)
    for share in (running, ready):
        assert isinstance(share, float)
        assert 0 <= share <= 100
    for number in (instructions, slices, lag, *seconds):
        assert isinstance(number, int | float)
        assert number > 0
