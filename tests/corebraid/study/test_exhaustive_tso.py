"""`hunt --exhaustive --model tso` on firmware: held against all interleavings of an abstract TSO machine; all
outcomes that x86-TSO allows, and no other; no proof where stores had to commit within a step."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from cli_factory import ROOT, run
from guest import DATA, Code, elf
from step_programs import CONSOLE, PLACES, Order, Program, firmware_of, search, shared_order
from tso_programs import random_tso, tso_runs

import corebraid
from corebraid.base.errors import UsageError
from corebraid.base.rows.event import EVENT
from corebraid.study.exhaustive.buffers import Accesses, Committed, StoreBuffers, Stored
from corebraid.study.exhaustive.claims import lines_of, nothing_proven
from corebraid.study.exhaustive.forking import Made
from corebraid.study.exhaustive.racing import NOTHING, Parts, Touched, racing_words
from corebraid.study.exhaustive.search import Searched
from corebraid.study.exhaustive.steps import Footprint, Step
from corebraid.study.exhaustive.trace import Trace
from emu.board.board import Board
from emu.native.state import CORE_AT
from emu.schedule.step_file import read_steps, step_text
from emu.schedule.stepped import BUFFER

IMAGE = ROOT / "firmware" / "x86_64" / "tiny_races.elf"
DEFAULT = ("exit!=0", "fault", "deadlock")
MFENCE = "0f ae f0"
#: Interleavings of a program at most.
MOST = 2000


# -- against all interleavings -----------------------------------------------------------------------------


def compare(program: Program, path: Path) -> int:
    """Hold a program's executions against its interleavings. Returns how many there are; 0: too many
    interleavings."""
    everything = frozenset(PLACES) | {CONSOLE}
    runs = tso_runs(program, everything, MOST)
    if runs is None:
        return 0
    made: list[Order] = []

    def told(one: Made) -> None:
        if one.run is not None:
            made.append(shared_order(one.followed.execution.steps))

    found = search(firmware_of(program, path), len(program), told=told, model="tso")
    assert found.all_right, found.unfinished
    names = frozenset(name for name, place in PLACES.items() if place // 8 in found.words) | {CONSOLE}
    some = tso_runs(program, names, MOST)
    assert some is not None
    # What is not watched may as well be written at once.
    assert {one.outcome() for one in some} == {one.outcome() for one in runs}, f"{program}"
    expected = {shared_order(one.steps) for one in some}
    orders = made[-found.executions :]
    assert len(set(orders)) == len(orders) == found.executions, f"{program}"
    assert set(orders) == expected, f"{program}"
    return len(orders)


def test_each_execution_once_and_none_missed(tmp_path: Path) -> None:
    assert sum(compare(random_tso(seed), tmp_path / f"{seed}.elf") for seed in range(7)) > 20


@pytest.mark.soak
def test_each_execution_of_many_programs(tmp_path: Path) -> None:
    assert sum(compare(random_tso(seed), tmp_path / f"{seed}.elf") for seed in range(7, 400)) > 700


def test_a_store_that_nobody_watches_is_ordered_once_it_must_have_committed() -> None:
    """Core 0 stores to a word, and loads z; core 1 changes z behind that, and loads the word."""
    word, none = np.array([5], np.uint64), np.zeros(0, np.uint64)
    wrote, read = Touched(word, word, none), Touched(word, none, none)
    steps = [
        Step(0, Footprint({})), Step(0, Footprint({"z": False})),
        Step(BUFFER + 1, Footprint({"z": True})), Step(1, Footprint({}), 2),
    ]  # fmt: skip
    touched = [(NOTHING[0], wrote), NOTHING, NOTHING, (NOTHING[0], read)]
    stored = [Stored(0, 1, 0, 0), Stored(0, 2, 0, 0), None, Stored(1, 1, 1, 1)]

    def found(steps: list[Step], drained: list[list[int]]) -> list[int]:
        return racing_words(Trace(steps), touched, none, Committed(stored, drained))[0]

    assert racing_words(Trace(steps), touched, none)[0] == []
    # It may yet be in the buffer; unless core 0 waited for that to be empty.
    assert found(steps, [[], []]) == [5]
    assert found(steps, [[2], []]) == []
    # A later store of core 0 has committed, which core 1 saw.
    stored[1], stored[2] = Stored(0, 2, 1, 0), None
    later = [*steps[:2], Step(BUFFER, Footprint({"z": True}), 1), Step(1, Footprint({"z": False}))]
    assert found(later, [[], []]) == []


def test_what_was_memory_at_once_needs_no_commit() -> None:
    """Core 0 changes a word in its event; core 1 changes what that has read, waits and loads the word."""
    word, none = np.array([5], np.uint64), np.zeros(0, np.uint64)
    wrote, read = Touched(word, word, none), Touched(word, none, none)
    steps = [
        Step(0, Footprint({"z": False})),
        Step(BUFFER + 1, Footprint({"z": True})),
        Step(1, Footprint({}), 1),
    ]
    after = [NOTHING, (NOTHING[0], read)]

    def found(at_once: bool, touched: Parts) -> list[int]:
        committed = Committed([Stored(0, 1, 0, 0, at_once), None, Stored(1, 1, 1, 1)], [[], []])
        return racing_words(Trace(steps), [touched, *after], none, committed)[0]

    assert found(True, (wrote, NOTHING[0])) == []
    assert found(False, (wrote, NOTHING[0])) == [5]
    # Behind the event there is nothing that says so.
    assert found(True, (NOTHING[0], wrote)) == [5]


@pytest.mark.parametrize(("drains", "plain"), [(True, False), (True, True), (False, False), (False, True)])
def test_only_where_the_buffer_was_empty_and_nothing_was_buffered_is_a_store_memory_at_once(
    drains: bool, plain: bool
) -> None:
    words = {CORE_AT.count: 10, CORE_AT.drains: 11 if drains else 10, CORE_AT.room: 0}
    core = SimpleNamespace(words=words, held_rows=lambda: np.zeros((0, 5), np.uint64))
    nothing = np.zeros(0, EVENT)
    buffers = StoreBuffers(cast(Board, SimpleNamespace(cores=[core])), np.zeros(0, np.uint64))
    buffers.begin(0)
    buffers.step(0, 1000, 0, Accesses(nothing, nothing, plain))
    stored = buffers.committed().stored[0]
    assert stored is not None
    assert stored.at_once == (drains and not plain)


# -- outcomes ----------------------------------------------------------------------------------------------


def outcomes(name: str, cores: int = 2, model: str = "tso") -> set[int | None]:
    """Exit codes of a litmus test, all of whose executions were made."""
    codes = set()

    def told(made: Made) -> None:
        if made.run is not None and made.run.manifest.end is not None:
            codes.add(made.run.manifest.end.exit_code)

    assert search(IMAGE, cores, told=told, data=name.encode(), model=model).all_right
    return codes


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("sb", {0, 1, 2, 3}),
        ("sb+fence", {1, 2, 3}),
        # Each core sees its own store, and not the other's.
        pytest.param("sb+rfi", {0, 1, 2, 3}, marks=pytest.mark.soak),
        ("mp", {0, 1, 3}),
        ("lb", {0, 1, 2}),
        ("corr", {0, 1, 3}),
        ("2+2w", {1, 2, 3}),
    ],
)
@pytest.mark.sampled(3)
def test_litmus_tests_have_the_outcomes_of_x86_tso(name: str, allowed: set[int]) -> None:
    assert outcomes(name) == allowed


def test_without_buffers_each_sees_the_others_store_or_comes_first() -> None:
    assert outcomes("sb+rfi", model="sc") == {1, 2, 3}


@pytest.mark.soak
def test_four_cores_agree_on_the_order_of_two_writes() -> None:
    assert outcomes("iriw", 4) == set(range(16)) - {0b1010}


def n6(path: Path) -> Path:
    """Sewell and others, section 2.2: core 0 sees its own store to x before core 1's to y, and memory is left
    with core 0's. It powers off with 1 then, once both buffers are empty."""
    x, y, done = DATA, DATA + 0x40, DATA + 0x80
    code = Code().split("one", "other")
    code.label("one").mov("rcx", 1).store(x, "rcx").load("rax", x).load("rbx", y).raw(MFENCE)
    code.label("waits").load("rdx", done).compare("rdx", 0).jump_if("z", "waits")
    code.compare("rax", 1).jump_if("nz", "no").compare("rbx", 0).jump_if("nz", "no")
    code.load("rdx", x).compare("rdx", 1).jump_if("nz", "no").power_off(1).label("no").power_off(0)
    code.label("other").mov("rcx", 2).store(y, "rcx").store(x, "rcx").raw(MFENCE)
    return elf(path, code.mov("rcx", 1).store(done, "rcx").halt())


