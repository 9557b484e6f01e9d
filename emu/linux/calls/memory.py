"""Calls of the address space. Sources: mmap(2), mprotect(2), mremap(2), madvise(2), brk(2), msync(2)."""

from __future__ import annotations

import errno

from corebraid.base.memory import PAGE_BYTES
from emu.linux.calls.arguments import PROGRAM_END
from emu.linux.files.open_file import MappedFile
from emu.linux.files.regular import OpenPath
from emu.linux.ground.call import Subject, idle, in_part, refused, table
from emu.linux.ground.failure import Errno
from emu.linux.ground.words import as_int, unsigned
from emu.linux.memory.address_space import LOWEST
from emu.linux.memory.mappings import Mapping
from emu.linux.memory.pages import page_ceiling
from emu.linux.tasks.task import Task
from emu.native.state import RIGHT_EXECUTE, RIGHT_READ, RIGHT_WRITE

_SHARED, _PRIVATE, _SHARED_VALIDATE, _FIXED, _ANONYMOUS = 1, 2, 3, 0x10, 0x20
_TYPE, _32BIT, _GROWSDOWN, _NORESERVE, _SYNC, _FIXED_NOREPLACE = 0xF, 0x40, 0x100, 0x4000, 0x80000, 0x100000
#: Where MAP_32BIT ends (mmap(2)).
_LOW_END = 1 << 31
_PROT_SEM = 8
#: The part of the address space that one mapping may take. Programs that reserve as much as they can get
#: would leave no room for their threads, and be given a place below what they can use.
_LARGEST = 2
#: Flags that MAP_SHARED_VALIDATE knows (LEGACY_MAP_MASK in Linux).
_VALIDATED = 0x0407F973
_MLOCK_ONFAULT, _MCL_ONFAULT, _MCL_ALL = 1, 4, 7
#: Modes of memory policy, MPOL_DEFAULT to MPOL_PREFERRED_MANY, and the flags that go with them.
_MODES, _MODE_FLAGS = 6, 0xE000
_MAYMOVE, _REMAP_FIXED, _DONTUNMAP = 1, 2, 4
_DONTNEED, _FREE, _REMOVE, _DONTNEED_LOCKED = 4, 8, 9, 24
#: A protection that goes down to where the stack begins.
_PROT_GROWSDOWN = 0x1000000
_HUGETLB = 0x40000
_WIPEONFORK, _POPULATE_READ, _POPULATE_WRITE = 18, 22, 23
_KNOWN_ADVICE = {*range(5), _FREE, _REMOVE, *range(10, 25)}


def _rights(protection: int) -> int:
    """PROT_* as page rights."""
    return (
        (RIGHT_READ if protection & 1 else 0)
        | (RIGHT_WRITE if protection & 2 else 0)
        | (RIGHT_EXECUTE if protection & 4 else 0)
    )


def sys_mmap(task: Task, address: int, size: int, protection: int, flags: int, fd: int, offset: int) -> int:
    """mmap(2)."""
    space = task.process.space
    if offset % PAGE_BYTES:
        raise Errno(errno.EINVAL)
    if not flags & _ANONYMOUS and isinstance(task.process.descriptors.get(as_int(fd)), OpenPath):
        raise Errno(errno.EBADF)
    if not size or flags & _TYPE not in (_SHARED, _PRIVATE, _SHARED_VALIDATE):
        raise Errno(errno.EINVAL)
    if size > space.size // _LARGEST:
        raise Errno(errno.ENOMEM)
    if flags & _TYPE == _SHARED_VALIDATE and flags & _ANONYMOUS:
        raise Errno(errno.EINVAL)
    if flags & _TYPE == _SHARED_VALIDATE and flags & _SYNC:
        raise Errno(errno.EOPNOTSUPP)
    size = page_ceiling(size)
    if flags & _HUGETLB:
        # None are reserved.
        raise Errno(errno.ENOMEM)
    if not flags & _ANONYMOUS and offset + size >= 1 << 63:
        raise Errno(errno.EOVERFLOW)
    if flags & _TYPE == _SHARED_VALIDATE and not flags & _ANONYMOUS and flags & ~_VALIDATED:
        raise Errno(errno.EOPNOTSUPP)
    shared = flags & _TYPE != _PRIVATE
    if flags & _GROWSDOWN and (shared or not flags & _ANONYMOUS):
        raise Errno(errno.EINVAL)
    file, may_write = (None, True) if flags & _ANONYMOUS else _mapped(task, as_int(fd), protection, shared)
    rights = _rights(protection)
    if rights & RIGHT_WRITE and not shared and not flags & _NORESERVE and size > space.limit:
        raise Errno(errno.ENOMEM)
    start = _place(task, address, size, flags)
    return space.map(
        start, size, rights, shared=shared, file=file, offset=offset, may_write=may_write,
        grows=bool(flags & _GROWSDOWN),
    )  # fmt: skip


