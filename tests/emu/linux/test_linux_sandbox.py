"""A guest that tries to reach host files it was not given: by path, link, descriptor and /proc."""

from __future__ import annotations

import errno
import os
import socket
import stat as modes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from linux_files_factory import AT_FDCWD, PID, Guest, tree

from emu.linux.files import host_tree
from emu.linux.tree.root_spec import Bind

SECRET = b"the host's secret"
O_PATH, O_NOFOLLOW, O_DIRECTORY, O_CREAT = os.O_PATH, os.O_NOFOLLOW, os.O_DIRECTORY, os.O_CREAT


class Place:
    """A host with something given to the guest, and a secret beside it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.given, self.writable = top / "given", top / "writable"
        self.secret = top / "secret"
        for path in (self.given / "sub", self.writable):
            path.mkdir(parents=True)
        self.secret.write_bytes(SECRET)
        (self.given / "file").write_bytes(b"given")
        for base in (self.given, self.writable):
            (base / "absolute").symlink_to(self.secret)
            (base / "relative").symlink_to("../secret")
            (base / "up").symlink_to("..")
            (base / "parent").symlink_to(top)
            (base / "chain").symlink_to("absolute")
            (base / "magic").symlink_to("/proc/self/root")

    def guest(self, **options: Any) -> Guest:
        return Guest(Bind(self.given, "/work"), Bind(self.writable, "/out", True), cwd="/work", **options)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def guest(place: Place) -> Iterator[Guest]:
    guest = place.guest()
    yield guest
    guest.close()


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whatever is opened once a guest runs is one name below a descriptor, or a descriptor anew."""
    log: list[str] = []
    real = os.open

    def checked(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        name = os.fsdecode(path)
        if dir_fd is None:
            log.append(name)
        else:
            assert "/" not in name, f"opened {name!r}"
            assert name != "..", f"opened {name!r}"
            assert flags & (O_NOFOLLOW | os.O_DIRECTORY), f"opened {name!r} and would have followed a link"
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", checked)
    return log


_PATHS = (
    "../secret", "../../secret", "/../secret", "sub/../../secret", "./.././../secret", "absolute", "relative",
    "chain", "up/secret", "parent/secret", "magic/secret", "magic/../secret", "/out/absolute",
    "/out/relative", "/out/up/secret", "/out/parent/secret", "/out/../secret", "/proc/self/root/../secret",
    "/proc/self/cwd/../secret", "/proc/self/root/proc/self/root/../../secret", "/proc/self/cwd/up/secret",
    f"/proc/{PID}/root/secret", f"/proc/self/task/{PID}/root/../secret", "/proc/self/fd/3/../secret",
    "/proc/self/fd/3/up/secret", "/proc/thread-self/cwd/../secret", "/dev/fd/3/../secret",
)  # fmt: skip


@pytest.mark.parametrize("path", _PATHS)
def test_no_path_reaches_the_secret(guest: Guest, place: Place, path: str) -> None:
    directory = guest.open("/work", O_DIRECTORY)
    assert directory == 3
    for flags in (0, O_PATH, os.O_RDWR, O_CREAT | os.O_EXCL | os.O_WRONLY):
        fd = guest.open(path, flags)
        if fd >= 0:
            # O_CREAT may have made the guest's own file of that name, in its own root.
            assert guest.pread(fd, 100, 0) in (-errno.EBADF, b"")
            assert guest.call("close", fd) == 0
        assert guest.open(path, flags, at=directory) < 0 or flags & O_CREAT or guest.cat(path) == b""
    assert place.secret.read_bytes() == SECRET
    assert guest.cat(path) in (b"", -errno.ENOENT, -errno.ENOTDIR, -errno.ELOOP)


def test_host_files_are_opened_by_single_names_only(guest: Guest, opened: list[str]) -> None:
    """Below the descriptors of what was given; a path is only ever that of such a descriptor."""
    opened.clear()
    for path in (*_PATHS, "file", "/out/w", "/etc/passwd", "/work", "/out"):
        guest.cat(path)
        guest.store(path, b"x")
        guest.names(path)
    assert opened
    assert all(name.startswith("/proc/self/fd/") for name in opened), opened


def test_the_guests_own_names_do_not_help(guest: Guest, place: Place) -> None:
    """Links that the guest makes, to the secret's host path and out of its root."""
    for base in ("/tmp", "/out", "/work"):
        for i, target in enumerate(
            (str(place.secret), "/".join([".."] * 20) + str(place.secret), "/proc/1/root")
        ):
            assert guest.call("symlink", target, f"{base}/s{i}") == 0
            assert guest.cat(f"{base}/s{i}") == -errno.ENOENT
            assert guest.store(f"{base}/s{i}", b"x") == -errno.ENOENT
            assert guest.call("link", f"{base}/s{i}", f"{base}/h{i}") in (0, -errno.EPERM)
            assert guest.cat(f"{base}/h{i}") == -errno.ENOENT
    assert place.secret.read_bytes() == SECRET


def test_other_processes_are_not_there(guest: Guest) -> None:
    for name in ("1", "2", str(os.getpid()), str(PID + 50), "01234", "+1234", "1234x", "\u0661", "-1"):
        assert guest.stat(f"/proc/{name}") == -errno.ENOENT
        assert guest.cat(f"/proc/{name}/environ") == -errno.ENOENT
        assert guest.cat(f"/proc/self/task/{name}/maps") == -errno.ENOENT
    for name in (
        "kcore",
        "kmsg",
        "kallsyms",
        "mem",
        "sysrq-trigger",
        "1/root",
        "self/mem",
        "self/ns",
        "self/map_files",
    ):
        assert guest.open(f"/proc/{name}", os.O_RDWR) == -errno.ENOENT
    for name in (
        "mem",
        "kmem",
        "kmsg",
        "sda",
        "nvme0n1",
        "kvm",
        "net/tun",
        "fuse",
        "pts/0",
        "ptmx",
        "vda",
        "port",
    ):
        assert guest.open(f"/dev/{name}") == -errno.ENOENT
    assert guest.call("mknod", "/tmp/sda", modes.S_IFBLK | 0o600, 0x800) == -errno.EPERM


def test_proc_tells_nothing_of_the_host(guest: Guest) -> None:
    told = b""
    for name in ("status", "stat", "environ", "cmdline", "mounts", "mountinfo", "cgroup", "maps", "limits"):
        text = guest.cat(f"/proc/self/{name}")
        assert isinstance(text, bytes)
        told += text
    for name in (
        "cpuinfo",
        "meminfo",
        "version",
        "mounts",
        "sys/kernel/hostname",
        "sys/kernel/random/boot_id",
    ):
        text = guest.cat(f"/proc/{name}")
        assert isinstance(text, bytes)
        told += text
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    # Some hosts have no name.
    hidden = (os.uname().release, os.uname().version, socket.gethostname(), str(Path.cwd()))
    for text_of_host in filter(None, hidden):
        assert text_of_host.encode() not in told
    assert boot_id not in told
    assert guest.readlink("/proc/self/exe") == "/bin/prog"
    assert guest.readlink("/proc/self/cwd") == "/work"
    assert guest.readlink("/proc/self/root") == "/"


def test_etc_is_made_up(guest: Guest) -> None:
    passwd = guest.cat("/etc/passwd")
    assert isinstance(passwd, bytes)
    assert [line.split(b":")[0] for line in passwd.splitlines()] == [b"root", b"user"]
    for path in (
        "/etc/shadow",
        "/etc/sudoers",
        "/etc/machine-id",
        "/root/.bashrc",
        "/home/user",
        "/boot",
        "/var/run",
    ):
        assert guest.open(path) == -errno.ENOENT
    assert guest.names("/root") == [".", ".."]


@pytest.mark.parametrize("flags", [0, O_PATH])
def test_descriptors_of_directories_lead_no_higher(guest: Guest, flags: int) -> None:
    fd = guest.open("/work/sub", O_DIRECTORY | flags)
    assert guest.cat("../file", at=fd) == b"given"
    assert guest.cat("../../secret", at=fd) == -errno.ENOENT
    assert guest.cat("../up/../secret", at=fd) == -errno.ENOENT
    assert guest.names(f"/proc/self/fd/{fd}/../..") == guest.names("/")
    assert guest.call("fchdir", fd) == 0
    assert guest.cat("../../secret") == -errno.ENOENT
    assert guest.cwd() == "/work/sub"


@pytest.mark.parametrize("dirfd", [-1, -2, -99, 99, 1 << 31, 0xFFFFFF9B, 0, 1])
def test_odd_directory_descriptors(guest: Guest, place: Place, dirfd: int) -> None:
    expected = (-errno.ENOTDIR,) if dirfd in (0, 1) else (-errno.EBADF,)
    assert guest.open("secret", at=dirfd) in expected
    assert guest.open("../secret", at=dirfd) in expected
    assert guest.call("renameat", dirfd, "a", AT_FDCWD, "b") in expected
    # The high half of the register does not count, as for Linux.
    assert guest.open("/work/file", at=dirfd) >= 0
    assert guest.open("file", at=(0xABCD << 32) | 0xFFFFFF9C) >= 0


def test_copy_on_write_never_reaches_the_host(guest: Guest, place: Place) -> None:
    before = tree(place.given)
    assert guest.call("link", "/work/file", "/work/hard") == 0
    assert guest.call("link", "/work/file", "/tmp/hard") == 0
    assert guest.store("/work/hard", b"changed", os.O_WRONLY) == 0
    assert guest.cat("/work/file") == guest.cat("/tmp/hard") == b"changed"
    assert guest.call("chmod", "/work/file", 0o777) == 0
    assert guest.call("truncate", "/tmp/hard", 2) == 0
    assert guest.call("rename", "/work/sub", "/tmp/sub") == 0
    assert guest.store("/tmp/sub/new", b"new") == 0
    assert guest.call("unlink", "/work/up") == 0
    assert guest.call("mkdir", "/work/up", 0o755) == 0
    assert guest.call("rename", "/work/absolute", "/work/file") == 0
    assert guest.call("utimensat", AT_FDCWD, "/work/relative", 0, 0x100) == 0
    assert tree(place.given) == before
    assert (place.given / "file").stat().st_mode & 0o777 == 0o644
    assert (place.given / "file").stat().st_nlink == 1


def test_nothing_moves_between_private_and_writable(guest: Guest, place: Place) -> None:
    (place.writable / "w").write_bytes(b"w")
    assert guest.call("rename", "/work/file", "/out/file") == -errno.EXDEV
    assert guest.call("rename", "/out/w", "/work/w") == -errno.EXDEV
    assert guest.call("link", "/out/w", "/tmp/w") == -errno.EXDEV
    assert guest.call("link", "/work/file", "/out/file") == -errno.EXDEV
    fd = guest.open("/out/w", os.O_RDWR)
    assert guest.call("linkat", fd, "", AT_FDCWD, "/tmp/w", 0x1000) == -errno.EXDEV
    assert guest.call("linkat", AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, "/tmp/w", 0x400) == -errno.EXDEV


def test_a_writable_bind_is_written_and_nothing_else(guest: Guest, place: Place) -> None:
    before = {name: data for name, data in tree(place.top).items() if not name.startswith("writable")}
    assert guest.store("/out/new", b"written") == 0
    assert guest.call("mkdir", "/out/d", 0o4777) == 0
    assert guest.call("chmod", "/out/new", 0o6755) == 0
    assert guest.call("chown", "/out/new", 5, 5) == -errno.EPERM
    assert guest.call("rename", "/out/new", "/out/absolute") == 0
    assert (place.writable / "absolute").read_bytes() == b"written"
    assert not (place.writable / "absolute").is_symlink()
    assert (place.writable / "absolute").stat().st_mode & 0o7777 == 0o755
    assert (place.writable / "d").stat().st_mode & 0o7000 == 0
    # The link leads out of the bind to a file of the guest's own.
    assert guest.store("/out/relative", b"x") == 0
    assert guest.cat("/secret") == b"x"
    assert guest.call("rmdir", "/out") == -errno.EBUSY
    assert guest.call("rename", "/out", "/tmp/out") == -errno.EBUSY
    after = {name: data for name, data in tree(place.top).items() if not name.startswith("writable")}
    assert after == before


def test_a_directory_swapped_for_a_link_on_the_host(guest: Guest, place: Place) -> None:
    """Between two looks of the guest a host directory becomes a link to the directory above."""
    (place.writable / "d").mkdir()
    (place.writable / "d" / "secret").write_bytes(b"mine")
    directory = guest.open("/out/d", O_DIRECTORY)
    assert guest.cat("secret", at=directory) == b"mine"
    (place.writable / "d").rename(place.writable / "moved")
    (place.writable / "d").symlink_to(place.top)
    assert guest.open("secret", at=directory) == -errno.ENOTDIR or guest.cat("secret", at=directory) != SECRET
    assert guest.open("new", O_CREAT | os.O_WRONLY, at=directory) < 0
    assert guest.call("unlinkat", directory, "secret", 0) < 0
    assert guest.cat("/out/d/secret") == -errno.ENOENT
    assert place.secret.read_bytes() == SECRET
    assert not (place.top / "new").exists()


def test_given_directories_swapped_on_the_host(guest: Guest, place: Place) -> None:
    (place.given / "sub" / "secret").write_bytes(b"mine")
    assert guest.stat("/work/sub/secret") != -errno.ENOENT
    (place.given / "sub" / "secret").unlink()
    (place.given / "sub").rmdir()
    (place.given / "sub").symlink_to(place.top)
    found = guest.cat("/work/sub/secret")
    assert isinstance(found, int)
    assert found < 0
    assert guest.cat("/work/sub/other") == -errno.ENOENT


def test_a_file_replaced_on_the_host_is_not_another_file(guest: Guest, place: Place) -> None:
    assert isinstance(guest.stat("/work/file"), dict)
    os.replace(place.secret, place.given / "file")
    assert guest.cat("/work/file") == -errno.ESTALE
    (place.given / "file").unlink()
    (place.given / "file").symlink_to(place.given / "sub")
    assert guest.cat("/work/file") == -errno.EACCES


def test_the_bound_root_is_held(place: Place) -> None:
    """The bind stands for what was there at the start, not for its path."""
    guest = Guest(Bind(place.given, "/work"), Bind(place.given / "file", "/one"))
    place.given.rename(place.top / "elsewhere")
    place.given.symlink_to(place.top)
    (place.top / "file").write_bytes(SECRET)
    assert guest.cat("/work/file") == guest.cat("/one") == b"given"
    assert guest.cat("/work/secret") == -errno.ENOENT
    guest.close()


def test_special_files_are_seen_but_never_opened(place: Place, opened: list[str]) -> None:
    for base in (place.given, place.writable):
        os.mkfifo(base / "fifo")
        listening = socket.socket(socket.AF_UNIX)
        cwd = os.getcwd()
        os.chdir(base)
        listening.bind("sock")
        os.chdir(cwd)
        listening.close()
    guest = place.guest()
    for base in ("/work", "/out"):
        stat = guest.stat(f"{base}/fifo")
        assert isinstance(stat, dict)
        assert modes.S_ISFIFO(stat["mode"])
        for flags in (0, os.O_WRONLY, os.O_RDWR | os.O_NONBLOCK, O_CREAT | os.O_RDWR, os.O_RDWR | os.O_TRUNC):
            assert guest.open(f"{base}/fifo", flags) == -errno.ENXIO
            assert guest.open(f"{base}/sock", flags) == -errno.ENXIO
        fd = guest.open(f"{base}/fifo", O_PATH)
        assert guest.open(f"/proc/self/fd/{fd}", os.O_RDWR) == -errno.ENXIO
    assert guest.call("unlink", "/out/fifo") == 0
    guest.close()


def test_path_descriptors_allow_nothing(guest: Guest) -> None:
    fd = guest.open("/work/file", O_PATH)
    link = guest.open("/work/absolute", O_PATH | O_NOFOLLOW)
    for each in (fd, link):
        assert guest.read(each) == guest.write(each, b"x") == guest.pread(each, 1, 0) == -errno.EBADF
        for name, *arguments in (
            ("ftruncate", 0),
            ("lseek", 0, 0),
            ("fchmod", 0o777),
            ("fsync",),
            ("ioctl", 0x5401, 0),
        ):
            assert guest.call(name, each, *arguments) == -errno.EBADF
    assert guest.readlink("", at=link) != ""
    assert guest.cat(f"/proc/self/fd/{fd}") == b"given"
    assert guest.open(f"/proc/self/fd/{link}") == -errno.ELOOP
    assert guest.open("", 0x1000, at=fd) == -errno.ENOENT
    assert guest.open("x", at=fd) == -errno.ENOTDIR


def test_odd_names(guest: Guest, place: Place) -> None:
    odd = b"/out/\xff\xfe\x01\n"
    assert guest.store(odd, b"odd") == 0
    assert os.fsencode(next(p for p in place.writable.iterdir() if p.name.endswith("\n"))).endswith(
        b"\xff\xfe\x01\n"
    )
    assert guest.cat(odd) == b"odd"
    assert guest.names("/out")[-1] if isinstance(guest.names("/out"), list) else False
    assert guest.open("") == -errno.ENOENT
    assert guest.open("a" * 256) == -errno.ENAMETOOLONG
    assert guest.open(("a" * 200 + "/") * 30) == -errno.ENAMETOOLONG
    assert guest.open("/work/\u00e9" * 1) == -errno.ENOENT
    with pytest.raises(host_tree.Errno):
        guest.filesystem.walk("/work/file\0/../secret")