def test_n6_has_an_outcome_that_needs_forwarding(tmp_path: Path) -> None:
    image = n6(tmp_path / "guest.elf")
    under = {model: search(image, 2, ["exit==1"], model=model) for model in ("sc", "tso")}
    assert under["sc"].all_right
    assert under["tso"].failing is not None


@pytest.mark.parametrize("name", ["peterson", pytest.param("dekker", marks=pytest.mark.soak)])
def test_locks_of_loads_and_stores_need_a_fence(name: str) -> None:
    def found(test: str, model: str) -> Searched:
        return search(IMAGE, 2, DEFAULT, data=test.encode(), model=model)

    assert found(name, "sc").all_right
    refuted = found(name, "tso")
    assert refuted.failing is not None
    assert refuted.failing.held == "exit!=0"
    assert found(f"{name}+fence", "tso").all_right


@pytest.mark.parametrize("name", ["spin", "barrier", "publish", "print"])
@pytest.mark.sampled(2)
def test_what_is_right_is_proved(name: str) -> None:
    assert search(IMAGE, 2, DEFAULT, data=name.encode(), model="tso").all_right


@pytest.mark.parametrize(
    ("name", "held"), [("bad_spin", "exit!=0"), ("bad_mcs", "waits for ever"), ("bad_publish", "exit!=0")]
)
def test_what_is_broken_is_refuted(name: str, held: str) -> None:
    found = search(IMAGE, 2, DEFAULT, data=name.encode(), model="tso")
    assert found.failing is not None
    assert found.failing.held == held


