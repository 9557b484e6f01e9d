"""What is kept of code on pages that are put back: the kernel, and its twin."""

from __future__ import annotations

import numpy as np
import pytest

from emu.bus.line_state import FORGOTTEN, SEEN
from emu.native.state import CODE, PADDED, UNSTABLE
from emu.snapshot.code_pages import CHANGED, KEPT, keep_code

_LINES, _WORDS, _PAGES = 4, 3, 7


def twin(numbers, content, states, flags, memory, line_state, page_flags):  # type: ignore[no-untyped-def]
    """By whole arrays; returns what the kernel makes of content, states, flags, and found."""
    then_content = memory.reshape(-1, _LINES, _WORDS)[numbers]
    then_states, then_flags = line_state.reshape(-1, _LINES)[numbers], page_flags[numbers]
    had = then_states & SEEN != 0
    was_here = states & (SEEN | FORGOTTEN) != 0
    after = np.where(had, then_states, np.where(was_here, then_states | FORGOTTEN, then_states))
    kept = np.where(had[..., None], then_content, content)
    changed = (had & (then_content != content).any(axis=2)).any(axis=1)
    learnt = then_flags | flags & np.uint8(CODE | PADDED | UNSTABLE)
    learnt |= np.where(changed, np.uint8(UNSTABLE), np.uint8(0))
    new = (kept != then_content).any(axis=(1, 2)) | (after != then_states).any(axis=1)
    new |= learnt != then_flags
    return kept, after, learnt, (KEPT * new + CHANGED * changed).astype(np.uint8)


@pytest.mark.parametrize("seed", range(40))
def test_the_kernel_keeps_what_its_twin_does(seed: int) -> None:
    draw = np.random.default_rng(seed)
    memory = draw.integers(0, 2, _PAGES * _LINES * _WORDS, np.uint64)
    line_state = draw.choice(np.array([0, SEEN, FORGOTTEN, 3, SEEN | 2], np.uint8), _PAGES * _LINES)
    page_flags = draw.choice(np.array([0, CODE, CODE | PADDED, 255], np.uint8), _PAGES)
    numbers = np.sort(draw.choice(_PAGES, draw.integers(1, _PAGES), replace=False)).astype(np.uint64)
    content = memory.reshape(-1, _LINES, _WORDS)[numbers]
    states, flags = line_state.reshape(-1, _LINES)[numbers], page_flags[numbers]
    for one, most in ((content, 2), (states, 128), (flags, 256)):
        # A few differ from what stands there now, or none.
        spoilt = draw.random(one.shape) < draw.choice((0.0, 0.05, 0.3))
        one[spoilt] = draw.integers(0, most, int(spoilt.sum())).astype(one.dtype)
    expected = twin(numbers, content, states, flags, memory, line_state, page_flags)
    found = np.zeros(len(numbers), np.uint8)
    keep_code(numbers, content, states, flags, memory, line_state, page_flags, found)
    for one, other in zip((content, states, flags, found), expected, strict=True):
        assert np.array_equal(one, other)
