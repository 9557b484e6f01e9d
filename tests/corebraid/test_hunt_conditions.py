"""What a hunt looks for."""

from __future__ import annotations

import pytest

from corebraid.base.errors import UsageError
from corebraid.study.conditions import DEFAULT, Condition, first_that_holds
from recorder.files.end import End


@pytest.mark.parametrize(
    ("text", "end", "holds"),
    [
        ("exit!=0", End("exit", 0), False),
        ("exit!=0", End("exit", 3), True),
        ("exit!=0", End("power-off", 1), True),
        ("exit!=0", End("signal", 139), True),
        ("exit!=0", End("deadlock"), False),
        ("exit==3", End("exit", 3), True),
        ("exit==3", End("exit", 4), False),
        ("exit!=3", End("exit", 0), True),
        ("fault", End("signal", 139), True),
        ("fault", End("fault"), True),
        ("fault", End("exit", 139), False),
        ("deadlock", End("deadlock"), True),
        ("deadlock", End("halted"), True),
        ("deadlock", End("limit"), False),
        ("timeout", End("limit"), True),
        ("timeout", End("time-limit"), True),
        ("timeout", End("deadlock"), False),
        ("output~wro+ng", End("exit", 0), True),
        ("output~^second", End("exit", 0), True),
        ("output~absent", End("exit", 1), False),
    ],
)
def test_conditions(text: str, end: End, holds: bool) -> None:
    assert Condition.parse(text).holds(end, b"it was wrooong\nsecond line\n") is holds


@pytest.mark.parametrize(
    "text", ["", "exit", "exit=0", "exit==", "exit==x", "exit==1000", "crash", "output", "output~("]
)
def test_conditions_that_cannot_be(text: str) -> None:
    with pytest.raises(UsageError):
        Condition.parse(text)


def test_any_of_several() -> None:
    conditions = [Condition.parse(text) for text in DEFAULT]
    assert first_that_holds(conditions, End("signal", 134), b"") == "exit!=0"
    assert first_that_holds(conditions, End("deadlock"), b"") == "deadlock"
    assert first_that_holds(conditions, End("exit", 0), b"") == ""
    assert first_that_holds(conditions, End("limit"), b"") == ""
