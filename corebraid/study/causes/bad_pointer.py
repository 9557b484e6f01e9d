"""Where a thread had the address from whose use killed it: the shared word that it read it in last."""

from __future__ import annotations

from collections.abc import Sequence

from corebraid.names.threads import thread_at
from corebraid.study.shared_rows import WORD, Access
from recorder.files.reader import Recording

#: How far from a pointer what it points to may be used.
_MEMBERS = 4096
_ADDRESSES = 1 << 64


def pointer_read(recording: Recording, accesses: Sequence[Access]) -> Access | None:
    """The last read that gave the thread which a bad access killed an address near that of the access; None
    where no read did, or it did not end so. accesses: in order. Raises FormatError."""
    end = recording.manifest.end
    if end is None or end.address is None or end.core is None or end.count is None:
        return None
    who = thread_at(recording, end.core, end.count)
    for one in reversed(accesses):
        if one.who == who and one.reads and one.size == WORD and _near(one.old, end.address):
            return one
    return None


def _near(pointer: int, address: int) -> bool:
    far = (address - pointer) % _ADDRESSES
    return min(far, _ADDRESSES - far) < _MEMBERS
