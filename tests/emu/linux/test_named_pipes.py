"""Named pipes: what programs see of them, held against the host's kernel; who waits for ever; what stays."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
from cli_factory import run
from stack_factory import compiled, needs_gcc

from emu.linux.files.descriptors import Descriptors
from emu.linux.files.nodes import DEVICE
from emu.linux.files.open_file import POLLHUP, Stat
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.limits import RLIMIT_NOFILE, Limits
from emu.linux.ground.wait import Reason
from emu.linux.waiting.named_pipe import NamedPipe, await_partner, lacks_partner

_HEAD = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
static char b[64];
static void show(const char *what, long r) { printf("%s %ld %s\n", what, r, r < 0 ? strerror(errno) : ""); }
static void look(int fd) {
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    int n = poll(&p, 1, 0);
    printf("poll %d %x\n", n, p.revents);
}
static void nothing(int s) { (void)s; }
"""
_PROGRAMS = {
    "without_waiting": r"""
int main(void) {
    umask(022);
    show("mkfifo", mkfifo("/tmp/NAME", 0666));
    show("again", mkfifo("/tmp/NAME", 0666));
    show("in no directory", mkfifo("/tmp/NAME.none/f", 0666));
    struct stat st;
    stat("/tmp/NAME", &st);
    printf("%o %ld %ld\n", st.st_mode, (long)st.st_size, (long)st.st_nlink);
    show("only writes", open("/tmp/NAME", O_WRONLY | O_NONBLOCK));
    int r = open("/tmp/NAME", O_RDONLY | O_NONBLOCK);
    show("reads", r); look(r); show("nobody wrote yet", read(r, b, 16));
    int w = open("/tmp/NAME", O_WRONLY | O_NONBLOCK);
    show("writes", w); look(r); look(w); show("empty", read(r, b, 16));
    int w2 = open("/tmp/NAME", O_WRONLY);
    show("two write", write(w2, "abc", 3)); show("two write", write(w, "de", 2)); close(w);
    int held = 0;
    ioctl(r, FIONREAD, &held); show("held", held); look(r);
    show("all", read(r, b, 16)); show("one writes still", read(r, b, 16));
    close(w2); look(r); show("end", read(r, b, 16));
    int again = open("/tmp/NAME", O_RDONLY | O_NONBLOCK);
    look(again); close(again);
    signal(SIGPIPE, SIG_IGN);
    w = open("/tmp/NAME", O_WRONLY); close(r); look(w); show("nobody reads", write(w, "x", 1)); close(w);
    int both = open("/tmp/NAME", O_RDWR);
    show("both", both); look(both); show("to itself", write(both, "xyz", 3)); show("back", read(both, b, 16));
    show("for nobody", write(both, "lost", 4)); close(both);
    both = open("/tmp/NAME", O_RDWR | O_NONBLOCK); show("is gone", read(both, b, 16)); close(both);
    show("as neither", open("/tmp/NAME", O_ACCMODE));
    int p = open("/tmp/NAME", O_PATH); show("path", p >= 0); show("of a path", read(p, b, 1));
    look(p); close(p);
    show("truncate", truncate("/tmp/NAME", 0));
    show("direct", open("/tmp/NAME", O_RDWR | O_DIRECT));
    int one = open("/tmp/NAME", O_RDWR), two = open("/tmp/NAME", O_RDWR);
    show("locked", flock(one, LOCK_EX | LOCK_NB)); show("by another", flock(two, LOCK_EX | LOCK_NB));
    close(one); show("free", flock(two, LOCK_EX | LOCK_NB)); close(two);
    both = open("/tmp/NAME", O_RDWR | O_TRUNC);
    show("lseek", lseek(both, 0, SEEK_SET)); show("pread", pread(both, b, 1, 0));
    show("chmod", fchmod(both, 0600)); stat("/tmp/NAME", &st); printf("%o\n", st.st_mode);
    struct stat same; fstat(both, &same);
    printf("%d %d\n", same.st_ino == st.st_ino, same.st_mode == st.st_mode);
    show("link", link("/tmp/NAME", "/tmp/NAME.2"));
    show("unlink", unlink("/tmp/NAME")); show("unlink", unlink("/tmp/NAME.2"));
    show("still", write(both, "a", 1)); show("still", read(both, b, 1));
    show("gone", open("/tmp/NAME", O_RDWR));
    return 0;
}
""",
    "edges": r"""
static void ready(int e) {
    struct epoll_event event[4];
    int n = epoll_wait(e, event, 4, 0);
    printf("epoll %d %x\n", n, n > 0 ? event[0].events : 0);
}
int main(void) {
    mkfifo("/tmp/NAME", 0600);
    int r = open("/tmp/NAME", O_RDONLY | O_NONBLOCK), e = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLET, {0}};
    epoll_ctl(e, EPOLL_CTL_ADD, r, &event);
    ready(e);
    int w = open("/tmp/NAME", O_WRONLY); ready(e);
    write(w, "a", 1); ready(e); ready(e);
    int w2 = open("/tmp/NAME", O_WRONLY); ready(e);
    int r2 = open("/tmp/NAME", O_RDONLY); ready(e);
    write(w2, "b", 1); ready(e);
    read(r2, b, 1); ready(e); close(r2); ready(e);
    read(r, b, 9); close(w); ready(e); close(w2); ready(e); ready(e);
    unlink("/tmp/NAME");
    return 0;
}
""",
    "with_waiting": r"""
static int came[2];
static void *side(void *writes) {
    int fd = open("/tmp/NAME", writes ? O_WRONLY : O_RDONLY);
    if (writes) came[0] = write(fd, "hello", 5);
    else { came[0] = read(fd, b, 64); came[1] = read(fd, b, 64); }
    close(fd);
    return 0;
}
int main(void) {
    pthread_t t;
    mkfifo("/tmp/NAME", 0600);
    pthread_create(&t, 0, side, (void *)1);
    int fd = open("/tmp/NAME", O_RDONLY);
    show("reads", read(fd, b, 64)); pthread_join(t, 0); show("written", came[0]);
    show("end", read(fd, b, 64)); close(fd);
    pthread_create(&t, 0, side, 0);
    fd = open("/tmp/NAME", O_WRONLY);
    show("writes", write(fd, "abc", 3)); close(fd); pthread_join(t, 0);
    printf("read %d %d\n", came[0], came[1]);
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, 0);
    alarm(1);
    show("interrupted", open("/tmp/NAME", O_RDONLY));
    int null = open("/dev/null", O_RDONLY);
    show("its number is free", null == 3);
    unlink("/tmp/NAME");
    return 0;
}
""",
    "numbers": r"""
static void *opens(void *p) { return (void *)(long)open("/tmp/NAME", O_RDONLY); }
int main(void) {
    pthread_t t;
    mkfifo("/tmp/NAME", 0600);
    pthread_create(&t, 0, opens, 0);
    /* As soon as it can be written to, the other thread is in its call, and has a number. */
    int w;
    while ((w = open("/tmp/NAME", O_WRONLY | O_NONBLOCK)) < 0) usleep(1000);
    void *r;
    pthread_join(t, &r);
    printf("%ld %d\n", (long)r, w);
    unlink("/tmp/NAME");
    return 0;
}
""",
}


