"""Which words belong to what a thread waits at."""

from __future__ import annotations

from corebraid.base.rows.event import READ, RMW
from corebraid.study.causes.waited_words import waited_words
from corebraid.study.shared_rows import Access

#: A mutex, right before a condition variable, whose last words a thread sleeps at; what lies behind.
MUTEX, CONDITION, BEHIND = 0x1000, 0x1028, 0x1058
SLEEPS = CONDITION + 0x2C


def access(address: int, caller: int, kind: int = RMW) -> Access:
    return Access(0, 1, 0, 0, 0x40, address, 4, kind, 0, 1, caller)


def test_a_condition_variable_without_its_mutex() -> None:
    made = [
        access(CONDITION + 8, 0x77),
        access(MUTEX, 0x80),
        access(CONDITION, 0x90),
        access(CONDITION + 0x24, 0x90),
        access(MUTEX, 0x90),
        access(MUTEX + 8, 0x90, READ),
        access(BEHIND, 0x90),
        access(SLEEPS, 0x90, READ),
    ]
    assert waited_words(made, SLEEPS) == {CONDITION, CONDITION + 0x20, CONDITION + 0x28}


def test_a_semaphore_and_what_the_program_does_itself() -> None:
    assert waited_words([access(0x2000, 0x90), access(0x2000, 0x90)], 0x2000) == {0x2000}
    # Nobody has called a library: the word alone.
    assert waited_words([access(0x1FF8, 0), access(0x2000, 0)], 0x2004) == {0x2000}
    assert waited_words([], 0x2004) == {0x2000}
