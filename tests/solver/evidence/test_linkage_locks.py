"""Stride without what locks protect (section V-C): the replay is bit-exact and orders are legal though those
accesses are not logged; a skip that no lock justifies is caught."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import FIRMWARE, ROOT, run
from evidence_factory import record_with
from linkage_factory import MEMORY, Frames, guest
from linkage_locks_twin import LockedTurns
from replay_factory import altered, stripped

import corebraid
from corebraid.base.errors import Contradiction, Divergence, FormatError, UsageError
from corebraid.base.rows.event import EVENT, READ
from emu.bus.cache import CacheGeometry
from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.linkage import collector as linkage
from recorder.evidence.linkage.codec import (
    ALL,
    DOUBLE,
    GUARDED,
    LOOSE,
    LOOSENED,
    OPENED,
    PAPERS,
    SHARE,
)
from recorder.evidence.linkage.collector import LinkageCollector
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.evidence.linkage.engine import LinkageEngine
from solver.evidence.linkage.guarded import guarded_versions
from solver.evidence.linkage.log import LinkageLog, linkage_log, read_linkage
from solver.evidence.linkage.replay.group import Threads, replay_alone, replay_together
from solver.evidence.linkage.replay.memory import new_memory
from solver.evidence.linkage.replay.stream import do_rows, new_replay
from solver.evidence.linkage.replay.turns import FAILED, new_turns
from solver.passes.order import Options, order_recording
from solver.regions.problem import Verdict
from solver.regions.region import Region, Rows

LINUX = ROOT / "firmware" / "linux" / "x86_64"
N_CORES = 3
SKIP = {"group": "word", "protected": "skip"}


def recorded(program: str, path: Path, cores: int = 3, **options: Any) -> Recording:
    """A firmware program whose protected accesses are skipped."""
    given = {**SKIP, **options.pop("said", {})}
    return record_with(
        FIRMWARE / f"{program}.elf", path, cores=cores, evidence=("linkage",), evidence_options=given,
        strata=StrataPolicy(cycles=5000), limit=200_000, **options,
    )  # fmt: skip


def verdict_of(recording: Recording) -> Verdict:
    """Of `order --engine linkage`, which the independent checker has passed."""
    engine = LinkageEngine(read_linkage(recording, with_values=True), recording.killed)
    certificate = recording.path / "order.cert"
    options = Options("linkage", evidence=engine)
    return order_recording(RecordingTraces(recording), certificate, recording.manifest.id, options).verdict


def skipped(recording: Recording) -> int:
    """Accesses that are not logged."""
    return int(read_linkage(recording).guards.skipped[0])


# -- kernels -------------------------------------------------------------------------------------------------


class Trusting(LinkageCollector):
    """The plant: whoever is on its turn is taken to hold the first lock there is."""

    def take(self, stream: int, rows: Any) -> None:
        """See `Collector`."""
        guards = self._state.guards
        there = np.flatnonzero(guards.locks["size"])
        if len(there):
            guards.locks["holder"][there[0]] = stream + 1
            guards.held[:, 0] = there[0] + 1
        super().take(stream, rows)


def log_of(
    turns: list[tuple[int, Any]], made: type[LinkageCollector], group: str, compressions: int
) -> LinkageLog:
    """What the collector took down."""
    frames, n = Frames(), N_CORES + 1
    collector = made(guest(N_CORES), frames, group, compressions | GUARDED)
    for stream, rows in turns:
        collector.take(stream, rows)
    collector.finish()
    return linkage_log(frames.items(n), n, "evidence", with_values=True)


def cut_in_three(turns: list[tuple[int, Any]]) -> list[list[tuple[int, Any]]]:
    """As strata cut them."""
    third = len(turns) // 3
    return [turns[:third], turns[third : 2 * third], turns[2 * third :]]


def of_streams(turns: list[tuple[int, Any]]) -> list[Any]:
    """Each stream's rows."""
    empty = np.zeros(0, EVENT)
    return [
        np.concatenate([empty, *(some for one, some in turns if one == stream)])
        for stream in range(N_CORES + 1)
    ]


def region_of(index: int, turns: list[tuple[int, Any]]) -> Region:
    """Of these turns."""
    streams = []
    for rows in of_streams(turns):
        streams.append(Rows())
        if len(rows):
            streams[-1].append(rows)
    return Region(index, streams)