@needs_gcc
@pytest.mark.parametrize("name", list(_PROGRAMS))
def test_programs_see_what_they_see_natively(name: str, tmp_path: Path) -> None:
    source = (_HEAD + _PROGRAMS[name]).replace("NAME", f"pipe.{os.getpid()}.{name}")
    program = compiled(tmp_path, f"{name}.c", source, "-O1", "-w")
    native = subprocess.run([program], capture_output=True, text=True, timeout=30, check=True)
    ours = run("record", "-o", tmp_path / "rec", program)
    assert (ours.code, ours.out) == (0, native.stdout)
    assert native.stdout


@needs_gcc
def test_who_waits_for_a_partner_for_ever_is_told(tmp_path: Path) -> None:
    source = _HEAD + 'int main(void) { mkfifo("/tmp/p", 0600); return open("/tmp/p", O_WRONLY); }'
    ran = run("record", "-o", tmp_path / "rec", compiled(tmp_path, "alone.c", source, "-w"))
    assert ran.code == 3
    said = r"waits for an open of /tmp/p, a named pipe \(inode [0-9]+\) that nobody has open for reading"
    assert re.search(said, ran.err)


@needs_gcc
def test_they_are_kept_but_not_put_into_directories_of_the_host(tmp_path: Path) -> None:
    source = (
        _HEAD
        + r"""
int main(void) {
    umask(0);
    show("here", mkfifo("/tmp/p", 0640));
    show("there", mkfifo("/w/p", 0640));
    return 0;
}
"""
    )
    (tmp_path / "given").mkdir()
    program = compiled(tmp_path, "makes.c", source, "-w")
    bind = f"{tmp_path / 'given'}:/w:rw"
    ran = run("record", "-o", tmp_path / "rec", "--bind", bind, "--keep-writes", tmp_path / "kept", program)
    assert ran.out == "here 0 \nthere -1 Operation not permitted\n"
    mode = (tmp_path / "kept/tmp/p").stat().st_mode
    assert (stat.S_ISFIFO(mode), mode & 0o777) == (True, 0o640)
    assert not list((tmp_path / "given").iterdir())


class _Layer:
    def now(self) -> int:
        return 7


def _pipe() -> NamedPipe:
    return NamedPipe(Stat(stat.S_IFIFO | 0o600, 5, DEVICE), _Layer())  # type: ignore[arg-type]


def test_who_is_interrupted_has_opened_nothing() -> None:
    node = _pipe()
    end = node.open(os.O_WRONLY, "/p")
    assert lacks_partner(end)
    waiting = await_partner(end)
    next(waiting)
    with pytest.raises(Interrupted):
        waiting.send(Reason.SIGNAL)
    reader = node.open(os.O_RDONLY | os.O_NONBLOCK, "/p")
    assert reader.poll() == 0
    assert reader.read(1) == b""


def test_a_partner_that_has_gone_again_was_one() -> None:
    node = _pipe()
    end = node.open(os.O_RDONLY, "/p")
    waiting = await_partner(end)
    next(waiting)
    writer = node.open(os.O_WRONLY | os.O_NONBLOCK, "/p")
    writer.write(b"x")
    writer.close()
    with pytest.raises(StopIteration):
        waiting.send(Reason.SIGNAL)
    assert (end.read(9), end.poll()) == (b"x", POLLHUP)
    assert node.stat().modified == 7


def test_a_number_that_is_reserved_is_nobody_elses() -> None:
    limits = Limits()
    limits.soft[RLIMIT_NOFILE] = 2
    numbers, end = Descriptors(limits), _pipe().open(os.O_RDWR, "/p")
    assert (numbers.reserve(), numbers.add(end)) == (0, 1)
    for taking, failure in ((numbers.reserve, errno.EMFILE), (lambda: numbers.get(0), errno.EBADF),
                            (lambda: numbers.replace(0, end), errno.EBUSY)):  # fmt: skip
        with pytest.raises(Errno) as raised:
            taking()
        assert raised.value.number == failure
    assert numbers.fill(0, end) == 0
    numbers.close(0)
    assert numbers.reserve() == 0
    numbers.give_back(0)
    assert numbers.add(end) == 0
