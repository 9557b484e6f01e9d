"""Replay sets of threads: what each thread read that it did not know, and who of the set wrote it, against a
plain walk over the order that really ran."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cli_factory import ROOT, record, run

from bench.true_order import held_traces, in_true_order
from corebraid.base.rows.event import EVENT, FETCH, READ, UNCACHED, WRITE
from corebraid.names.threads import Threads, all_threads, cores_of_threads
from corebraid.study.evidence.opr_threads import thread_group
from emu.bus.sync_points import ENTER, LEAVE
from recorder.evidence.opr.log import read_opr
from recorder.files.reader import Recording, iter_sealed_truth
from solver.evidence.opr.by_thread import InOrder, ThreadValues
from solver.evidence.opr.order_log import WAIT, OrderLog

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"
Value = tuple[int, int, int, int]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Threads that take a mutex from each other, more of them than cores."""
    path = tmp_path_factory.mktemp("threads") / "rec"
    options = ("--evidence", "opr", "--cores", 2, "--slice", 400)
    recorded = run("record", "-o", path, *options, PROGRAMS / "mutexes")
    assert recorded.code == 0, recorded.err
    return Recording.open(path)


def naive(recording: Recording, threads: tuple[int, ...]) -> dict[int, list[tuple[Value, int]]]:
    """Of each thread its new values in program order, (address, size, value, core), and the thread that
    really wrote the last of the bytes that it had not written itself, 0 for none of the set."""
    traces = held_traces(recording)
    rows = in_true_order(traces, np.concatenate(list(iter_sealed_truth(recording))))
    who = Threads(recording).of(rows, called=False).tolist()
    knows: dict[int, dict[int, int]] = {thread: {} for thread in threads}
    wrote: dict[int, tuple[int, int]] = {}
    found: dict[int, list[tuple[Value, int]]] = {thread: [] for thread in threads}
    cores = recording.manifest.n_cores
    for now, (row, thread) in enumerate(zip(rows, who, strict=True)):
        addr, size, kind, flags = (int(row[name]) for name in ("addr", "size", "kind", "flags"))
        if flags & (FETCH | UNCACHED):
            continue
        places = range(addr, addr + size)
        own = int(row["core"]) < cores
        old, new = (int(row[name]).to_bytes(8, "little")[:size] for name in ("old", "new"))
        if own and thread in knows:
            mine = knows[thread]
            if kind != WRITE and any(mine.get(a) != b for a, b in zip(places, old, strict=True)):
                last = max(
                    (wrote.get(a, (-1, 0)) for a in places if wrote.get(a, (-1, 0))[1] != thread),
                    default=(-1, 0),
                )
                found[thread].append(((addr, size, int(row["old"]), int(row["core"])), last[1]))
                mine.update(zip(places, old, strict=True))
            if kind != READ:
                mine.update(zip(places, new, strict=True))
        if kind != READ:
            writer = thread if own and thread in knows else 0
            wrote.update(dict.fromkeys(places, (now, writer)))
    return found


@pytest.mark.soak
def test_new_values_of_threads_are_those_of_the_run(recording: Recording) -> None:
    threads = tuple(all_threads(recording))
    # Threads move between cores, so that what is new to one is not what is new to its core.
    assert len(threads) > 2
    assert any(len(cores) > 1 for cores in cores_of_threads(recording).values())
    group = thread_group(recording, read_opr(recording), ",".join(map(str, threads)), relaxed=False)
    expected = naive(recording, threads)
    right = wrong = 0
    for place, thread in enumerate(threads):
        mine = group.values[group.values["reader"] == place]
        seen = [(int(r["addr"]), int(r["size"]), int(r["value"]), int(r["core"])) for r in mine]
        assert seen == [value for value, _ in expected[thread]]
        said = [0 if r["writer"] < 0 else threads[int(r["writer"])] for r in mine]
        truth = [writer for _, writer in expected[thread]]
        right += sum(a == b for a, b in zip(said, truth, strict=True) if b)
        wrong += sum(a != b for a, b in zip(said, truth, strict=True) if a or b)
    assert group.given_up == 0
    assert right > 50
    assert right / (right + wrong) > 0.9


def test_a_set_of_some_threads(recording: Recording) -> None:
    first, *others = all_threads(recording)
    group = thread_group(recording, read_opr(recording), f" {first}, {others[0]}", relaxed=True)
    assert group.threads == tuple(sorted((first, others[0])))
    assert set(group.matrix()) <= {(a, b) for a in (0, *group.threads) for b in group.threads if a != b}
    assert sum(group.matrix().values()) == len(group.values) > 50
    ran = run("opr", recording.path, "--threads", f"{first},{others[0]}", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)["by_thread"]
    assert told["threads"] == list(group.threads)
    shown = run("opr", recording.path, "--threads", f"{first},{others[0]}", "--list")
    assert "new values by thread (on cores 0, 1" in shown.out
    assert shown.out.count("outside the set") > 5