# -- loops that wait ---------------------------------------------------------------------------------------


def waiting(path: Path, *, answered: bool) -> Path:
    """Core 0 stores and waits until it sees something else there; core 1 may store that."""
    code = Code().split("waits", "answers").label("waits").mov("rcx", 1).store(DATA, "rcx").label("again")
    code.load("rax", DATA).compare("rax", 1).jump_if("z", "again").halt()
    code.label("answers").load("rbx", DATA).compare("rbx", 1).jump_if("nz", "parks")
    if answered:
        code.mov("rbx", 2).store(DATA, "rbx")
    return elf(path, code.label("parks").halt())


def test_a_loop_that_its_own_buffer_answers_does_not_wait_for_ever(tmp_path: Path) -> None:
    """The store commits, and core 1 answers: that is an execution, and not the only one."""
    code = ["exit==9"]
    found = search(waiting(tmp_path / "a.elf", answered=True), 2, code, model="tso")
    assert found.all_right
    never = search(waiting(tmp_path / "b.elf", answered=False), 2, ["deadlock"], model="tso")
    assert never.failing is not None
    assert never.failing.held == "waits for ever"


# -- what is kept ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def peterson(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """The lock without a fence, refuted."""
    folder = tmp_path_factory.mktemp("exhaustive")
    path, name = folder / "rec", folder / "name"
    name.write_text("peterson")
    ran = run(
        "hunt", "--exhaustive", "--model", "tso", "-o", path, "--cores", 2, "--input", name, "--json", IMAGE
    )
    assert ran.code == 0, ran.err
    return path, json.loads(ran.out)


