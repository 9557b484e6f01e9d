"""The address space: mappings, and the page table that every core asks on a fill.

Pages become present on first use: a core's access stops at the fill, the kernel puts the file's bytes or
zeros there as an agent on the bus, and the access runs again. What was unmapped keeps its old bytes until its
page is used anew.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from corebraid.base.host_memory import host_memory
from corebraid.base.memory import PAGE_BYTES
from emu.linux.files.open_file import MappedFile
from emu.linux.ground.failure import Errno, Unsupported
from emu.linux.memory.mappings import Mapping, Mappings
from emu.linux.memory.pages import effective, page_ceiling, page_floor
from emu.native.state import RIGHT_EXECUTE, RIGHT_WRITE

#: No mapping below (vm.mmap_min_addr).
LOWEST = 0x10000
#: Mappings that a process may have (vm.max_map_count).
MOST_MAPPINGS = 65_530
#: States of a page: never used, so all zero everywhere; present; used before, with bytes of then.
CLEAN, PRESENT, STALE = 0, 1, 2
#: Pages that one fault makes present at most, if they are mapped alike: anonymous ones, a file's.
_AROUND_ANONYMOUS, _AROUND_FILE = 16, 4
#: Pages of a group: all of memory is too much to be looked through for those that are used.
_GROUP = 1 << 12
#: Pages whose rights are looked up one by one.
_FEW_PAGES = 8

#: Puts bytes into whole pages that no core can reach: (address, bytes).
Fill = Callable[[int, bytes], None]


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
        #: Files from which pages came that are the process's own from then on (`MappedFile.key`), since
        #: somebody has emptied it.
        self.brought: set[object] = set()
        #: uint8[pages], 1 for those that cores may execute from, or once might; and pages that came to be so
        #: while they held something, in that order.
        self.code: NDArray[np.uint8] = host_memory(size // PAGE_BYTES)
        self.late_code: list[int] = []
        #: Groups of pages in which some have been used.
        self._used: set[int] = set()
        self.fill: Fill = lambda address, data: None
        self.flush: Callable[[], None] = lambda: None
        #: Told of pages, from `start` to (not) `end`, that are taken away, or rights to them.
        self.taken: Callable[[int, int], None] = lambda start, end: None
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
        may_write: bool = True,
        grows: bool = False,
    ) -> int:
        """Map `size` bytes (whole pages) at `start`, replacing what is there, or where there is room.

        Returns the address. Raises Errno(ENOMEM).
        """
        if start is None:
            start = self.mappings.find_room(size, file is None)
        if start is None or start < LOWEST or start + size > self.size - PAGE_BYTES:
            raise Errno(errno.ENOMEM)
        if len(self.mappings) > MOST_MAPPINGS:
            raise Errno(errno.ENOMEM)
        self.unmap(start, size)
        mapping = Mapping(start, start + size, rights, shared, file, offset, name, may_write, grows)
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
        """Unmap whole pages. Raises Errno(ENOMEM) where one mapping too many would be left."""
        around = self.mappings.at(start)
        hole = around is not None and around.start < start and start + size < around.end
        if hole and len(self.mappings) >= MOST_MAPPINGS:
            raise Errno(errno.ENOMEM)
        gone = self.mappings.remove(start, start + size)
        for mapping in gone:
            self._write_back(mapping)
            self._take(mapping.start, mapping.end)

    def _take(self, start: int, end: int) -> None:
        """The guest takes the pages away."""
        self.taken(start, end)
        self._drop(start, end)

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
        """Change the rights of whole pages, up to the first that may not be changed.

        Raises Errno(ENOMEM) where one is not mapped or there would be too many mappings, Errno(EACCES) where
        its file was opened to read only.
        """
        at = start
        for piece in self.mappings.overlapping(start, end):
            if piece.start > at:
                break
            if rights & RIGHT_WRITE and not piece.may_write:
                raise Errno(errno.EACCES)
            added = self.mappings.cut_by(start, end) if piece.rights != rights else 0
            if added and len(self.mappings) + added > MOST_MAPPINGS:
                raise Errno(errno.ENOMEM)
            self._protect(piece.part(at, min(end, piece.end)), rights)
            at = piece.end
        if at < end:
            raise Errno(errno.ENOMEM)

    def _protect(self, piece: Mapping, rights: int) -> None:
        if effective(piece.rights) & ~effective(rights):
            self.taken(piece.start, piece.end)
        if piece.shared and piece.file is not None:
            # Only pages that may be written are written back, and only such have no copy elsewhere.
            self._write_back(piece)
            self._drop(piece.start, piece.end)
        changed = replace(piece, rights=rights)
        self.mappings.remove(piece.start, piece.end)
        self.mappings.insert(changed)
        if piece.file is not None and (rights | piece.rights) & RIGHT_EXECUTE:
            self.history.append(changed)
        first, last = piece.start // PAGE_BYTES, piece.end // PAGE_BYTES
        self.rights[first:last] = np.where(self.state[first:last] == PRESENT, effective(rights), 0)
        if rights & RIGHT_EXECUTE:
            new = (self.state[first:last] == PRESENT) & (self.code[first:last] == 0)
            self.late_code += (first + np.flatnonzero(new)).tolist()
            self.code[first:last] |= new
        self.flush()

    def discard(self, start: int, end: int) -> None:
        """Forget what the pages hold (MADV_DONTNEED): they come back as zeros, or from their file."""
        for mapping in self.mappings.overlapping(start, end):
            if not mapping.shared:
                self._take(max(start, mapping.start), min(end, mapping.end))

    def clear(self, start: int, end: int) -> None:
        """What backs the shared pages becomes zeros (MADV_REMOVE)."""
        for mapping in self.mappings.overlapping(start, end):
            piece = mapping.part(max(start, mapping.start), min(end, mapping.end))
            self._take(piece.start, piece.end)
            if piece.file is not None:
                self.write_back()
                piece.file.write_back(piece.offset, bytes(piece.end - piece.start))
        self.reload()

    def move(self, start: int, size: int, target: int | None, room: int) -> int:
        """Give the pages of a part of one mapping, with what they hold, to a mapping like it of `room` bytes.

        They stay mapped where they were, not present. target: as `map`'s start. Returns the new address.
        Raises Errno(ENOMEM).
        """
        like = self.mappings.at(start)
        assert like is not None
        part = like.part(start, start + size)
        self._write_back(part)
        self.taken(start, start + size)
        to = self.map(
            target, room, part.rights, shared=part.shared, file=part.file, offset=part.offset, name=part.name,
            may_write=part.may_write, grows=part.grows,
        )  # fmt: skip
        if part.shared and part.file is not None:
            self._drop(start, start + size)
            return to
        first, n = start // PAGE_BYTES, min(size, room) // PAGE_BYTES
        for page in (first + np.flatnonzero(self.state[first : first + n] == PRESENT)).tolist():
            there = to // PAGE_BYTES + page - first
            self.fill(there * PAGE_BYTES, self.copy_out(page * PAGE_BYTES, PAGE_BYTES))
            self.state[page], self.rights[page] = STALE, 0
            self.state[there], self.rights[there] = PRESENT, effective(part.rights)
            if part.rights & RIGHT_EXECUTE:
                self.code[there] = 1
        self._drop(start, start + size)
        self.flush()
        return to

    def is_present(self, address: int) -> bool:
        """Whether the page has been used."""
        return bool(self.state[address // PAGE_BYTES] == PRESENT)

    def is_there(self, address: int) -> bool:
        """Whether a processor would find the page in its tables: it has been used, and may be in some way."""
        return self.is_present(address) and bool(self.rights[address // PAGE_BYTES])

    def may_write(self, address: int) -> bool:
        """Whether it is mapped with the right to write."""
        mapping = self.mappings.at(address)
        return mapping is not None and mapping.rights & RIGHT_WRITE != 0

    # -- presence ----------------------------------------------------------------------------------------

    def present(self, address: int, need: int) -> bool:
        """Make the page at `address` present if it is mapped with the right `need`. False: it is not.

        Raises Errno(EFAULT) past the end of a mapped file (a bus error), Errno(ENOMEM) past the limit.
        """
        mapping = self._allowing(address, need)
        if mapping is None:
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

    def allows(self, address: int, need: int) -> bool:
        """Whether the page at `address` is mapped with the right `need`."""
        return address < self.size and self._allowing(address, need) is not None

    def _allowing(self, address: int, need: int) -> Mapping | None:
        mapping = self._found(address)
        return mapping if mapping is not None and effective(mapping.rights) & need else None

    def _found(self, address: int) -> Mapping | None:
        """The mapping of an address, which may grow down to it."""
        mapping = self.mappings.at(address)
        if mapping is None and self.mappings.grow(page_floor(address)):
            mapping = self.mappings.at(address)
        return mapping

    def _bring(self, mapping: Mapping, first: int, last: int) -> None:
        file = mapping.file
        if file is not None:
            within = mapping.offset + first * PAGE_BYTES - mapping.start
            pages = (page_ceiling(file.size()) - within) // PAGE_BYTES
            if not mapping.shared:
                self.brought.add(file.key)
            if pages <= 0:
                raise Errno(errno.EFAULT)
            last = min(last, first + pages)
            if mapping.shared:
                self._take_from_aliases(mapping, first, last)
            elif self.has_shared_files:
                self.write_back()
            data = file.page(within, (last - first) * PAGE_BYTES)
            data = data.ljust((last - first) * PAGE_BYTES, b"\0")
        n = last - first
        if (self.present_pages + n) * PAGE_BYTES > self.limit:
            raise Errno(errno.ENOMEM)
        if file is not None:
            self.fill(first * PAGE_BYTES, data)
        else:
            for page in (first + np.flatnonzero(self.state[first:last] == STALE)).tolist():
                self.fill(page * PAGE_BYTES, bytes(PAGE_BYTES))
        self.state[first:last] = PRESENT
        self._used.update(range(first // _GROUP, (last - 1) // _GROUP + 1))
        self.rights[first:last] = effective(mapping.rights)
        if mapping.rights & RIGHT_EXECUTE:
            self.code[first:last] = 1
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

    def reachable(self, address: int, size: int, need: int) -> int:
        """How many of the bytes, from the first on, `reach` would find."""
        at = address
        self._found(address)
        for mapping in self.mappings.overlapping(address, address + size):
            if mapping.start > at or not effective(mapping.rights) & need:
                break
            at = mapping.end
            if mapping.file is not None:
                held = page_ceiling(max(0, mapping.file.size() - mapping.offset))
                at = min(at, mapping.start + held)
            if at < mapping.end:
                break
        return max(0, min(at - address, size))

    # -- files mapped shared -----------------------------------------------------------------------------

    def _write_back(self, mapping: Mapping) -> None:
        """Raises Unsupported."""
        if not mapping.shared or mapping.file is None or not mapping.rights & RIGHT_WRITE:
            return
        first = mapping.start // PAGE_BYTES
        for page in (
            first + np.flatnonzero(self.state[first : mapping.end // PAGE_BYTES] == PRESENT)
        ).tolist():
            offset = mapping.offset + page * PAGE_BYTES - mapping.start
            n = min(PAGE_BYTES, mapping.file.size() - offset)
            if n > 0:
                _put_back(mapping.file, offset, self.copy_out(page * PAGE_BYTES, PAGE_BYTES)[:n])

    def write_back(self, start: int = 0, end: int | None = None) -> None:
        """Give shared mappings' bytes back to their files (msync, the end)."""
        if not self.has_shared_files:
            return
        end = self.size if end is None else end
        for mapping in self.mappings.overlapping(start, end):
            self._write_back(mapping.part(max(start, mapping.start), min(end, mapping.end)))

    def may_be_written(self, key: object) -> bool:
        """Whether the file with this key is mapped such that memory may change it."""
        return any(
            m.shared and m.may_write and m.file is not None and m.file.key == key for m in self.mappings
        )

    @property
    def has_shared_files(self) -> bool:
        """Whether a file is mapped shared."""
        return self.mappings.shared_files

    def reload(self) -> None:
        """Files have changed: pages of shared mappings show their bytes again."""
        for mapping in self.mappings:
            if mapping.shared and mapping.file is not None:
                held = mapping.start + page_ceiling(mapping.file.size()) - mapping.offset
                if held < mapping.end:
                    self.taken(max(held, mapping.start), mapping.end)
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


def _put_back(file: MappedFile, offset: int, data: bytes) -> None:
    try:
        file.write_back(offset, data)
    except Errno as failure:
        # Linux would have kept the page, or have refused it when it was first written to.
        raise Unsupported(
            f"what was written to {file.path} in memory cannot be written to the file "
            f"({os.strerror(failure.number)})"
        ) from None
