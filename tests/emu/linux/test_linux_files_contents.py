"""What the calls tell of files; their contents and limits; memory files, mapped files, programs."""

from __future__ import annotations

import errno
import os
import stat as modes
import struct
from pathlib import Path
from typing import Any

import pytest
from linux_files_factory import AT_FDCWD, Guest, finish

from emu.linux.calls.stat import STATFS, STATX
from emu.linux.files.private_layer import CHUNK, MAX_FILE, NODE, Contents, PrivateLayer
from emu.linux.ground.failure import Errno
from emu.linux.tree.root_spec import Bind

RW_NEW = os.O_RDWR | os.O_CREAT


@pytest.fixture
def guest() -> Guest:
    return Guest()


# -- what is told of files -----------------------------------------------------------------------------------


def test_statx_and_stat_agree(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    os.utime(tmp_path / "f", ns=(1, 1_600_000_000_123_456_789))
    guest = Guest(Bind(tmp_path, "/w"))
    stat = guest.stat("/w/f")
    assert isinstance(stat, dict)
    assert (stat["size"], stat["modified"], stat["modified_ns"]) == (5, 1_600_000_000, 123_456_789)
    # Of the host's times only the modification is told: the others vary without a change.
    assert (stat["accessed"], stat["changed"]) == (stat["modified"], stat["modified"])
    room = guest.room(256)
    assert guest.call("statx", AT_FDCWD, "/w/f", 0, 0xFFF, room) == 0
    extended = STATX.unpack(guest.memory.read(room, 256))
    for name in ("inode", "size", "mode", "links", "uid", "gid", "modified", "modified_ns", "blocks"):
        assert extended[name] == stat[name], name
    assert os.makedev(extended["major"], extended["minor"]) == stat["device"]
    assert guest.call("statx", AT_FDCWD, 0, 0x1000, 0xFFF, room) == -errno.EFAULT
    assert guest.call("statx", AT_FDCWD, "/w/f", 0x6000, 0xFFF, room) == -errno.EINVAL
    assert guest.call("statx", 0, "", 0x1000, 0xFFF, room) == 0
    assert guest.call("newfstatat", 0, "", room, 0x1000) == 0
    assert guest.call("newfstatat", 0, "", room, 0) == -errno.ENOENT
    assert guest.call("statfs", "/", room) == 0
    assert STATFS.unpack(guest.memory.read(room, 120))["name_length"] == 255


def test_names_are_sorted_and_complete(tmp_path: Path) -> None:
    names = [f"n{i}" * (1 + i % 7) for i in range(100)]
    for name in names:
        (tmp_path / name).touch()
    guest = Guest(Bind(tmp_path, "/w"))
    assert guest.call("unlink", "/w/n5n5n5n5n5n5") == 0
    assert guest.store("/w/AAA", b"") == 0
    expected = sorted([".", "..", "AAA", *names])
    expected.remove("n5n5n5n5n5n5")
    assert guest.names("/w") == expected
    assert guest.names("/w", "getdents") == expected
    fd = guest.open("/w", os.O_DIRECTORY)
    room = guest.room(512)
    assert guest.call("getdents64", fd, room, 10) == -errno.EINVAL
    assert guest.call("getdents64", fd, room, 512) > 0
    raw = guest.memory.read(room, 512)
    inode, offset, length, kind = struct.unpack_from("<QQHB", raw)
    assert (offset, length, kind) == (1, 24, 4)
    assert inode == guest.stat("/w")["inode"]  # type: ignore[index]
    assert guest.call("lseek", fd, 0, 0) == 0
    assert guest.store("/w/AAB", b"") == 0
    assert guest.call("getdents64", fd, room, 512) > 0
    assert b"AAB\0" in guest.memory.read(room, 512)
    assert guest.call("getdents64", guest.open("/w/AAA"), room, 512) == -errno.ENOTDIR
    assert guest.read(fd, 10) == -errno.EISDIR


def test_inodes_follow_the_guests_own_order(tmp_path: Path) -> None:
    """The host's numbers do not matter: two copies made in another order look the same."""
    seen = []
    for order in (("a", "b", "c"), ("c", "a", "b")):
        top = tmp_path / order[0]
        top.mkdir()
        for name in order:
            (top / name).write_bytes(b"")
            os.utime(top / name, ns=(0, 0))
        guest = Guest(Bind(top, "/w"))
        seen.append([guest.stat(f"/w/{name}") for name in ("b", "a", "c")])
    assert seen[0] == seen[1]


def test_the_current_directory(guest: Guest) -> None:
    assert guest.cwd() == "/"
    assert guest.call("mkdir", "/tmp/d", 0o755) == 0
    assert guest.call("chdir", "/tmp/d") == 0
    assert guest.store("f", b"x") == 0
    assert guest.call("rename", "/tmp/d", "/tmp/e") == 0
    assert guest.cwd() == "/tmp/e"
    room = guest.room(16)
    assert guest.call("getcwd", room, 6) == -errno.ERANGE
    assert guest.call("unlink", "f") == guest.call("rmdir", "/tmp/e") == 0
    assert guest.cwd() == -errno.ENOENT
    assert guest.open("g", RW_NEW) == -errno.ENOENT
    assert guest.cat("../../etc/hostname") == b"guest\n"
    assert guest.readlink("/proc/self/cwd") == "/tmp/e (deleted)"
    assert guest.call("chdir", "/etc/passwd") == -errno.ENOTDIR


def test_permissions(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "f").chmod(0o444)
    guest = Guest(Bind(tmp_path, "/w"))
    access = {mode: guest.call("access", "/w/f", mode) for mode in range(8)}
    assert access == {m: 0 if m in (0, 4) else -errno.EACCES for m in range(8)}
    assert guest.call("faccessat2", AT_FDCWD, "/w/f", 8, 0) == -errno.EINVAL
    assert guest.open("/w/f", os.O_WRONLY) == -errno.EACCES
    assert guest.call("chmod", "/w/f", 0) == 0
    assert guest.open("/w/f") == -errno.EACCES
    assert guest.call("umask", 0o77) == 0o22
    assert guest.call("close", guest.open("/tmp/g", RW_NEW, 0o666)) == 0
    assert guest.stat("/tmp/g")["mode"] & 0o777 == 0o600  # type: ignore[index]
    assert guest.call("mkdir", "/tmp/d", 0) == 0
    assert guest.stat("/tmp/d/x") == -errno.EACCES
    assert guest.names("/tmp/d") == -errno.EACCES
    assert guest.call("chown", "/tmp/g", -1, 7) == 0
    told: Any = guest.stat("/tmp/g")
    assert (told["uid"], told["gid"]) == (1000, 7)


def test_times(guest: Guest) -> None:
    assert guest.store("/tmp/f", b"x") == 0
    times = guest.put(struct.pack("<qqqq", 5, 6, 7, 8))
    assert guest.call("utimensat", AT_FDCWD, "/tmp/f", times, 0) == 0
    told: Any = guest.stat("/tmp/f")
    assert [told[n] for n in ("accessed", "accessed_ns", "modified", "modified_ns")] == [5, 6, 7, 8]
    omit = guest.put(struct.pack("<qqqq", 0, (1 << 30) - 2, 9, 0))
    assert guest.call("utimensat", guest.open("/tmp/f"), 0, omit, 0) == 0
    told = guest.stat("/tmp/f")
    assert (told["accessed"], told["modified"]) == (5, 9)
    guest.clock.advance(10**9)
    assert guest.call("utimensat", AT_FDCWD, "/tmp/f", 0, 0) == 0
    told = guest.stat("/tmp/f")
    assert told["accessed"] == told["modified"] == guest.clock.realtime() // 10**9
    assert (
        guest.call("utimensat", AT_FDCWD, "/tmp/f", guest.put(struct.pack("<qqqq", 0, -1, 0, 0)), 0)
        == -errno.EINVAL
    )
    assert guest.call("utimes", "/tmp/f", guest.put(struct.pack("<qqqq", 1, 2, 3, 4))) == 0
    told = guest.stat("/tmp/f")
    assert (told["modified"], told["modified_ns"]) == (3, 4000)
    assert guest.call("utime", "/tmp/f", guest.put(struct.pack("<qq", 1, 2))) == 0
    assert guest.stat("/tmp/f")["modified"] == 2  # type: ignore[index]


# -- contents and limits -------------------------------------------------------------------------------------


def test_sparse_files_cost_nothing(guest: Guest) -> None:
    fd = guest.open("/tmp/f", RW_NEW)
    assert guest.call("ftruncate", fd, 1 << 38) == 0
    assert guest.call("pwrite64", fd, guest.put(b"end"), 3, (1 << 38) - 3) == 3
    assert guest.filesystem.layer.used <= CHUNK + NODE
    assert guest.pread(fd, 10, 1 << 37) == bytes(10)
    assert guest.call("lseek", fd, 0, 3) == (1 << 38) - CHUNK
    assert guest.call("lseek", fd, 0, 4) == 0
    assert guest.call("lseek", fd, 1 << 38, 3) == -errno.ENXIO
    assert guest.call("ftruncate", fd, 1 << 40) == -errno.EFBIG
    assert guest.call("pwrite64", fd, guest.put(b"x"), 1, MAX_FILE) == -errno.EFBIG
    assert guest.call("fallocate", fd, 0, 0, 1 << 39) == -errno.ENOSPC
    assert guest.call("ftruncate", fd, 0) == 0
    assert guest.filesystem.layer.used == NODE
    assert guest.call("ftruncate", fd, 1 << 39) == 0
    assert guest.call("fallocate", fd, 3, 1, 1 << 38) == 0
    assert guest.filesystem.layer.used <= NODE


def test_empty_files_are_limited_too() -> None:
    guest = Guest(private_limit=100 * NODE)
    made = 0
    while guest.store(f"/tmp/{made}", b"") == 0:
        made += 1
    assert made == 100
    assert guest.call("mkdir", "/tmp/d", 0o755) == guest.call("symlink", "x", "/tmp/l") == -errno.ENOSPC
    assert guest.call("unlink", "/tmp/5") == 0
    assert guest.call("mkdir", "/tmp/d", 0o755) == 0
    assert guest.call("link", "/tmp/1", "/tmp/again") == 0
    assert guest.call("unlink", "/tmp/1") == 0
    assert guest.call("mkdir", "/tmp/e", 0o755) == -errno.ENOSPC
    assert guest.call("rename", "/tmp/2", "/tmp/3") == 0
    assert guest.call("mkdir", "/tmp/e", 0o755) == 0


def test_the_private_layer_is_limited() -> None:
    guest = Guest(private_limit=3 * CHUNK)
    fd = guest.open("/tmp/f", RW_NEW)
    data = guest.put(bytes(2 * CHUNK))
    assert guest.call("write", fd, data, 2 * CHUNK) == 2 * CHUNK
    # What there is room for is written.
    assert guest.call("lseek", fd, CHUNK + 7, 0) == CHUNK + 7
    assert guest.call("write", fd, data, 2 * CHUNK) == CHUNK - 7
    assert guest.call("write", fd, data, 2 * CHUNK) == -errno.ENOSPC
    assert guest.call("unlink", "/tmp/f") == 0
    assert guest.store("/tmp/g", bytes(2 * CHUNK)) == -errno.ENOSPC
    assert guest.call("close", fd) == 0
    assert guest.filesystem.layer.used <= CHUNK
    assert guest.store("/tmp/h", bytes(2 * CHUNK)) == 0


def test_copy_on_write_over_a_large_base() -> None:
    class Base:
        size = 5 * CHUNK + 100

        def read(self, n: int, offset: int) -> bytes:
            return b"B" * max(0, min(n, self.size - offset))

    class Clock:
        def realtime(self) -> int:
            return 0

    layer = PrivateLayer(Clock(), 1 << 30)  # type: ignore[arg-type]
    contents, twin = Contents(layer, Base()), bytearray(b"B" * Base.size)
    for offset, data in ((10, b"x"), (CHUNK - 2, b"yyyy"), (5 * CHUNK + 90, b"z" * 50), (7 * CHUNK, b"far")):
        contents.write(data, offset)
        twin.extend(bytes(max(0, offset + len(data) - len(twin))))
        twin[offset : offset + len(data)] = data
        assert contents.read(1 << 30, 0) == twin
    for size in (6 * CHUNK, 2 * CHUNK + 7, 4 * CHUNK):
        contents.truncate(size)
        del twin[size:]
        twin.extend(bytes(size - len(twin)))
        assert contents.read(1 << 30, 0) == twin
    for offset, length in ((5, CHUNK), (CHUNK // 2, 2 * CHUNK), (10, 0), (3 * CHUNK, 99 * CHUNK)):
        contents.zero(offset, length)
        twin[offset : offset + length] = bytes(max(0, min(length, len(twin) - offset)))
        assert contents.read(1 << 30, 0) == twin
    del contents
    assert layer.used == 0


def test_memory_files_and_seals(guest: Guest) -> None:
    fd = guest.call("memfd_create", "name", 2)
    assert guest.readlink(f"/proc/self/fd/{fd}") == "/memfd:name (deleted)"
    assert guest.write(fd, b"abc") == 3
    assert guest.call("fcntl", fd, 1034, 0) == 0
    assert guest.call("fcntl", fd, 1033, 4 | 2) == 0
    assert guest.write(fd, b"d") == -errno.EPERM
    assert guest.call("ftruncate", fd, 0) == -errno.EPERM
    assert guest.call("pwrite64", fd, guest.put(b"X"), 1, 0) == 1
    assert guest.call("fcntl", fd, 1033, 8 | 1) == 0
    assert guest.call("pwrite64", fd, guest.put(b"X"), 1, 0) == -errno.EPERM
    assert guest.call("fcntl", fd, 1033, 8) == -errno.EPERM
    sealed = guest.call("memfd_create", "x", 0)
    assert guest.call("fcntl", sealed, 1034, 0) == 1
    assert guest.call("memfd_create", "x" * 250, 0) == -errno.EINVAL
    assert guest.call("memfd_create", "x", 4) == -errno.EINVAL
    again = guest.open(f"/proc/self/fd/{fd}")
    assert guest.read(again) == b"Xbc"


def test_unnamed_files_get_a_name(guest: Guest) -> None:
    fd = guest.open("/tmp", os.O_TMPFILE | os.O_RDWR)
    assert guest.write(fd, b"x") == 1
    assert guest.call("linkat", AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, "/tmp/named", 0x400) == 0
    assert guest.cat("/tmp/named") == b"x"
    never = guest.open("/tmp", os.O_TMPFILE | os.O_RDWR | os.O_EXCL)
    assert guest.call("linkat", never, "", AT_FDCWD, "/tmp/never", 0x1000) == -errno.ENOENT
    assert guest.open("/tmp", os.O_TMPFILE) == -errno.EINVAL


def test_mapped_files(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    guest = Guest(Bind(tmp_path, "/w"), Bind(tmp_path, "/rw", True))
    one, two = guest.open("/w/f"), guest.open("/w/f", os.O_RDWR)
    mapped = guest.process.descriptors.get(one).mapped()
    assert mapped.key == guest.process.descriptors.get(two).mapped().key
    assert (mapped.path, mapped.size(), mapped.page(4, 100)) == ("/w/f", 10, b"456789")
    mapped.write_back(8, b"XYZ")
    assert guest.cat("/w/f") == b"01234567XY"
    assert (tmp_path / "f").read_bytes() == b"0123456789"
    fd = guest.open("/rw/f", os.O_RDWR)
    shared = guest.process.descriptors.get(fd).mapped()
    assert guest.call("unlink", "/rw/f") == guest.call("close", fd) == 0
    shared.write_back(0, b"kept")
    assert shared.page(0, 10) == b"kept456789"
    with pytest.raises(Errno):
        guest.process.descriptors.get(0).mapped()


def test_programs_are_found(tmp_path: Path) -> None:
    (tmp_path / "prog").write_bytes(b"\x7fELF")
    (tmp_path / "prog").chmod(0o755)
    (tmp_path / "plain").write_bytes(b"")
    (tmp_path / "link").symlink_to("/work/prog")
    guest = Guest(Bind(tmp_path, "/work"))
    path, data, mapped = guest.filesystem.read_program("/work/link")
    assert (path, data, mapped.path, mapped.size()) == ("/work/prog", b"\x7fELF", "/work/prog", 4)
    assert guest.open("/work/prog", os.O_RDWR) == guest.call("truncate", "/work/prog", 0) == -errno.ETXTBSY
    assert guest.call("unlink", "/work/prog") == 0
    (tmp_path / "prog2").touch()
    for name, number in (
        ("plain", errno.EACCES),
        ("missing", errno.ENOENT),
        ("", errno.EISDIR),
        ("prog2/x", errno.ENOTDIR),
    ):
        with pytest.raises(Errno) as failure:
            guest.filesystem.read_program(f"/work/{name}")
        assert failure.value.number == number


def test_what_is_refused(guest: Guest) -> None:
    room = guest.room(64)
    assert guest.call("getxattr", "/etc/passwd", room, room, 0) == -errno.ENODATA
    assert guest.call("listxattr", "/etc/passwd", room, 0) == 0
    assert guest.call("setxattr", "/missing", room, room, 0, 0) == -errno.ENOENT
    assert guest.call("fsetxattr", 1, room, room, 0, 0) == -errno.EOPNOTSUPP
    for name in ("chroot", "mount", "umount2", "pivot_root", "open_by_handle_at"):
        assert guest.call(name, room, room, room, 0, 0) == -errno.EPERM
    assert guest.call("splice", 0, 0, 1, 0, 1, 0) == -errno.EINVAL
    assert guest.call("mknod", "/tmp/p", modes.S_IFCHR | 0o600, 0) == -errno.EPERM
    assert guest.call("mknod", "/tmp/p", 0o600, 0) == 0
    assert finish(guest.begin("read", guest.open("/tmp/p"), room, 1)) == 0
    assert guest.call("ioctl", guest.open("/tmp/p"), 0x40049409, 0) == -errno.EOPNOTSUPP
    how = guest.put(struct.pack("<QQQ", 0, 0, 8))
    assert guest.call("openat2", AT_FDCWD, "/tmp/p", how, 24) == -errno.EINVAL
    guest.memory.write_number(how + 16, 8, 0)
    assert guest.call("openat2", AT_FDCWD, "/tmp/p", how, 24) > 2
    assert guest.call("openat2", AT_FDCWD, "/tmp/p", how, 8) == -errno.EINVAL


def test_names_for_sockets(guest: Guest) -> None:
    payload = object()
    node = guest.filesystem.create_special("/tmp/s", modes.S_IFSOCK | 0o755, payload)
    found = guest.filesystem.lookup("/tmp/s")
    assert found is node
    assert node.payload is payload
    assert guest.open("/tmp/s") == -errno.ENXIO
    with pytest.raises(Errno):
        guest.filesystem.create_special("/tmp/s", modes.S_IFSOCK | 0o755, payload)
    assert guest.call("unlink", "/tmp/s") == 0