def test_its_recording_replays_and_has_an_order(peterson: tuple[Path, dict[str, object]]) -> None:
    path, facts = peterson
    assert facts["condition"] == "exit!=0"
    assert any(line.startswith("commit ") for line in path.with_name("rec.steps").read_text().splitlines())
    assert corebraid.verify(path).sound
    assert run("replay", path, "--all").code == 0
    assert run("order", path).code == 0
    assert run("verify", path).code == 0


def test_steps_of_buffers_are_read_as_they_were_written(tmp_path: Path) -> None:
    path, tasks = tmp_path / "steps", (0, 0, BUFFER + 1, BUFFER + 1, 1, BUFFER)
    path.write_text(step_text([DATA // 8], tasks))
    assert path.read_text().splitlines()[2:] == ["run 0 2", "commit 1 2", "run 1 1", "commit 0 1"]
    read = read_steps(path)
    assert read is not None
    assert read.tasks == tasks
    path.write_text(f"steps\ncommit {BUFFER} 1\n")
    with pytest.raises(UsageError, match="not a step"):
        read_steps(path)


def test_its_command_makes_the_same_recording(peterson: tuple[Path, dict[str, object]]) -> None:
    path, facts = peterson
    command = str(facts["again"])
    assert "--model tso" in command
    again = run(*shlex.split(command)[1:])
    assert again.code == 0, again.err
    other = path.with_name("rec.again")
    names = {entry.name for entry in other.iterdir()}
    assert names == {entry.name for entry in path.iterdir()} - {"order.cert"}
    assert all((path / name).read_bytes() == (other / name).read_bytes() for name in names)


# -- what is claimed ---------------------------------------------------------------------------------------


def test_the_claim_names_the_buffers(tmp_path: Path) -> None:
    name = tmp_path / "name"
    name.write_text("publish")
    ran = run(
        "hunt", "--exhaustive", "--model", "tso", "--store-buffer", 5, "--cores", 2, "--input", name, IMAGE
    )
    assert ran.code == 1
    assert "all right: 16 different executions, each made, none fails (2 cores, up to" in ran.out
    assert "(model tso: store buffers of 5 stores, never full)" in ran.out


def stores(*what: str) -> Code:
    """Core 0 stores, does something, and loads; core 1 loads and stores the same word."""
    code = Code().split("stores", "loads").label("stores").mov("rcx", 7).store(DATA, "rcx")
    for one in what:
        code.raw(one)
    code.load("rax", DATA + 0x40).halt()
    return code.label("loads").load("rax", DATA).store(DATA + 0x40, "rax").halt()


@pytest.mark.parametrize(
    ("code", "buffer", "doubt"),
    [
        (stores("90 " * 600, "48 8b 1c 25" + (DATA + 0x300).to_bytes(4, "little").hex()), 16, "for 512"),
        (stores("48 89 0c 25" + (DATA + 0x300).to_bytes(4, "little").hex()), 1, "a store buffer was full"),
        (stores("48 8b 1c 25" + (DATA + 4).to_bytes(4, "little").hex()), 16, "overlapped a buffered store"),
    ],
    ids=["old", "full", "part"],
)
def test_stores_that_had_to_commit_are_a_doubt(code: Code, buffer: int, doubt: str, tmp_path: Path) -> None:
    found = search(elf(tmp_path / "guest.elf", code), 2, model="tso", store_buffer=buffer)
    assert not found.all_right
    assert doubt in found.unfinished
    assert ("all right" in str(lines_of(found)[0])) == (found.executions > 0)
    # Which is refused under TSO.
    assert "preemptions" not in repr(nothing_proven(found))


def test_what_is_not_searched_under_tso_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not bounded by"):
        corebraid.hunt(IMAGE, tmp_path / "rec", exhaustive=True, model="tso", preemptions=1)
    assert not list(tmp_path.iterdir())
