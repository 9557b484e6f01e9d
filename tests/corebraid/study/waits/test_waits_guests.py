"""What programs that wait for ever wait for: work from outside or not, and at what, by its name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cli_factory import run
from stack_factory import compiled, needs_gcc
from wait_guests import CXX, C

from recorder.files.manifest import load

needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to make guests")
SERVER = "a TCP socket that listens at 127.0.0.1:8080"
OUTSIDE, FAILED = ("idle", 0), ("deadlock", 3)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("waits"), "waits.c", C, "-O2", "-w")


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("static"), "waits.c", C, "-O1", "-w", "-static")


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def cxx(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cxx")
    return compiled(folder, "waits.cpp", CXX, "-std=c++20", request.param)


def recorded(path: Path, program: Path, how: str) -> tuple[str, int, list[str]]:
    """Why a run ended, the exit code of `record`, and what its threads waited for."""
    ran = run("record", "-o", path, "--cores", 4, "--", program, how)
    end = load(path).end
    assert end is not None
    told = [line.removeprefix("corebraid: ") for line in ran.err.splitlines()]
    return end.reason, ran.code, [line.partition(" waits for ")[2] for line in told if " waits for " in line]


@needs_gcc
@pytest.mark.parametrize(
    ("how", "waits"),
    [
        ("accept", f"a connection to accept (descriptor 3: {SERVER})"),
        ("udp", "a receive on socket:[1001] (recvfrom, descriptor 3: a UDP socket at 127.0.0.1:8080)"),
        ("poll", f"a poll (descriptor 4: {SERVER}, descriptor 3: an eventfd)"),
        ("select", f"a select (pselect6, descriptor 3: {SERVER})"),
        (
            "epoll",
            "an epoll_wait (descriptor 3: an epoll instance that watches "
            f"descriptor 5: {SERVER}, descriptor 4: an eventfd)",
        ),
        ("signalfd", "a read of anon_inode:[signalfd] (descriptor 3: a signalfd)"),
        ("pause", "a signal (pause)"),
    ],
)
def test_work_from_outside(program: Path, tmp_path: Path, how: str, waits: str) -> None:
    reason, code, told = recorded(tmp_path / "rec", program, how)
    assert (reason, code, told[0]) == (*OUTSIDE, f"work from outside: {waits}")


@needs_gcc
@pytest.mark.parametrize(
    ("how", "waits"),
    [
        ("pipe", "a read of pipe:[1001] (descriptor 3: an end of a pipe)"),
        ("pair", "a read of socket:[1001] (descriptor 3: a Unix socket, whose other end is the guest's too)"),
        ("eventfd", "a read of anon_inode:[eventfd] (descriptor 3: an eventfd)"),
        ("timerfd", "a read of anon_inode:[timerfd] (descriptor 3: a timerfd that is not set)"),
        (
            "udp_unbound",
            "a receive on socket:[1001] (recvfrom, descriptor 3: a UDP socket without an address)",
        ),
        ("poll_for_writing", f"a poll (descriptor 3: {SERVER})"),
        (
            "epoll_of_its_own",
            "an epoll_wait (descriptor 3: an epoll instance that watches descriptor 4: an eventfd)",
        ),
    ],
)
def test_nobody_else_can_end_it(program: Path, tmp_path: Path, how: str, waits: str) -> None:
    assert recorded(tmp_path / "rec", program, how) == (*FAILED, [waits])


@needs_gcc
@pytest.mark.parametrize("how", ["server_with_workers", "server_with_a_lock"])
def test_who_waits_for_who_waits_for_work_is_in_no_deadlock(program: Path, tmp_path: Path, how: str) -> None:
    reason, code, told = recorded(tmp_path / "rec", program, how)
    assert (reason, code) == OUTSIDE
    assert told[0].startswith("work from outside: a connection to accept")
    assert not any("never to go on" in line for line in told)


@needs_gcc
@pytest.mark.parametrize("linked", ["program", "static"])
def test_a_deadlock_of_some(linked: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    made: Path = request.getfixturevalue(linked)
    ran = run("record", "-o", tmp_path / "rec", "--cores", 4, "--", made, "server_with_a_cycle")
    assert ran.code == 3
    assert "a cycle: 1001 -> 1002 -> 1001" in ran.err
    assert "never to go on: 1001, 1002; the others wait for work from outside" in ran.err
    assert "some threads wait for ever for each other or for one that has ended" in ran.err
    assert "(second), held by thread 1002" in ran.err
    told = run("info", tmp_path / "rec").out
    assert "work from outside: a connection to accept" in told
    assert "never to go on: 1001, 1002" in told


@needs_gcc
def test_hunts_hold_a_deadlock_of_some_and_no_idle_server(program: Path, tmp_path: Path) -> None:
    hunt = ("hunt", "--runs", 1, "--schedule", "random", "--jobs", 1, "--no-reduce", "--no-explain")
    idle = run(*hunt, "-o", tmp_path / "idle", "--", program, "server_with_workers")
    assert idle.code == 1, idle.err
    assert not (tmp_path / "idle").exists()
    some = run(*hunt, "-o", tmp_path / "some", "--", program, "server_with_a_cycle")
    assert some.code == 0, some.err
    assert "deadlock: some can never go on, others wait for work from outside (deadlock)" in some.out


#: What each way of waiting is told as.
NAMED = {
    "ended": "the mutex at 0x# (first), held by thread 1001, which has ended",
    "join": "thread 1001 to end",
    "destroyed": "the mutex at 0x# (robust), destroyed meanwhile, held by thread 1001",
    "robust": "the robust mutex at 0x# (robust), held by thread 1001",
    "inherits": "the mutex at 0x# (robust), held by thread 1001",
    "barrier": "the barrier to which 1 of 3 have come, at 0x# (gate)",
    "sem": "the semaphore at 0x# (room)",
    "cond": "the condition variable at 0x# (changed)",
    "once": "the initialisation by pthread_once at 0x# (once)",
    "rwlock_ended": "the reader-writer lock at 0x# (table), held by thread 1001, which has ended",
    "rwlock_readers": "the reader-writer lock that 2 readers have, at 0x# (table)",
    "looks_like_a_mutex": "the futex at 0x# (mine.word) (value 2)",
}


def _without_addresses(text: str) -> str:
    return " ".join("0x#" if word.startswith("0x") else word for word in text.split(" "))


@pytest.mark.sampled(5)
@needs_gcc
@pytest.mark.parametrize("how", NAMED)
@pytest.mark.parametrize("linked", ["program", pytest.param("static", marks=pytest.mark.soak)])
def test_what_a_thread_waits_at(
    linked: str, how: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    reason, code, told = recorded(tmp_path / "rec", request.getfixturevalue(linked), how)
    assert (reason, code) == FAILED
    assert _without_addresses(told[0]) == NAMED[how]


_TWO_WRITERS = """
#include <pthread.h>
long before[16];
pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static void *writes(void *_) { pthread_rwlock_wrlock(&table); return 0; }
int main(void)
{
    pthread_t a, b;
    pthread_rwlock_rdlock(&table);
    pthread_create(&a, 0, writes, 0), pthread_create(&b, 0, writes, 0);
    pthread_join(a, 0), pthread_join(b, 0);
}
"""


@needs_gcc
def test_both_words_of_a_reader_writer_lock_are_its(tmp_path: Path) -> None:
    """The second writer waits at another word, whose neighbours look like a condition variable's."""
    made = compiled(tmp_path, "writers.c", _TWO_WRITERS, "-O1", "-w")
    reason, _, told = recorded(tmp_path / "rec", made, "")
    assert reason == "deadlock"
    lock = "the reader-writer lock that 1 reader has, at 0x# (table)"
    assert sorted(map(_without_addresses, told)) == [lock, lock, "thread 1001 to end"]


