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
#: One makes files that everybody may write to, for which it takes the mask away; names that nobody but the
#: kernel reads.
MASK = """
static void prepare(void) { umask(077); }
static void *work(void *name) {
    struct stat got;
    if (*(char *)name == 'a') {
        mode_t old = umask(0);
        close(open("/tmp/shared", O_CREAT | O_RDWR, 0666));
        umask(old);
        return 0;
    }
    int own = open("/tmp/private", O_CREAT | O_RDWR, 0666);
    if (fstat(own, &got) || got.st_mode & 077) __atomic_store_n(&wrong, 1, 5);
    return 0;
}
"""
#: One replaces a file that the other one opens, in two steps.
REPLACED = """
static void prepare(void) {
    close(open("/tmp/settings", O_CREAT | O_RDWR, 0600));
    close(open("/tmp/new", O_CREAT | O_RDWR, 0600));
}
static void *work(void *name) {
    if (*(char *)name == 'a') {
        unlink("/tmp/settings");
        rename("/tmp/new", "/tmp/settings");
    } else if (open("/tmp/settings", O_RDONLY) < 0)
        __atomic_store_n(&wrong, 1, 5);
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
#: One reads what stands in a file behind its first page, as long as that is said to be there; the other one
#: cuts it off.
CUT = """
#include <sys/mman.h>
static volatile char *map;
static int file, there = 1;
static void prepare(void) {
    char name[] = "/tmp/cutXXXXXX";
    file = mkstemp(name);
    unlink(name);
    if (ftruncate(file, 8192)) exit(2);
    map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    map[5000] = 1;
}
static void *work(void *name) {
    if (*(char *)name == 'a') {
        for (int i = 0; i < 3; i++)
            if (__atomic_load_n(&there, 5) && map[5000] != 1) exit(3);
        return 0;
    }
    __atomic_store_n(&there, 0, 5);
    if (ftruncate(file, 4096)) exit(2);
    return 0;
}
"""
#: The same of memory that is given back, and whose right to be read is taken.
GIVEN_BACK = CUT.replace("ftruncate(file, 4096)", "munmap((void *)map, 8192)")
FORBIDDEN = CUT.replace("ftruncate(file, 4096)", "mprotect((void *)map, 8192, PROT_NONE)")

#: One cancels the other, which may not have said yet what is to be done then.
CANCELLED = """
#include <semaphore.h>
static sem_t ready;
static pthread_t other;
static int ends[2];
static void prepare(void) {
    wrong = 1;
    if (sem_init(&ready, 0, 0) || pipe(ends)) exit(2);
}
static void undo(void *p) { __atomic_store_n((int *)p, 0, 5); }
static void *work(void *name) {
    char got;
    if (*(char *)name == 'a') {
        sem_wait(&ready);
        pthread_cancel(other);
        return 0;
    }
    other = pthread_self();
    sem_post(&ready);
    fsync(ends[1]);
    pthread_cleanup_push(undo, &wrong);
    read(ends[0], &got, 1);
    pthread_cleanup_pop(1);
    return 0;
}
"""

#: One sends a signal of which the other one has yet to say what is done on it.
TOLD = """
static void handler(int number) { (void)number; }
static void prepare(void) { }
static void *work(void *name) {
    if (*(char *)name == 'a') kill(getpid(), SIGUSR1);
    else signal(SIGUSR1, handler);
    return 0;
}
"""
#: One reads from a pipe that the other makes anew before it writes.
MADE_ANEW = """
static void prepare(void) { if (mkfifo("/tmp/answer", 0600)) exit(2); }
static void *work(void *name) {
    char got;
    int file;
    if (*(char *)name == 'a') {
        file = open("/tmp/answer", O_RDONLY);
        read(file, &got, 1);
    } else {
        unlink("/tmp/answer");
        mkfifo("/tmp/answer", 0600);
        file = open("/tmp/answer", O_WRONLY);
        write(file, "x", 1);
    }
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
        (MASK, "the mask of new files' modes", ("umask", "openat", "umask")),
        (REPLACED, "the file /tmp/settings", ("unlink", "openat", "rename")),
        (SIGNAL, "what is done on SIGPIPE", ("rt_sigaction", "rt_sigaction", "write")),
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
    assert first.title == f"{about}: a system call of another thread comes between two of one"
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
def test_a_call_in_a_header_is_told_with_the_line_of_the_program(tmp_path: Path) -> None:
    header = "static inline void seek(int file, long at) { lseek(file, at, SEEK_SET); }\n"
    (tmp_path / "seek.h").write_text(header)
    source = '#include "seek.h"\n' + OFFSET.replace("lseek(file,", "seek(file,").replace(", SEEK_SET", "")
    found = hunted(tmp_path, source)
    assert found.finding is not None
    assert found.finding.suspicions
    first = found.finding.suspicions[0].steps[0]
    assert "makes the system call lseek, from seek (" in first
    line = next(n for n, text in enumerate((HEAD + source).splitlines(), 1) if "    seek(file" in text)
    assert first.endswith(f"seek.h:1), called at program.c:{line}")


@needs_gcc
@pytest.mark.parametrize(
    ("source", "call", "signal"),
    [(CUT, "ftruncate", 7), (GIVEN_BACK, "munmap", 11), (FORBIDDEN, "mprotect", 11)],
)
def test_memory_that_is_taken_away_between_a_look_and_a_use(
    tmp_path: Path, source: str, call: str, signal: int
) -> None:
    # No word of it is written: that another thread takes it away makes its uses events.
    found = hunted(tmp_path, source)
    assert found.finding is not None
    end = found.finding.run.manifest.end
    assert end is not None
    assert end.exit_code == 128 + signal
    assert found.finding.suspicions
    first = found.finding.suspicions[0]
    assert first.tried
    assert first.title.endswith(": memory that one thread takes away before another uses it")
    taken, used = first.steps[-2:]
    assert f"makes the system call {call}, from work" in taken
    assert "uses " in used
    assert used.endswith("and dies of it")


@needs_gcc
def test_a_signal_that_comes_too_early(tmp_path: Path) -> None:
    found = hunted(tmp_path, CANCELLED, runs=600)
    assert found.finding is not None
    assert found.finding.suspicions
    first = found.finding.suspicions[0]
    assert first.tried
    assert first.title == "signal 32: sent to a thread before it goes on"
    sent, stands = first.steps
    lines = (HEAD + CANCELLED + MAIN).splitlines()
    for step, what in ((sent, "pthread_cancel(other)"), (stands, "fsync(")):
        line = next(n for n, text in enumerate(lines, 1) if what in text)
        assert f"program.c:{line})" in step
    assert "makes the system call tgkill, from work" in sent
    assert " is at the end of what it has called at work" in stands


@needs_gcc
def test_who_is_cancelled_before_it_has_begun_is_found_soon(tmp_path: Path) -> None:
    # To cancel a thread a library is loaded, which takes longer than a thread may go on alone in most runs.
    source = """
static void *work(void *done) {
    fsync(-1);
    *(int *)done = 1;
    return 0;
}
int main(void) {
    pthread_t thread;
    int done = 0;
    pthread_create(&thread, 0, work, &done);
    pthread_cancel(thread);
    pthread_join(thread, 0);
    return !done;
}
"""
    program = compiled(tmp_path, "program.c", HEAD + source, "-O1")
    found = corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=8, reduce=False, explain=False)
    assert found.finding is not None


@needs_gcc
@pytest.mark.parametrize(
    ("source", "about", "calls"),
    [
        (MADE_ANEW, "the file /tmp/answer", ("mknodat", "openat")),
        (TOLD, "what is done on SIGUSR1", ("rt_sigaction", "kill")),
    ],
)
def test_calls_that_come_too_early_without_any_preemption(
    tmp_path: Path, source: str, about: str, calls: tuple[str, ...]
) -> None:
    found = hunted(tmp_path, source)
    assert found.finding is not None
    assert found.finding.suspicions
    first = found.finding.suspicions[0]
    assert first.tried
    assert first.title == f"{about}: not in the order in which it passes"
    for step, call, when in zip(first.steps, calls, ("first", "then"), strict=True):
        assert step.startswith(f"where it passes, {when} thread ")
        assert f"makes the system call {call}, from work" in step


@needs_gcc
def test_what_asks_for_a_place_in_a_file_in_one_call_is_not_found(tmp_path: Path) -> None:
    assert hunted(tmp_path, RIGHT_OFFSET, runs=60).finding is None
