"""Calls of the address space. Sources: mmap(2), mprotect(2), mremap(2), madvise(2), brk(2), msync(2)."""

from __future__ import annotations

import errno

from emu.linux.address_space import page_ceiling
from emu.linux.failure import Errno
from emu.linux.open_file import MappedFile
from emu.linux.task import Task
from emu.linux.words import as_int
from emu.state import PAGE_BYTES, RIGHT_EXECUTE, RIGHT_READ, RIGHT_WRITE

_SHARED, _PRIVATE, _SHARED_VALIDATE, _FIXED, _ANONYMOUS, _GROWSDOWN = 1, 2, 3, 0x10, 0x20, 0x100
_NORESERVE, _FIXED_NOREPLACE = 0x4000, 0x100000
#: The part of the address space that one mapping may take. Programs that reserve as much as they can get would
#: leave no room for their threads, and be given a place below what they can use.
_LARGEST = 2
#: Flags that MAP_SHARED_VALIDATE knows (LEGACY_MAP_MASK in Linux).
_VALIDATED = 0x0407F973
_MLOCK_ONFAULT, _MCL_ONFAULT, _MCL_ALL = 1, 4, 7
#: Modes of memory policy, MPOL_DEFAULT to MPOL_PREFERRED_MANY, and the flags that go with them.
_MODES, _MODE_FLAGS = 6, 0xE000
_MAYMOVE, _REMAP_FIXED, _DONTUNMAP = 1, 2, 4
_DONTNEED, _FREE, _REMOVE, _DONTNEED_LOCKED = 4, 8, 9, 24
_KNOWN_ADVICE = {
    0,
    1,
    2,
    3,
    _DONTNEED,
    _FREE,
    _REMOVE,
    _DONTNEED_LOCKED,
    10,
    11,
    12,
    13,
    14,
    15,
    16,
    17,
    18,
    19,
    20,
    21,
    22,
    23,
}


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
    if not size or offset % PAGE_BYTES or flags & 3 == 0:
        raise Errno(errno.EINVAL)
    if size > space.size // _LARGEST:
        raise Errno(errno.ENOMEM)
    size = page_ceiling(size)
    if flags & 3 == _SHARED_VALIDATE and not flags & _ANONYMOUS and flags & ~_VALIDATED:
        raise Errno(errno.EOPNOTSUPP)
    file = None if flags & _ANONYMOUS else _mapped(task, as_int(fd), protection, flags)
    rights = _rights(protection)
    if rights & RIGHT_WRITE and flags & 3 == _PRIVATE and not flags & _NORESERVE and size > space.limit:
        raise Errno(errno.ENOMEM)
    start = _place(task, address, size, flags)
    return space.map(start, size, rights, shared=flags & 3 != _PRIVATE, file=file, offset=offset)


def _mapped(task: Task, fd: int, protection: int, flags: int) -> MappedFile:
    file = task.process.descriptors.get(fd)
    if not file.readable or (flags & 3 != _PRIVATE and protection & 2 and not file.writable):
        raise Errno(errno.EACCES)
    mapped = file.mapped()
    if flags & 3 != _PRIVATE and protection & 2 and mapped.sealed:
        raise Errno(errno.EPERM)
    return mapped


def _place(task: Task, address: int, size: int, flags: int) -> int | None:
    space = task.process.space
    if flags & (_FIXED | _FIXED_NOREPLACE):
        if address % PAGE_BYTES:
            raise Errno(errno.EINVAL)
        if flags & _FIXED_NOREPLACE and space.mappings.overlapping(address, address + size):
            raise Errno(errno.EEXIST)
        if address + size > space.size - PAGE_BYTES:
            raise Errno(errno.ENOMEM)
        return address
    hint = address & -PAGE_BYTES
    return hint if hint and space.mappings.free(hint, hint + size) else None


def _range(task: Task, address: int, size: int) -> tuple[int, int]:
    if address % PAGE_BYTES:
        raise Errno(errno.EINVAL)
    end = page_ceiling(address + size)
    if end > task.process.space.size or size >= 1 << 47:
        raise Errno(errno.ENOMEM)
    return address, end


def sys_munmap(task: Task, address: int, size: int) -> int:
    """munmap(2)."""
    if not size or address % PAGE_BYTES or address + size > task.process.space.size:
        raise Errno(errno.EINVAL)
    task.process.space.unmap(address, page_ceiling(size))
    return 0


def sys_mprotect(task: Task, address: int, size: int, protection: int) -> int:
    """mprotect(2)."""
    start, end = _range(task, address, size)
    if protection & ~7 & ~0x03000000:
        raise Errno(errno.EINVAL)
    if end > start:
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
        space.map(old, new - old, RIGHT_READ | RIGHT_WRITE, name="[heap]")
    elif new < old:
        space.unmap(new, old - new)
    space.heap_end = address
    return address


