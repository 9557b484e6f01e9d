"""What may be bound, and how host files are reached: few descriptors, single names, never the kernel's."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from linux_files_factory import Guest

from corebraid.base.errors import UsageError
from emu.linux.files import host_tree
from emu.linux.files.host_tree import HostFiles, HostPlace, HostTree
from emu.linux.tree.root_spec import Bind


@pytest.mark.parametrize("part", [b"..", b".", b"", b"a/b", b"/etc/passwd", b"a\0b"])
def test_the_host_tree_refuses_odd_parts(tmp_path: Path, part: bytes) -> None:
    (tmp_path / "sub").mkdir()
    host = HostTree(tmp_path, HostFiles(), frozenset())
    with pytest.raises(host_tree.Errno):
        HostPlace(host, (part,)).status()
    with pytest.raises(host_tree.Errno):
        HostPlace(host, (b"sub", part, b"secret")).open(os.O_RDONLY)
    host.close()


def test_the_hosts_kernel_stays_outside(tmp_path: Path) -> None:
    """/proc of the host is no bind, and not to be seen through one of the root."""
    with pytest.raises(UsageError, match="kernel"):
        Guest(Bind(Path("/proc/self"), "/host"))
    with pytest.raises(UsageError, match="its own"):
        Guest(Bind(tmp_path, "/proc/x"))
    guest = Guest(Bind(Path("/proc/version"), "/proc/version"), Bind(Path("/dev"), "/dev"))
    assert guest.cat("/proc/version") != Path("/proc/version").read_bytes()
    assert guest.stat("/dev/kmsg") == -errno.ENOENT
    guest = Guest(Bind(Path("/"), "/host"))
    assert guest.open("/host/proc/self/environ") == -errno.EACCES
    assert guest.open("/host/sys/kernel") == -errno.EACCES
    assert guest.open("/host/dev/null") in (-errno.EACCES, -errno.ENXIO)
    guest.close()


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        (Bind(Path("missing"), "/x"), "No such file"),
        (Bind(Path("/dev/null"), "/x"), "neither a file|kernel"),
        (Bind(Path("."), "x"), "absolute"),
        (Bind(Path("."), "/x/../y"), "absolute"),
    ],
)
def test_binds_that_cannot_be(bind: Bind, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Guest(bind)


def test_few_host_descriptors(tmp_path: Path) -> None:
    """However many files the guest has open, the host's descriptors are few; all are closed at the end."""
    count = len(os.listdir("/proc/self/fd"))
    for i in range(300):
        (tmp_path / f"f{i}").write_bytes(b"%d" % i)
    guest = Guest(Bind(tmp_path, "/w"), Bind(tmp_path, "/rw", True))
    read = [guest.open(f"/w/f{i}") for i in range(300)]
    written = [guest.open(f"/rw/f{i}", os.O_RDWR) for i in range(300)]
    for i in range(300):
        assert guest.read(read[i]) == b"%d" % i
        assert guest.write(written[i], b"x") == 1
    assert len(os.listdir("/proc/self/fd")) < count + 100
    guest.close()
    assert len(os.listdir("/proc/self/fd")) == count
