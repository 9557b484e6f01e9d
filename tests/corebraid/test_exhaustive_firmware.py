"""`hunt --exhaustive` on firmware: held against all interleavings of what its cores do; every outcome that
sequential consistency allows, and no other; and no proof where something was not tried."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path

import pytest
from abstract_programs import Machine
from cli_factory import ROOT, run
from guest import (
    CYCLES,
    DATA,
    DMA_LEN,
    DMA_START,
    IPI_SEND,
    POWER_OFF,
    RANDOM,
    TEXT,
    TIMER_PERIOD,
    Code,
    elf,
)
from step_programs import CONSOLE, PLACES, Order, Program, firmware_of, random_cores, search, shared_order

import corebraid
from corebraid.base.errors import UsageError
from corebraid.study.exhaustive.forking import Made
from corebraid.study.exhaustive.steps import Step
from emu.schedule.step_file import step_text

IMAGE = ROOT / "firmware" / "x86_64" / "tiny_races.elf"
FLAG = DATA + 0x100
#: Interleavings of a program at most.
MOST = 2000


# -- against all interleavings -----------------------------------------------------------------------------


def interleavings(program: Program) -> list[list[Step]]:
    """All of them."""
    found: list[list[Step]] = []

    def go(machine: Machine, steps: list[Step]) -> None:
        enabled = machine.enabled()
        if not enabled:
            found.append(steps)
        for task in enabled:
            after = machine.copy()
            go(after, [*steps, Step(task, after.step(task))])

    go(Machine(program), [])
    return found


def many(program: Program) -> int:
    """How many interleavings there are, if nobody leaves out an operation."""
    left = [len(ops) for ops in program]
    return math.factorial(sum(left)) // math.prod(map(math.factorial, left))


def compare(seed: int, tmp_path: Path) -> int:
    """Hold a random program's executions against its interleavings. Returns how many there are."""
    program = random_cores(seed)
    made: list[tuple[int, Order]] = []

    def told(one: Made) -> None:
        if one.run is not None:
            made.append((one.followed.execution.whole, shared_order(one.followed.execution.steps)))

    found = search(firmware_of(program, tmp_path / f"{seed}.elf"), len(program), told=told)
    assert found.all_right, found.unfinished
    names = frozenset(name for name, place in PLACES.items() if place // 8 in found.words)
    expected = {shared_order(steps, names | {CONSOLE}) for steps in interleavings(program)}
    orders = [order for _, order in made[-found.executions :]]
    assert len(set(orders)) == len(orders) == found.executions
    assert set(orders) == expected, f"seed {seed}: {program}"
    return len(orders)


SMALL = [seed for seed in range(400) if many(random_cores(seed)) <= MOST]


def test_each_execution_once_and_none_missed(tmp_path: Path) -> None:
    assert sum(compare(seed, tmp_path) for seed in SMALL[:10]) > 40


@pytest.mark.soak
def test_each_execution_of_many_programs(tmp_path: Path) -> None:
    assert sum(compare(seed, tmp_path) for seed in SMALL[10:160]) > 700


#: Of two cores that store and load; of two that count without a lock; of three in a chain.
STRAIGHT = {
    "sb": ((("w", "x", 1), ("r", "y")), (("w", "y", 1), ("r", "x"))),
    "count": ((("r", "x"), ("inc", "x")), (("r", "x"), ("inc", "x"))),
    "chain": ((("w", "x", 1),), (("r", "x"), ("w", "y", 1)), (("r", "y"), ("r", "x"))),
}


@pytest.mark.parametrize(
    "name",
    ["sb", "count", "chain"],
)
def test_together_they_have_all_orders_that_there_are(name: str, tmp_path: Path) -> None:
    """Recorded, each of them fits orders of one execution alone, says `order --count`, which knows nothing of
    the search; and all of them together every interleaving."""
    program = STRAIGHT[name]
    image, made = firmware_of(program, tmp_path / "guest.elf"), list[Made]()
    found = search(image, len(program), told=made.append)
    total = 0
    for number, one in enumerate(made[-found.executions :]):
        steps, path = tmp_path / f"{number}.steps", tmp_path / f"{number}.rec"
        steps.write_text(step_text(found.words, [step.task for step in one.followed.execution.steps]))
        run("record", "-o", path, "--cores", len(program), "--memory", "4m", "--schedule", steps, image)
        facts = json.loads(run("order", path, "--count", "--constraints", "values", "--json").out)
        assert facts["orders"]["all"]["executions"] == {"least": "1", "most": "1"}
        total += int(facts["orders"]["all"]["orders"])
    assert total == many(program)


# -- programs of a few instructions ------------------------------------------------------------------------


def outcomes(name: str, cores: int = 2) -> set[int | None]:
    """Exit codes of a litmus test, all of whose executions were made."""
    codes = set()

    def told(made: Made) -> None:
        if made.run is not None and made.run.manifest.end is not None:
            codes.add(made.run.manifest.end.exit_code)

    assert search(IMAGE, cores, told=told, data=name.encode()).all_right
    return codes


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("sb", {1, 2, 3}), ("mp", {0, 1, 3}), ("lb", {0, 1, 2}), ("corr", {0, 1, 3}), ("2+2w", {1, 2, 3})],
)
@pytest.mark.sampled(3)
def test_litmus_tests_have_every_outcome_but_one(name: str, allowed: set[int]) -> None:
    assert outcomes(name) == allowed


