"""What is told of the accesses at the borders of a narrowed preemption."""

from __future__ import annotations

import pytest

from corebraid.base.rows.event import READ, RMW, WRITE
from corebraid.study.shared_rows import Access
from corebraid.study.smallest.deciding import border, deciding, later
from corebraid.study.smallest.sections import LockCalls

KINDS = {"R": READ, "W": WRITE, "A": RMW}
WORDS = {"x": 0x1000, "y": 0x2000, "l": 0x3000, "m": 0x4000}
#: Where the C library was called from, to take a lock and to give it back.
CALLER, BACK, ELSEWHERE = 0x77, 0x88, 0x99


def accesses(text: str) -> list[Access]:
    """As '1Rx0 2Ax0-1 1Ll': thread, kind, word, old and new value; L, U and T are a library's, taking a
    lock, giving it back, and trying in vain, and Q and P any change of one where it is taken, and given
    back. r and w are a library's that was called from elsewhere."""
    made = []
    for at, one in enumerate(text.split()):
        who, kind, word = int(one[0]), one[1].upper(), WORDS[one[2]]
        locking = {"L": (0, 1), "U": (1, 0), "T": (1, 1)}.get(kind)
        old, _, new = one[3:].partition("-")
        values = locking or (int(old or 0), int(new or old or 0))
        caller = CALLER if kind in "LTQ" else BACK if kind in "UP" else ELSEWHERE if one[1] in "rw" else 0
        made.append(Access(at, who, who, at, 0x100 + at, word, 8, KINDS.get(kind, RMW), *values, caller))
    return made


def told(
    text: str, between: int, late: int, early: int | None = None, *, died_of: str = ""
) -> tuple[list[int], str, str]:
    """The places of what is told, its words, and what it is."""
    made = accesses(text)
    before = [] if early is None else [made[early]]
    deadly = frozenset(WORDS[name] for name in died_of)
    found = deciding(before, (made[between], made[late]), made, died_of=deadly)
    names = {address: name for name, address in WORDS.items()}
    words = [names[one.word] for one in (found.there, found.other) if one is not None]
    return [one.at for one in found.steps], "".join(words), found.title


@pytest.mark.parametrize(
    ("text", "between", "late", "places", "word", "title"),
    [
        ("1Wy1 2Rx0 1Wx0-5", 1, 2, [1, 2], "x", "read by one thread before another wrote it"),
        ("2Wx0-5 1Rx5", 0, 1, [0, 1], "x", "written by one thread before another read it"),
        ("2Wx0-5 1Wx5-6", 0, 1, [0, 1], "x", "written by one thread before another wrote it"),
        # What the other thread does next, or what this one did before, makes an encounter of it.
        ("2Rx0 1Wx0-5 2Wx5-1", 0, 1, [0, 1, 2], "x", "a lost update"),
        ("1Rx0 2Wx0-5 1Rx5", 1, 2, [0, 1, 2], "x", "it changed between two uses by a thread"),
        ("1Rx3 2Ax3-4 2Ax4-3 1Ax3-9", 2, 3, [0, 2, 3], "x", "ABA: a value that went and came back"),
    ],
)
def test_two_accesses_and_a_third(
    text: str, between: int, late: int, places: list[int], word: str, title: str
) -> None:
    assert told(text, between, late) == (places, word, title)


CROSSED = "each of two threads comes in between what the other one does to these two"


