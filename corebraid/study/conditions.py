"""When a hunt has found what it looks for: conditions on how a run ended and what it printed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corebraid.base.errors import UsageError
from corebraid.base.wording import another
from emu.linux.tasks.waiting import Awaited
from recorder.files.end import IDLE

if TYPE_CHECKING:
    from recorder.files.end import End

#: What a hunt looks for unless somebody says otherwise; and also of a program that ends by itself.
DEFAULT, _OF_WHAT_ENDS = ("exit!=0", "fault", "deadlock"), "idle"
_FAULTS, _DEADLOCKS, _TIMEOUTS = ("signal", "fault"), ("deadlock", "halted"), ("limit", "time-limit")
_REASONS = {"fault": _FAULTS, "deadlock": _DEADLOCKS, "timeout": _TIMEOUTS, "idle": (IDLE,)}
_MOST_EXIT = 255
_EXIT = re.compile(r"exit(==|!=)([0-9]{1,3})")


@dataclass(frozen=True)
class Condition:
    """One condition. text: as it was given. if_it_ends: only of a program that has come to its end when it
    was learnt from."""

    text: str
    output: re.Pattern[bytes] | None = None
    if_it_ends: bool = False

    @classmethod
    def parse(cls, text: str) -> Condition:
        """From 'exit!=0', 'exit==N', 'fault', 'deadlock', 'idle', 'timeout' or 'output~REGEX'. Raises
        UsageError."""
        exits = _EXIT.fullmatch(text)
        if text in _REASONS or (exits and int(exits[2]) <= _MOST_EXIT):
            return cls(text)
        if text.startswith("output~"):
            pattern = text.removeprefix("output~")
            try:
                return cls(text, re.compile(pattern.encode(), re.MULTILINE))
            except (re.error, RecursionError, OverflowError) as error:
                raise UsageError(f"not a regular expression ({error})", found=repr(pattern)) from None
        raise UsageError(
            "no such condition",
            expected="exit!=N, exit==N (N up to 255), fault, deadlock, idle, timeout or output~REGEX",
            found=repr(text),
            remedy=another("until"),
        )

    def holds(self, end: End, printed: bytes) -> bool:
        """Whether it does for a run that ended so and printed this."""
        if self.output is not None:
            return self.output.search(printed) is not None
        if self.text in _REASONS:
            return end.reason in _REASONS[self.text]
        match = _EXIT.fullmatch(self.text)
        assert match is not None
        if end.exit_code is None:
            return False
        return (end.exit_code == int(match[2])) is (match[1] == "==")


def conditions_of(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Those that are given; without any what a hunt looks for. Raises UsageError."""
    if given := tuple(map(Condition.parse, texts)):
        return given
    return (*map(Condition.parse, DEFAULT), Condition(_OF_WHAT_ENDS, if_it_ends=True))


def settled(conditions: Iterable[Condition], *, ends: bool) -> tuple[Condition, ...]:
    """Those that are asked of a program. ends: it has come to its end when it was learnt from."""
    return tuple(one for one in conditions if ends or not one.if_it_ends)


def first_that_holds(conditions: Iterable[Condition], end: End, printed: bytes) -> str:
    """The text of the first that does, or ''."""
    return next((one.text for one in conditions if one.holds(end, printed)), "")


def how_it_ended(end: End) -> str:
    """In a few words."""
    if end.reason == IDLE:
        return "idle: it waits for work from outside"
    if end.reason in _DEADLOCKS:
        some = any(one.what is Awaited.WORK for one in end.waits)
        who = "some can never go on, others wait for work from outside" if some else "nobody can run"
        return f"deadlock: {who}"
    if end.reason in _TIMEOUTS:
        return f"it did not end ({end.reason})"
    if end.reason in _FAULTS:
        return end.text or end.reason
    return f"exit code {end.exit_code}"
