"""Stride's replayer: bit-exact from the evidence, with no miss record there; altered evidence is found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import FIRMWARE, ROOT, run
from evidence_factory import record_with
from guest import DATA, EXECUTE, WAYS, Code, elf, run_guest, write_schedule
from guest import READ as READ_PAGE
from guest import WRITE as WRITE_PAGE
from guest_bodies import finish, start
from linkage_factory import MEMORY, Frames, guest, random_turns
from linkage_replay_twin import ReplayTwin
from linkage_twin import Twin
from random_code import random_program
from replay_factory import altered, stripped

import corebraid
from corebraid.base.errors import Contradiction, CorebraidError, Divergence, UsageError
from corebraid.base.rows.event import EVENT, READ, WRITE
from emu.bus.cache import CacheGeometry
from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.linkage import collector as linkage
from recorder.evidence.linkage.codec import (
    ALL,
    BOUND,
    CHECK,
    DOUBLE,
    FETCH,
    FOLLOW,
    ORDER,
    PAPERS,
    PREDICT,
    RUNS,
    SHARE,
    VALUE,
)
from recorder.evidence.linkage.collector import LinkageCollector
from recorder.files.reader import Recording
from solver.evidence.linkage.log import LinkageLog, linkage_log, read_linkage
from solver.evidence.linkage.replay.group import Threads, replay_alone, replay_together
from solver.evidence.linkage.replay.memory import add_entry, entry_as_of, new_memory
from solver.evidence.linkage.replay.stream import COMPARED, LINKED, do_rows, new_replay
from solver.evidence.linkage.replay.table import replay_at, table_of
from solver.evidence.linkage.replay.turns import FAILED, STUCK, SWITCHES, WAITS, WHY, new_turns

LINUX = ROOT / "firmware" / "linux" / "x86_64"
N_CORES = 3
PROGRAMS = [
    "uts", "radix", "ring", "peterson", "spin_mcs", "bug_aba", "bug_lost_update", "laplace", "smc", "timer",
    "dma_race", "primitives", "fig1", "pgas_guppie", "pgas_uts", "fault_ud", "stride_fig2",
]  # fmt: skip


def recorded(program: str, path: Path, cores: int = 3, **options: Any) -> Recording:
    """A firmware program with Stride's evidence."""
    given = options.pop("evidence_options", {"group": "word"})
    return record_with(
        FIRMWARE / f"{program}.elf", path, cores=cores, evidence=("linkage",), evidence_options=given,
        strata=StrataPolicy(cycles=5000), limit=200_000, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def racy(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A recording with races, in short turns."""
    path = tmp_path_factory.mktemp("racy") / "rec"
    return recorded("bug_lost_update", path, seed=6, longest_slice=40)


# -- the replay ----------------------------------------------------------------------------------------------


def parts_of(what: Any) -> list[Any]:
    """The arrays and numbers that it is made of."""
    return [leaf for part in what for leaf in parts_of(part)] if isinstance(what, tuple) else [what]


def test_hooks_find_everything_where_it_is(racy: Recording) -> None:
    log, (turns, _) = read_linkage(racy, with_values=True), new_turns(N_CORES + 1)
    replay = new_replay(log, new_memory(log, np.zeros(MEMORY, np.uint8)), turns)
    table = table_of(replay)
    mine, theirs = parts_of(replay), parts_of(replay_at(np.uint64(table.ctypes.data)))
    assert len(mine) == len(theirs)
    for place, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if not isinstance(one, np.ndarray):
            assert one == other, place
            continue
        assert (one.ctypes.data, one.shape) == (other.ctypes.data, other.shape), place
        assert one.dtype.itemsize == other.dtype.itemsize, place


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("cores", "seed", "group"), [(2, 1, "word"), (4, 2, "line"), (3, 4, "word")])
@pytest.mark.sampled(12)
def test_all_cores_together_without_miss_records(
    program: str, cores: int, seed: int, group: str, tmp_path: Path
) -> None:
    recording = recorded(
        program, tmp_path / "rec", cores, seed=seed, evidence_options={"group": group},
        longest_slice={1: 500, 2: 5000, 4: 40}[seed],
        cache=CacheGeometry.parse("1k:2:32" if seed == 4 else "unbounded"),
    )  # fmt: skip
    alone = stripped(recording, tmp_path / "stripped")
    assert not (alone.path / "truth.log").exists()
    result = replay_together(alone)
    assert [core.instructions for core in result.cores] == list(recording.manifest.instructions)
    assert sum(core.accesses for core in result.cores) > 0
    assert all(core.registers == recording.manifest.totals["strata"] + 1 for core in result.cores)
    assert all(core.checks > 0 for core in result.cores if core.accesses)


@pytest.mark.parametrize("program", ["uts", "smc", "timer", "dma_race", "pgas_uts", "bug_aba"])
def test_a_core_alone_from_its_read_log(program: str, tmp_path: Path) -> None:
    said = {"group": "line", "read_values": "all"}
    recording = recorded(program, tmp_path / "rec", 3, seed=3, longest_slice=300, evidence_options=said)
    alone = stripped(recording, tmp_path / "stripped")
    (alone.path / "agent.log").unlink(missing_ok=True)
    for core in range(3):
        others = [path for path in alone.path.glob("core-*.log") if path.name != f"core-{core}.log"]
        kept = {path: path.read_bytes() for path in others}
        for path in others:
            path.unlink()
        (result,) = replay_alone(alone, core).cores
        assert result.instructions == recording.manifest.instructions[core]
        for path, data in kept.items():
            path.write_bytes(data)


def test_a_core_alone_needs_all_values(racy: Recording) -> None:
    with pytest.raises(UsageError, match="leaves out values"):
        replay_alone(racy, 0)
    with pytest.raises(UsageError, match="no such core"):
        replay_alone(racy, 3)


def test_words_of_symbols_are_one_variable(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    corebraid.record(
        FIRMWARE / "radix.elf", path, cores=3, evidence="linkage", group="symbol", read_values="all",
        strata="cycles:5000",
    )  # fmt: skip
    together = corebraid.linkage(path, replay=True).facts()
    assert together["bit_exact"]
    assert corebraid.linkage(path, replay=True, core=1).facts()["cores"][0]["accesses"] > 0  # type: ignore[index]


@pytest.mark.parametrize("program", ["mutexes", "jit", "semaphores", "signals"])
@pytest.mark.sampled(1)
def test_linux_programs(program: str, tmp_path: Path) -> None:
    path = tmp_path / "rec"
    corebraid.record(
        LINUX / program,
        path,
        cores=3,
        evidence="linkage",
        read_values="all",
        strata="cycles:20000",
        slice=700,
    )
    recording = stripped(Recording.open(path), tmp_path / "stripped")
    result = replay_together(recording)
    assert [core.instructions for core in result.cores] == list(recording.manifest.instructions)
    assert result.agents > 0
    assert replay_alone(recording, 1).cores[0].instructions == recording.manifest.instructions[1]


CODE_PAGE = 0x180000


def test_code_that_came_as_data(tmp_path: Path) -> None:
    """Core 1 reads one word of a line, and then runs what core 0 wrote into the rest of it: no fetch brings
    that."""
    code = start(Code()).split("writes", "runs").label("writes")
    code.mov("rax", 7).store(CODE_PAGE, "rax")
    code.mov("rax", int.from_bytes(bytes.fromhex("b8 2a 00 00 00 c3 90 90"), "little"))
    code.store(CODE_PAGE + 8, "rax").mov("rax", 1).store(DATA, "rax").jump("done")
    code.label("runs").load("rax", DATA).compare("rax", 1).jump_if("nz", "runs")
    code.load("rcx", CODE_PAGE).mov("rdx", CODE_PAGE + 8).raw("ff d2").store(DATA + 64, "rax")
    finish(code.label("done"))
    rights = READ_PAGE | WRITE_PAGE | EXECUTE
    program = elf(tmp_path / "late.elf", code, [(CODE_PAGE, b"", 0x1000, rights)])
    for seed in range(4):
        ran = run_guest(
            program, tmp_path / f"rec-{seed}", 2, seed=seed, longest_slice=5, evidence=("linkage",),
            evidence_options={"group": "word"}, strata="cycles:100",
        )  # fmt: skip
        result = replay_together(stripped(ran.recording, tmp_path / f"stripped-{seed}"))
        assert [core.instructions for core in result.cores] == list(ran.recording.manifest.instructions)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.sampled(1)
def test_random_guests(seed: int, tmp_path: Path) -> None:
    """Accesses of all sizes over two words, atomic pairs, stores into running code, under exact schedules."""
    draw = random.Random(seed)
    places = [DATA + 8 + draw.randrange(64) for _ in range(3)]
    program = random_program(tmp_path / "random.elf", draw, places, 3)
    for number, (longest, strata, cache) in enumerate(WAYS):
        schedule = write_schedule(tmp_path / f"schedule-{number}", 3, seed, longest)
        said = {"group": ("word", "line")[number % 2], "read_values": ("needed", "all")[number % 3 == 0]}
        ran = run_guest(
            program, tmp_path / f"rec-{number}", 3, cache=cache, strata=strata, schedule=str(schedule),
            evidence=("linkage",), evidence_options=said,
        )  # fmt: skip
        recording = stripped(ran.recording, tmp_path / f"stripped-{number}")
        result = replay_together(recording)
        assert [core.instructions for core in result.cores] == list(recording.manifest.instructions)
        if said["read_values"] == "all":
            assert replay_alone(recording, 1).cores[0].accesses == result.cores[1].accesses


def test_what_the_command_says(racy: Recording) -> None:
    ran = run("linkage", racy.path, "--replay")
    assert ran.code == 0, ran.err
    assert ran.out.count("bit-exact") == 3
    assert "not read     miss records" in ran.out
    facts = json.loads(run("linkage", racy.path, "--replay", "--json").out)
    assert facts["replay"] == "together"
    assert facts["elsewhere"]["contexts"] == 3
    assert run("linkage", racy.path, "--core", "1").code == 2


# -- altered evidence ----------------------------------------------------------------------------------------


def other_values(_: int, table: Any) -> None:
    table[:, 0] ^= np.uint64(1)


def late_bounds(_: int, table: Any) -> None:
    table[:, 0] += np.uint64(1 << 20)


def early_bounds(_: int, table: Any) -> None:
    table[:, 0] //= np.uint64(2)


def other_writers(_: int, table: Any) -> None:
    table[:, 1] = np.roll(table[:, 1], 1)


def fewer_writes(_: int, table: Any) -> None:
    table[:, 2] = np.maximum(table[:, 2] // np.uint64(2), np.uint64(1))


def other_shares(_: int, table: Any) -> None:
    table[:, 3] += np.uint64(1)


@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        (VALUE, other_values, "the value of this read is of no write up to its bound"),
        (BOUND, late_bounds, "nobody makes the version for which it waits: core"),
        (BOUND, early_bounds, "event"),
        (ORDER, other_writers, ""),
        (ORDER, fewer_writes, "nobody makes the version"),
        (SHARE, other_shares, "nobody makes the version"),
    ],
)
def test_altered_evidence_is_named(
    kind: int, change: Callable[[int, Any], None], named: str, racy: Recording, tmp_path: Path
) -> None:
    other = altered(racy, tmp_path / "other", kind, change)
    ran = run("linkage", other.path, "--replay")
    assert ran.code == 1
    assert "contradicts the replay" in ran.err or "diverged" in ran.err
    assert named in ran.err
    assert "core " in ran.err
    with pytest.raises((Contradiction, Divergence)):
        corebraid.linkage(other.path, replay=True)


@pytest.mark.parametrize("core", range(3))
@pytest.mark.parametrize("kind", [VALUE, BOUND])
def test_one_altered_row_is_found(kind: int, core: int, racy: Recording, tmp_path: Path) -> None:
    """A value in the middle; a bound that is one write lower than what was read by its version."""
    changed = []

    def change(stream: int, table: Any) -> None:
        if stream == core and not changed:
            row = len(table) // 2
            table[row, 0] = table[row, 0] ^ np.uint64(0x40) if kind == VALUE else np.uint64(1 << 30)
            changed.append(row)

    other = altered(racy, tmp_path / "other", kind, change)
    assert changed
    with pytest.raises((Contradiction, Divergence)) as caught:
        replay_together(other)
    assert f"core {core}" in str(caught.value)


@pytest.mark.parametrize(("kind", "column"), [(FETCH, 0), (FETCH, 2), (CHECK, 1)])
def test_other_steps_are_another_run(kind: int, column: int, racy: Recording, tmp_path: Path) -> None:
    def change(stream: int, table: Any) -> None:
        if stream == 1:
            table[-1, column] += np.uint64(8)

    other = altered(racy, tmp_path / "other", kind, change)
    with pytest.raises(CorebraidError) as caught:
        replay_together(other)
    assert caught.value.exit_code == 1


def test_evidence_of_earlier_versions_has_no_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linkage, "REPLAYED", 0)
    recording = recorded("fig1", tmp_path / "rec")
    with pytest.raises(UsageError, match="recorded by a version"):
        replay_together(recording)
    assert run("linkage", recording.path).code == 0


# -- the twin ------------------------------------------------------------------------------------------------


def variable_of(group: str) -> Callable[[int], int]:
    return lambda address: address >> 6 if group == "line" else address >> 3


def taken(turns: list[tuple[int, Any]], group: str, compressions: int) -> tuple[Twin, Frames]:
    """The recorder and its twin after the same turns."""
    frames = Frames()
    collector = LinkageCollector(guest(N_CORES), frames, group, compressions)
    twin = Twin(variable_of(group), N_CORES, compressions, linkage.SHADOW_BITS, linkage.SEEN_BITS)
    for stream, rows in turns:
        twin.take(stream, rows)
        collector.take(stream, rows)
    twin.finish()
    collector.finish()
    return twin, frames


def replayed(
    frames: Frames, turns: list[tuple[int, Any]], change: Callable[[LinkageLog], LinkageLog] = lambda log: log
) -> Any:
    """The kernels, with a thread for each stream. change: what is done to the evidence before."""
    log = change(linkage_log(frames.items(N_CORES + 1), N_CORES + 1, "evidence", with_values=True))
    turned, semaphores = new_turns(N_CORES + 1)
    replay = new_replay(log, new_memory(log, np.zeros(MEMORY, np.uint8)), turned)
    threads, own = Threads(replay), np.zeros(MEMORY, np.uint8)
    for stream in range(N_CORES + 1):
        rows = np.concatenate([np.zeros(0, EVENT), *(some for one, some in turns if one == stream)])
        threads.add(stream, lambda stream=stream, rows=rows: do_rows(replay, stream, rows, own))  # type: ignore[misc]
    threads.run()
    assert len(semaphores)
    return replay


@pytest.mark.parametrize("group", ["word", "line"])
@pytest.mark.parametrize("compressions", [0, PREDICT, RUNS, DOUBLE, PAPERS, FOLLOW, ALL])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(8)
def test_the_replayer_is_its_twin(group: str, compressions: int, seed: int) -> None:
    turns = random_turns(seed)
    twin, frames = taken(turns, group, compressions)
    naive = ReplayTwin(twin, turns, bytes(MEMORY))
    assert naive.run()
    replay = replayed(frames, turns)
    assert replay.turns.state[FAILED] == 0
    for variable in twin.shares:
        slot = int(replay.log.shares.slot_of[variable]) - 1
        assert replay.memory.made[slot] == naive.made[variable]
    for number, stream in enumerate(naive.streams):
        reads = [int(row["old"]) for row in stream.rows if row["kind"] != WRITE and not row["flags"] & 1]
        assert naive.read[number] == reads
        assert replay.own[number, LINKED] == stream.linked
        assert replay.own[number, COMPARED] == stream.compared
        assert replay.turns.streams[number, WAITS] == stream.waits
    assert replay.turns.state[SWITCHES] == naive.switches


def test_versions_are_found_however_far_others_have_run() -> None:
    """The leaps in a list of versions: every version of one that has many, and gaps."""
    turns = random_turns(0)
    log = linkage_log(taken(turns, "word", ALL)[1].items(N_CORES + 1), N_CORES + 1, "evidence")
    memory = new_memory(log, np.zeros(MEMORY, np.uint8))
    versions = [2 * k + 1 + (k % 3 == 0) for k in range(min(150, len(memory.entries) - 2))]
    for version in versions:
        add_entry(memory, np.uint64(5), version, np.uint64(version))
    for asked in range(versions[-1] + 3):
        found = int(entry_as_of(memory, np.uint64(5), asked))
        expected = [version for version in versions if version <= asked]
        assert int(memory.entries[found]["version"]) == (expected[-1] if expected else 0)


def test_logs_that_wait_for_each_other_are_told() -> None:
    """Core 0 writes x, then y; core 1 y, then x. In the order of x core 1 is made the first."""
    turns = []
    for stream, kind, places in ((0, READ, "xy"), (1, READ, "xy"), (0, WRITE, "xy"), (1, WRITE, "yx")):
        rows = np.zeros(2, EVENT)
        for k, place in enumerate(places):
            rows[k]["seq"] = rows[k]["count"] = k + (2 if kind == WRITE else 0)
            rows[k]["addr"], rows[k]["size"] = {"x": 0x1000, "y": 0x1008}[place], 8
            rows[k]["core"], rows[k]["kind"] = stream, kind
        turns.append((stream, rows))
    _, frames = taken(turns, "word", 0)
    assert replayed(frames, turns).turns.state[FAILED] == 0

    def other_order(log: LinkageLog) -> LinkageLog:
        log.runs.version[:2] = 3 - log.runs.version[:2]
        return log

    state = replayed(frames, turns, other_order).turns.state
    assert (state[FAILED], state[WHY]) == (1, STUCK)
