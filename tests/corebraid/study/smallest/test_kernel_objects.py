"""What of the kernel's calls use, and at what two of them meet."""

from __future__ import annotations

import pytest

from corebraid.study.smallest.kernel_objects import Use, met, signal_to, uses
from emu.linux.calls.table import CALLS
from emu.linux.signals.numbers import SIGPIPE, SIGUSR1

MEMORY = bytearray(8192)
MEMORY[0x100:0x106] = b"notes\0"
MEMORY[0x200:0x206] = b"/data\0"
#: The end of what is there.
MEMORY[-5:] = b"/last"
#: Two `struct pollfd`, and one that is left out.
for number, descriptor in enumerate((7, -1, 9)):
    MEMORY[0x300 + 8 * number : 0x304 + 8 * number] = descriptor.to_bytes(4, "little", signed=True)
CURRENT = (1 << 64) - 100
MASK = "the mask of new files' modes"


def read(address: int, size: int) -> bytes | None:
    return bytes(MEMORY[address : address + size]) if 0 <= address <= len(MEMORY) - size else None


def used(name: str, *arguments: int, result: int | None = None) -> set[tuple[str, bool]]:
    assert name in CALLS
    padded = (*arguments, *(0 for _ in range(6 - len(arguments))))
    return {(one.what, one.changes) for one in uses(name, padded, read, result)}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (("lseek", 3), {("descriptor 3", True)}),
        (("pread64", 3), {("descriptor 3", False)}),
        (("dup2", 3, 4), {("descriptor 3", True), ("descriptor 4", True)}),
        (("epoll_ctl", 3, 1, 6), {("descriptor 3", True), ("descriptor 6", True)}),
        # An int: what stands above it says nothing.
        (("close", 1 << 32 | 5), {("descriptor 5", True)}),
        (("poll", 0x300, 3), {("descriptor 7", False), ("descriptor 9", False)}),
        (("poll", 8190, 3), set()),
        (("chdir", 0x200), {("the file /data", False), ("the current directory", True)}),
        (("openat", CURRENT, 0x100), {("the file notes", False), ("the current directory", False)}),
        (("openat", 4, 0x100, 0o101), {("the file notes", True), (MASK, False)}),
        # What the descriptor itself is of.
        (("newfstatat", 5, 0x400), {("descriptor 5", False)}),
        (("newfstatat", CURRENT, 0x400), set()),
        (("pipe2", 0x400), {("which descriptors are free", True)}),
        (("mkdir", 0x200), {("the file /data", True), (MASK, False)}),
        (("openat", CURRENT, 0x200, 0o1000), {("the file /data", True)}),
        (("open", 0x200, 0o2), {("the file /data", True)}),
        (("unlink", 0x200), {("the file /data", True)}),
        (("renameat", 4, 0x100, CURRENT, 0x200), {("the file notes", True), ("the file /data", True)}),
        # No end, and no such memory.
        (("unlink", len(MEMORY) - 5), set()),
        (("unlink", 1 << 40), set()),
        (("umask", 0), {(MASK, True)}),
        (("rt_sigaction", SIGPIPE, 0x400), {("what is done on SIGPIPE", True)}),
        (("rt_sigaction", SIGPIPE, 0), {("what is done on SIGPIPE", False)}),
        (("tgkill", 1, 2, SIGUSR1), {("what is done on SIGUSR1", False)}),
        (("sendto", 6), {("descriptor 6", True), ("what is done on SIGPIPE", False)}),
        (("futex", 0x100), set()),
        (("getpid",), set()),
    ],
)
def test_uses(asked: tuple[str, int], expected: set[tuple[str, bool]]) -> None:
    assert used(*asked) == expected


@pytest.mark.parametrize(
    ("asked", "signal"),
    [
        (("tgkill", 1000, 1001, SIGUSR1), SIGUSR1),
        (("tgkill", 1000, 1002, SIGUSR1), None),
        (("tkill", 1001, SIGPIPE), SIGPIPE),
        (("tkill", 1000, SIGPIPE), None),
        (("kill", 1000, SIGUSR1), SIGUSR1),
        (("rt_tgsigqueueinfo", 1000, 1001 + (1 << 32), SIGUSR1 + (1 << 32)), SIGUSR1),
        (("rt_sigqueueinfo", 1000, SIGUSR1), SIGUSR1),
        (("rt_sigaction", SIGUSR1, 0x400), None),
    ],
)
def test_a_signal_goes_to_a_thread_or_to_all(asked: tuple[str, int], signal: int | None) -> None:
    name, *arguments = asked
    assert signal_to(name, arguments, 1001) == signal


def test_a_call_that_makes_a_descriptor_uses_the_one_that_it_returns() -> None:
    assert used("eventfd2", result=5) == {("descriptor 5", True)}
    assert used("eventfd2") == used("eventfd2", result=(1 << 64) - 24) == set()


def test_two_calls_meet_where_one_changes_what_both_use() -> None:
    looks, changes = Use("descriptor 3", False), Use("descriptor 3", True)
    other, directory = Use("descriptor 4", True), Use("the current directory", True)
    assert met([looks], [changes]) == met([changes], [looks]) == "descriptor 3"
    assert met([looks], [looks]) is None
    assert met([other, looks], [directory, looks]) is None
    assert met([], [changes]) is None
    # What the first one is about comes first.
    assert met([other, changes], [changes, other]) == "descriptor 4"
