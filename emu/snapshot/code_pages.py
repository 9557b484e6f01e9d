"""What a core has learnt of code on pages that are about to be as they were.

Of a line that the core had received by then its bytes stand: where they were others since, what was
translated of them is wrong. Of one that it received, or forgot, later, the bytes stay, and it counts as
forgotten (`emu.bus.line_state.FORGOTTEN`): whoever fetches it misses on it, and finds its translations.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.bus.line_state import FORGOTTEN, SEEN
from emu.native.state import CODE, PADDED, UNSTABLE

#: Of a page: some of it is kept that was not there; bytes that were there have changed.
KEPT, CHANGED = 1, 2
_SEEN, _WAS_HERE, _FORGOTTEN = np.uint8(SEEN), np.uint8(SEEN | FORGOTTEN), np.uint8(FORGOTTEN)
_LEARNT, _UNSTABLE = np.uint8(CODE | PADDED | UNSTABLE), np.uint8(UNSTABLE)


@njit(cache=True)
def _is_other(late, memory, at):  # type: ignore[no-untyped-def]
    different = False
    for word in range(late.size):
        different |= late[word] != memory[at + word]
    return different


@njit(cache=True)
def keep_code(numbers, content, states, flags, memory, line_state, page_flags, found):  # type: ignore[no-untyped-def]
    """What pages are to hold, from what they held in the end and what they hold now, as they were then.

    numbers: uint64[n], of the pages. content: uint64[n, lines, words of a line], states: uint8[n, lines],
    flags: uint8[n]: as they were in the end; changed in place to what they are to be. memory: uint64[words of
    all pages], line_state: uint8[lines of all], page_flags: uint8[pages]: of the core, as they are now.
    found: uint8[n], is given `KEPT` and `CHANGED`.
    """
    lines, words = content.shape[1], content.shape[2]
    for k in range(len(numbers)):
        kept, changed = False, False
        for line in range(lines):
            place = np.int64(numbers[k]) * lines + line
            then, late = line_state[place], content[k, line]
            other = _is_other(late, memory, place * words)
            after = then
            if then & _SEEN:
                changed |= other
                for word in range(words):
                    late[word] = memory[place * words + word]
            else:
                after = then | _FORGOTTEN if states[k, line] & _WAS_HERE else then
                kept |= other or after != then
            states[k, line] = after
        before = page_flags[np.int64(numbers[k])]
        flags[k] = before | flags[k] & _LEARNT | (_UNSTABLE if changed else np.uint8(0))
        kept |= flags[k] != before
        found[k] = np.uint8(KEPT * kept + CHANGED * changed)
