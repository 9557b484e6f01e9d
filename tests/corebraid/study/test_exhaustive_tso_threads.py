"""`hunt --exhaustive --model tso` of Linux programs, held against an abstract TSO machine: what can be
printed, and which executions there are; no more, no less. A load of which the buffer has a part is a doubt; a
store for which it has no room waits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_factory import run
from guest import DATA
from stack_factory import compiled, needs_gcc
from tso_threads import BASE, GETTID, LOG, YIELD, Op, Program, linux_program, random_threads
from tso_threads_machine import TsoThreads, order_of

import corebraid
from corebraid.study.conditions import Condition
from corebraid.study.exhaustive.following import MADE_ROOM
from corebraid.study.exhaustive.forking import Made
from corebraid.study.exhaustive.search import Budget, Search, Searched
from corebraid.study.exhaustive.steps import Step
from corebraid.study.subjects import Asked, subject_of
from emu.schedule.step_file import step_text

#: Beginnings of an abstract program's executions at most; of one with more only what it prints is compared.
MOST = 4000
ROOMY = 64


def searched(program: Program, path: Path, limit: int) -> tuple[Searched, set[bytes], list[tuple[Step, ...]]]:
    """All executions: what they print, and the steps of each that came to its end."""
    file, n = linux_program(program, path), len(program.threads)
    asked = Asked(
        str(file), cores=n, schedule="chaos", evidence="none", guest="linux", model="tso", store_buffer=limit
    )
    printed, made = set(), []

    class Noting(Search):
        def _failing(self, one: Made):  # type: ignore[no-untyped-def]
            if one.run is not None:
                printed.add(b"".join(data for _, data in one.run.printed))
                made.append(one.followed.execution.steps)
            return

    # What holds is what is printed kept of.
    held = (Condition.parse("exit==0"),)
    found = Noting(subject_of(asked), held, None, Budget(), lambda made, left: None).run()
    return found, printed, made


def compare(program: Program, path: Path, limit: int = ROOMY) -> int:
    """Hold a program against its machine. limit: stores that a buffer holds. Returns how many executions were
    compared."""
    machine = TsoThreads(program)
    outcomes = machine.outcomes()
    found, printed, made = searched(program, path, limit)
    few = TsoThreads(program, found.words, None if limit == ROOMY else limit)
    same = few.outcomes()
    if "buffer was full" in found.unfinished:
        # An instruction that has an event already cannot wait for room.
        assert limit != ROOMY, program
        assert any(op[0] == "copy" for ops in program.threads for op in ops), program
        return 0
    if not found.all_right:
        # Of a word that nobody watches, too, if its store waits behind one of a word that is.
        assert machine.split, program
        assert "overlapped a buffered store in part" in found.unfinished, program
        assert printed <= outcomes, program
        return 0
    assert not few.split, program
    assert printed == same, program
    if limit == ROOMY:
        assert printed == outcomes, program
        assert MADE_ROOM not in found.fixed
    elif printed != outcomes:
        assert MADE_ROOM in found.fixed, program
    expected = few.orders(MOST)
    if expected is None:
        return 0
    orders = [order_of(steps, found.words) for steps in made[-found.executions :]]
    assert set(orders) == expected, program
    return len(expected)


@pytest.mark.parametrize("seed", [8, 10, 11, 13, 14])
@pytest.mark.sampled(1)
def test_random_programs_do_what_a_tso_machine_can_and_nothing_else(seed: int, tmp_path: Path) -> None:
    assert compare(random_threads(seed), tmp_path / "guest") > 3


@pytest.mark.parametrize(("seed", "limit"), [(8, 1), (11, 2), (14, 1)])
def test_of_small_buffers_as_well(seed: int, limit: int, tmp_path: Path) -> None:
    assert compare(random_threads(seed), tmp_path / "guest", limit) > 3


# -- litmus tests of parts of words, and of calls -----------------------------------------------------------

X, Y = DATA, DATA + 64


def litmus(*threads: tuple[Op, ...]) -> Program:
    """On two words in two lines."""
    logs = tuple(DATA + 0x1000 + 64 * k for k in range(len(threads)))
    return Program(threads, (X, Y), DATA + 128, logs)


def read_by(program: Program, printed: bytes) -> tuple[int, ...]:
    """What the loads have read, one after the other, and what x is left with."""
    at, _ = program.spans[0]
    places = [
        log + LOG * k
        for log, ops in zip(program.logs, program.threads, strict=True)
        for k, op in enumerate(ops)
        if op[0] == "r"
    ]
    return tuple(int.from_bytes(printed[place - at : place - at + 8], "little") for place in (*places, X))


def w(first: int, size: int, value: int) -> Op:
    return ("w", (first, size), value)


def r(first: int, size: int) -> Op:
    return ("r", (first, size))


TELL, YIELDS = ("call", GETTID), ("call", YIELD)
ALL = {(a, b) for a in (0, 1) for b in (0, 1)}
LITMUS = {
    "sb+bytes": (
        litmus((w(X, 1, 1), r(Y, 4)), (w(Y, 1, 1), r(X, 8))),
        {(a, b, 1) for a, b in ALL},
    ),
    "sb+calls": (
        litmus((w(X, 8, 1), TELL, r(Y, 8)), (w(Y, 8, 1), YIELDS, r(X, 8))),
        {(a, b, 1) for a, b in ALL - {(0, 0)}},
    ),
    "sb+call+po": (
        litmus((w(X, 8, 1), TELL, r(Y, 8)), (w(Y, 8, 1), r(X, 8))),
        {(a, b, 1) for a, b in ALL},
    ),
    # What the kernel stores is memory at once.
    "sb+kernel": (
        litmus((("kernel", (X, 8)), r(Y, 8)), (("kernel", (Y, 8)), r(X, 8))),
        {(a * (BASE + 1), b * BASE, BASE) for a, b in ALL - {(0, 0)}},
    ),
    # (1, 0, 1): thread 0 sees its own store before the other's to y, and that remains: its buffer answers.
    "n6+parts": (
        litmus((w(X, 4, 1), r(X, 1), r(Y, 8)), (w(Y, 8, 2), w(X, 1, 3))),
        {(1, 0, 1), (1, 0, 3), (1, 2, 1), (1, 2, 3), (3, 2, 3)},
    ),
    "corr+parts": (
        litmus((w(X, 4, 1), w(X + 4, 4, 1)), (r(X + 4, 4), r(X, 4))),
        {(a, b, 1 | 1 << 32) for a, b in ALL - {(1, 0)}},
    ),
    "wrc": (
        litmus((w(X, 8, 1),), (r(X, 8), w(Y, 8, 1)), (r(Y, 8), r(X, 8))),
        {(a, b, c, 1) for a, b in ALL for c in (0, 1)} - {(1, 1, 0, 1)},
    ),
}


@pytest.mark.parametrize("name", [name for name in LITMUS if name != "wrc"])
@pytest.mark.sampled(3)
def test_parts_of_words_and_calls_have_the_outcomes_of_x86_tso(name: str, tmp_path: Path) -> None:
    of_litmus(name, tmp_path)


@pytest.mark.soak
def test_a_store_that_one_thread_has_seen_is_there_for_whom_it_tells(tmp_path: Path) -> None:
    of_litmus("wrc", tmp_path)


def of_litmus(name: str, tmp_path: Path) -> None:
    program, allowed = LITMUS[name]
    found, printed, _ = searched(program, tmp_path / "guest", ROOMY)
    assert found.all_right, found.unfinished
    assert {read_by(program, one) for one in printed} == allowed
    assert printed == TsoThreads(program).outcomes()


@pytest.mark.soak
@pytest.mark.parametrize("limit", [ROOMY, 2, 1])
@pytest.mark.parametrize("seed", range(100))
def test_many_random_programs(seed: int, limit: int, tmp_path: Path) -> None:
    compare(random_threads(seed), tmp_path / "guest", limit)


@pytest.mark.soak
@pytest.mark.parametrize(("seed", "limit"), [(8, ROOMY), (11, ROOMY), (5, ROOMY), (13, 2), (21, ROOMY)])
def test_every_execution_is_recorded_as_it_was_found(seed: int, limit: int, tmp_path: Path) -> None:
    """By its steps: it prints what it printed in the search, is verified, and has an order."""
    program = random_threads(seed)
    found, printed, made = searched(program, tmp_path / "guest", limit)
    assert found.all_right
    prints = set()
    for k, steps in enumerate(made[-found.executions :]):
        (tmp_path / "steps").write_text(step_text(found.words, [step.task for step in steps]))
        path = tmp_path / f"{k}"
        ran = subprocess.run(
            [
                sys.executable, "-m", "corebraid", "record", "-o", path, "--cores", f"{len(program.threads)}",
                "--model", "tso", "--store-buffer", f"{limit}", "--guest", "linux", "--bus", "mesi",
                "--schedule", tmp_path / "steps", "--", tmp_path / "guest",
            ],
            capture_output=True, check=True,
        )  # fmt: skip
        prints.add(ran.stdout)
        assert corebraid.verify(path).sound
        assert run("order", path).code == 0
        assert run("check-order", path).code == 0
    assert prints == printed


DEKKER = """
#include <pthread.h>
volatile int a, b;
int r0, r1;
static void *p(void *x) { a = 1; r0 = b; return 0; }
static void *q(void *x) { b = 1; r1 = a; return 0; }
int main(void) {
    pthread_t t[2];
    pthread_create(t, 0, p, 0);
    pthread_create(t + 1, 0, q, 0);
    pthread_join(t[0], 0);
    pthread_join(t[1], 0);
    return !r0 && !r1;
}
"""


@needs_gcc
def test_a_recording_is_sound_though_pages_come_while_stores_wait(tmp_path: Path) -> None:
    """A library's page is made present for a core whose stores have not left its buffer."""
    program = compiled(tmp_path, "dekker.c", DEKKER, "-O1")
    found = corebraid.hunt(
        program, tmp_path / "rec", exhaustive=True, model="tso", cores=3, explain=False, reduce=False
    )
    assert found.finding is not None
    ran = run("verify", tmp_path / "rec")
    assert ran.code == 0, ran.err
    assert "the interleaving that ran is one of the legal orders" in ran.out
