"""Schedules in which timeouts are over while others could still run."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_factory import run
from stack_factory import compiled, needs_gcc

import corebraid
from corebraid.names.imports import may_time_out
from corebraid.study.attempts import attempts

#: Who has given up waits no more, but what it was given meanwhile is lost (RIGHT: it looks).
GRANTED = """
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int waits, granted, taken, left = 1;
static void *waiter(void *arg) {
    struct timespec until;
    int code = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    pthread_mutex_lock(&lock);
    waits = 1;
    while (!granted && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&changed, &lock, &until);
    waits = 0;
    if (code != ETIMEDOUT || (RIGHT && granted))
        taken = 1;
    pthread_mutex_unlock(&lock);
    return arg;
}
static void *giver(void *arg) {
    pthread_mutex_lock(&lock);
    if (waits) {
        left--;
        granted = 1;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&lock);
    return arg;
}
int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, waiter, 0);
    pthread_create(&threads[1], 0, giver, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    printf("%d left, %d taken\\n", left, taken);
    return left + taken != 1;
}
"""


@needs_gcc
@pytest.mark.parametrize("seed", [0, pytest.param(100, marks=pytest.mark.soak)])
def test_what_is_given_to_one_whose_time_is_over_is_found(tmp_path: Path, seed: int) -> None:
    program = compiled(tmp_path, "granted.c", GRANTED, "-O1", "-DRIGHT=0")
    found = corebraid.hunt(program, tmp_path / "rec", jobs=1, seed=seed, reduce_time=60.0, explain=False)
    assert found.finding is not None
    assert found.finding.run.attempt.schedule in ("late:3", "late:5")
    reduction = found.finding.reduction
    assert reduction is not None
    late = [one for one in reduction.told if one.late]
    assert late
    assert late[-1].lines()[0].endswith("goes on when its timeout is over")
    again = tmp_path / "again"
    recorded = corebraid.record(
        program,
        again,
        schedule=reduction.tried.schedule,
        schedule_seed=reduction.tried.schedule_seed,
        seed=seed,
    )
    assert recorded.manifest.end is not None
    assert recorded.manifest.end.exit_code == 1
    for core in range(4):
        assert run("replay", again, "--core", core).code == 0


@needs_gcc
@pytest.mark.soak
def test_no_other_schedule_has_it(tmp_path: Path) -> None:
    program = compiled(tmp_path, "granted.c", GRANTED, "-O1", "-DRIGHT=0")
    for schedule in ("chaos", "pct:5"):
        assert corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=60, schedule=schedule).finding is None


@needs_gcc
def test_one_that_looks_is_right(tmp_path: Path) -> None:
    program = compiled(tmp_path, "granted.c", GRANTED, "-O1", "-DRIGHT=1")
    assert corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=60, schedule="late:5").finding is None


#: Who gives up takes its request for something else, which the other one is still about to answer (RIGHT: it
#: waits until that has).
REUSED = """
#include <errno.h>
#include <pthread.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static int request, busy, answer;
static int ask(int what) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    request = what;
    answer = 0;
    pthread_cond_signal(&asked);
    while (!answer && pthread_cond_timedwait(&answered, &lock, &until) != ETIMEDOUT) ;
    while (RIGHT && busy)
        pthread_cond_wait(&answered, &lock);
    return answer;
}
static void *answers(void *arg) {
    pthread_mutex_lock(&lock);
    for (int last = 0; last != 2;) {
        while (request == last)
            pthread_cond_wait(&asked, &lock);
        last = request;
        busy = 1;
        pthread_mutex_unlock(&lock);
        int found = last * 10;
        pthread_mutex_lock(&lock);
        busy = 0;
        answer = found;
        pthread_cond_signal(&answered);
    }
    pthread_mutex_unlock(&lock);
    return arg;
}
int main(void) {
    pthread_t thread;
    int wrong = 0;
    pthread_create(&thread, 0, answers, 0);
    pthread_mutex_lock(&lock);
    for (int what = 1; what < 3; what++) {
        int got = ask(what);
        wrong |= got && got != 10 * what;
    }
    pthread_mutex_unlock(&lock);
    pthread_join(thread, 0);
    return wrong;
}
"""


@needs_gcc
def test_a_timeout_that_comes_before_an_answer_is_reduced_and_told(tmp_path: Path) -> None:
    program = compiled(tmp_path, "reused.c", REUSED, "-O1", "-DRIGHT=0")
    found = corebraid.hunt(program, tmp_path / "rec", jobs=1, reduce_time=60.0)
    assert found.finding is not None
    reduction = found.finding.reduction
    assert reduction is not None
    assert reduction.smallest is not None
    late = [one for one in reduction.told if one.late]
    # Without it the run passes, or fails otherwise: it is one of the preemptions.
    assert late
    assert all(one.preempting and one.without for one in late)
    hints = [one for one in reduction.decided if "a wait with a timeout is over before" in one.title]
    assert hints
    waits, ends = hints[0].steps
    assert waits.startswith("thread 1000")
    assert "waits with a timeout in the system call futex, from ask (" in waits
    assert ends.startswith("then thread 1001")
    assert "pthread_cond_signal" in ends
    assert "answered" in hints[0].title


@needs_gcc
def test_one_that_waits_for_the_answer_is_right(tmp_path: Path) -> None:
    program = compiled(tmp_path, "reused.c", REUSED, "-O1", "-DRIGHT=1")
    assert corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=60, schedule="late:5").finding is None


#: Main sleeps for as long as the other takes, mostly. The other has ended then, so that nothing is shared.
SLEPT = """
#include <pthread.h>
#include <stdio.h>
#include <time.h>
static int one, other;
static void *both(void *arg) { one = 1; other = 1; return arg; }
int main(void) {
    pthread_t thread;
    struct timespec time = {0, 100000000};
    pthread_create(&thread, 0, both, 0);
    nanosleep(&time, 0);
    int seen = __atomic_load_n(&one, 5) - __atomic_load_n(&other, 5);
    pthread_join(thread, 0);
    printf("%d\\n", seen);
    return seen;
}
"""


@needs_gcc
def test_a_sleep_that_is_too_short_is_learnt_from_and_found(tmp_path: Path) -> None:
    program = compiled(tmp_path, "slept.c", SLEPT, "-O1", "-Wl,-z,now")
    found = corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=400, learn=16, reduce=False, explain=False)
    assert found.finding is not None
    assert found.finding.run.attempt.schedule in ("late:3", "late:5")


@needs_gcc
def test_what_a_program_calls_tells_that_it_may_time_out(tmp_path: Path) -> None:
    source = "#include <unistd.h>\nint main(void) { CALL; return 0; }\n"
    for call, may in (("usleep(1)", True), ("alarm(0)", True), ("getppid()", False)):
        program = compiled(tmp_path, f"calls_{call[:5]}.c", source, f"-DCALL={call}")
        raw = program.read_bytes()
        assert may_time_out(raw) is may
        # Whatever is left of it.
        for n in range(0, len(raw), 97):
            may_time_out(raw[:n])
    assert not may_time_out(b"no program")


def test_which_runs_of_a_hunt_let_timeouts_come_early() -> None:
    names = [one.schedule for one in attempts(16, 0, "mixed", timed=True)]
    assert [name for name in names if name.startswith("late:")] == ["late:3", "late:5", "late:3", "late:5"]
    later = [one.number for one in attempts(64, 0, "mixed") if one.schedule.startswith("late:")]
    assert later == [39, 47, 55, 63]
    assert {one.schedule for one in attempts(16, 0, "chaos", timed=True)} == {"chaos"}
