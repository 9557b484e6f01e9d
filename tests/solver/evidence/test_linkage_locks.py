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
from corebraid.base.errors import Contradiction, Divergence, UsageError
from corebraid.base.rows.event import EVENT
from emu.bus.cache import CacheGeometry
from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.linkage import collector as linkage
from recorder.evidence.linkage.codec import ALL, GUARDED, OPENED, SHARE
from recorder.evidence.linkage.collector import LinkageCollector
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.evidence.linkage.engine import LinkageEngine
from solver.evidence.linkage.log import linkage_log, read_linkage
from solver.evidence.linkage.replay.group import Threads, replay_alone, replay_together
from solver.evidence.linkage.replay.memory import new_memory
from solver.evidence.linkage.replay.stream import do_rows, new_replay
from solver.evidence.linkage.replay.turns import FAILED, new_turns
from solver.passes.order import Options, order_recording
from solver.regions.problem import Verdict

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


def replay_of(turns: list[tuple[int, Any]], made: type[LinkageCollector], group: str = "word") -> bool:
    """Whether the streams can be replayed from what the collector took down, each read as it was."""
    frames, n = Frames(), N_CORES + 1
    collector = made(guest(N_CORES), frames, group, ALL | GUARDED)
    for stream, rows in turns:
        collector.take(stream, rows)
    collector.finish()
    log = linkage_log(frames.items(n), n, "evidence", with_values=True)
    turned, semaphores = new_turns(n)
    replay = new_replay(log, new_memory(log, np.zeros(MEMORY, np.uint8)), turned)
    threads, own = Threads(replay), np.zeros((n, MEMORY), np.uint8)
    for stream in range(n):
        rows = np.concatenate([np.zeros(0, EVENT), *(some for one, some in turns if one == stream)])
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


def test_a_skip_that_no_lock_justifies_is_caught() -> None:
    """Races on what locks protect, among accesses that keep the rules: found by a recorder that looks."""
    caught = []
    for seed in range(12):
        turns = LockedTurns(seed, 0.3, plain=True).turns()
        assert replay_of(turns, LinkageCollector)
        caught.append(not replay_of(turns, Trusting))
    # Where nothing is caught every read was right all the same: `do_rows` holds them against the run.
    assert sum(caught) >= 10, caught


# -- recordings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program", ["pgas_uts", "pgas_fib", "pgas_guppie", "bug_dcl", "bug_lost_update", "primitives", "uts"]
)
@pytest.mark.parametrize(("cores", "seed", "group"), [(2, 1, "word"), (4, 2, "line"), (3, 4, "word")])
@pytest.mark.sampled(2)
def test_firmware(program: str, cores: int, seed: int, group: str, tmp_path: Path) -> None:
    recording = recorded(
        program, tmp_path / "rec", cores, seed=seed, said={"group": group},
        longest_slice={1: 500, 2: 5000, 4: 40}[seed],
        cache=CacheGeometry.parse("1k:2:32" if seed == 4 else "unbounded"),
    )  # fmt: skip
    result = replay_together(stripped(recording, tmp_path / "stripped"))
    assert [core.instructions for core in result.cores] == list(recording.manifest.instructions)
    assert verdict_of(recording) is Verdict.LEGAL


@pytest.mark.parametrize("program", ["mutexes", "histogram", "water", "condvars", "bug_atomicity"])
@pytest.mark.sampled(1)
def test_linux_programs(program: str, tmp_path: Path) -> None:
    path = tmp_path / "rec"
    corebraid.record(
        LINUX / program, path, cores=3, evidence="linkage", protected="skip", strata="cycles:20000", slice=700
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


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A program with mutexes, some of whose data are also touched without them."""
    path = tmp_path_factory.mktemp("locked") / "rec"
    corebraid.record(
        LINUX / "mutexes",
        path,
        cores=3,
        evidence="linkage",
        protected="skip",
        strata="cycles:20000",
        slice=300,
    )
    return Recording.open(path)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "change"), [(OPENED, later), (OPENED, more_writes), (SHARE, other_lock)])
def test_altered_rows_are_found(
    kind: int, change: Callable[[int, Any], None], locked: Recording, tmp_path: Path
) -> None:
    """When a variable was opened, after how many writes; which lock it was under, which the replay needs not
    know."""
    other = altered(locked, tmp_path / "other", kind, change)
    with pytest.raises(Contradiction):
        verdict_of(other)
    if kind == OPENED:
        with pytest.raises((Contradiction, Divergence)):
            replay_together(other)


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
