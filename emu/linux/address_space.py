"""The address space: mappings, and the page table that every core asks on a fill.

Pages become present on first use: a core's access stops at the fill, the kernel puts the file's bytes or
zeros there as an agent on the bus, and the access runs again. What was unmapped keeps its old bytes until its
page is used anew.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from emu.linux.failure import Errno
from emu.linux.mappings import Mapping, Mappings
from emu.linux.open_file import MappedFile
from emu.pages import host_memory
from emu.state import PAGE_BYTES, RIGHT_EXECUTE, RIGHT_READ, RIGHT_WRITE

#: No mapping below (vm.mmap_min_addr).
LOWEST = 0x10000
#: States of a page: never used, so all zero everywhere; present; used before, with bytes of then.
CLEAN, PRESENT, STALE = 0, 1, 2
#: Pages that one fault makes present at most, if they are mapped alike: anonymous ones, a file's.
_AROUND_ANONYMOUS, _AROUND_FILE = 16, 4
#: Pages of a group: all of memory is too much to be looked through for those that are used.
_GROUP = 1 << 12
#: Pages whose rights are looked up one by one.
_FEW_PAGES = 8

#: Bytes of a hole that are written at once.
_PUNCHED = 1 << 20

#: Puts bytes into whole pages that no core can reach: (address, bytes).
Fill = Callable[[int, bytes], None]


def page_floor(address: int) -> int:
    """The beginning of its page."""
    return address & -PAGE_BYTES


def page_ceiling(address: int) -> int:
    """The beginning of the next page, unless it is one."""
    return (address + PAGE_BYTES - 1) & -PAGE_BYTES


class AddressSpace:
    """Mappings and page table of one process.

    rights: uint8[pages], what cores may do now; the cores share it. state: uint8[pages]. fill: see `Fill`.
    flush: every core forgets filled pages. limit: bytes that may be present.
    """

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        self.mappings = Mappings(LOWEST, size - PAGE_BYTES)
        self.rights: NDArray[np.uint8] = host_memory(size // PAGE_BYTES)
        self.state: NDArray[np.uint8] = host_memory(size // PAGE_BYTES)
        self._rights_of = self.rights.data
        #: Groups of pages in which some have been used.
        self._used: set[int] = set()
        self.fill: Fill = lambda address, data: None
        self.flush: Callable[[], None] = lambda: None
        #: Gives the bytes of pages, for shared mappings that are written back.
        self.copy_out: Callable[[int, int], bytes] = lambda address, n: bytes(n)
        self.present_pages = 0
        self.most_pages = 0
        self.heap = self.heap_end = 0
        #: Every mapping of a file that ever was, and every change of the rights of its code, for symbols.
        self.history: list[Mapping] = []

    # -- mapping -----------------------------------------------------------------------------------------

    def map(
        self,
        start: int | None,
        size: int,
        rights: int,
        *,
        shared: bool = False,
        file: MappedFile | None = None,
        offset: int = 0,
        name: str = "",
    ) -> int:
        """Map `size` bytes (whole pages) at `start`, replacing what is there, or where there is room.

        Returns the address. Raises Errno(ENOMEM).
        """
        if start is None:
            start = self.mappings.find_room(size, file is None)
        if start is None or start < LOWEST or start + size > self.size - PAGE_BYTES:
            raise Errno(errno.ENOMEM)
        self.unmap(start, size)
        mapping = Mapping(start, start + size, rights, shared, file, offset, name)
        self.mappings.insert(mapping)
        if file is not None:
            self.history.append(mapping)
        return start

    def _take_from_aliases(self, mapping: Mapping, first: int, last: int) -> None:
        """Memory is one to one with addresses: of places that show the same changing bytes of a file, one at
        a time has them."""
        assert mapping.file is not None
        low = mapping.offset + first * PAGE_BYTES - mapping.start
        high = low + (last - first) * PAGE_BYTES
        for other in list(self.mappings):
            if (
                other is mapping
                or not other.shared
                or other.file is None
                or other.file.key != mapping.file.key
            ):
                continue
            if not (mapping.rights | other.rights) & RIGHT_WRITE:
                continue
            start = max(other.start, other.start + low - other.offset)
            end = min(other.end, other.start + high - other.offset)
            if start < end:
                self._write_back(other.part(start, end))
                self._drop(start, end)

    def unmap(self, start: int, size: int) -> None:
        """Unmap whole pages."""
        gone = self.mappings.remove(start, start + size)
        for mapping in gone:
            self._write_back(mapping)
            self._drop(mapping.start, mapping.end)

    def _drop(self, start: int, end: int) -> None:
        """The pages are no longer present."""
        first, last = start // PAGE_BYTES, end // PAGE_BYTES
        state = self.state[first:last]
        present = state == PRESENT
        n = int(np.count_nonzero(present))
        if n:
            state[present] = STALE
            self.rights[first:last] = 0
            self.present_pages -= n
            self.flush()

    def protect(self, start: int, end: int, rights: int) -> None:
        """Change the rights of whole mapped pages. Raises Errno(ENOMEM) where one is not mapped."""
        if not self.mappings.covered(start, end):
            raise Errno(errno.ENOMEM)
        for piece in self.mappings.remove(start, end):
            changed = replace(piece, rights=rights)
            self.mappings.insert(changed)
            if piece.file is not None and (rights | piece.rights) & RIGHT_EXECUTE:
                self.history.append(changed)
        first, last = start // PAGE_BYTES, end // PAGE_BYTES
        self.rights[first:last] = np.where(self.state[first:last] == PRESENT, effective(rights), 0)
        self.flush()

    def discard(self, start: int, end: int) -> None:
        """Forget what the pages hold (MADV_DONTNEED): they come back as zeros, or from their file."""
        for mapping in self.mappings.overlapping(start, end):
            if not mapping.shared:
                self._drop(max(start, mapping.start), min(end, mapping.end))

    def punch(self, piece: Mapping) -> None:
        """Part of a shared mapping, and of its file, becomes zeros (MADV_REMOVE)."""
        if piece.file is not None:
            n = min(piece.end - piece.start, piece.file.size() - piece.offset)
            for at in range(0, n, _PUNCHED):
                piece.file.write_back(piece.offset + at, bytes(min(_PUNCHED, n - at)))
            self.reload()
        self._drop(piece.start, piece.end)

    def retarget(self, start: int, size: int, like: Mapping) -> None:
        """The pages of a mapping just made belong to what `like` belongs to, with its rights."""
        self.mappings.remove(start, start + size)
        self.mappings.insert(replace(like, start=start, end=start + size))
        first, last = start // PAGE_BYTES, (start + size) // PAGE_BYTES
        present = self.state[first:last] == PRESENT
        self.rights[first:last] = np.where(present, effective(like.rights), 0)
        self.flush()

    def is_present(self, address: int) -> bool:
        """Whether the page has been used."""
        return bool(self.state[address // PAGE_BYTES] == PRESENT)

    # -- presence ----------------------------------------------------------------------------------------

    def present(self, address: int, need: int) -> bool:
        """Make the page at `address` present if it is mapped with the right `need`. False: it is not.

        Raises Errno(EFAULT) past the end of a mapped file (a bus error), Errno(ENOMEM) past the limit.
        """
        mapping = self.mappings.at(address)
        if mapping is None or not effective(mapping.rights) & need:
            return False
        page = address // PAGE_BYTES
        if self.state[page] == PRESENT:
            return True
        most = _AROUND_ANONYMOUS if mapping.file is None else _AROUND_FILE
        last = page + 1
        while last < page + most and last * PAGE_BYTES < mapping.end and self.state[last] != PRESENT:
            last += 1
        self._bring(mapping, page, last)
        return True

    def _bring(self, mapping: Mapping, first: int, last: int) -> None:
        file = mapping.file
        if file is not None:
            within = mapping.offset + first * PAGE_BYTES - mapping.start
            pages = (page_ceiling(file.size()) - within) // PAGE_BYTES
            if pages <= 0:
                raise Errno(errno.EFAULT)
            last = min(last, first + pages)
            if mapping.shared:
                self._take_from_aliases(mapping, first, last)
            data = file.page(within, (last - first) * PAGE_BYTES)
            data = data.ljust((last - first) * PAGE_BYTES, b"\0")
        n = last - first
        if (self.present_pages + n) * PAGE_BYTES > self.limit:
            raise Errno(errno.ENOMEM)
        for page in range(first, last):
            if file is not None:
                at = (page - first) * PAGE_BYTES
                self.fill(page * PAGE_BYTES, data[at : at + PAGE_BYTES])
            elif self.state[page] == STALE:
                self.fill(page * PAGE_BYTES, bytes(PAGE_BYTES))
        self.state[first:last] = PRESENT
        self._used.update(range(first // _GROUP, (last - 1) // _GROUP + 1))
        self.rights[first:last] = effective(mapping.rights)
        self.present_pages += n
        self.most_pages = max(self.most_pages, self.present_pages)

    def reach(self, address: int, size: int, need: int) -> None:
        """Make every page of the bytes present, for the kernel. Raises Errno(EFAULT) where one may not be."""
        if size <= 0:
            return
        if address < 0 or address + size > self.size:
            raise Errno(errno.EFAULT)
        first, last = address // PAGE_BYTES, (address + size - 1) // PAGE_BYTES
        rights = self._rights_of
        if last - first > _FEW_PAGES and bool((self.rights[first : last + 1] & need).all()):
            return
        for page in range(first, last + 1):
            if not rights[page] & need and not self.present(page * PAGE_BYTES, need):
                raise Errno(errno.EFAULT)

    # -- files mapped shared -----------------------------------------------------------------------------

    def _write_back(self, mapping: Mapping) -> None:
        if not mapping.shared or mapping.file is None or not mapping.rights & RIGHT_WRITE:
            return
        first = mapping.start // PAGE_BYTES
        for page in (
            first + np.flatnonzero(self.state[first : mapping.end // PAGE_BYTES] == PRESENT)
        ).tolist():
            offset = mapping.offset + page * PAGE_BYTES - mapping.start
            n = min(PAGE_BYTES, mapping.file.size() - offset)
            if n > 0:
                mapping.file.write_back(offset, self.copy_out(page * PAGE_BYTES, PAGE_BYTES)[:n])

    def write_back(self, start: int = 0, end: int | None = None) -> None:
        """Give shared mappings' bytes back to their files (msync, the end)."""
        end = self.size if end is None else end
        for mapping in self.mappings.overlapping(start, end):
            self._write_back(mapping.part(max(start, mapping.start), min(end, mapping.end)))

    @property
    def has_shared_files(self) -> bool:
        """Whether a file is mapped shared."""
        return self.mappings.shared_files

    def writes_to(self, key: object) -> bool:
        """Whether the file with this key is mapped shared and may be written through that."""
        return any(
            mapping.shared and mapping.rights & RIGHT_WRITE and mapping.file and mapping.file.key == key
            for mapping in self.mappings
        )

    def reload(self) -> None:
        """Files have changed: pages of shared mappings show their bytes again."""
        for mapping in self.mappings:
            if mapping.shared and mapping.file is not None:
                self._drop(mapping.start, mapping.end)

    # -- what there is -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """/proc/self/maps."""
        return "".join(mapping.describe() for mapping in self.mappings)

    def used_pages(self) -> NDArray[np.int64]:
        """Pages that may hold something: int64[n], ascending."""
        groups = np.array(sorted(self._used), np.int64)
        pages = (groups[:, np.newaxis] * _GROUP + np.arange(_GROUP)).ravel()
        used: NDArray[np.int64] = pages[self.state[pages] != CLEAN]
        return used


def effective(rights: int) -> int:
    """Rights as x86-64 page tables give them: what can be written or executed can be read."""
    return rights | RIGHT_READ if rights else 0


def total_size(mappings: Iterable[Mapping]) -> int:
    """Bytes that are mapped."""
    return sum(mapping.end - mapping.start for mapping in mappings)
