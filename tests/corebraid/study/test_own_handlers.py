"""A thread and its own signal handler: what both use can change between two of the thread's instructions."""

from __future__ import annotations

from pathlib import Path

from cli_factory import run
from stack_factory import compiled, needs_gcc

import corebraid
from corebraid.study.smallest.kept import _switch_lines
from corebraid.study.smallest.telling import Told

#: The size is taken down by a read and a write, between which a handler may count it up. RIGHT: by one
#: instruction. Who sends waits by yielding.
BUFFER = """
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#define SENDS 4
static volatile int size;
static atomic_int handled, over, ready;
static int taken;
static void on_signal(int number) {
    size = size + 1;
    atomic_fetch_add(&handled, 1);
}
static void *taker(void *arg) {
    atomic_store(&ready, 1);
    for (;;) {
        int last = atomic_load(&over);
        while (size > 0) {
            TAKE;
            taken++;
        }
        if (last)
            return arg;
        sched_yield();
    }
}
int main(void) {
    pthread_t thread;
    signal(SIGUSR1, on_signal);
    pthread_create(&thread, 0, taker, 0);
    while (!atomic_load(&ready))
        sched_yield();
    for (int i = 0; i < SENDS; i++) {
        pthread_kill(thread, SIGUSR1);
        while (atomic_load(&handled) <= i)
            sched_yield();
    }
    atomic_store(&over, 1);
    pthread_join(thread, 0);
    printf("%d taken\\n", taken);
    return taken != SENDS;
}
"""


@needs_gcc
def test_a_handler_between_a_read_and_a_write_is_found_and_told(tmp_path: Path) -> None:
    program = compiled(tmp_path, "buffer.c", BUFFER, "-O1", "-DTAKE=int now=size;size=now-1")
    found = corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=60, reduce_time=60.0)
    assert found.finding is not None
    reduction = found.finding.reduction
    assert reduction is not None
    assert reduction.smallest is not None
    assert reduction.smallest.found.preemptions == 1
    assert found.finding.suspicions
    first = found.finding.suspicions[0]
    assert first.tried
    assert first.title.startswith("size")
    assert "of size" in first.steps[0]
    assert "makes the system call tgkill, from main" in first.steps[1]
    assert run("verify", reduction.recording).code == 0


@needs_gcc
def test_one_instruction_cannot_be_interrupted(tmp_path: Path) -> None:
    program = compiled(tmp_path, "buffer.c", BUFFER, "-O1", '-DTAKE=__asm__ volatile("decl %0" : "+m"(size))')
    assert corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=40).finding is None


def told(who: str, to: str, *, preempting: bool = False) -> Told:
    """A switch."""
    return Told(f"{who}@1={to}", preempting, who, to, "", "", "")


def test_of_many_switches_that_are_no_preemptions_the_first_and_the_last_are_shown() -> None:
    lines = _switch_lines(
        [told("a", "b", preempting=True), *(told("b", "b") for _ in range(500)), told("b", "a")]
    )
    assert lines[0] == "  1. a is stopped, b goes on"
    others = [line for line in lines if "  goes" in line or "goes on itself" in line or "cannot" in line]
    assert others[0] == "  2. b yields or waits, and goes on itself"
    assert lines[-1] == "  502. b cannot go on: a does"
    assert "  ... 495 more where one could not go on" in lines
    assert len([line for line in lines if line[2].isdigit()]) == 7
    few = _switch_lines([told("b", "b") for _ in range(7)])
    assert len(few) == 7