def _mapped(task: Task, fd: int, protection: int, shared: bool) -> tuple[MappedFile, bool]:
    """The file's contents, and whether a mapping of them may be made writable."""
    file = task.process.descriptors.get(fd)
    if not file.readable or (protection & 2 and shared and not file.writable):
        raise Errno(errno.EACCES)
    mapped = file.mapped()
    if protection & 2 and shared and file.sealed:
        raise Errno(errno.EPERM)
    return mapped, not shared or (file.writable and not file.sealed)


def _place(task: Task, address: int, size: int, flags: int) -> int | None:
    space = task.process.space
    if flags & (_FIXED | _FIXED_NOREPLACE):
        if address % PAGE_BYTES:
            raise Errno(errno.EINVAL)
        if flags & _FIXED_NOREPLACE and space.mappings.overlapping(address, address + size):
            raise Errno(errno.EEXIST)
        return _allowed(task, address, size)
    hint = address & -PAGE_BYTES
    if flags & _32BIT:
        start = space.mappings.room_below(size, _LOW_END)
        if start is None:
            raise Errno(errno.ENOMEM)
        return start
    return hint if hint and space.mappings.free(hint, hint + size) else None


def _allowed(task: Task, address: int, size: int) -> int:
    """The address, which a program has chosen for so many bytes."""
    if address + size > task.process.space.size - PAGE_BYTES:
        raise Errno(errno.ENOMEM)
    if address < LOWEST:
        raise Errno(errno.EPERM)
    return address


def _range(task: Task, address: int, size: int) -> tuple[int, int]:
    """Whole pages: (first byte, end), as far as there are addresses. A size may wrap to none."""
    if address % PAGE_BYTES:
        raise Errno(errno.EINVAL)
    end = address + unsigned(page_ceiling(size))
    if end >= 1 << 64:
        raise Errno(errno.ENOMEM)
    size = task.process.space.size
    return address, min(end, size) if address < size else end


def sys_munmap(task: Task, address: int, size: int) -> int:
    """munmap(2)."""
    space = task.process.space
    if not size or address % PAGE_BYTES or address + size > PROGRAM_END:
        raise Errno(errno.EINVAL)
    if address < space.size:
        space.unmap(address, min(page_ceiling(size), space.size - address))
    return 0


def sys_mprotect(task: Task, address: int, size: int, protection: int) -> int:
    """mprotect(2)."""
    start, end = _range(task, address, size)
    if protection & _PROT_GROWSDOWN:
        mapping = task.process.space.mappings.at(address)
        if mapping is None or not mapping.grows:
            raise Errno(errno.ENOMEM if mapping is None else errno.EINVAL)
        start, protection = mapping.start, protection & ~_PROT_GROWSDOWN
    if protection & ~(7 | _PROT_SEM):
        # No mapping here grows upwards.
        raise Errno(errno.EINVAL)
    if size and end == start:
        raise Errno(errno.ENOMEM)
    if size:
        task.process.space.protect(start, end, _rights(protection))
    return 0


def sys_brk(task: Task, address: int) -> int:
    """brk(2)."""
    space = task.process.space
    if address < space.heap:
        return space.heap_end
    old, new = page_ceiling(space.heap_end), page_ceiling(address)
    if new > old:
        if not space.mappings.free(old, new) or new - space.heap > space.limit:
            return space.heap_end
        try:
            space.map(old, new - old, RIGHT_READ | RIGHT_WRITE, name="[heap]")
        except Errno:
            # It does not fail, as other calls do: what is returned would be taken for an address.
            return space.heap_end
    elif new < old:
        space.unmap(new, old - new)
    space.heap_end = address
    return address


