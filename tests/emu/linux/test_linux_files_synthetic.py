"""What the guest finds without being given it: /proc, /sys, /dev, /etc, private directories; keep-writes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import lengths
import pytest
from linux_files_factory import AT_FDCWD, PID, Guest, tree

from corebraid.base.errors import UsageError
from emu.linux.ground.clock import VirtualClock
from emu.linux.pseudo.proc_process import ranges
from emu.linux.tree.root_spec import Bind


@pytest.fixture
def guest() -> Guest:
    return Guest(Bind(Path(lengths.__file__), "/bin/prog"))


def _text(guest: Guest, path: str) -> str:
    data = guest.cat(path)
    assert isinstance(data, bytes), (path, data)
    return data.decode()


def _fields(guest: Guest, path: str) -> dict[str, str]:
    lines = [line.partition(":") for line in _text(guest, path).splitlines()]
    return {name: value.strip() for name, _, value in lines}


def test_status(guest: Guest) -> None:
    status = _fields(guest, "/proc/self/status")
    expected = {
        "Name": "prog",
        "Pid": "1234",
        "Tgid": "1234",
        "Threads": "2",
        "VmRSS": "4096 kB",
        "SigQ": "0/100",
    }
    assert {name: status[name] for name in expected} == expected
    assert status["Cpus_allowed_list"] == "0-2"
    worker = _fields(guest, f"/proc/self/task/{PID + 1}/status")
    assert (worker["Name"], worker["Pid"], worker["State"]) == ("worker", "1235", "S (sleeping)")
    host = {line.split(":")[0] for line in Path("/proc/self/status").read_text().splitlines()}
    assert set(status) - host <= {"SigQ"}


def test_stat_has_the_fields_of_the_host(guest: Guest) -> None:
    for path in ("/proc/self/stat", "/proc/self/statm", "/proc/uptime", "/proc/loadavg"):
        ours, host = _text(guest, path).split(), Path(path).read_text().split()
        assert len(ours) == len(host), path
    fields = _text(guest, "/proc/self/stat").split()
    assert fields[:4] == ["1234", "(prog)", "R", "1"]
    assert fields[19] == "2"


def test_the_process(guest: Guest) -> None:
    assert guest.cat("/proc/self/cmdline") == b"prog\0-x\0"
    assert guest.cat("/proc/self/environ") == b"A=b\0"
    assert guest.readlink("/proc/self") == "1234"
    assert guest.readlink("/proc/thread-self") == "1234/task/1234"
    guest.facts.current = PID + 1
    assert guest.cat("/proc/thread-self/comm") == b"worker\n"
    assert guest.names("/proc/self/task") == [".", "..", "1234", "1235"]
    assert "r-xp" in _text(guest, "/proc/1234/maps")
    assert guest.cat("/proc/self/exe") == Path(lengths.__file__).read_bytes()
    assert guest.store("/proc/self/comm", b"renamed-to-something-long", os.O_WRONLY) == 0
    assert guest.cat("/proc/self/comm") == b"renamed-to-some\n"
    assert guest.open("/proc/self/status", os.O_WRONLY) == -errno.EACCES
    assert guest.open("/proc/new", os.O_WRONLY | os.O_CREAT) == -errno.EACCES
    assert guest.call("unlink", "/proc/version") < 0
    assert guest.call("rename", "/proc/version", "/tmp/v") == -errno.EXDEV
    limit = [
        line for line in _text(guest, "/proc/self/limits").splitlines() if line.startswith("Max open files")
    ]
    assert limit[0].split()[3:5] == ["1024", "4096"]
    del guest.facts.names[PID + 1]
    assert guest.cat(f"/proc/self/task/{PID + 1}/comm") == -errno.ENOENT


def test_descriptors(guest: Guest) -> None:
    assert guest.store("/tmp/f", b"contents") == 0
    fd = guest.open("/tmp/f", os.O_RDWR)
    assert guest.names("/proc/self/fd") == [".", "..", "0", "1", "2", "3", "4"]
    assert guest.readlink("/proc/self/fd/3") == "/tmp/f"
    assert guest.readlink("/proc/self/fd/1") == "pipe:[2]"
    assert guest.read(fd, 3) == b"con"
    assert guest.cat("/dev/fd/3") == b"contents"
    assert guest.call("unlink", "/tmp/f") == 0
    assert guest.cat("/proc/self/fd/3") == b"contents"
    assert "pos:\t3" in _text(guest, "/proc/self/fdinfo/3")
    assert guest.open("/proc/self/fd/77") == guest.readlink("/proc/self/fd/77") == -errno.ENOENT
    assert guest.open("/proc/self/fd/03") == -errno.ENOENT


def test_a_text_stays_as_it_was_when_it_was_read(guest: Guest) -> None:
    fd = guest.open("/proc/self/comm")
    assert guest.read(fd, 2) == b"pr"
    guest.facts.names[PID] = "other"
    assert guest.read(fd, 100) == b"og\n"
    assert guest.call("lseek", fd, 0, 0) == 0
    assert guest.read(fd, 100) == b"other\n"
    assert guest.stat("/proc/self/comm")["size"] == 0  # type: ignore[index]


def test_the_machine(guest: Guest) -> None:
    cpuinfo = _text(guest, "/proc/cpuinfo")
    assert cpuinfo.count("processor\t:") == 3
    assert cpuinfo.count("flags\t\t: fpu sse2\n") == 3
    memory = _fields(guest, "/proc/meminfo")
    assert memory["MemTotal"] == "1048576 kB"
    assert memory["MemFree"] == f"{1048576 - 4096} kB"
    lines = _text(guest, "/proc/stat").splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["cpu", "cpu0", "cpu1", "cpu2"]
    assert guest.cat("/sys/devices/system/cpu/online") == b"0-2\n"
    assert guest.cat("/sys/devices/system/cpu/possible") == b"0-2\n"
    node = _text(guest, "/sys/devices/system/node/node0/meminfo").splitlines()
    assert [line.split() for line in node] == [
        ["Node", "0", "MemTotal:", "1048576", "kB"],
        ["Node", "0", "MemFree:", f"{1048576 - 4096}", "kB"],
        ["Node", "0", "MemUsed:", "4096", "kB"],
    ]
    names = guest.names("/sys/devices/system/cpu")
    assert isinstance(names, list)
    assert [name for name in names if name.startswith("cpu")] == ["cpu0", "cpu1", "cpu2"]
    assert b"[never]" in guest.cat("/sys/kernel/mm/transparent_hugepage/enabled")  # type: ignore[operator]
    assert guest.cat("/proc/sys/vm/overcommit_memory") == b"0\n"
    uuids = {_text(guest, "/proc/sys/kernel/random/uuid") for _ in range(2)}
    assert len(uuids) == 2
    assert all(len(uuid) == 37 and uuid[14] == "4" and uuid[19] in "89ab" for uuid in uuids)
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"


def test_no_file_of_the_host_is_from_the_future(tmp_path: Path) -> None:
    """Programs that build or load by time distrust one."""
    (tmp_path / "new").write_text("x")
    clock = VirtualClock()
    assert (tmp_path / "new").stat().st_mtime_ns < clock.realtime()
    assert clock.realtime() < 1_000_000_000 << 31


def test_devices(guest: Guest) -> None:
    assert guest.cat("/dev/null") == b""
    assert guest.store("/dev/null", b"x", os.O_WRONLY) == 0
    assert guest.read(guest.open("/dev/zero"), 5) == bytes(5)
    assert guest.store("/dev/full", b"x", os.O_WRONLY) == -errno.ENOSPC
    assert guest.open("/dev/tty", os.O_RDWR) == -errno.ENXIO
    one, two = Guest(), Guest()
    numbers = one.read(one.open("/dev/urandom"), 32)
    assert numbers == two.read(two.open("/dev/urandom"), 32)
    assert numbers != one.read(one.open("/dev/random"), 32)
    stat = guest.stat("/dev/null")
    host = os.stat("/dev/null")
    assert stat["special_device"] == host.st_rdev  # type: ignore[index]
    assert stat["mode"] == host.st_mode  # type: ignore[index]
    assert guest.store("/dev/shm/x", b"shared") == 0
    assert guest.cat("/dev/shm/x") == b"shared"


def test_empty_private_directories(guest: Guest) -> None:
    for path in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/home"):
        assert guest.names(path) == ([".", "..", "lock"] if path == "/run" else [".", ".."])
        assert guest.store(f"{path}/f", b"x") == 0
    assert guest.stat("/tmp")["mode"] & 0o7777 == 0o1777  # type: ignore[index]
    assert guest.call("rmdir", "/proc") == guest.call("rename", "/dev", "/tmp/dev") == -errno.EBUSY


def test_the_systems_libraries_are_there_and_its_programs_are_not() -> None:
    guest = Guest(system=True)
    libraries = guest.names("/usr/lib")
    assert isinstance(libraries, list)
    assert set(libraries) == {".", "..", *os.listdir("/usr/lib")}
    assert guest.names("/usr/bin") == [".", ".."]
    if os.path.islink("/lib"):
        assert guest.readlink("/lib") == os.readlink("/lib")
    guest.close()


def test_a_whole_root(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_bytes(b"mine")
    (tmp_path / "bin").symlink_to("/usr/bin")
    guest = Guest(Bind(tmp_path, "/"), system=True)
    assert guest.cat("/etc/passwd") == b"mine"
    assert guest.cat("/etc/hostname") == b"guest\n"
    assert guest.readlink("/bin") == "/usr/bin"
    assert guest.stat("/usr/lib") == -errno.ENOENT
    assert guest.cat("/proc/self/cmdline") == b"prog\0-x\0"
    with pytest.raises(UsageError):
        Guest(Bind(tmp_path, "/", True))
    guest.close()


def test_binds_lie_where_they_were_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    guest = Guest(
        Bind(tmp_path / "a", "/x/y/"), Bind(tmp_path / "b", "/x/y/z/b"), Bind(tmp_path / "b", "/x/y/f")
    )
    assert guest.names("/x") == [".", "..", "y"]
    assert guest.names("/x/y") == [".", "..", "f", "z"]
    assert (guest.cat("/x/y/f"), guest.cat("/x/y/z/b")) == (b"b", b"b")
    assert tree(tmp_path) == {"a": None, "a/f": b"a", "b": b"b"}
    with pytest.raises(UsageError):
        Guest(Bind(tmp_path / "b", "/x"), Bind(tmp_path / "b", "/x/y"))
    with pytest.raises(UsageError, match="directory"):
        Guest(cwd="/etc/passwd")
    assert Guest(cwd="/no/where").cwd() == "/no/where"


# -- keeping what was written --------------------------------------------------------------------------------


def test_what_was_changed_is_kept(tmp_path: Path) -> None:
    given = tmp_path / "given"
    (given / "d" / "e").mkdir(parents=True)
    for name in ("same", "changed", "gone", "d/inside", "d/e/deep", "mode"):
        (given / name).write_bytes(name.encode())
    guest = Guest(Bind(given, "/w"), keep_writes=tmp_path / "kept")
    assert isinstance(guest.cat("/w/same"), bytes)
    assert guest.store("/w/changed", b"new") == 0
    assert guest.call("unlink", "/w/gone") == 0
    assert guest.call("rename", "/w/d", "/w/moved") == 0
    assert guest.call("mkdir", "/tmp/empty", 0o755) == 0
    assert guest.call("symlink", "/etc/shadow", "/tmp/link") == 0
    assert guest.store("/tmp/link2", b"") == 0
    assert guest.call("chmod", "/w/mode", 0o755) == 0
    assert guest.store("/w/brief", b"x") == guest.call("unlink", "/w/brief") == 0
    assert guest.store("/etc/passwd", b"root") == 0
    fd = guest.open("/tmp/sparse", os.O_WRONLY | os.O_CREAT)
    assert guest.call("ftruncate", fd, 5 << 20) == 0
    assert guest.call("pwrite64", fd, guest.put(b"x"), 1, 3 << 20) == 1
    guest.filesystem.keep()
    kept = tree(tmp_path / "kept")
    assert kept.pop("tmp/sparse") == bytes(3 << 20) + b"x" + bytes((2 << 20) - 1)
    assert kept == {
        ".deleted": b"/w/d\n/w/gone\n",
        "etc": None, "etc/passwd": b"root",
        "tmp": None, "tmp/empty": None, "tmp/link": "/etc/shadow", "tmp/link2": b"",
        "w": None, "w/changed": b"new", "w/mode": b"mode", "w/moved": None, "w/moved/inside": b"d/inside",
        "w/moved/e": None, "w/moved/e/deep": b"d/e/deep",
    }  # fmt: skip
    assert (tmp_path / "kept/w/mode").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "kept/tmp/sparse").stat().st_blocks < 1000


def test_keeping_never_follows_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    guest = Guest(keep_writes=tmp_path / "kept")
    assert guest.call("mkdir", "/tmp/d", 0o755) == 0
    assert guest.store("/tmp/d/f", b"x") == 0
    # Somebody puts a link where a directory is about to be written.
    (tmp_path / "kept").mkdir()
    keeper = guest.filesystem
    real = os.mkdir

    def swapped(path: bytes, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        real(path, mode, dir_fd=dir_fd)
        if path == b"d":
            os.rmdir(path, dir_fd=dir_fd)
            os.symlink(outside, path, dir_fd=dir_fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "mkdir", swapped)
        with pytest.raises(UsageError):
            keeper.keep()
    assert list(outside.iterdir()) == []


def test_where_writes_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "f").touch()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("full", "full/f", "link"):
        with pytest.raises(UsageError):
            Guest(keep_writes=tmp_path / name)
    guest = Guest()
    guest.store("/tmp/f", b"x")
    guest.filesystem.keep()
    assert guest.call("access", "/tmp/f", 0) == 0
    assert AT_FDCWD == -100