@pytest.mark.parametrize(
    ("text", "between", "late", "places", "word", "title"),
    [
        # Each has looked at what the other one changes then.
        ("1Rx0 2Ry0 1Wy0-5 2Wx0-5", 1, 2, [0, 1, 2, 3], "yx", CROSSED),
        # One has changed both, and the other one sees one of them as it was.
        ("2Ry0 1Wx0-5 1Wy0-5 2Rx5", 0, 2, [0, 1, 2, 3], "yx", CROSSED),
        # The nearest ones.
        ("1Rl0 1Rx0 2Ry0 1Wy0-5 2Wx0-5 2Wl0-5", 2, 3, [1, 2, 3, 4], "yx", CROSSED),
        # What the other one did there before all that is as if it had been first.
        ("1Rx0 2Wx0-5 2Ry0 1Wy0-5", 2, 3, [2, 3], "y", "read by one thread before another wrote it"),
        # Nothing is another for it.
        ("1Rx0 2Ry0 1Wy0-5 2Wx5-5", 1, 2, [1, 2], "y", "read by one thread before another wrote it"),
        # A third access to the word itself says more; a library's is none of the thread's own.
        ("1Ry0 1Rx0 2Wy0-1 1Wy1-5 2Wx0-5", 2, 3, [0, 2, 3], "y", "a lost update"),
        ("1rx0 2Ry0 1Wy0-5 2Wx0-5", 1, 2, [1, 2], "y", "read by one thread before another wrote it"),
    ],
)
def test_two_words(text: str, between: int, late: int, places: list[int], word: str, title: str) -> None:
    assert told(text, between, late) == (places, word, title)


def test_of_a_run_that_passes_no_second_word_is_told() -> None:
    made = accesses("1Rx0 2Ry0 1Wy0-5 2Wx0-5")
    found = deciding([], (made[1], made[2]), made, crossed=False)
    assert [one.at for one in found.steps] == [1, 2]
    assert found.other is None


def test_words_that_the_run_died_of_come_first() -> None:
    # Looked at before it was closed, and used after it was cleared.
    text = "1Rx0 2Wx0-1 2Wy9-0 1Ry0 1Rx1"
    assert told(text, 0, 1) == ([0, 1, 4], "x", "it changed between two uses by a thread")
    assert told(text, 0, 1, died_of="y") == ([0, 1, 2, 3], "xy", CROSSED)
    # Of what is done under a lock.
    text = "1Rx0 1Ry0 2Ll 1Tl 2Wx0-1 2Wy0-1 2Ul 1Ll 1Rx1 1Ry1 1Ul"
    assert told(text, 2, 3)[1] == "x"
    assert told(text, 2, 3, died_of="y")[1] == "y"


def test_who_has_a_lock_first_is_told_by_what_is_done_under_it() -> None:
    text = "1Rx0 2Ll 1Tl 2Rx0 2Wx0-1 2Wy0-1 2Ul 1Ll 1Ry1 1Wx1-1 1Ul"
    assert told(text, 1, 2) == ([0, 1, 2, 4, 9], "x", "a lost update")
    # Only where there is nothing else.
    text = "2Ll 1Tl 2Wy0-1 2Ul 1Ll 1Ry1 1Ul"
    assert told(text, 0, 1) == ([0, 1, 2, 5], "y", "written by one thread before another read it")
    # Who waits changes the lock's word, too.
    text = "2Ll 1Tl 1Ql1-2 2Wy0-1 2Pl2-0 1Ql0-2 1Ry1 1Pl2-0"
    assert told(text, 0, 1) == ([0, 1, 3, 6], "y", "written by one thread before another read it")
    text = "2Ll 1Ll"
    assert told(text, 0, 1) == ([0, 1], "l", "changed atomically, or taken, by one thread before another")


@pytest.mark.parametrize(
    ("text", "between", "late", "pair"),
    [
        ("1Ry0 2Rx0 2Wy0-1 1Ax0-1 1Ry1", 1, 3, (1, 3)),
        # What the thread goes on behind concerns what it does later; the last before that concerns this.
        ("1Ry0 2Rx0 2Rx0 2Wy0-1 1Ax0-1 1Ry1", 3, 4, (2, 4)),
        # Not what came before the thread was stopped.
        ("2Rx0 1Ry0 2Wy0-1 1Ax0-1 1Ry1", 2, 3, None),
        ("1Ry0 2Rx0 2Wy0-1 1Rx0 1Ry1", 2, 3, None),
    ],
)
def test_the_accesses_at_the_borders(
    text: str, between: int, late: int, pair: tuple[int, int] | None
) -> None:
    made = accesses(text)
    found = border([made[between]], [made[late]], made)
    assert (None if found is None else tuple(one.at for one in found)) == pair


