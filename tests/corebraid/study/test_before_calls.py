"""Threads that stand between their last look at something and the system call that waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_factory import run
from stack_factory import compiled, needs_gcc

import corebraid
from corebraid.base.errors import UsageError
from corebraid.study.conditions import conditions_of, settled
from recorder.files.end import IDLE, End

#: A signal that comes after the look and before `pause` is handled, and then waited for.
PAUSED = """
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile sig_atomic_t got;
static void on_signal(int number) { got = number; }
static void *waiter(void *arg) {
    while (!got)
        WAIT;
    return arg;
}
int main(void) {
    pthread_t thread;
    sigset_t all;
    sigemptyset(&all);
    sigaddset(&all, SIGUSR1);
    BEFORE;
    signal(SIGUSR1, on_signal);
    pthread_create(&thread, 0, waiter, 0);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, 0);
    puts("done");
    return 0;
}
"""
#: Wrong, and right: the signal is blocked but while it is waited for.
WRONG = ("-DWAIT=pause()", "-DBEFORE=")
RIGHT = (
    "-DWAIT=({sigset_t none;sigemptyset(&none);sigsuspend(&none);})",
    "-DBEFORE=sigprocmask(SIG_BLOCK,&all,0)",
)
#: Waits for nobody who is there, whatever the schedule.
SERVER = """
#include <pthread.h>
#include <unistd.h>
static int n;
static void *count(void *arg) { for (int i = 0; i < 20; i++) n++; return arg; }
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, count, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    pause();
    return 0;
}
"""


@needs_gcc
@pytest.mark.parametrize(
    ("seed", "binding"), [(0, "-Wl,-z,lazy"), pytest.param(1, "-Wl,-z,now", marks=pytest.mark.soak)]
)
def test_a_signal_before_pause_is_found_reduced_and_explained(
    tmp_path: Path, seed: int, binding: str
) -> None:
    program = compiled(tmp_path, "paused.c", PAUSED, "-O1", binding, *WRONG)
    found = corebraid.hunt(program, tmp_path / "rec", seed=seed, jobs=1, reduce_time=60.0)
    assert found.finding is not None
    assert found.finding.run.held == "idle"
    assert any("in other runs it ends" in line for line in found.finding.lines())
    assert found.finding.suspicions
    first = found.finding.suspicions[0]
    assert first.tried
    looked, killed, paused = first.steps
    assert "read 0 of got" in looked
    assert "makes the system call tgkill, from main" in killed
    assert "makes the system call pause, from waiter" in paused
    reduction = found.finding.reduction
    assert reduction is not None
    last = reduction.told[-1]
    assert last.call.startswith("the system call pause, from waiter")
    assert "tgkill" in last.between
    again = tmp_path / "again"
    recorded = corebraid.record(
        program,
        again,
        schedule=reduction.tried.schedule,
        schedule_seed=reduction.tried.schedule_seed,
        seed=seed,
    )
    assert recorded.manifest.end is not None
    assert recorded.manifest.end.reason == IDLE
    for core in range(4):
        assert run("replay", again, "--core", core).code == 0
    assert run("verify", again).code == 0


#: Two threads that have nothing in common but a pipe: no word is shared.
PIPED = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static int ends[2];
static void *writer(void *arg) { write(ends[1], "ab", 1); write(ends[1], "b", 1); return arg; }
int main(void) {
    pthread_t thread;
    char got[4];
    pipe(ends);
    pthread_create(&thread, 0, writer, 0);
    long n = read(ends[0], got, 4);
    pthread_join(thread, 0);
    printf("%ld\\n", n);
    return n != 2;
}
"""


@needs_gcc
def test_system_calls_are_events_though_no_word_is_shared(tmp_path: Path) -> None:
    program = compiled(tmp_path, "piped.c", PIPED, "-O1", "-Wl,-z,now")
    found = corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=100, explain=False, reduce_time=30.0)
    assert found.finding is not None
    reduction = found.finding.reduction
    assert reduction is not None
    preempted = [one for one in reduction.told if one.preempting]
    assert all(one.call.startswith(("the system call", "the end of")) for one in preempted)


#: A server that is thrown away while it waits for connections, again and again.
ACCEPTS = """
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
static int listener, n;
static void *serve(void *arg) {
    for (;;) {
        int one = accept(listener, 0, 0);
        __atomic_fetch_add(&n, one, 5);
    }
    return arg;
}
int main(void) {
    pthread_t threads[2];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(7777), .sin_addr = {htonl(0x7f000001)}};
    listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&at, sizeof at);
    listen(listener, 4);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, serve, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
"""


@needs_gcc
def test_calls_that_wait_when_a_run_ends_leave_no_trace(tmp_path: Path) -> None:
    program = compiled(tmp_path, "accepts.c", ACCEPTS, "-O1")
    ran = run("hunt", "--jobs", "1", "--runs", "24", "-o", tmp_path / "rec", "--", program)
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert "Exception" not in ran.err


@needs_gcc
def test_one_that_waits_as_it_should_is_not_found(tmp_path: Path) -> None:
    program = compiled(tmp_path, "paused.c", PAUSED, "-O1", *RIGHT)
    assert corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=60).finding is None


@needs_gcc
def test_a_server_that_waits_has_not_failed(tmp_path: Path) -> None:
    program = compiled(tmp_path, "server.c", SERVER, "-O1")
    assert corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=8).finding is None
    asked = corebraid.hunt(
        program, tmp_path / "rec", jobs=1, runs=8, until=["idle"], reduce=False, explain=False
    )
    assert asked.finding is not None
    assert asked.finding.run.held == "idle"


def test_conditions_of_programs_that_end() -> None:
    idle = End(IDLE)
    assert [one.text for one in settled(conditions_of(()), ends=True)][-1] == "idle"
    assert any(one.holds(idle, b"") for one in settled(conditions_of(()), ends=True))
    assert not any(one.holds(idle, b"") for one in settled(conditions_of(()), ends=False))
    assert [one.text for one in settled(conditions_of(["idle"]), ends=False)] == ["idle"]
    assert [one.text for one in settled(conditions_of(["fault"]), ends=True)] == ["fault"]
    with pytest.raises(UsageError, match="no such condition"):
        conditions_of(["idles"])
