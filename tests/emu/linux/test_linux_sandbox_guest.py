"""A recorded guest that tries to get out, to use more than it may, or to break the emulated kernel."""

from __future__ import annotations

import errno
import gc
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cli_factory import run
from linux_guest_factory import (
    PROGRAMS,
    ROOM_BYTES,
    BootedGuest,
    hello_spec,
    open_descriptors,
    tree,
)

from bench.linux_soak import EXPECTED, Plan, examine, judge, record_plan
from corebraid.base.errors import CorebraidError
from emu.linux.calls import table as call_tables
from emu.linux.ground.call import Call
from emu.linux.ground.failure import Exit, Unsupported
from emu.linux.ground.wait import Reason
from emu.linux.kernel import Kernel
from emu.linux.tree.keep_writes import keep
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64
from recorder.capture.guest import LinuxOptions, guest_spec
from recorder.capture.linux import record_linux
from recorder.capture.options import RecordOptions
from recorder.files.reader import Recording

RDWR_CREAT = 0o102


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def guest() -> Iterator[BootedGuest]:
    booted = BootedGuest(hello_spec())
    yield booted
    booted.close()


# -- out of the sandbox ----------------------------------------------------------------------------------


def test_a_hostile_guest_stays_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a directory that it may write to beside the secret, and one that it may only read."""
    monkeypatch.setenv("COREBRAID_SECRET", "do not tell")
    outside, writable, readable = tmp_path / "outside", tmp_path / "writable", tmp_path / "readable"
    for place in (outside, writable, readable):
        place.mkdir()
        (place / "file").write_bytes(b"secret of " + place.name.encode())
    (writable / "way-out").symlink_to(outside)
    (writable / "to-file").symlink_to(outside / "file")
    before = [tree(outside), tree(readable)]
    arguments = [
        str(outside / "file"),
        "/etc/shadow",
        str(writable / "way-out/file"),
        str(writable / "to-file"),
    ]
    binds = ("--bind", f"{writable}:/w:rw", "--bind", f"{readable}:/r")
    ran = run("record", "-o", tmp_path / "rec", "--no-given", *binds, PROGRAMS / "hostile", *arguments)
    assert ran.code == 0, ran.err
    assert "ESCAPED" not in ran.out
    assert ran.out.endswith("hostile: escaped 0\n")
    assert "secret of" not in ran.out
    assert [tree(outside), tree(readable)] == before
    assert not [path for path in tmp_path.rglob("corebraid-escaped*") if writable not in path.parents]
    assert not list(Path("/").glob("corebraid-escaped*")) + list(Path("/tmp").glob("corebraid-escaped*"))


def test_the_hostile_program_is_what_it_should_be(tmp_path: Path) -> None:
    """Its own account of a run without further paths."""
    ran = record_plan(Plan("hostile", 2, 1), tmp_path / "rec")
    judge("hostile", ran)
    assert EXPECTED["hostile"]["stdout"].count("refused") > 50


# -- limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1 << 36, 1 << 47, 1 << 62, (1 << 64) - 4096, (1 << 64) - 1])
def test_mappings_without_end(guest: BootedGuest, size: int) -> None:
    assert guest.call("mmap", 0, size, 3, 0x4022, -1, 0) == -errno.ENOMEM
    assert guest.call("mremap", guest.room, ROOM_BYTES, size, 1) in (-errno.ENOMEM, -errno.EINVAL)
    assert guest.call("mprotect", guest.room, size & -4096, 3) in (-errno.ENOMEM, -errno.EINVAL)


def test_large_mappings_cost_nothing_until_they_are_used(guest: BootedGuest) -> None:
    place = guest.call("mmap", 0, 24 << 30, 3, 0x4022, -1, 0)
    assert place > 0
    used = guest.process.space.present_pages
    zero = guest.call("open", guest.path("/dev/zero"), 2)
    assert guest.call("read", zero, place, 100) == 100
    assert guest.process.space.present_pages <= used + 32


def test_memory_ends_where_it_was_said() -> None:
    guest = BootedGuest(hello_spec(memory=4 << 20))
    place = guest.call("mmap", 0, 1 << 30, 3, 0x4022, -1, 0)
    zero = guest.call("open", guest.path("/dev/zero"), 2)
    got = guest.call("read", zero, place, 1 << 62)
    assert got == -errno.EFAULT or 0 < got < 4 << 20
    assert guest.process.space.present_pages * 4096 <= 4 << 20
    guest.close()


def test_files_without_end(guest: BootedGuest) -> None:
    file = guest.call("open", guest.path("/tmp/file"), RDWR_CREAT, 0o644)
    for size in (1 << 40, 1 << 62, (1 << 63) - 1):
        assert guest.call("ftruncate", file, size) == -errno.EFBIG
        assert guest.call("pwrite64", file, guest.room, 100, size) in (-errno.EFBIG, -errno.EINVAL)
        assert guest.call("fallocate", file, 0, 0, size) in (-errno.EFBIG, -errno.ENOSPC)
    assert guest.call("ftruncate", file, -1) == -errno.EINVAL
    assert guest.call("pwrite64", file, guest.room, 100, -5) == -errno.EINVAL


def test_the_private_layer_is_limited() -> None:
    spec = hello_spec()
    guest = BootedGuest(replace(spec, root=replace(spec.root, private_limit=1 << 20)))
    file = guest.call("open", guest.path("/tmp/file"), RDWR_CREAT, 0o644)
    written = 0
    while (n := guest.call("write", file, guest.room, ROOM_BYTES)) > 0:
        written += n
    assert n == -errno.ENOSPC
    assert (1 << 20) - ROOM_BYTES <= written <= 1 << 20
    made = 0
    while (n := guest.call("mkdir", guest.path(f"/tmp/{made}"), 0o755)) == 0:
        made += 1
    assert n == -errno.ENOSPC
    guest.close()


def test_descriptors_are_limited(guest: BootedGuest) -> None:
    last = 0
    while (n := guest.call("dup", 1)) >= 0:
        last = n
    assert (n, last) == (-errno.EMFILE, 1023)
    more = (4096).to_bytes(8, "little")
    assert guest.call("setrlimit", 7, guest.put(more + more)) == 0
    assert guest.call("dup", 1) == 1024
    beyond = (4097).to_bytes(8, "little")
    assert guest.call("setrlimit", 7, guest.put(beyond + beyond)) == -errno.EPERM


def test_five_thousand_threads(guest: BootedGuest) -> None:
    began = 0
    while (n := guest.call("clone", 0x50F00, guest.room + 4096)) > 0 and began < 5000:
        began += 1
    assert (n, began) == (-errno.EAGAIN, 4095)


def test_directories_without_end(guest: BootedGuest, tmp_path: Path) -> None:
    """Deeper than any path is long, and than Python's stack; also when they are kept."""
    depth = 2500
    here = guest.call("open", guest.path("/tmp"), 0o200000)
    name = guest.path("d")
    for _ in range(depth):
        assert guest.call("mkdirat", here, name, 0o755) == 0
        below = guest.call("openat", here, name, 0o200000)
        assert guest.call("close", here) == 0
        here = below
    assert guest.call("fchdir", here) == 0
    assert guest.call("getcwd", guest.room, 4096) in (-errno.ERANGE, -errno.ENAMETOOLONG)
    assert guest.call("rename", guest.path("/tmp/d"), guest.path("/tmp/e", 100)) == 0
    assert guest.call("rename", guest.path("/tmp/e"), guest.path("/tmp/e/d/d", 100)) == -errno.EINVAL
    kept = tmp_path / "kept"
    try:
        keep(guest.process.filesystem.root, kept)
        at, found = (kept / "tmp/e"), 1
        while (at / "d/d/d/d/d/d/d/d/d/d").is_dir() and found < 1000:
            at, found = at / "d/d/d/d/d/d/d/d/d/d", found + 10
        assert found > 300
    finally:
        # pytest's own cleaning up recurses, too deep for this.
        subprocess.run(["rm", "-rf", str(kept)], check=True)