def sys_mremap(task: Task, address: int, old: int, new: int, flags: int, target: int) -> int:
    """mremap(2). Growing in place where there is room; else the pages are moved."""
    space = task.process.space
    old, new = unsigned(page_ceiling(old)), unsigned(page_ceiling(new))
    if address % PAGE_BYTES or not new or flags & ~7:
        raise Errno(errno.EINVAL)
    if flags & _DONTUNMAP and (not flags & _MAYMOVE or old != new):
        raise Errno(errno.EINVAL)
    mapping = space.mappings.at(address)
    if mapping is None or not old:
        raise Errno(errno.EFAULT if mapping is None else errno.EINVAL)
    if flags & _REMAP_FIXED:
        overlaps = target < address + old and address < target + new
        if not flags & _MAYMOVE or target % PAGE_BYTES or overlaps or target + new > PROGRAM_END:
            raise Errno(errno.EINVAL)
        _allowed(task, target, new)
        if old > new:
            sys_munmap(task, address + new, old - new)
            old = new
    elif new > space.size:
        raise Errno(errno.ENOMEM)
    elif new <= old and not flags & _DONTUNMAP:
        if address + old > space.size:
            raise Errno(errno.EINVAL)
        if new < old:
            space.unmap(address + new, old - new)
        return address
    if address + old > mapping.end:
        raise Errno(errno.EFAULT)
    if new > old and not flags & _REMAP_FIXED and _grow(task, mapping, address + old, new - old):
        return address
    if not flags & _MAYMOVE:
        raise Errno(errno.ENOMEM)
    start = space.move(address, old, target if flags & _REMAP_FIXED else None, new)
    if not flags & _DONTUNMAP:
        space.unmap(address, old)
    return start


def _grow(task: Task, mapping: Mapping, end: int, more: int) -> bool:
    """Let the mapping that ends at `end` grow in place, if it does and there is room."""
    space = task.process.space
    if end != mapping.end or not space.mappings.free(end, end + more):
        return False
    space.map(
        end, more, mapping.rights, shared=mapping.shared, file=mapping.file,
        offset=mapping.offset + end - mapping.start, name=mapping.name, may_write=mapping.may_write,
    )  # fmt: skip
    return True


def _check_advice(advice: int, mapping: Mapping) -> None:
    """Raises Errno where a mapping is none that it can be given for."""
    rights, file = mapping.rights, mapping.file is not None
    wrong = {
        _FREE: mapping.shared or file,
        _REMOVE: not mapping.shared,
        _WIPEONFORK: mapping.shared or file,
        _POPULATE_READ: not rights & RIGHT_READ,
        _POPULATE_WRITE: not rights & RIGHT_WRITE,
    }
    if wrong.get(advice, False):
        raise Errno(errno.EINVAL)
    if advice == _REMOVE and not rights & RIGHT_WRITE:
        raise Errno(errno.EACCES)


def sys_madvise(task: Task, address: int, size: int, advice: int) -> int:
    """madvise(2): DONTNEED drops the pages, REMOVE what backs them; the rest is only advice."""
    if size and not unsigned(page_ceiling(size)):
        raise Errno(errno.EINVAL)
    start, end = _range(task, address, size)
    space, advice = task.process.space, as_int(advice)
    if advice not in _KNOWN_ADVICE:
        raise Errno(errno.EINVAL)
    for mapping in space.mappings.overlapping(start, end):
        _check_advice(advice, mapping)
    if advice in (_DONTNEED, _DONTNEED_LOCKED):
        space.discard(start, end)
    elif advice == _REMOVE:
        space.clear(start, end)
    if not space.mappings.covered(start, end):
        raise Errno(errno.ENOMEM)
    return 0


def sys_msync(task: Task, address: int, size: int, flags: int) -> int:
    """msync(2)."""
    (start, end), flags = _range(task, address, size), as_int(flags)
    if flags & ~7 or flags & 5 == 5:
        raise Errno(errno.EINVAL)
    if not task.process.space.mappings.covered(start, end):
        raise Errno(errno.ENOMEM)
    task.process.space.write_back(start, end)
    return 0


