"""A guest process without cores for tests of its file system: calls by name, over memory that is an array."""

from __future__ import annotations

import random
from inspect import signature
from pathlib import Path
from types import GeneratorType, SimpleNamespace
from typing import Any

from fake_memory import FakeMemory

from emu.linux.calls import descriptors as calls_descriptors
from emu.linux.calls import file_times as calls_file_times
from emu.linux.calls import files as calls_files
from emu.linux.calls import paths as calls_paths
from emu.linux.calls import splice as calls_splice
from emu.linux.calls import stat as calls_stat
from emu.linux.calls import transfer as calls_transfer
from emu.linux.files.descriptors import Descriptors
from emu.linux.files.open_file import OpenFile
from emu.linux.files.standard_streams import StandardInput, StandardOutput
from emu.linux.ground.clock import VirtualClock
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.limits import Limits
from emu.linux.ground.wait import Reason
from emu.linux.tree.filesystem import Filesystem
from emu.linux.tree.root_spec import Bind, RootSpec
from isa.x86_64.linux import LINUX_X86_64

HANDLERS: dict[str, Any] = {}
for _module in (
    calls_descriptors, calls_file_times, calls_files, calls_paths, calls_splice, calls_stat, calls_transfer,
):  # fmt: skip
    HANDLERS.update({name: call.handler for name, call in _module.CALLS.items()})

AT_FDCWD = -100
PID = 1234
MEMORY = 1 << 22