# -- the kernel holds ------------------------------------------------------------------------------------

ODD = (
    0, 1, 2, 3, 4, 7, 8, 16, 100, 4096, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 36, 1 << 62,
    (1 << 63) - 1, 1 << 63, -1, -2, -100, -4096,
)  # fmt: skip
PATHS = (
    b"/proc/self/maps", b"/tmp/a", b".", b"..", b"/", b"/dev/null", b"/tmp/d/e", b"\xff\xfe", b"", b"x" * 255,
    b"/proc/self/fd/1", b"x" * 300, b"/proc/self/task", b"/sys/devices/system/cpu", b"/dev/zero",
)  # fmt: skip
#: Calls that end the task, or take the room away.
LEFT_OUT = {"exit", "exit_group", "munmap", "mremap", "mmap", "shmdt"}


def furnish(guest: BootedGuest) -> None:
    """Descriptors of many kinds."""
    call = guest.call
    call("mkdir", guest.path("/tmp/d"), 0o755)
    for flags in (0o102, 0o2102, 0o1101):
        call("open", guest.path("/tmp/a"), flags, 0o644)
    for path, flags in (("/tmp/d", 0o200000), ("/", 0o10000000), ("/proc", 0o200000), ("/dev/urandom", 2)):
        call("open", guest.path(path), flags)
    call("pipe2", guest.room, 0o4000)
    for family, kind in ((1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (10, 1), (10, 2)):
        call("socket", family, kind | 0o4000, 0)
    for kind in (1, 2, 5):
        call("socketpair", 1, kind | 0o4000, 0, guest.room)
    call("eventfd2", 3, 0)
    call("timerfd_create", 1, 0)
    call("epoll_create1", 0)
    call("memfd_create", guest.path("m"), 2)


class Hat:
    """Arguments and bytes drawn from a seed."""

    def __init__(self, guest: BootedGuest, seed: int) -> None:
        self._draw, self._guest = random.Random(f"hat/{seed}"), guest

    def argument(self) -> int:
        """A number, an address, a descriptor."""
        draw, room = self._draw, self._guest.room
        kind = draw.random()
        if kind < 0.25:
            return draw.choice(ODD)
        if kind < 0.5:
            return room + draw.randrange(ROOM_BYTES)
        if kind < 0.65:
            return room + (draw.randrange(17) << 12) - draw.choice((0, 0, 1, 4, 8))
        return draw.randrange(48) if kind < 0.95 else draw.getrandbits(64)

    def scribble(self) -> None:
        """Something new in the room."""
        draw = self._draw
        numbers = b"".join((draw.choice(ODD) & (1 << 64) - 1).to_bytes(8, "little") for _ in range(25))
        small = b"".join(draw.randrange(8).to_bytes(4, "little") for _ in range(50))
        what = draw.choice((draw.randbytes(200), bytes(200), numbers, small, draw.choice(PATHS) + b"\0"))
        self._guest.put(what, draw.randrange(15) << 12)

    def choice(self, names: list[str]) -> str:
        """One of them."""
        return self._draw.choice(names)

    def reason(self) -> Reason:
        """Why a wait ends."""
        return self._draw.choice((Reason.TIMEOUT, Reason.WOKEN, Reason.SIGNAL))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
def test_every_call_with_arguments_out_of_a_hat(seed: int) -> None:
    """Whatever is asked of it, the kernel answers with a number, or says what it cannot do."""
    guest = BootedGuest(hello_spec(memory=64 << 20), seed)
    furnish(guest)
    hat, names = Hat(guest, seed), sorted(set(LINUX_X86_64.calls.values()) - LEFT_OUT)
    for _ in range(2500):
        hat.scribble()
        name, arguments, what = hat.choice(names), [hat.argument() for _ in range(6)], ""
        try:
            assert guest.call(name, *arguments, answer=hat.reason) >= -4095
            guest.kernel.expire()
        except Exit:
            pass
        except Unsupported as refused:
            what = refused.what
        assert "defect" not in what, f"{what} {arguments}"
        guest.process.exit_code = None
        guest.call("mprotect", guest.room, ROOM_BYTES, 3)
        for task in [*guest.process.tasks.values()][1:]:
            del guest.process.tasks[task.tid]
    guest.close()


def test_a_defect_is_told_and_the_recording_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of a handler that is no answer of Linux's."""

    def broken(task: object, *arguments: int) -> int:
        raise OverflowError("cannot be that large")

    monkeypatch.setitem(call_tables.CALLS, "prlimit64", Call(broken))
    ran = run("record", "-o", tmp_path / "rec", "--", PROGRAMS / "exit_seven")
    assert ran.code == 3
    assert "a defect of the emulated kernel: OverflowError: cannot be that large in prlimit64(0x" in ran.err
    assert examine(tmp_path / "rec", order=False).cores == 4


# -- many runs in one process ----------------------------------------------------------------------------


def test_nothing_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After runs that went well, that could not begin, and that broke off."""
    program = PROGRAMS / "files"

    def attempt(name: str) -> None:
        spec = guest_spec(program, "files", (), 256 << 20, b"", LinuxOptions())
        record_linux(
            spec, tmp_path / name, X86_64, LINUX_X86_64, RecordOptions(cores=2, memory_bytes=1 << 36),
            lambda data: None, lambda data: None,
        )  # fmt: skip

    attempt("first")
    gc.collect()  # what tests before this one left in cycles
    before = Counter(open_descriptors())
    attempt("second")
    with pytest.raises(CorebraidError, match="already a directory"):
        attempt("second")
    with monkeypatch.context() as broken:

        def fail(*_: object) -> int:
            raise KeyError("broken off")

        broken.setattr(Kernel, "expire", fail)
        with pytest.raises(KeyError, match="broken off"):
            attempt("third")
    assert not Counter(open_descriptors()) - before


def test_writes_that_cannot_be_kept_cost_no_recording(tmp_path: Path) -> None:
    """The place for them is taken while the guest runs."""
    kept = tmp_path / "kept"
    spec = guest_spec(PROGRAMS / "files", "files", (), 256 << 20, b"", LinuxOptions(keep_writes=kept))

    def take_the_place(_: bytes) -> None:
        kept.mkdir(exist_ok=True)
        (kept / "mine").touch()

    begin = time.monotonic()
    with pytest.raises(CorebraidError, match="kept in an empty directory"):
        record_linux(
            spec, tmp_path / "rec", X86_64, LINUX_X86_64, RecordOptions(cores=1, memory_bytes=1 << 36),
            take_the_place, take_the_place,
        )  # fmt: skip
    assert time.monotonic() - begin < 100
    assert Recording.open(tmp_path / "rec").manifest.complete
    assert examine(tmp_path / "rec", order=False).events > 0
