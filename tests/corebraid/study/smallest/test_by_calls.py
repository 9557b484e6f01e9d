"""Bugs in what the kernel keeps for a process: the calls that decide, and what they meet at."""

from __future__ import annotations

from pathlib import Path

import pytest
from stack_factory import compiled, needs_gcc

import corebraid

HEAD = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int wrong;
"""
MAIN = """
int main(void) {
    pthread_t threads[2];
    char *names[] = {"ab", "cd"};
    prepare();
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, names[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return wrong;
}
"""
#: Each thread reads two bytes that only stand where it has gone in the file.
OFFSET = """
static int file;
static void prepare(void) {
    char name[] = "/tmp/offsetXXXXXX";
    file = mkstemp(name);
    unlink(name);
    if (write(file, "abcd", 4) != 4) exit(2);
}
static void *work(void *name) {
    char got[2];
    lseek(file, *(char *)name - 'a', SEEK_SET);
    read(file, got, 2);
    if (memcmp(got, name, 2)) __atomic_store_n(&wrong, 1, 5);
    return 0;
}
"""
RIGHT_OFFSET = OFFSET.replace("lseek(", "0 && lseek(").replace(
    "read(file, got, 2)", "pread(file, got, 2, *(char *)name - 'a')"
)
#: Each makes a file in a directory of its own.
DIRECTORY = """
static char top[] = "/tmp/directoryXXXXXX";
static void prepare(void) {
    if (!mkdtemp(top) || chdir(top) || mkdir("ab", 0700) || mkdir("cd", 0700)) exit(2);
}
static void *work(void *name) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", top, (char *)name);
    chdir(path);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    strcat(path, "/");
    strcat(path, name);
    if (access(path, F_OK)) __atomic_store_n(&wrong, 1, 5);
    return 0;
}
"""
#: Each ignores SIGPIPE while it writes to who has gone.
SIGNAL = """
static int ends[2];
static void prepare(void) {
    if (pipe(ends)) exit(2);
    close(ends[0]);
}
static void *work(void *name) {
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    write(ends[1], name, 2);
    signal(SIGPIPE, old);
    return 0;
}
"""
#: One closes what it takes to be its own once more, when the other one has that number.
NUMBER = """
static int ready[2];
static void prepare(void) { if (pipe(ready)) exit(2); }
static void *work(void *name) {
    int mine = open("/dev/null", O_WRONLY);
    if (write(mine, name, 2) != 2) __atomic_store_n(&wrong, 1, 5);
    close(mine);
    if (*(char *)name == 'c') close(mine);
    return 0;
}
"""


def hunted(tmp_path: Path, source: str, runs: int = 300) -> corebraid.Hunted:
    program = compiled(tmp_path, "program.c", HEAD + source + MAIN, "-O1", "-Wl,-z,now")
    return corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=runs, reduce_time=60.0)


@needs_gcc
@pytest.mark.parametrize(
    ("source", "about", "calls"),
    [
        (OFFSET, "descriptor 3", ("lseek", "", "read")),
        (DIRECTORY, "the current directory", ("chdir", "chdir", "openat")),
        (SIGNAL, "what is done on SIGPIPE", ("rt_sigaction", "rt_sigaction", "write")),
        (NUMBER, "descriptor 5", ("", "close", "write")),
    ],
)
def test_the_calls_that_decide_come_first(
    tmp_path: Path, source: str, about: str, calls: tuple[str, ...]
) -> None:
    found = hunted(tmp_path, source)
    assert found.finding is not None
    assert found.finding.suspicions
    first = found.finding.suspicions[0]
    assert first.tried
    assert first.title.startswith(f"{about}: a system call of another thread comes between")
    for step, call in zip(first.steps, calls, strict=True):
        assert f"makes the system call {call}" in step
        assert ", from work" in step
    whose = [step.partition(" makes")[0] for step in first.steps]
    assert whose[0] == whose[2] != whose[1]
    # It is about no word of memory: nothing is to be asked about one.
    assert first.address is None
    assert first.facts()["address"] is None
    assert [call.name for call in found.finding.calls()] == ["trace", "replay", "pairs"]


@needs_gcc
def test_what_asks_for_a_place_in_a_file_in_one_call_is_not_found(tmp_path: Path) -> None:
    assert hunted(tmp_path, RIGHT_OFFSET, runs=60).finding is None
