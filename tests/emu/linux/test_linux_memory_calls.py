"""Calls of the address space, over files mapped shared and private: what memory and file hold afterwards."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest
from linux_guest_factory import BootedGuest, hello_spec

from emu.linux.ground.failure import Unsupported
from emu.linux.memory import address_space
from emu.native.state import RIGHT_EXECUTE, RIGHT_READ, RIGHT_WRITE

PAGE = 4096
READ, WRITE = 1, 2
SHARED, PRIVATE, SHARED_VALIDATE, FIXED, ANONYMOUS, LOW = 1, 2, 3, 0x10, 0x20, 0x40
MAY_MOVE, TO, KEEP = 1, 2, 4
RDONLY, RDWR, CREATE, CUT = 0, 2, 0o100, 0o1000
ADD_SEALS, SEAL_WRITE = 1033, 8
PATH_AT, DATA_AT, VECTOR_AT = 0, 8192, 40960


@pytest.fixture
def guest() -> Iterator[BootedGuest]:
    """A guest that has a file of 8 pages, `a` to `h` at their beginnings."""
    booted = BootedGuest(hello_spec())
    yield booted
    booted.close()


def opened(guest: BootedGuest, flags: int = RDWR) -> int:
    """The file, opened once more."""
    fd = guest.call("open", guest.path("/tmp/file", PATH_AT), flags | CREATE, 0o644)
    assert fd >= 0
    return fd


def filled(guest: BootedGuest) -> int:
    fd = opened(guest)
    for page in range(8):
        guest.call("pwrite64", fd, guest.put(bytes([ord("a") + page]), DATA_AT), 1, page * PAGE)
    assert guest.call("ftruncate", fd, 8 * PAGE) == 0
    return fd


def mapped(guest: BootedGuest, fd: int, pages: int, flags: int = SHARED, rights: int = READ | WRITE) -> int:
    address = guest.call("mmap", 0, pages * PAGE, rights, flags, fd, 0)
    assert address > 0
    return address


def in_file(guest: BootedGuest, fd: int, n: int, offset: int) -> bytes:
    assert guest.call("pread64", fd, guest.room + DATA_AT, n, offset) == n
    return guest.process.memory.read(guest.room + DATA_AT, n)


@pytest.mark.parametrize("rights", [READ, 0])
def test_what_was_written_is_kept_when_the_right_to_write_goes(guest: BootedGuest, rights: int) -> None:
    fd = filled(guest)
    at = mapped(guest, fd, 2)
    guest.process.memory.write(at, b"new")
    assert guest.call("mprotect", at, 2 * PAGE, rights) == 0
    assert in_file(guest, fd, 3, 0) == b"new"
    assert guest.call("munmap", at, 2 * PAGE) == 0
    assert in_file(guest, fd, 3, 0) == b"new"


def test_two_mappings_agree_when_one_becomes_writable(guest: BootedGuest) -> None:
    fd, memory = filled(guest), guest.process.memory
    first, second = mapped(guest, fd, 1, rights=READ), mapped(guest, fd, 1, rights=READ)
    assert memory.read(first, 1) == memory.read(second, 1) == b"a"
    assert guest.call("mprotect", first, PAGE, READ | WRITE) == 0
    memory.write(first, b"X")
    assert memory.read(second, 1) == b"X"


def test_a_private_mapping_sees_what_a_shared_one_has_written(guest: BootedGuest) -> None:
    fd, memory = filled(guest), guest.process.memory
    shared, private = mapped(guest, fd, 2), mapped(guest, fd, 2, PRIVATE)
    memory.write(shared, b"X")
    assert memory.read(private, 1) == b"X"


@pytest.mark.parametrize("flags", [PRIVATE, SHARED])
def test_moved_pages_that_were_never_used_come_from_the_file(guest: BootedGuest, flags: int) -> None:
    fd, memory = filled(guest), guest.process.memory
    at = mapped(guest, fd, 8, flags)
    memory.write(at, b"Z")
    guard = guest.call("mmap", at + 8 * PAGE, PAGE, READ, PRIVATE | ANONYMOUS | FIXED, -1, 0)
    assert guard == at + 8 * PAGE
    moved = guest.call("mremap", at, 8 * PAGE, 9 * PAGE, MAY_MOVE)
    assert moved not in (at, -errno.ENOMEM)
    assert b"".join(memory.read(moved + page * PAGE, 1) for page in range(8)) == b"Zbcdefgh"
    assert guest.call("munmap", moved, 9 * PAGE) == 0
    assert in_file(guest, fd, 1, 0) == (b"Z" if flags == SHARED else b"a")


def test_moving_takes_no_memory_twice() -> None:
    """A large block that is moved fits where it fitted before."""
    guest = BootedGuest(hello_spec(memory=16 << 20))
    size, room = 10 << 20, PRIVATE | ANONYMOUS
    at = mapped(guest, -1, size // PAGE, room)
    for page in range(0, size, PAGE):
        guest.process.memory.write(at + page, b"%d" % page)
    guest.call("mmap", at + size, PAGE, READ, room | FIXED, -1, 0)
    moved = guest.call("mremap", at, size, size + PAGE, MAY_MOVE)
    assert moved > 0
    for page in range(0, size, 64 * PAGE):
        assert guest.process.memory.read(moved + page, 8).rstrip(b"\0") == b"%d" % page
    guest.close()


def test_moving_may_leave_the_old_pages_empty(guest: BootedGuest) -> None:
    memory = guest.process.memory
    at = mapped(guest, -1, 4, PRIVATE | ANONYMOUS)
    memory.write(at, b"X" * 4 * PAGE)
    moved = guest.call("mremap", at, 4 * PAGE, 4 * PAGE, MAY_MOVE | KEEP)
    assert moved not in (at, -errno.EINVAL)
    assert memory.read(moved, 4 * PAGE) == b"X" * 4 * PAGE
    assert memory.read(at, 4 * PAGE) == bytes(4 * PAGE)
    assert guest.call("mremap", at, 4 * PAGE, 8 * PAGE, MAY_MOVE | KEEP) == -errno.EINVAL
    assert guest.call("mremap", at, 4 * PAGE, 4 * PAGE, KEEP) == -errno.EINVAL


def test_a_file_opened_to_be_read_is_not_written_to_through_memory(guest: BootedGuest) -> None:
    filled(guest)
    at = mapped(guest, opened(guest, RDONLY), 1, rights=READ)
    assert guest.call("mprotect", at, PAGE, READ | WRITE) == -errno.EACCES
    private = mapped(guest, opened(guest, RDONLY), 1, PRIVATE, READ)
    assert guest.call("mprotect", private, PAGE, READ | WRITE) == 0


def test_calls_go_as_far_as_memory_is_mapped(guest: BootedGuest) -> None:
    at, memory = mapped(guest, -1, 4, PRIVATE | ANONYMOUS), guest.process.memory
    memory.write(at, b"X" * 4 * PAGE)
    assert guest.call("munmap", at + PAGE, PAGE) == 0
    assert guest.call("madvise", at, 4 * PAGE, 4) == -errno.ENOMEM
    assert memory.read(at + 3 * PAGE, 1) == b"\0"
    memory.write(at, b"Y")
    assert guest.call("mprotect", at, 4 * PAGE, READ) == -errno.ENOMEM
    assert guest.process.space.rights[at // PAGE] == RIGHT_READ
    memory.write(at + 3 * PAGE, b"Y")
    assert guest.call("mlock", at, 4 * PAGE) == -errno.ENOMEM
    # Several mappings at once are cut, though not moved.
    assert guest.call("mremap", at + 2 * PAGE, 2 * PAGE, PAGE, 0) == at + 2 * PAGE


def test_removing_what_backs_shared_pages(guest: BootedGuest) -> None:
    fd, memory = filled(guest), guest.process.memory
    at = mapped(guest, fd, 2)
    assert guest.call("madvise", at, PAGE, 9) == 0
    assert memory.read(at, 1) == in_file(guest, fd, 1, 0) == b"\0"
    assert in_file(guest, fd, 1, PAGE) == b"b"
    assert guest.call("madvise", mapped(guest, fd, 1, PRIVATE), PAGE, 9) == -errno.EINVAL


def test_low_addresses_on_demand(guest: BootedGuest) -> None:
    for _ in range(3):
        assert 0 < mapped(guest, -1, 3, PRIVATE | ANONYMOUS | LOW) < 1 << 31


def test_a_process_has_so_many_mappings_and_no_more(guest: BootedGuest) -> None:
    """vm.max_map_count, whatever would make one more; what room there is is found at once."""
    at, found = mapped(guest, -1, 3, PRIVATE | ANONYMOUS), []
    while len(found) < 70_000:
        rights, flags = len(found) % 2, PRIVATE | ANONYMOUS | LOW
        found.append(guest.call("mmap", 0, PAGE, rights, flags, -1, 0))
        if found[-1] < 0:
            break
    assert found.pop() == -errno.ENOMEM
    assert len(guest.process.space.mappings) == 65_531
    assert guest.call("mprotect", at + PAGE, PAGE, 0) == -errno.ENOMEM
    assert guest.call("munmap", at + PAGE, PAGE) == -errno.ENOMEM
    assert guest.call("munmap", found[9], 4 * PAGE) == guest.call("munmap", at + PAGE, PAGE) == 0
    assert guest.call("mmap", 0, PAGE, READ, PRIVATE | ANONYMOUS, -1, 0) > 0


def test_the_break_stays_where_no_more_mappings_may_be(
    guest: BootedGuest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """brk(2) answers with where the break is, never with an error."""
    end = guest.call("brk", 0)
    assert guest.call("brk", end + PAGE) == end + PAGE
    monkeypatch.setattr(address_space, "MOST_MAPPINGS", 1)
    assert guest.call("brk", end + 3 * PAGE) == end + PAGE
    assert guest.call("brk", end) == guest.call("brk", 0) == end


@pytest.mark.parametrize("old", [-1, -4096, 0x7FFFFFFFFFFF, 1 << 37])
def test_more_than_there_is_cannot_be_cut_off(guest: BootedGuest, old: int) -> None:
    """mremap to one page, of what would reach to the end of all addresses: nothing is unmapped."""
    at = mapped(guest, -1, 3, PRIVATE | ANONYMOUS)
    guest.process.memory.write(at + 2 * PAGE, b"x")
    assert guest.call("mremap", at, old & (1 << 64) - 1, PAGE, MAY_MOVE, 0) == -errno.EINVAL
    assert guest.process.memory.read(at + 2 * PAGE, 1) == b"x"
    assert guest.call("mremap", at, 3 * PAGE, PAGE, MAY_MOVE, 0) == at


def test_what_is_shared_and_validated_is_a_file(guest: BootedGuest) -> None:
    for more in (0, 0x80000):
        flags = SHARED_VALIDATE | ANONYMOUS | more
        assert guest.call("mmap", 0, PAGE, READ, flags, -1, 0) == -errno.EINVAL


def test_bases_of_segments_lie_where_programs_do(guest: BootedGuest) -> None:
    """arch_prctl(ARCH_SET_GS) and TASK_SIZE_MAX."""
    assert guest.call("arch_prctl", 0x1001, 0x7FFFFFFFEFFF) == 0
    assert guest.call("arch_prctl", 0x1001, 0x7FFFFFFFF000) == -errno.EPERM


def test_a_file_cut_when_it_is_opened(guest: BootedGuest) -> None:
    fd, memory = filled(guest), guest.process.memory
    at = mapped(guest, fd, 2)
    memory.write(at, b"X")
    opened(guest, RDWR | CUT)
    assert guest.call("ftruncate", fd, 2 * PAGE) == 0
    assert memory.read(at, 1) == b"\0"


def test_sealed_memory_files(guest: BootedGuest) -> None:
    """Sealing waits for writable mappings, and none comes after it."""
    fd = guest.call("memfd_create", guest.path("sealed"), 2)
    assert guest.call("ftruncate", fd, PAGE) == 0
    at = mapped(guest, fd, 1)
    guest.process.memory.write(at, b"X")
    assert guest.call("fcntl", fd, ADD_SEALS, SEAL_WRITE) == -errno.EBUSY
    assert guest.call("munmap", at, PAGE) == 0
    assert guest.call("fcntl", fd, ADD_SEALS, SEAL_WRITE) == 0
    assert guest.call("mmap", 0, PAGE, READ | WRITE, SHARED, fd, 0) == -errno.EPERM
    at = mapped(guest, fd, 1, rights=READ)
    assert guest.process.memory.read(at, 1) == b"X"
    assert guest.call("mprotect", at, PAGE, READ | WRITE) == -errno.EACCES


def test_a_file_that_has_no_room_for_what_memory_holds(guest: BootedGuest) -> None:
    """Nothing is lost in silence."""
    guest.process.filesystem.layer.limit = 1 << 20
    fd = guest.call("memfd_create", guest.path("large"), 0)
    size, piece = 2 << 20, 1 << 16
    assert guest.call("ftruncate", fd, size) == 0
    at = mapped(guest, fd, size // PAGE)
    for page in range(piece - PAGE, size, piece):
        guest.process.memory.write(at + page, b"X")
    with pytest.raises(Unsupported, match="No space left on device"):
        guest.call("msync", at, size, 4)
    guest.process.filesystem.layer.limit = 1 << 30


def test_what_a_program_may_not_choose(guest: BootedGuest) -> None:
    """Errors as of Linux 6.1, for a user without privileges."""
    fixed, at = PRIVATE | ANONYMOUS | FIXED, mapped(guest, -1, 2, PRIVATE | ANONYMOUS)
    end = (1 << 47) - PAGE
    for address, code in ((0, errno.EPERM), (PAGE, errno.EPERM), (end, errno.ENOMEM)):
        assert guest.call("mmap", address, PAGE, READ, fixed, -1, 0) == -code
    for target, code in (
        (0, errno.EPERM),
        (end, errno.EINVAL),
        (end - PAGE, errno.ENOMEM),
        (at, errno.EINVAL),
    ):
        assert guest.call("mremap", at, PAGE, PAGE, MAY_MOVE | TO, target) == -code
    for size, code in ((2**64 - 1, errno.EINVAL), (2**64 - PAGE, errno.ENOMEM), (1 << 47, errno.ENOMEM)):
        assert guest.call("mremap", at, PAGE, size, MAY_MOVE) == -code
    assert guest.call("mremap", at, PAGE, 1 << 47, MAY_MOVE | TO, 0) == -errno.EINVAL
    assert guest.process.space.mappings.covered(at, at + 2 * PAGE)


def test_sizes_that_reach_past_what_is_mapped(guest: BootedGuest) -> None:
    """What there is of them is done, up to the first gap where the call says so."""
    room, huge = PRIVATE | ANONYMOUS, 1 << 47
    at = mapped(guest, -1, 4, room)
    assert guest.call("munmap", at + PAGE, PAGE) == 0
    for wrong in ("mprotect", "msync", "madvise", "mincore", "mlock"):
        assert guest.call(wrong, at, huge, 4) == -errno.ENOMEM, wrong
    assert guest.call("mprotect", at, huge, READ) == -errno.ENOMEM
    rights = guest.process.space.rights
    guest.process.memory.read(at, 1), guest.process.memory.read(at + 2 * PAGE, 1)
    assert (rights[at // PAGE], rights[at // PAGE + 2]) == (RIGHT_READ, RIGHT_READ | RIGHT_WRITE)
    most = (1 << 64) - 1
    assert guest.call("mprotect", at, most, READ) == -errno.ENOMEM
    assert guest.call("msync", at, most, 4) == 0
    assert guest.call("madvise", at, most, 4) == -errno.EINVAL
    assert guest.call("mincore", at, most, guest.room) == -errno.ENOMEM
    assert guest.call("munmap", at, most) == -errno.EINVAL
    assert (
        guest.call("mprotect", 1 << 46, PAGE, READ)
        == guest.call("madvise", 1 << 46, PAGE, 4)
        == -errno.ENOMEM
    )
    assert guest.call("munmap", 1 << 46, PAGE) == 0
    assert guest.call("munmap", at + 2 * PAGE, (1 << 46)) == 0
    assert not guest.process.space.mappings.overlapping(at + 2 * PAGE, 1 << 36)


def test_what_a_mapping_cannot_be(guest: BootedGuest) -> None:
    """Of kinds that there are not; a file that grows downwards."""
    fd, fixed = filled(guest), FIXED | ANONYMOUS
    for flags, file in ((fixed, -1), (5 | fixed, -1), (0x100 | SHARED | fixed, -1), (0x100 | PRIVATE, fd)):
        assert guest.call("mmap", 0x200000000, PAGE, READ, flags, file, 0) == -errno.EINVAL, flags
    assert guest.call("mmap", 0x200000000, PAGE, READ, 0x100 | PRIVATE | fixed, -1, 0) == 0x200000000


def test_rights_down_to_where_the_stack_begins(guest: BootedGuest) -> None:
    """PROT_GROWSDOWN, as of who makes the stack executable."""
    stack = next(one for one in guest.process.space.mappings if one.name == "[stack]")
    down, at = 0x1000000, stack.end - PAGE
    assert guest.call("mprotect", at, PAGE, down | READ | WRITE | 4) == 0
    now = [one for one in guest.process.space.mappings if one.name == "[stack]"]
    assert (now[0].start, now[-1].end, {one.rights for one in now}) == (
        stack.start, stack.end, {RIGHT_READ | RIGHT_WRITE | RIGHT_EXECUTE}
    )  # fmt: skip
    other = mapped(guest, -1, 1, PRIVATE | ANONYMOUS)
    assert guest.call("mprotect", other, PAGE, down | READ) == -errno.EINVAL
    assert guest.call("mmap", 0, PAGE, READ, PRIVATE | ANONYMOUS | 0x40000, -1, 0) == -errno.ENOMEM
    assert guest.call("mmap", 0, PAGE, READ, SHARED, filled(guest), (1 << 63) - PAGE) == -errno.EOVERFLOW


def test_advice_that_a_mapping_cannot_take(guest: BootedGuest) -> None:
    """MADV_FREE, MADV_WIPEONFORK of files; MADV_POPULATE_READ, MADV_POPULATE_WRITE without the right."""
    file = mapped(guest, filled(guest), 1)
    readable, none = (mapped(guest, -1, 1, PRIVATE | ANONYMOUS, rights) for rights in (READ, 0))
    taken = {(at, advice): guest.call("madvise", at, PAGE, advice)
             for at in (file, readable, none) for advice in (8, 18, 22, 23)}  # fmt: skip
    assert {key for key, code in taken.items() if code == 0} == {
        (readable, 8), (none, 8), (readable, 18), (none, 18), (file, 22), (readable, 22), (file, 23)
    }  # fmt: skip
    assert set(taken.values()) == {0, -errno.EINVAL}


def test_moving_fewer_pages_than_there_are(guest: BootedGuest) -> None:
    """The rest goes, whatever it is of."""
    room, memory = PRIVATE | ANONYMOUS, guest.process.memory
    at, target = mapped(guest, -1, 4, room), mapped(guest, -1, 2, room)
    memory.write(at, b"X")
    assert guest.call("mprotect", at + 3 * PAGE, PAGE, READ) == 0
    assert guest.call("mremap", at, 4 * PAGE, 2 * PAGE, MAY_MOVE | TO, target) == target
    assert memory.read(target, 1) == b"X"
    assert not guest.process.space.mappings.overlapping(at, at + 4 * PAGE)


def test_whether_a_program_may_ask_the_processor(guest: BootedGuest) -> None:
    """ARCH_GET_CPUID, ARCH_SET_CPUID (arch_prctl(2))."""
    assert guest.call("arch_prctl", 0x1011, 0) == 1
    assert guest.call("arch_prctl", 0x1012, 0) == -errno.ENODEV
    assert guest.call("arch_prctl", 0x1013, 0) == -errno.EINVAL