@pytest.mark.parametrize(
    ("text", "between", "who", "pair"),
    [
        # What the thread that was stopped goes on with has to do with nothing; what it does then has.
        ("1Wx0-1 2Rx1 1Wy0-1 1Wx1-2 2Ry1", 1, 1, (1, 3)),
        ("1Wx0-1 2Rx1 1Rx1 3Wx1-2 1Wx2-3", 1, 1, (1, 4)),
        ("1Wx0-1 2Rx1 1Rx1 2Wx1-2", 1, 1, None),
    ],
)
def test_what_a_thread_does_later(text: str, between: int, who: int, pair: tuple[int, int] | None) -> None:
    made = accesses(text)
    found = later([made[between]], who, made)
    assert (None if found is None else tuple(one.at for one in found)) == pair


def test_readers_have_a_lock_together() -> None:
    """Each adds 8 to its word while it reads; who writes sets a bit."""
    text = "2Ql0-8 3Ql8-16 2Rx0 2Pl16-8 3Pl8-0 1Ql0-2 1Wx0-1 1Pl2-0"
    assert told(text, 0, 5) == ([0, 2, 5, 6], "x", "read by one thread before another wrote it")


def test_who_is_handed_a_lock_does_not_change_its_word() -> None:
    """A writer waits; the last reader gives the lock to it."""
    text = "2Ql0-8 1Ql8-10 1Tl 2Rx0 2Pl10-2 1Wx0-1 1Pl2-0"
    assert told(text, 0, 2) == ([0, 2, 3, 5], "x", "read by one thread before another wrote it")


def test_who_never_gets_the_lock_is_told_by_what_the_other_read_under_it() -> None:
    """A thread waits for a condition, another takes what it waits for, and it does not look again."""
    text = "1Ll 1Rx0 1Ul 3Ll 3Wx0-1 3Ul 2Ll 2Wx1-0 2Ul 1Ll 3Tl 1Rx0"
    changed = ([1, 7, 9, 10, 11], "x", "it changed between two uses by a thread")
    assert told(text, 9, 10) == changed
    made = accesses(text)
    waits = LockCalls(data_decides=False)
    steps, there, *_ = deciding([], (made[9], made[10]), made, waits)
    assert ([one.at for one in steps], there.word) == ([9, 10], WORDS["l"])


def test_what_others_did_while_a_thread_waited_for_the_lock() -> None:
    """Who had the lock did nothing that matters to it; who had it next did."""
    text = "2Ll 1Tl 2Ry0 2Ul 3Ll 3Wx0-1 3Wx1-2 3Ul 1Ll 1Rx2 1Ul"
    assert told(text, 0, 1) == ([0, 1, 6, 9], "x", "written by one thread before another read it")
    # A lock that it takes at once it has not waited for.
    text = "2Ll 2Ry0 2Ul 1Ll 3Wx0-1 1Rx1 1Ul"
    assert told(text, 0, 3)[0] == [0, 3]
    # Who is told that a lock is waited for for ever is told no more.
    made = accesses("2Ll 1Tl 2Ry0 2Ul 3Ll 3Wx0-1 3Ul 1Ll 1Rx1 1Ul")
    waits = LockCalls(data_decides=False)
    assert [one.at for one in deciding([], (made[0], made[1]), made, waits)[0]] == [0, 1]


def test_what_the_second_one_does_later_under_the_lock_or_without() -> None:
    """Nothing that either does under the lock matters to the other; what it would have done before does."""
    text = "2Ll 1Tl 2Rx0 2Ul 1Ll 1Wy0-1 1Ul 1Ll 1Wx0-1 1Ul"
    assert told(text, 0, 1) == ([0, 1, 2, 8], "x", "read by one thread before another wrote it")
    assert told("2Ll 1Tl 2Rx0 2Ul 1Ll 1Wy0-1 1Ul 3Wx0-1 1Rx1 1Wx1-2", 0, 1)[0] == [0, 1, 2, 9]
    # Another one's write is nothing that it would have done.
    assert told("2Ll 1Tl 2Rx0 2Ul 1Ll 1Wy0-1 1Ul 3Wx0-1", 0, 1)[0] == [0, 1]