@needs_gcc
@pytest.mark.parametrize("linked", ["program", "static"])
def test_what_only_looks_like_a_cycle_of_mutexes(
    linked: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A structure of the program's, with a word that it waits at by syscall(2)."""
    made: Path = request.getfixturevalue(linked)
    reason, code, told = recorded(tmp_path / "rec", made, "server_with_what_looks_like_a_cycle")
    assert (reason, code) == OUTSIDE
    assert _without_addresses(told[1]) == "the futex at 0x# (mine.word) (value 2)"


@needs_gcc
def test_without_names_it_is_said_that_it_only_looks_so(static: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run(["strip", "-o", bare, static], check=True)
    _, _, told = recorded(tmp_path / "rec", bare, "ended")
    assert told[0].startswith("what looks like a mutex, in a function without a name, at 0x")
    assert told[0].endswith(", held by thread 1001, which has ended")


@needs_gxx
@pytest.mark.parametrize(
    ("how", "waits"),
    [
        ("mutex", "the mutex at 0x# (guard), held by thread 1001, which has ended"),
        ("condition", "the condition variable at 0x# (changed)"),
        ("latch", "the std::latch at 0x# (gone)"),
        ("semaphore", "the std::counting_semaphore at 0x# (slots)"),
        ("atomic", "a change of the std::atomic at 0x# (number)"),
        ("barrier", "the std::barrier, wherever that is"),
        ("future", "the result of a std::future with the word at 0x#"),
    ],
)
@pytest.mark.sampled(2)
def test_what_a_thread_waits_at_in_cxx(cxx: Path, tmp_path: Path, how: str, waits: str) -> None:
    reason, code, told = recorded(tmp_path / "rec", cxx, how)
    assert (reason, code, _without_addresses(told[0])) == (*FAILED, waits)
