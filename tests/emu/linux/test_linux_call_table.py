"""The table of system calls: rows that say all there is to say, and the page that is written from it."""

from __future__ import annotations

import inspect

import pytest
from linux_guest_factory import BootedGuest, hello_spec

from bench.linux_calls import PAGE, page
from emu.linux.calls import table as call_tables
from emu.linux.ground.call import Call, FileBytes, Subject, Support, table
from emu.linux.ground.limits import RESOURCES, RLIMIT_NOFILE, RLIMIT_NPROC, UNLIMITED
from isa.x86_64.linux import LINUX_X86_64

CALLS = call_tables.CALLS


def test_the_page_is_what_the_table_gives() -> None:
    assert page(PAGE.read_text()) == PAGE.read_text(), "run: python -m bench.linux_calls"


def test_a_changed_row_changes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = Call(CALLS["read"].handler, Support.PARTIAL, "nothing of it", subject=Subject.FILES)
    monkeypatch.setitem(CALLS, "read", changed)
    assert "| files | read | in part | nothing of it |" in page(PAGE.read_text())


def test_every_call_has_a_number_and_a_row_that_is_whole() -> None:
    assert not set(CALLS) - set(LINUX_X86_64.calls.values())
    for name, call in CALLS.items():
        assert call.subject is not None, name
        assert bool(call.missing) == (call.support is not Support.FULL), name
        assert "|" not in call.missing, name
        assert 0 <= call.arity <= 6, name
        assert inspect.getdoc(call.handler), name


def test_what_calls_do_to_files() -> None:
    """Reading and writing by any name does the same to them."""
    of_files = {name: call.files for name, call in CALLS.items() if call.files is not FileBytes.UNTOUCHED}
    reading = {"read", "readv", "pread64", "preadv", "preadv2"}
    writing = {name.replace("read", "write") for name in reading}
    moving = {"sendfile", "copy_file_range", "splice", "truncate", "ftruncate", "fallocate"}
    assert {name for name, what in of_files.items() if what is FileBytes.READ} == reading
    assert {name for name, what in of_files.items() if what is FileBytes.CHANGED} == writing | moving


def test_a_handler_alone_is_a_whole_row() -> None:
    def handler(task: object, first: int, second: int) -> int:
        return 0

    made = table(Subject.TIME, {"a": handler, "b": Call(handler, subject=Subject.FILES)})
    assert made["a"] == Call(handler, subject=Subject.TIME)
    assert made["a"].arity == 2
    assert made["b"].subject is Subject.FILES


# -- limits ----------------------------------------------------------------------------------------------


def _proc(guest: BootedGuest) -> list[tuple[int, int]]:
    """Soft and hard limits as /proc/self/limits has them."""
    lines = guest.process.limits.text().splitlines()[1:]
    known = [(line[26:47].strip(), line[47:68].strip()) for line in lines]
    return [
        (UNLIMITED if soft == "unlimited" else int(soft), UNLIMITED if hard == "unlimited" else int(hard))
        for soft, hard in known
    ]


def _asked(guest: BootedGuest) -> list[tuple[int, int]]:
    found = []
    for number in range(len(RESOURCES)):
        assert guest.call("prlimit64", 0, number, 0, guest.room) == 0
        raw = guest.process.memory.read(guest.room, 16)
        assert guest.call("getrlimit", number, guest.room + 16) == 0
        assert guest.process.memory.read(guest.room + 16, 16) == raw
        found.append((int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")))
    return found


def test_proc_and_the_calls_tell_the_same_limits() -> None:
    guest = BootedGuest(hello_spec())
    assert _proc(guest) == _asked(guest) == [(one.soft, one.hard) for one in RESOURCES]
    wanted = guest.room + 4096
    guest.process.memory.write(wanted, (3).to_bytes(8, "little") + (5).to_bytes(8, "little"))
    for number in (RLIMIT_NOFILE, RLIMIT_NPROC):
        assert guest.call("setrlimit", number, wanted) == 0
        assert _proc(guest)[number] == _asked(guest)[number] == (3, 5)
    assert guest.process.descriptors.limit == 3
    guest.close()


def test_a_limit_is_kept() -> None:
    guest = BootedGuest(hello_spec())
    number = guest.call("dup", 0)
    guest.process.memory.write(guest.room, (number + 1).to_bytes(8, "little") * 2)
    assert guest.call("setrlimit", RLIMIT_NOFILE, guest.room) == 0
    assert guest.call("dup", 0) == -24
    guest.process.memory.write(guest.room, (1).to_bytes(8, "little") * 2)
    assert guest.call("setrlimit", RLIMIT_NPROC, guest.room) == 0
    flags = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000
    assert guest.call("clone", flags, guest.room + 4096, 0, 0, 0) == -11
    guest.close()