def test_who_gives_the_lock_back_would_have_gone_on_before_the_second_one() -> None:
    """Else the second thread had to wait for the lock, and the first one would have read what it found."""
    text = "1Ll 1Wy0-1 1Ul 2Ll 2Wx0-1 2Wx1-2 2Ul 3Wx2-3 1Rx3"
    assert told(text, 2, 3) == ([2, 3, 5, 8], "x", "written by one thread before another read it")
    # What it does before the second one does anything there, or what a third does, is nothing of that.
    assert told("1Ll 1Ul 2Ll 1Rx0 2Wx0-1 2Ul", 1, 2)[0] == [1, 2]
    assert told("1Ll 1Ul 2Ll 2Ry0 2Ul 3Wy0-1 1Rx0", 1, 2)[0] == [1, 2]
    # Nor is anything where threads wait for each other in a circle.
    made = accesses(text)
    waits = LockCalls(data_decides=False)
    assert [one.at for one in deciding([], (made[2], made[3]), made, waits)[0]] == [2, 3]


def test_what_a_library_does_for_the_program_under_a_lock() -> None:
    # The library's own words are nothing to the program.
    text = "2Ll 1Tl 2wy0-1 2Ul 1Ll 1ry1 1Ul"
    assert told(text, 0, 1)[0] == [0, 1]
    # A word that the program itself uses somewhere is.
    assert told(f"3Ry0 {text}", 1, 2)[0] == [1, 2, 3, 6]
    # What it does itself is told first.
    text = "3Ry0 2Ll 1Tl 2wy0-1 2Wx0-1 2Ul 1Ll 1ry1 1Rx1 1Ul"
    assert told(text, 1, 2)[0] == [1, 2, 4, 8]

    class Other(LockCalls):
        """y is touched by another library than the C library."""

        def is_c(self, access: Access) -> bool:
            return access.word != WORDS["y"]

    made = accesses("2Ll 1Tl 2wy0-1 2Ul 1Ll 1ry1 1Ul")
    assert [one.at for one in deciding([], (made[0], made[1]), made, Other())[0]] == [0, 1, 2, 5]


def test_what_is_done_when_the_lock_is_given_back_is_not_under_it() -> None:
    text = "2Ll 1Tl 2Ul 2Wx0-1 1Ll 1Ul 1Rx1"
    assert told(text, 0, 1)[0] == [0, 1]
    # Where the library says by its name that it gives a lock back.
    text = "2Ql8-10 1Tl 2Wx0-1 1Ll 1Rx1 1Ul"
    assert told(text, 0, 1)[0] == [0, 1, 2, 4]
    made = accesses(text)

    class Back(LockCalls):
        def gives_back(self, access: Access) -> bool:
            return access.at == 0

    assert [one.at for one in deciding([], (made[0], made[1]), made, Back())[0]] == [0, 1]


@pytest.mark.parametrize(
    ("text", "between", "late", "counts"),
    [
        # A flag that was set, so that the other thread reads what is not there yet.
        ("1Wy0-1 2Ry1 2Rx0 1Wx0-1", 2, 3, True),
        # Nobody looks at it.
        ("1Wy0-1 2Rx0 1Wx0-1", 1, 2, False),
        # That a lock was given back says nothing, though the other thread takes it.
        ("1Ll 1Ul 2Ll 2Ul 2Rx0 1Wx0-1", 4, 5, False),
        # That it was taken does.
        ("1Ll 2Tl 2Rx0 1Wx0-1", 2, 3, True),
    ],
)
def test_what_came_before(text: str, between: int, late: int, counts: bool) -> None:
    early = 1 if text.startswith("1Ll 1Ul") else 0
    assert (early in told(text, between, late, early)[0]) is counts
