"""What callers ask for, held against what there is: the command line's own option types do the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase

#: Processes at most, and instructions or rows at most: what the command line takes.
MOST_JOBS, MOST_LEARNT, MOST = 1024, 64, (1 << 63) - 1
MOST_SECONDS = 1e9
#: Preemptions of an execution at most.
MOST_PREEMPTIONS = 1000


def ignore(_: object) -> None:
    """Where goes what nobody asked for."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raises UsageError unless the option's value is one of these words."""
    known = list(choices)
    if value not in known:
        expected = ", ".join(known)
        raise UsageError(f"no such {name}", expected=expected, found=repr(value), remedy=_choose(name))


def check_whole(name: str, value: object, least: int, most: int = MOST, *, optional: bool = True) -> None:
    """Raises UsageError unless the option's value is a whole number between these, or None if optional."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        expected = f"a whole number from {least} to {most}"
        raise UsageError(f"not a value of {name}", expected=expected, found=repr(value), remedy=_choose(name))


def check_integer(name: str, value: object) -> None:
    """Raises UsageError unless the option's value is a whole number; which, is for others to say."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(
            f"not a value of {name}", expected="a whole number", found=repr(value), remedy=_choose(name)
        )


def check_seconds(name: str, value: object, *, optional: bool = False) -> None:
    """Raises UsageError unless the option's value is a number of seconds above 0, or None if optional."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST_SECONDS:
        raise UsageError(
            f"not a value of {name}",
            expected=f"seconds above 0, to {MOST_SECONDS:.0f}",
            found=repr(value),
            remedy=_choose(name),
        )


def check_number(name: str, value: object) -> None:
    """Raises UsageError unless the option's value is a number; which, is for others to say."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(
            f"not a value of {name}", expected="a number", found=repr(value), remedy=_choose(name)
        )


def check_text(name: str, value: object, *, optional: bool = False) -> None:
    """Raises UsageError unless the option's value is text without a NUL, or None if optional."""
    if value is None and optional:
        return
    if not isinstance(value, str) or "\0" in value:
        raise UsageError(f"not a value of {name}", expected="text", found=repr(value), remedy=_choose(name))


def texts_of(name: str, value: object) -> tuple[str, ...]:
    """The texts that an option was given. Raises UsageError where it is no list of such; one text is not."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise UsageError(
            f"not a value of {name}", expected="a list of texts", found=repr(value), remedy=_choose(name)
        )
    texts = tuple(value)
    for text in texts:
        check_text(name, text)
    return texts


def check_place(name: str, value: object) -> None:
    """Raises UsageError unless a value is the name of a place in the file system."""
    if not isinstance(value, str | Path) or "\0" in str(value):
        raise UsageError(f"not a value of {name}", expected="a path", found=repr(value), remedy=_choose(name))


def _choose(name: str) -> Phrase:
    return Phrase("choose another ", Option(name))
