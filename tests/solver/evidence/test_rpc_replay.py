"""Controlled re-execution: the same execution under any seed, schedule and timing; planted faults are
caught."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cli_factory import FIRMWARE

from bench.soak import expectations
from emu.bus.cache import CacheGeometry
from emu.devices.mail_state import MAIL_EVENT
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import RecordOptions, record
from recorder.evidence.rpc.receipts import Receipts, read_receipts, receipts_of
from recorder.files.reader import Recording
from recorder.replay.core import replay_core
from recorder.replay.mail_trace import RecordedMail, recorded_mail
from solver.evidence.rpc.equivalence import (
    FIRST,
    Comparison,
    Difference,
    Emission,
    Execution,
    compare,
    evidence_difference,
    execution_of,
    process_of,
)
from solver.evidence.rpc.judge import judge
from solver.evidence.rpc.replay import Conditions, Reexecution, reexecute, script_of

PROGRAMS = ("rpc_divide", "rpc_iterate", "rpc_prolog", "rpc_queens", "rpc_slaves", "rpc_strassen")
CORES = (2, 4, 8)
SEEDS = range(10)
#: Schedules, caches and latencies of the ten re-executions.
SCHEDULES = ("random", "round-robin", "pct:3", "random", "pct:8")
CACHES = (None, "4k:2:32", "unbounded", "1k:1:16")
LATENCIES = (1000, 1, 100_000, 30)


class Recorded:
    """A recording, its evidence, and what its isolated replays say."""

    def __init__(self, path: Path, program: str, cores: int, **options: object) -> None:
        printed = bytearray()
        chosen = RecordOptions(cores=cores, evidence=("rpc",), memory_bytes=8 << 20, **options)  # type: ignore[arg-type]
        self.outcome = record(FIRMWARE / f"{program}.elf", path, X86_64, chosen, printed.extend)
        self.printed = bytes(printed)
        self.recording = Recording.open(path)
        self.receipts = read_receipts(self.recording)
        self.mail: RecordedMail = recorded_mail(self.recording)
        self.execution: Execution = execution_of(self.mail.events, self.outcome.end.exit_code)

    def again(self, conditions: Conditions, receipts: Receipts | None) -> tuple[Reexecution, Comparison]:
        """Execute again under these receipts, None for freely, and compare."""
        script = None if receipts is None else script_of(receipts)
        run = reexecute(self.recording, conditions, script)
        return run, compare(self.execution, run.events, run.exit_code)

    def wrong(self, receipts: Receipts) -> Difference | None:
        """What is found to be wrong with these receipts, by a re-execution or else by a comparison."""
        first = self.again(conditions_of(0), receipts)[1].first
        return first or evidence_difference(receipts, self.execution, True)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """Recordings by program and number of cores, made once."""
    folder = tmp_path_factory.mktemp("rpc")

    @cache
    def make(program: str, cores: int) -> Recorded:
        return Recorded(folder / f"{program}-{cores}", program, cores, seed=100 + cores)

    return make


def conditions_of(seed: int) -> Conditions:
    """The re-execution number `seed`: another schedule, cache and latency each time."""
    text = CACHES[seed % len(CACHES)]
    return Conditions(
        seed=seed,
        schedule=SCHEDULES[seed % len(SCHEDULES)],
        longest_slice=(10_000, 300)[seed % 2],
        cache=None if text is None else CacheGeometry.parse(text),
        latency=LATENCIES[seed % len(LATENCIES)],
    )


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.sampled(2)
def test_ten_re_executions_are_equivalent(recorded, program: str, cores: int) -> None:  # type: ignore[no-untyped-def]
    """pytest tests/solver/evidence/test_rpc_replay.py -k 'equivalent and PROGRAM-CORES'."""
    made: Recorded = recorded(program, cores)
    assert expectations().expectation(program, cores).allows(0, made.printed)
    assert made.mail.printed == {0: made.printed}
    for seed in SEEDS:
        run, comparison = made.again(conditions_of(seed), made.receipts)
        assert comparison == Comparison(None, 0, 0), (seed, comparison, run.waiting)
        assert (run.reason, run.left, run.printed) == ("power-off", 0, made.printed), seed
    assert evidence_difference(made.receipts, made.execution, True) is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cores", CORES)
def test_the_farm_diverges_when_free(recorded, cores: int) -> None:  # type: ignore[no-untyped-def]
    """The very conditions under which the controlled executions were equivalent lead elsewhere."""
    made: Recorded = recorded("rpc_queens", cores)
    lists = {made.printed}
    for seed in SEEDS:
        run, comparison = made.again(conditions_of(seed), None)
        assert run.exit_code == 0
        assert comparison.first is not None, seed
        assert comparison.other_histories
        lists.add(run.printed)
    assert len(lists) > 3, "the order of solutions hardly depends on the schedule"


def test_deterministic_programs_print_the_same_when_free(recorded) -> None:  # type: ignore[no-untyped-def]
    for program in PROGRAMS:
        made: Recorded = recorded(program, 4)
        run, _ = made.again(conditions_of(1), None)
        assert run.exit_code == 0
        assert (run.printed == made.printed) == (program != "rpc_queens")


def test_the_same_conditions_give_the_same_execution(recorded) -> None:  # type: ignore[no-untyped-def]
    made: Recorded = recorded("rpc_queens", 4)
    first, second = (made.again(conditions_of(5), made.receipts)[0] for _ in range(2))
    assert first.events.tolist() == second.events.tolist()
    assert first.instructions == second.instructions
    free = made.again(Conditions(seed=104), None)[1]
    assert free.first is None, "the recording's own seed must lead to the recorded execution"


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_core_replays_alone(recorded, program: str) -> None:  # type: ignore[no-untyped-def]
    made: Recorded = recorded(program, 4)
    for core in range(4):
        result = replay_core(made.recording, core)
        assert result.complete
        assert result.count == made.outcome.manifest.instructions[core]


def test_evidence_is_what_the_cores_say(recorded) -> None:  # type: ignore[no-untyped-def]
    """Receipts and tests, once as the machine took them down, once from the isolated replays."""
    for program in PROGRAMS:
        made: Recorded = recorded(program, 4)
        found = receipts_of(made.mail.events, 4)
        assert found.tests == made.receipts.tests
        assert {k: v.tolist() for k, v in found.histories.items()} == {
            k: v.tolist() for k, v in made.receipts.histories.items()
        }
    assert recorded("rpc_queens", 4).receipts.results


def test_evidence_changes_nothing_else(tmp_path: Path) -> None:
    """With and without it the same run, bit for bit."""
    logs = []
    for evidence in ((), ("rpc",)):
        path = tmp_path / f"rec{len(evidence)}"
        record(
            FIRMWARE / "rpc_queens.elf", path, X86_64, RecordOptions(4, 9, evidence=evidence), lambda _: None
        )
        manifest = Recording.open(path).manifest
        logs.append((manifest.instructions, manifest.totals, (path / "core-1.log").read_bytes()[32:100]))
        assert (path / "evidence-rpc.log").exists() == bool(evidence)
    assert logs[0][:2] == logs[1][:2]


def test_tso(tmp_path: Path) -> None:
    made = Recorded(tmp_path / "rec", "rpc_strassen", 4, seed=2, model="tso")
    for seed in range(3):
        run, comparison = made.again(conditions_of(seed), made.receipts)
        assert comparison == Comparison(None, 0, 0)
        assert run.printed == made.printed


def test_a_recording_cut_by_a_limit_is_repeated_as_far_as_it_goes(tmp_path: Path) -> None:
    made = Recorded(tmp_path / "rec", "rpc_queens", 4, seed=2, limit=40_000)
    assert made.outcome.end.reason == "limit"
    for seed in range(4):
        run, comparison = made.again(conditions_of(seed), made.receipts)
        assert comparison.first is None, comparison
        assert (run.reason, run.left) == ("halted", 0)
        assert comparison.cut


def test_what_a_killed_recorder_left_is_repeated(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(instructions: int) -> None:
        if instructions > 2_500_000:
            raise Killed

    path = tmp_path / "rec"
    options = RecordOptions(4, 3, evidence=("rpc",), memory_bytes=8 << 20, input=b"2000 40\n")
    with pytest.raises(Killed):
        record(FIRMWARE / "rpc_slaves.elf", path, X86_64, options, lambda _: None, kill)
    recording = Recording.open(path)
    assert recording.killed
    mail, receipts = recorded_mail(recording), read_receipts(recording)
    assert receipts.requests > 100
    for seed in range(3):
        conditions = replace(conditions_of(seed), input=next(iter(mail.read.values())))
        judgement = judge(recording, mail, receipts, conditions)
        assert judgement.difference is None
        assert judgement.run.reason == "halted"
        assert judgement.run.left == 0


def test_input_reaches_the_program_again(tmp_path: Path) -> None:
    made = Recorded(tmp_path / "rec", "rpc_slaves", 2, seed=1, input=b"20 3\n")
    assert made.printed.startswith(b"rpc_slaves: tasks 159 ")
    assert made.mail.read == {0: b"20 3\n"}
    run, comparison = made.again(replace(conditions_of(1), input=b"20 3\n"), made.receipts)
    assert comparison.first is None
    assert run.printed == made.printed
    _, other = made.again(replace(conditions_of(1), input=b"21 3\n"), made.receipts)
    assert other.first is not None
    assert other.first.kind == "emission"


# -- planted faults --------------------------------------------------------------------------------------


def copy_of(receipts: Receipts) -> Receipts:
    """A copy to be spoilt."""
    histories = {place: history.copy() for place, history in receipts.histories.items()}
    return Receipts(histories, dict(receipts.tests))


@pytest.mark.parametrize("program", ["rpc_queens", "rpc_slaves", "rpc_divide"])
def test_a_swapped_receipt_is_caught(recorded, program: str) -> None:  # type: ignore[no-untyped-def]
    """Every pair of neighbours swapped, one after the other, in the longest history and in a random one."""
    made: Recorded = recorded(program, 4)
    draw = random.Random(program)
    places = [place for place, history in made.receipts.histories.items() if len(history) > 1]
    for _ in range(12):
        place = draw.choice(places)
        spoilt = copy_of(made.receipts)
        history = spoilt.histories[place]
        at = draw.randrange(len(history) - 1)
        history[[at, at + 1]] = history[[at + 1, at]]
        run, comparison = made.again(conditions_of(0), spoilt)
        assert comparison.first is not None, (place, at)
        if run.reason == "halted":
            assert run.waiting is not None
            assert run.waiting.lines


def test_a_swapped_receipt_is_named(recorded) -> None:  # type: ignore[no-untyped-def]
    made: Recorded = recorded("rpc_queens", 4)
    spoilt = copy_of(made.receipts)
    spoilt.histories[0, 2][[3, 4]] = spoilt.histories[0, 2][[4, 3]]
    _, comparison = made.again(conditions_of(0), spoilt)
    assert comparison.first is not None
    assert comparison.first.what == "receipt 3 of entry point 2 of virtual processor 0"
    assert comparison.first.process == (0, 2, 3)
    assert comparison.first.request == int(spoilt.histories[0, 2][3])


def test_a_lost_receipt_is_caught(recorded) -> None:  # type: ignore[no-untyped-def]
    made: Recorded = recorded("rpc_queens", 4)
    spoilt = copy_of(made.receipts)
    spoilt.histories[0, 1] = np.delete(spoilt.histories[0, 1], 7)
    _, comparison = made.again(conditions_of(0), spoilt)
    assert comparison.first is not None
    spoilt.histories[0, 1] = made.receipts.histories[0, 1][:-1]
    run, comparison = made.again(conditions_of(0), spoilt)
    assert run.reason == "halted"
    assert comparison.first is not None
    assert run.waiting is not None
    assert any("all that the record knows" in line for line in run.waiting.lines)


@pytest.mark.parametrize("change", [(1, False), (0, True), (-1, False), (1, True)])
def test_a_wrong_test_result_is_caught(recorded, change: tuple[int, bool]) -> None:  # type: ignore[no-untyped-def]
    """One more or one less 'not yet', or another last answer."""
    made: Recorded = recorded("rpc_queens", 4)
    draw = random.Random(str(change))
    caught = 0
    for number in draw.sample(sorted(made.receipts.tests), 8):
        noes, yes = made.receipts.tests[number]
        wrong = (noes + change[0], yes != change[1])
        if wrong[0] < 0:
            continue
        spoilt = copy_of(made.receipts)
        spoilt.tests[number] = wrong
        assert made.wrong(spoilt) is not None, (number, wrong)
        caught += 1
    assert caught


# -- the definition --------------------------------------------------------------------------------------


def sent(process: tuple[int, int, int], *numbers: int, reply: int | None = None) -> list[Emission]:
    """A history of emissions: requests to (1, 1), then perhaps a result."""
    base = process[0] << 56 | process[1] << 48 | process[2] << 24
    emissions = [Emission(1, 1, False, base + k, (word,)) for k, word in enumerate(numbers)]
    return emissions + ([Emission(0, 1, True, 5, (reply,))] if reply is not None else [])


def test_definition_4_on_small_executions() -> None:
    """compare() against the definition itself, on all executions of two processes and a few words."""
    rng = random.Random(6)
    other: tuple[int, int, int] = (1, 1, 0)
    for _ in range(300):
        a, b = Execution(exit_code=0), Execution(exit_code=0)
        for execution in (a, b):
            execution.receive((1, 1), 5)
            words = [rng.randrange(2) for _ in range(rng.randrange(3))]
            execution.emissions[FIRST] = sent(FIRST, *words)
            execution.emissions[other] = sent(other, *words[:1], reply=rng.randrange(2))
        rows = np.zeros(1 + sum(map(len, b.emissions.values())), MAIL_EVENT)
        rows[0] = (2, 1, 1 << 8 | 1 << 16, 5, 0, 0, 0, 0)
        at = 1
        for process, emissions in b.emissions.items():
            for emission in emissions:
                kind = 2 if emission.is_reply else 1
                head = emission.core | emission.entry << 8 | kind << 16 | 1 << 20
                rows[at] = (1, process[0], head, emission.id, emission.words[0], 0, 0, 0)
                at += 1
        found = compare(a, rows, 0)
        assert (found.first is None) == (a.emissions == b.emissions)


def test_a_process_that_did_not_end_may_be_cut() -> None:
    a = Execution(exit_code=0)
    a.emissions[1, 1, 0] = sent((1, 1, 0), 4, 5)
    rows = np.zeros(1, MAIL_EVENT)
    first = a.emissions[1, 1, 0][0]
    rows[0] = (1, 1, 1 | 1 << 8 | 1 << 16 | 1 << 20, first.id, 4, 0, 0, 0)
    assert compare(a, rows, 0) == Comparison(None, 0, 1)
    rows["w0"] = 6
    difference = compare(a, rows, 0).first
    assert difference is not None
    assert difference.process == (1, 1, 0) == process_of(first.id)
    assert compare(a, rows[:0], 1).first is not None, "another exit code"