def sys_mremap(task: Task, address: int, old: int, new: int, flags: int, target: int) -> int:
    """mremap(2). Growing in place where there is room; else the bytes are copied."""
    space = task.process.space
    if address % PAGE_BYTES or not new or flags & ~7 or flags & _DONTUNMAP:
        raise Errno(errno.EINVAL)
    old, new = page_ceiling(old), page_ceiling(new)
    mapping = space.mappings.at(address)
    if mapping is not None and new == old and not flags & _REMAP_FIXED:
        return address
    if mapping is None or address + old > mapping.end or not old:
        raise Errno(errno.EFAULT if mapping is None or old else errno.EINVAL)
    if new > space.size:
        raise Errno(errno.ENOMEM)
    if flags & _REMAP_FIXED:
        if not flags & _MAYMOVE or target % PAGE_BYTES or (target < address + old and address < target + new):
            raise Errno(errno.EINVAL)
    elif new <= old:
        if new < old:
            space.unmap(address + new, old - new)
        return address
    elif address + old == mapping.end and space.mappings.free(mapping.end, address + new):
        part = mapping.part(address, mapping.end)
        offset = part.offset + old
        space.map(
            mapping.end, new - old, mapping.rights, shared=mapping.shared, file=mapping.file, offset=offset,
            name=mapping.name,
        )  # fmt: skip
        return address
    if not flags & _MAYMOVE:
        raise Errno(errno.ENOMEM)
    return _move(task, address, old, new, target if flags & _REMAP_FIXED else None)


def _move(task: Task, address: int, old: int, new: int, target: int | None) -> int:
    space, memory = task.process.space, task.process.memory
    mapping = space.mappings.at(address)
    assert mapping is not None
    part = mapping.part(address, address + min(old, mapping.end - address))
    space.write_back(address, address + old)
    start = space.map(target, new, RIGHT_READ | RIGHT_WRITE, name=mapping.name)
    for at in range(0, min(old, new), PAGE_BYTES):
        # Pages that were never used need no copy: they come from where they always do.
        if part.file is not None and part.shared:
            break
        if space.is_present(address + at):
            memory.write(start + at, space.copy_out(address + at, PAGE_BYTES))
    space.retarget(start, new, part)
    space.unmap(address, old)
    return start


def sys_madvise(task: Task, address: int, size: int, advice: int) -> int:
    """madvise(2): DONTNEED and REMOVE drop the pages, the rest is only advice."""
    start, end = _range(task, address, size)
    advice = as_int(advice)
    if advice not in _KNOWN_ADVICE:
        raise Errno(errno.EINVAL)
    if not task.process.space.mappings.covered(start, end):
        raise Errno(errno.ENOMEM)
    if advice in (_DONTNEED, _DONTNEED_LOCKED):
        task.process.space.discard(start, end)
    elif advice == _REMOVE:
        _remove(task, start, end)
    return 0


def _remove(task: Task, start: int, end: int) -> None:
    """Make a hole in what is mapped shared. Errno: EINVAL where it is private, EACCES: not writable."""
    space = task.process.space
    pieces = [
        piece.part(max(start, piece.start), min(end, piece.end))
        for piece in space.mappings.overlapping(start, end)
    ]
    for piece in pieces:
        if not piece.shared:
            raise Errno(errno.EINVAL)
        if not piece.rights & RIGHT_WRITE:
            raise Errno(errno.EACCES)
        space.write_back()
        space.punch(piece)


def sys_msync(task: Task, address: int, size: int, flags: int) -> int:
    """msync(2)."""
    start, end = _range(task, address, size)
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
    if not space.mappings.covered(start, end):
        raise Errno(errno.ENOMEM)
    told = bytes(int(space.is_present(page)) for page in range(start, end, PAGE_BYTES))
    task.process.memory.write(vector, told)
    return 0


def sys_mlock(task: Task, address: int, size: int) -> int:
    """mlock(2), munlock(2): nothing is ever paged out."""
    start = address & -PAGE_BYTES
    end = page_ceiling(address + size)
    if end > start and not task.process.space.mappings.covered(start, end):
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


CALLS = {
    "mmap": sys_mmap, "munmap": sys_munmap, "mprotect": sys_mprotect, "brk": sys_brk, "mremap": sys_mremap,
    "madvise": sys_madvise, "msync": sys_msync, "mincore": sys_mincore, "mlock": sys_mlock,
    "mlock2": sys_mlock2, "munlock": sys_mlock, "mlockall": sys_mlockall, "munlockall": sys_munlockall,
    "get_mempolicy": sys_get_mempolicy, "set_mempolicy": sys_set_mempolicy, "mbind": sys_mbind,
    "pkey_mprotect": sys_pkey_mprotect, "pkey_alloc": sys_no_pkey, "pkey_free": sys_no_pkey,
}  # fmt: skip
