"""What was left out of names and lines because it could not be read, for whoever runs a command to tell.

Names are a convenience: where they cannot be read there are none, and everything else works. But it is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

#: Sentences told so far, of the innermost `told_left_out`.
_told: list[list[str]] = []


def tell_left_out(what: str) -> None:
    """Say, once, that something is left out. what: a sentence."""
    if _told and what not in _told[-1]:
        _told[-1].append(what)


@contextmanager
def told_left_out() -> Iterator[list[str]]:
    """What is told in the meantime, in this process: a list that grows."""
    _told.append([])
    try:
        yield _told[-1]
    finally:
        _told.pop()


def left_out_so_far() -> list[str]:
    """What was told in the innermost `told_left_out`."""
    return list(_told[-1]) if _told else []