@pytest.mark.soak
def test_four_cores_agree_on_the_order_of_two_writes() -> None:
    assert outcomes("iriw", 4) == set(range(16)) - {0b1010}


def test_a_search_without_reduction_counts_the_same() -> None:
    found, again = (search(IMAGE, 2, data=b"sb", preemptions=bound) for bound in (None, 1000))
    # Three orders of the two pairs, times whether each core had to wait for the other's word.
    assert found.executions == again.executions == 12
    assert again.all_right


def test_no_execution_is_no_proof(tmp_path: Path) -> None:
    """Each core waits for the other in a loop: without a preemption no run comes to its end."""
    code = Code().split("one", "other")
    for name, mine, theirs in (("one", DATA, FLAG), ("other", FLAG, DATA)):
        code.label(name).load("rax", theirs).mov("rax", 1).store(mine, "rax").label(f"{name} waits")
        code.load("rax", theirs).compare("rax", 0).jump_if("z", f"{name} waits").load("rax", theirs)
        code.mov("rax", 2).store(mine, "rax").label(f"{name} again").load("rax", theirs)
        code.compare("rax", 2).jump_if("nz", f"{name} again").halt()
    image = elf(tmp_path / "guest.elf", code)
    none, some = (search(image, 2, preemptions=bound) for bound in (0, 2))
    assert none.executions == 0
    assert not none.all_right
    assert "no execution comes to its end" in none.unfinished
    assert some.all_right
    assert some.executions > 0


DEFAULT = ("exit!=0", "fault", "deadlock")


@pytest.mark.parametrize("name", ["spin", "barrier", "publish", "print"])
def test_what_is_right_is_proved(name: str) -> None:
    assert search(IMAGE, 2, DEFAULT, data=name.encode()).all_right


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("bad_peterson", "exit!=0"),
        ("bad_dekker", "exit!=0"),
        ("bad_spin", "exit!=0"),
        ("bad_mcs", "waits for ever"),
        ("bad_barrier", "waits for ever"),
        ("bad_publish", "exit!=0"),
    ],
)
@pytest.mark.sampled(3)
def test_what_is_broken_is_refuted(name: str, held: str) -> None:
    found = search(IMAGE, 2, DEFAULT, data=name.encode())
    assert found.failing is not None
    assert found.failing.held == held


