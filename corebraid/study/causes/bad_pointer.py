"""Where a thread had the address from whose use killed it: the shared word that it read it in last, and who
writes there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from corebraid.names.threads import thread_at
from corebraid.study.shared_rows import WORD, Access
from recorder.files.reader import Recording

#: How far from a pointer what it points to may be used.
_MEMBERS = 4096
_ADDRESSES = 1 << 64


def pointer_read(recording: Recording, accesses: Sequence[Access], *, own: bool = False) -> Access | None:
    """The last read that gave the thread which a bad access killed an address near that of the access; None
    where no read did, or it did not end so. accesses: in order. own: in the program's own code, not in a
    library's. Raises FormatError."""
    end = recording.manifest.end
    if end is None or end.address is None or end.core is None or end.count is None:
        return None
    who = thread_at(recording, end.core, end.count)
    for one in reversed(accesses):
        if own and one.caller:
            continue
        if one.who == who and one.reads and one.size == WORD and _near(one.old, end.address):
            return one
    return None


def seen_write(read: Access, accesses: Iterable[Access]) -> Access | None:
    """The last write before a read to what it reads; None: nobody had written there. accesses: in order."""
    before = (one for one in accesses if one.at < read.at and one.writes and one.overlaps(read))
    return max(before, key=lambda one: one.at, default=None)


def usual_write(read: Access, runs: Iterable[Sequence[Access]]) -> tuple[int, int] | None:
    """Where what is mostly read there in other runs was written, (pc, caller); None: they do not read there,
    or find what nobody has written. runs: of each its accesses, in order."""
    found: Counter[tuple[int, int] | None] = Counter()
    for accesses in runs:
        written: dict[int, Access] = {}
        for one in accesses:
            if (one.pc, one.address, one.reads) == (read.pc, read.address, True):
                wrote = written.get(one.address)
                found[None if wrote is None else (wrote.pc, wrote.caller)] += 1
            if one.writes:
                written[one.address] = one
    return found.most_common(1)[0][0] if found else None


def _near(pointer: int, address: int) -> bool:
    if 0 < pointer < _MEMBERS:
        # A small number, and no pointer.
        return False
    far = (address - pointer) % _ADDRESSES
    return min(far, _ADDRESSES - far) < _MEMBERS