def sys_mincore(task: Task, address: int, size: int, vector: int) -> int:
    """mincore(2)."""
    start, end = _range(task, address, size)
    space = task.process.space
    if size > PROGRAM_END or not space.mappings.covered(start, end):
        raise Errno(errno.ENOMEM)
    told = bytes(int(space.is_present(page)) for page in range(start, end, PAGE_BYTES))
    task.process.memory.write(vector, told)
    return 0


def sys_mlock(task: Task, address: int, size: int) -> int:
    """mlock(2) and munlock(2): nothing is ever paged out."""
    start, end = _range(task, address & -PAGE_BYTES, size + address % PAGE_BYTES)
    if not task.process.space.mappings.covered(start, end):
        raise Errno(errno.ENOMEM)
    return 0


def sys_mlock2(task: Task, address: int, size: int, flags: int) -> int:
    """mlock2(2)."""
    if as_int(flags) & ~_MLOCK_ONFAULT:
        raise Errno(errno.EINVAL)
    return sys_mlock(task, address, size)


def sys_mlockall(task: Task, flags: int) -> int:
    """mlockall(2)."""
    flags = as_int(flags)
    if not flags or flags & ~_MCL_ALL or flags == _MCL_ONFAULT:
        raise Errno(errno.EINVAL)
    return 0


def sys_munlockall(task: Task) -> int:
    """munlockall(2)."""
    return 0


def sys_pkey_mprotect(task: Task, address: int, size: int, protection: int, key: int) -> int:
    """pkey_mprotect(2), of a processor without protection keys: only without one."""
    if as_int(key) != -1:
        raise Errno(errno.EINVAL)
    return sys_mprotect(task, address, size, protection)


def sys_no_pkey(task: Task) -> int:
    """pkey_alloc(2), pkey_free(2): the processor has no protection keys."""
    raise Errno(errno.EINVAL)


def sys_set_mempolicy(task: Task, mode: int) -> int:
    """set_mempolicy(2), mbind(2)'s mode: there is one node, so no policy changes anything."""
    if as_int(mode) & ~_MODE_FLAGS not in range(_MODES):
        raise Errno(errno.EINVAL)
    return 0


def sys_mbind(task: Task, address: int, size: int, mode: int) -> int:
    """mbind(2)."""
    if address % PAGE_BYTES:
        raise Errno(errno.EINVAL)
    return sys_set_mempolicy(task, mode)


def sys_get_mempolicy(task: Task, mode: int, mask: int, most: int) -> int:
    """get_mempolicy(2): the default, on the one node."""
    if mode:
        task.process.memory.write_number(mode, 4, 0)
    if mask:
        task.process.memory.write(mask, b"\1".ljust(min(most, 1024) // 64 * 8 or 8, b"\0"))
    return 0


CALLS = table(Subject.MEMORY, {
    "mmap": in_part(sys_mmap, "pages of a private file mapping do not follow later writes to the file"),
    "munmap": sys_munmap,
    "mprotect": sys_mprotect,
    "brk": sys_brk,
    "mremap": sys_mremap,
    "madvise": in_part(sys_madvise, "DONTNEED and REMOVE; the rest is only advice"),
    "msync": sys_msync,
    "mincore": sys_mincore,
    "mlock": idle(sys_mlock, "nothing is ever paged out"),
    "mlock2": idle(sys_mlock2, "nothing is ever paged out"),
    "munlock": idle(sys_mlock, "nothing is ever paged out"),
    "mlockall": idle(sys_mlockall, "nothing is ever paged out"),
    "munlockall": idle(sys_munlockall, "nothing is ever paged out"),
    "get_mempolicy": idle(sys_get_mempolicy, "there is one node"),
    "set_mempolicy": idle(sys_set_mempolicy, "there is one node"),
    "mbind": idle(sys_mbind, "there is one node"),
    "pkey_mprotect": in_part(sys_pkey_mprotect, "the processor has no protection keys"),
    "pkey_alloc": refused(sys_no_pkey, "the processor has no protection keys"),
    "pkey_free": refused(sys_no_pkey, "the processor has no protection keys"),
})  # fmt: skip