@pytest.fixture(scope="module")
def ticket(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A lock that two get, refuted."""
    folder = tmp_path_factory.mktemp("exhaustive")
    path, name = folder / "rec", folder / "name"
    name.write_text("bad_ticket")
    ran = run("hunt", "--exhaustive", "-o", path, "--cores", 2, "--input", name, "--json", IMAGE)
    assert ran.code == 0, ran.err
    return path, json.loads(ran.out)


def test_what_fails_is_kept_with_its_steps(ticket: tuple[Path, dict[str, object]]) -> None:
    path, facts = ticket
    assert facts["condition"] == "exit!=0"
    assert facts["exhaustive"] is True
    assert facts["suspicions"]
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["name", "rec", "rec.steps"]
    assert corebraid.verify(path).sound
    assert run("order", path).code == 0


def test_its_command_makes_the_same_recording(ticket: tuple[Path, dict[str, object]]) -> None:
    path, facts = ticket
    again = run(*shlex.split(str(facts["again"]))[1:])
    assert again.code == 0, again.err
    other = path.with_name("rec.again")
    names = {entry.name for entry in other.iterdir()}
    assert names == {entry.name for entry in path.iterdir()} - {"order.cert"}
    assert all((path / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_steps_are_of_the_bus_of_lines(ticket: tuple[Path, dict[str, object]], tmp_path: Path) -> None:
    path, _ = ticket
    ran = run(
        "record", "-o", tmp_path / "rec", "--bus", "page", "--schedule", path.with_name("rec.steps"), IMAGE
    )
    assert ran.code == 2
    assert "the page bus does not see single accesses" in ran.err
    assert not list(tmp_path.iterdir())


def test_the_claim_is_of_cores_and_devices(tmp_path: Path) -> None:
    name = tmp_path / "name"
    name.write_text("publish")
    ran = run("hunt", "--exhaustive", "--cores", 2, "--input", name, IMAGE)
    assert ran.code == 1
    assert "all right: 8 different executions, each made, none fails (2 cores, up to" in ran.out
    assert "tried: every order of accesses to shared words and devices" in ran.out


# -- what ends the machine ---------------------------------------------------------------------------------


def test_what_others_do_before_a_core_fails_is_tried(tmp_path: Path) -> None:
    """Core 0 stores, and fails behind it; core 1 may power off between the two."""
    code = Code().split("fails", "sees")
    code.label("fails").mov("rax", 1).store(DATA, "rax").mov("rcx", 0).load("rax", ("rcx", 0)).halt()
    code.label("sees").load("rax", DATA).compare("rax", 1).jump_if("nz", "not").power_off(77)
    code.label("not").halt()
    image = elf(tmp_path / "guest.elf", code)
    for until, text in ((["exit==77"], "exit==77"), (["fault"], "fault")):
        found = corebraid.hunt(
            image, tmp_path / text, until=until, exhaustive=True, cores=2, explain=False, memory=4 << 20
        ).finding
        assert found is not None
        assert found.run.held == text
        assert corebraid.verify(found.recording).sound
    assert search(image, 2).all_right


def test_a_core_that_fails_by_an_exception_does_so_again(tmp_path: Path) -> None:
    code = Code().split("fails", "sees")
    code.label("fails").mov("rax", 1).store(DATA, "rax").mov("rdx", 0).mov("rcx", 0).raw("48 f7 f1").halt()
    code.label("sees").load("rax", DATA).halt()
    image = elf(tmp_path / "guest.elf", code)
    found = corebraid.hunt(
        image, tmp_path / "rec", until=["fault"], exhaustive=True, cores=2, explain=False, memory=4 << 20
    ).finding
    assert found is not None
    assert "division" in found.run.manifest.end.text  # type: ignore[union-attr]
    assert corebraid.verify(found.recording).sound


def test_what_is_printed_behind_the_power_off_is_printed(tmp_path: Path) -> None:
    """The machine stops at the end of the block, and not before an event in it."""
    code = Code().split("ends", "parks")
    code.label("ends").mov("r15", 0xF0000000).mov("rcx", 65)
    code.store(("r15", POWER_OFF), "rcx").store(("r15", 0), "rcx").jump("ends")
    code.label("parks").halt()
    printed = set()

    def told(made: Made) -> None:
        printed.add(b"" if made.run is None else b"".join(data for _, data in made.run.printed))

    found = search(elf(tmp_path / "guest.elf", code), 2, ["output~A"], told)
    assert found.failing is not None
    assert printed == {b"A"}


def breaks(*what: str) -> Code:
    """Core 0 does something if it sees 1, core 1 stores it."""
    code = (
        Code().split("does", "stores").label("does").load("rax", DATA).compare("rax", 0).jump_if("z", "not")
    )
    for one in what:
        code.raw(one)
    code.label("not").halt()
    return code.label("stores").mov("rax", 1).store(DATA, "rax").halt()


@pytest.mark.parametrize("what", ["cc", "cd 03", "cd 80", "0f 05", "0f 34"])
def test_a_trap_is_found(what: str, tmp_path: Path) -> None:
    """Behind it a core stands behind its instruction, which cannot be tried again."""
    image = elf(tmp_path / "guest.elf", breaks(what))
    found = corebraid.hunt(
        image, tmp_path / "rec", until=["fault"], exhaustive=True, cores=2, explain=False, memory=4 << 20
    ).finding
    assert found is not None
    assert found.run.held == "fault"
    assert corebraid.verify(found.recording).sound
    other = search(image, 2, ["exit==7"])
    assert "an instruction trapped" in other.unfinished


@pytest.mark.parametrize("what", ["c5 f9 fe c8", "f2 0f bc c1"])
def test_what_cannot_be_emulated_proves_nothing(what: str, tmp_path: Path) -> None:
    """It is refused each time."""
    code = breaks(what, "b9 07 00 00 00")
    found = search(elf(tmp_path / "guest.elf", code), 2, ["exit==7"])
    assert not found.all_right
    assert "not emulated: an instruction" in found.unfinished


def test_a_core_may_wait_for_what_nobody_writes(tmp_path: Path) -> None:
    """It makes no steps, and others go on."""
    code = Code().split("waits", "ends").label("waits").load("rax", FLAG).compare("rax", 0)
    code.jump_if("z", "waits").halt().label("ends").mov("rax", 1).store(DATA, "rax")
    halted = elf(tmp_path / "halts.elf", code.halt())
    found = search(halted, 2, DEFAULT)
    assert found.failing is not None
    assert found.failing.held == "waits for ever"
    code = Code().split("waits", "ends").label("waits").load("rax", FLAG).compare("rax", 0)
    code.jump_if("z", "waits").halt().label("ends").mov("rax", 1).store(DATA, "rax").power_off(5)
    ends = elf(tmp_path / "ends.elf", code)
    found = corebraid.hunt(
        ends, tmp_path / "rec", until=["exit==5"], exhaustive=True, cores=2, explain=False, memory=4 << 20
    )
    assert found.finding is not None
    assert corebraid.verify(found.finding.recording).sound
    assert search(ends, 2, ["exit==6"]).all_right


def test_time_behind_a_loop_that_waits_is_a_doubt(tmp_path: Path) -> None:
    """Before it, it is none."""
    for told, looks in ((True, "0f 31"), (False, "90")):
        code = Code().split("begins", "stores").label("begins").raw("0f 31").mov("rax", 0).mov("rdx", 0)
        code.label("waits").load("rbx", DATA).compare("rbx", 0).jump_if("z", "waits").raw(looks).halt()
        code.label("stores").mov("rax", 1).store(DATA, "rax").halt()
        found = search(elf(tmp_path / f"{told}.elf", code), 2, ["exit==7"])
        assert ("is told how much it has run" in found.unfinished) == told
        assert found.all_right != told


# -- what is not proven ------------------------------------------------------------------------------------


def uses(*what: str) -> Code:
    """Core 0 does something, core 1 nothing."""
    code = Code().split("does", "parks").label("does")
    for one in what:
        code.raw(one)
    return code.label("parks").halt()


def device(register: int) -> Code:
    """Core 0 writes 1 to a register."""
    return Code().split("does", "parks").label("does").device(register, 1).label("parks").halt()


@pytest.mark.parametrize(
    ("code", "doubt"),
    [
        (device(TIMER_PERIOD), "a timer was set"),
        (device(IPI_SEND), "a core was interrupted by another"),
        (device(DMA_START), "memory was copied by DMA"),
        (device(0x128), "cores send each other mail"),
        (device(0x218), "a put was started"),
        (device(0x38), "a device register was used that is not known here: offset 0x38"),
        (uses("48 0f c7 f0"), "an instruction gave random numbers"),
    ],
)  # fmt: skip
def test_what_is_not_tried_is_a_doubt(code: Code, doubt: str, tmp_path: Path) -> None:
    found = search(elf(tmp_path / "guest.elf", code), 2)
    assert not found.all_right
    assert doubt in found.unfinished


def test_code_that_is_changed_is_a_doubt(tmp_path: Path) -> None:
    """Whether somebody runs it or not: a core that had its line as data never fetches it."""
    code = Code().split("does", "parks").label("does").store(TEXT + 0x800, "rax").label("parks").halt()
    found = search(elf(tmp_path / "guest.elf", code.at(TEXT + 0x900)), 2)
    assert not found.all_right
    assert "code may run from was changed" in found.unfinished


@pytest.mark.parametrize("register", [CYCLES, RANDOM, DMA_LEN])
def test_a_register_alone_is_none(register: int, tmp_path: Path) -> None:
    code = Code().split("one", "other").label("one").label("other").ask(register, "rax").halt()
    found = search(elf(tmp_path / "guest.elf", code), 2)
    assert found.all_right
    assert found.executions == {CYCLES: 1, RANDOM: 2, DMA_LEN: 2}[register]


@pytest.mark.parametrize("clock", ["device", "rdtsc"])
def test_a_loop_that_looks_at_the_time_is_no_circle(clock: str, tmp_path: Path) -> None:
    """It comes back to where it was with the same registers, and ends all the same."""
    code = Code().split("sets", "waits")
    code.label("sets").mov("rax", 0).store(FLAG, "rax").halt()
    code.label("waits")
    if clock == "device":
        code.ask(CYCLES, "rax")
    else:
        code.raw("0f 31")
    code.compare("rax", 300).jump_if("ge", "late").mov("rax", 0).mov("rdx", 0).compare("rbx", 0)
    code.load("rbx", FLAG).compare("rbx", 0).jump_if("z", "waits").halt()
    code.label("late").power_off(3)
    found = search(elf(tmp_path / "guest.elf", code), 2, ["exit==3"])
    assert found.failing is not None
    assert found.failing.held == "exit==3"


def test_what_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one core has one execution"):
        corebraid.hunt(IMAGE, tmp_path / "rec", exhaustive=True, cores=1)
    with pytest.raises(UsageError, match="does not go with"):
        corebraid.hunt(IMAGE, tmp_path / "rec", exhaustive=True, model="tso", preemptions=2)
    assert not list(tmp_path.iterdir())


def test_time_tells_nothing_of_others(tmp_path: Path) -> None:
    """Whose miss comes first makes no difference to anybody's clock."""
    code = Code().split("one", "other").label("one").label("other").load("rbx", DATA).ask(CYCLES, "rax")
    code.compare("rax", 100).jump_if("l", "early").power_off(5).label("early").halt()
    found = search(elf(tmp_path / "guest.elf", code), 2, ["exit==5"])
    assert found.all_right
    assert found.executions == 1