def true_versions(log: LinkageLog, turns: list[tuple[int, Any]], written: dict[int, int]) -> list[int]:
    """Of the skipped accesses, stream after stream, the versions by the order in which the turns ran.
    written: variable -> writes before; brought up to date."""
    found: list[list[int]] = [[] for _ in range(log.streams)]
    shift = int(log.names.shift)
    for stream, rows in turns:
        for row in rows:
            address, number = int(row["addr"]), int(row["seq"])
            last = address + int(row["size"]) - 1
            if row["kind"] != READ:
                for variable in {address >> shift, last >> shift}:
                    written[variable] = written.get(variable, 0) + 1
            slot = int(log.shares.slot_of[address >> shift]) - 1
            if slot < 0 or not log.guards.lock[slot]:
                continue
            private = log.shares.owner[slot] == stream and number < log.shares.events[slot]
            until = log.guards.reads_until if row["kind"] == READ else log.guards.until
            if not private and number < until[slot * log.streams + stream]:
                found[stream].append(written.get(address >> shift, 0))
    return [version for versions in found for version in versions]


@pytest.mark.parametrize("group", ["word", "line"])
@pytest.mark.parametrize("wrong", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("seed", range(6))
def test_versions_of_skipped_accesses_are_those_of_the_run(group: str, wrong: float, seed: int) -> None:
    turns, written = LockedTurns(seed, wrong, peeks=0.05).turns(160), dict[int, int]()
    log = log_of(turns, LinkageCollector, group, ALL | LOOSE)
    said, many = int(log.guards.skipped[0]), 0
    for index, part in enumerate(cut_in_three(turns)):
        found = guarded_versions(log, region_of(index, part))
        assert found.tolist() == true_versions(log, part, written)
        many += len(found)
    assert many == said > 0
    assert not log.guards.skipped.any()


def replay_of(
    turns: list[tuple[int, Any]], made: type[LinkageCollector], group: str = "word", compressions: int = ALL
) -> bool:
    """Whether the streams can be replayed from what the collector took down, each read as it was."""
    log, n = log_of(turns, made, group, compressions), N_CORES + 1
    turned, semaphores = new_turns(n)
    replay = new_replay(log, new_memory(log, np.zeros(MEMORY, np.uint8)), turned)
    threads, own = Threads(replay), np.zeros((n, MEMORY), np.uint8)
    for stream, rows in enumerate(of_streams(turns)):
        threads.add(stream, lambda stream=stream, rows=rows: do_rows(replay, stream, rows, own[stream]))  # type: ignore[misc]
    threads.run()
    assert len(semaphores)
    return not replay.turns.state[FAILED]


@pytest.mark.parametrize("group", ["word", "line"])
@pytest.mark.parametrize("wrong", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.sampled(20)
def test_every_read_finds_what_it_read(group: str, wrong: float, seed: int) -> None:
    """`do_rows` holds each value against the one that was read, skipped ones included."""
    assert replay_of(LockedTurns(seed, wrong).turns(), LinkageCollector, group)


@pytest.mark.parametrize("group", ["word", "line"])
@pytest.mark.parametrize("compressions", [0, DOUBLE, PAPERS, ALL])
@pytest.mark.parametrize("wrong", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.sampled(40)
def test_reads_without_the_lock_find_what_they_read(
    group: str, compressions: int, wrong: float, seed: int
) -> None:
    turns = LockedTurns(seed, wrong, peeks=0.1).turns(160)
    assert replay_of(turns, LinkageCollector, group, compressions | LOOSE)


def test_a_skip_that_no_lock_justifies_is_caught() -> None:
    """Races on what locks protect, among accesses that keep the rules: found by a recorder that looks."""
    caught = []
    for seed in range(12):
        turns = LockedTurns(seed, 0.3, plain=True).turns()
        assert replay_of(turns, LinkageCollector)
        caught.append(not replay_of(turns, Trusting))
    # Where nothing is caught every read was right all the same: `do_rows` holds them against the run.
    assert sum(caught) >= 10, caught


def test_a_skipped_write_that_no_lock_justifies_is_caught() -> None:
    """The same of what is read without its lock."""
    caught = []
    for seed in range(12):
        turns = LockedTurns(seed, 0.2, plain=True, peeks=0.2).turns()
        assert replay_of(turns, LinkageCollector, compressions=ALL | LOOSE)
        caught.append(not replay_of(turns, Trusting, compressions=ALL | LOOSE))
    assert sum(caught) >= 10, caught


# -- recordings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program", ["pgas_uts", "pgas_fib", "pgas_guppie", "bug_dcl", "bug_lost_update", "primitives", "uts"]
)
@pytest.mark.parametrize(("cores", "seed", "group"), [(2, 1, "word"), (4, 2, "line"), (3, 4, "word")])
@pytest.mark.parametrize("protected", ["skip", "writes"])
@pytest.mark.sampled(4)
def test_firmware(program: str, cores: int, seed: int, group: str, protected: str, tmp_path: Path) -> None:
    recording = recorded(
        program, tmp_path / "rec", cores, seed=seed, said={"group": group, "protected": protected},
        longest_slice={1: 500, 2: 5000, 4: 40}[seed],
        cache=CacheGeometry.parse("1k:2:32" if seed == 4 else "unbounded"),
    )  # fmt: skip
    result = replay_together(stripped(recording, tmp_path / "stripped"))
    assert [core.instructions for core in result.cores] == list(recording.manifest.instructions)
    assert verdict_of(recording) is Verdict.LEGAL


@pytest.mark.parametrize("program", ["mutexes", "histogram", "water", "condvars", "bug_atomicity"])
@pytest.mark.parametrize("protected", ["skip", "writes"])
@pytest.mark.sampled(2)
def test_linux_programs(program: str, protected: str, tmp_path: Path) -> None:
    path = tmp_path / "rec"
    corebraid.record(
        LINUX / program,
        path,
        cores=3,
        evidence="linkage",
        protected=protected,
        strata="cycles:20000",
        slice=700,
    )
    recording = Recording.open(path)
    result = replay_together(stripped(recording, tmp_path / "stripped"))
    assert [core.instructions for core in result.cores] == list(recording.manifest.instructions)
    assert skipped(recording) > 0
    assert verdict_of(recording) is Verdict.LEGAL
    # Reads see what they saw in the run.
    assert run("crosscheck", path, "--truth").code == 0


def test_a_recorder_that_skips_too_much_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plant in a recording: both the replay and the order say that the evidence is not of this run."""
    monkeypatch.setattr(linkage, "LinkageCollector", Trusting)
    recording = recorded("pgas_uts", tmp_path / "rec", 4, seed=2, longest_slice=60)
    assert skipped(recording) > 1000
    with pytest.raises((Contradiction, Divergence)):
        replay_together(recording)
    with pytest.raises(Contradiction):
        verdict_of(recording)


def later(_: int, table: Any) -> None:
    table[:, 2:] += np.uint64(1000)


def more_writes(_: int, table: Any) -> None:
    table[:, 1] += np.uint64(1)


def other_lock(_: int, table: Any) -> None:
    # A word that nobody shares: one stream's own order is then taken to be the lock's.
    table[table[:, 4] > 0, 4] = 1


def born_under(_: int, table: Any) -> None:
    # The same of what is loose from the begin.
    table[table[:, 1] > 0, 1] = 1


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A program with mutexes, some of whose data are also touched without them."""
    path = tmp_path_factory.mktemp("locked") / "rec"
    corebraid.record(
        LINUX / "mutexes",
        path,
        cores=3,
        evidence="linkage",
        protected="writes",
        strata="cycles:20000",
        slice=300,
    )
    return Recording.open(path)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "change"),
    [(OPENED, later), (OPENED, more_writes), (SHARE, other_lock), (LOOSENED, later), (LOOSENED, born_under)],
)
def test_altered_rows_are_found(
    kind: int, change: Callable[[int, Any], None], locked: Recording, tmp_path: Path
) -> None:
    """When a variable was opened or loosened, after how many writes; which lock it was under, which the
    replay needs not know."""
    other = altered(locked, tmp_path / "other", kind, change)
    with pytest.raises(Contradiction):
        verdict_of(other)
    if change in (later, more_writes):
        with pytest.raises((Contradiction, Divergence)):
            replay_together(other)


def loosened_twice(_: int, table: Any) -> None:
    table[:, 0] = table[0, 0]


def no_lock(_: int, table: Any) -> None:
    table[:, 1] = 0


def two_locks(_: int, table: Any) -> None:
    table[table[:, 1] == 0, 1] = 1


@pytest.mark.parametrize("change", [loosened_twice, no_lock, two_locks])
def test_rows_that_contradict_shares_are_refused(
    change: Callable[[int, Any], None], locked: Recording, tmp_path: Path
) -> None:
    other = altered(locked, tmp_path / "other", LOOSENED, change)
    with pytest.raises(FormatError, match="what no lock protects"):
        read_linkage(other)


def test_what_the_commands_say(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    given = ["--cores", "3", "--evidence", "linkage", "--protected", "skip", "--read-values", "all"]
    assert run("record", "-o", path, *given, FIRMWARE / "pgas_fib.elf").code == 0
    ran = run("linkage", path)
    assert ran.code == 0, ran.err
    assert "variables by locks" in ran.out
    assert "accesses skipped" in ran.out
    with pytest.raises(UsageError, match="skips what locks protect"):
        replay_alone(Recording.open(path), 0)
    assert run("linkage", path, "--replay").code == 0