def test_wrong_sets(recording: Recording, tmp_path: Path) -> None:
    first = all_threads(recording)[0]
    for text, what in (
        ("9999", "no such thread"),
        (f"{first},{first}", "no such set of threads"),
        ("", "no such"),
    ):
        ran = run("opr", recording.path, "--threads", text)
        assert (ran.code, what in ran.err) == (2, True), ran.err
    assert record(tmp_path / "rec", "ring", "--cores", 2, "--evidence", "opr").code == 0
    ran = run("opr", tmp_path / "rec", "--threads", "1001")
    assert (ran.code, "firmware has no threads" in ran.err) == (2, True), ran.err
    ran = run("opr", recording.path, "--rset", "0", "--threads", ",".join(map(str, all_threads(recording))))
    assert (ran.code, "a thread ran on a core of which there is no evidence" in ran.err) == (2, True), ran.err


def _events(core: int, *accesses: tuple[int, int, int, int]) -> np.ndarray:
    """Accesses of a core: (count, address, kind, value)."""
    rows = np.zeros(len(accesses), EVENT)
    for row, (count, addr, kind, value) in zip(rows, accesses, strict=True):
        row["core"], row["count"], row["addr"], row["kind"], row["size"] = core, count, addr, kind, 8
        row["old"] = row["new"] = value
    return rows


def test_who_waits_is_behind_whom_it_waits_for_whatever_the_sync_points_say() -> None:
    taken: list[tuple[int, int]] = []

    def take(rows: np.ndarray) -> None:
        taken.extend((int(row["core"]), int(row["count"])) for row in rows)

    pieces = [iter([_events(k, *((c, 8, READ, 0) for c in range(4)))]) for k in range(2)]
    # Core 0's third access waits for core 1's second, and that for core 0's first.
    waits = [np.array([(3, 2, 1)], WAIT), np.array([(2, 1, 0)], WAIT)]
    order = InOrder(pieces, OrderLog(waits), take)
    points = np.zeros(1, [("core", "u1"), ("count", "<u8"), ("way", "u1")])
    points["count"], points["way"] = 3, 1
    order.run(points, (0, 1))
    assert taken == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    circular = [np.array([(1, 1, 1)], WAIT), np.array([(1, 1, 0)], WAIT)]
    pieces = [iter([_events(k, (0, 8, READ, 0))]) for k in range(2)]
    order = InOrder(pieces, OrderLog(circular), take)
    order.run(points[:0], (0, 1))
    assert (order.given_up, Counter(taken[-2:])) == (1, Counter({(0, 0): 1, (1, 0): 1}))


def test_sync_points_say_who_comes_first() -> None:
    taken: list[tuple[int, int]] = []

    def take(rows: np.ndarray) -> None:
        taken.extend((int(row["core"]), int(row["count"])) for row in rows)

    pieces = [iter([_events(k, *((c, 8, READ, 0) for c in range(3)))]) for k in (2, 5)]
    nothing = OrderLog([np.zeros(0, WAIT)] * 2)
    points = np.zeros(4, [("core", "u1"), ("count", "<u8"), ("way", "u1")])
    # Core 5 enters at its count 2; core 2 only leaves; one that is no member enters; then core 2 enters at 1.
    points["core"], points["count"], points["way"] = (
        (5, 2, 3, 2),
        (2, 3, 9, 1),
        (ENTER, LEAVE, ENTER, ENTER | LEAVE),
    )
    InOrder(pieces, nothing, take).run(points, (2, 5))
    assert taken == [(5, 0), (5, 1), (2, 0), (2, 1), (2, 2), (5, 2)]


def test_values_by_hand() -> None:
    found = ThreadValues(2, 1 << 12)
    rows = _events(
        0,
        (0, 8, WRITE, 5),
        (1, 8, READ, 5),
        (2, 8, READ, 5),
        (3, 8, WRITE, 6),
        (4, 8, READ, 7),
        (5, 16, READ, 1),
    )
    # Thread 0 writes and thread 1 reads, on one core; somebody else writes; what is there then is neither's.
    found.take(rows, np.array([0, 0, 1, -1, 1, 0]))
    values = found.values()
    columns = ("reader", "writer", "addr", "value")
    assert [tuple(int(row[name]) for name in columns) for row in values] == [
        (1, 0, 8, 5), (1, -1, 8, 7), (0, -1, 16, 1),
    ]  # fmt: skip