class FakeFacts:
    """A process with two tasks."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self.pid, self.executable, self.n_cores, self.memory_limit, self.umask = (
            PID,
            "/bin/prog",
            3,
            1 << 30,
            0o22,
        )
        self.clock = guest.clock
        self.names = {PID: "prog", PID + 1: "worker"}
        self.current = PID

    def current_tid(self) -> int:
        return self.current

    def tids(self) -> list[int]:
        return sorted(self.names)

    def task_name(self, tid: int) -> str:
        return self.names[tid]

    def task_state(self, tid: int) -> str:
        return "R (running)" if tid == PID else "S (sleeping)"

    def task_affinity(self, tid: int) -> int:
        return 0b111

    def rename_task(self, tid: int, name: str) -> None:
        self.names[tid] = name

    def cpu_time(self, tid: int | None) -> int:
        return 50_000_000

    def arguments(self) -> tuple[bytes, ...]:
        return (b"prog", b"-x")

    def environment(self) -> tuple[bytes, ...]:
        return (b"A=b",)

    def auxiliary_vector(self) -> bytes:
        return bytes(16)

    def maps(self) -> str:
        return "00400000-00401000 r-xp 00000000 08:01 5 /bin/prog\n"

    def memory_size(self) -> int:
        return 8 << 20

    def memory_used(self) -> int:
        return 4 << 20

    def descriptors(self) -> list[tuple[int, OpenFile]]:
        return self._guest.process.descriptors.items()

    def limits(self) -> str:
        return Limits().text()

    def signal_lines(self, tid: int) -> str:
        return "SigQ:\t0/100\n"

    def cpu_lines(self) -> str:
        return "vendor_id\t: AuthenticAMD\nflags\t\t: fpu sse2\n"


class FakeTask:
    """A task; signal: what each wait of its ends with."""

    def __init__(self, process: Any) -> None:
        self.process = process
        self.tid = PID


class Guest:
    """A process with a root. Calls give results as Linux does: -errno for failures."""

    def __init__(self, *binds: Bind, stdin: bytes = b"", **options: Any) -> None:
        self.memory = FakeMemory(MEMORY - 4096)
        self.clock = VirtualClock()
        self.printed: list[bytes] = []
        self.posted: list[int] = []
        self.random = random.Random(7)
        options.setdefault("system", False)
        self.filesystem = Filesystem(RootSpec(tuple(binds), **options), self.clock, self.random)
        descriptors = Descriptors()
        for file in (
            StandardInput(stdin),
            StandardOutput(self.printed.append),
            StandardOutput(self.printed.append, error=True),
        ):
            descriptors.add(file)
        self.process: Any = SimpleNamespace(
            memory=self.memory,
            clock=self.clock,
            filesystem=self.filesystem,
            descriptors=descriptors,
            signals=SimpleNamespace(post=lambda task, signal: self.posted.append(signal)),
            abi=LINUX_X86_64,
            umask=0o022,
            ids=(1000, 1000),
            space=SimpleNamespace(
                has_shared_files=False, reload=lambda: None, may_be_written=lambda key: False
            ),
        )
        self.task = FakeTask(self.process)
        self.facts = FakeFacts(self)
        self.filesystem.attach(self.facts)
        self._at = 1 << 16

    def close(self) -> None:
        self.process.descriptors.close_all()
        self.filesystem.close()

    def room(self, n: int) -> int:
        """An address for n bytes, of which the previous content is of no use."""
        if self._at + n > MEMORY:
            self._at = 1 << 16
        address, self._at = self._at, self._at + (n + 15 & ~15)
        return address

    def put(self, data: bytes) -> int:
        address = self.room(len(data))
        self.memory.write(address, data)
        return address

    def begin(self, name: str, *arguments: int | str | bytes) -> Any:
        """The call's generator, or its result."""
        mask = (1 << 64) - 1
        words = [
            argument & mask if isinstance(argument, int) else self.put(_text(argument) + b"\0")
            for argument in arguments
        ]
        try:
            handler = HANDLERS[name]
            return handler(self.task, *words[: len(signature(handler).parameters) - 1])
        except Errno as failure:
            return -failure.number

    def call(self, name: str, *arguments: int | str | bytes) -> int:
        """A call that must not wait. Strings become addresses."""
        answer = self.begin(name, *arguments)
        if not isinstance(answer, GeneratorType):
            return int(answer)
        return finish(answer)

    # -- shorter -------------------------------------------------------------------------------------------

    def open(self, path: str | bytes, flags: int = 0, mode: int = 0o644, at: int = AT_FDCWD) -> int:
        return self.call("openat", at, path, flags, mode)

    def read(self, fd: int, n: int = 1 << 16) -> bytes | int:
        at = self.room(n)
        got = self.call("read", fd, at, n)
        return self.memory.read(at, got) if got >= 0 else got

    def pread(self, fd: int, n: int, offset: int) -> bytes | int:
        at = self.room(n)
        got = self.call("pread64", fd, at, n, offset)
        return self.memory.read(at, got) if got >= 0 else got

    def write(self, fd: int, data: bytes) -> int:
        return self.call("write", fd, self.put(data), len(data))

    def cat(self, path: str | bytes, at: int = AT_FDCWD) -> bytes | int:
        """A whole file."""
        fd = self.open(path, at=at)
        if fd < 0:
            return fd
        pieces = []
        while piece := self.read(fd):
            if isinstance(piece, int):
                return piece
            pieces.append(piece)
        assert self.call("close", fd) == 0
        return b"".join(pieces)

    def store(self, path: str | bytes, data: bytes, flags: int = 0o1101) -> int:
        """Write a whole file; -errno of what failed."""
        fd = self.open(path, flags)
        if fd < 0:
            return fd
        done = self.write(fd, data)
        self.call("close", fd)
        return min(done, 0)

    def stat(self, path: str | bytes, flags: int = 0, at: int = AT_FDCWD) -> dict[str, int] | int:
        address = self.room(144)
        failed = self.call("newfstatat", at, path, address, flags)
        return failed or LINUX_X86_64.stat.unpack(self.memory.read(address, 144))

    def readlink(self, path: str | bytes, at: int = AT_FDCWD) -> str | int:
        address = self.room(4096)
        n = self.call("readlinkat", at, path, address, 4096)
        return n if n < 0 else self.memory.read(address, n).decode("utf-8", "surrogateescape")

    def names(self, path: str, call: str = "getdents64") -> list[str] | int:
        fd = self.open(path, 0o200000)
        if fd < 0:
            return fd
        names: list[str] = []
        address = self.room(512)
        while (n := self.call(call, fd, address, 512)) > 0:
            raw = self.memory.read(address, n)
            while raw:
                length = int.from_bytes(raw[16:18], "little")
                start = 19 if call == "getdents64" else 18
                names.append(raw[start:length].split(b"\0")[0].decode("utf-8", "surrogateescape"))
                raw = raw[length:]
        self.call("close", fd)
        return n if n < 0 else names

    def cwd(self) -> str | int:
        address = self.room(4096)
        n = self.call("getcwd", address, 4096)
        return n if n < 0 else self.memory.read(address, n - 1).decode("utf-8", "surrogateescape")


def finish(generator: Any) -> int:
    """The result of a call that must not wait."""
    try:
        wait = next(generator)
    except StopIteration as end:
        return int(end.value)
    except Errno as failure:
        return -failure.number
    raise AssertionError(f"it waits for {wait.what}")


def resume(generator: Any, reason: Reason) -> int | str:
    """The result of a call once its wait is over."""
    try:
        generator.send(reason)
    except StopIteration as end:
        return int(end.value)
    except Errno as failure:
        return -failure.number
    except Interrupted as interrupted:
        return "restart" if interrupted.restart else "EINTR"
    return "waits"


def _text(argument: str | bytes) -> bytes:
    return argument if isinstance(argument, bytes) else argument.encode("utf-8", "surrogateescape")


def tree(root: Path) -> dict[str, bytes | str | None]:
    """Everything below a host directory: contents, link targets, None for directories."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_dir():
            found[name] = None
        else:
            found[name] = path.read_bytes()
    return found
