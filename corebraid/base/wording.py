"""How messages name options: once for whoever calls from Python, once for whoever types commands.

A room below does not know who asked. Its messages hold `Option`s and `Call`s as they are, and who shows a
message says how they are called (`Wording`): `memory=` in Python, `--memory` on the command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """An option. name: the parameter's in Python. value: what to give it; None: that is left open; True or
    False: the option is a switch, and means that."""

    name: str
    value: object = None

    def __str__(self) -> str:
        return IN_PYTHON(self)


@dataclass(frozen=True)
class Call:
    """Something to run. name: of the function, or of the command. subject: what it is run on, if
    it is anything. more: what else it is given, behind the subject."""

    name: str
    subject: str = ""
    options: tuple[Option, ...] = ()
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        return IN_PYTHON(self)


class Phrase:
    """Text with options and calls in it. parts: in the order in which they are read; one that can be called,
    as an error's `line`, tells its words when it is known how options are called."""

    def __init__(self, *parts: str | Option | Call | Callable[[Wording], str]) -> None:
        self.parts = parts

    def __str__(self) -> str:
        return said(self)


def another(name: str) -> Phrase:
    """`choose another memory=`: what helps against a value that cannot be."""
    return Phrase("choose another ", Option(name))


_CUT = "..."
#: Characters of what somebody has given that a message repeats, and of the name of a place.
MOST_SHOWN, MOST_OF_PLACE = 60, 255
_LONG_WORD = re.compile(rf"\S{{{MOST_SHOWN + 3},}}")


def shown(text: str, most: int = MOST_SHOWN) -> str:
    """The text, or, of more than `most` characters, its beginning and '...'."""
    return text if len(text) <= most + len(_CUT) else text[:most] + _CUT


def shown_words(line: str) -> str:
    """The line with each of its words as `shown`; words with a slash name places, which may be longer."""
    return _LONG_WORD.sub(lambda found: _shown_word(found[0]), line)


def _shown_word(word: str) -> str:
    return shown(word, MOST_OF_PLACE if "/" in word else MOST_SHOWN)


#: What messages are made of.
Text = str | Option | Call | Phrase
#: How options and calls are written.
Wording = Callable[[Option | Call], str]


def said(text: object, wording: Wording | None = None) -> str:
    """The words of a text, by default for Python; of anything else its `str`."""
    wording = wording or IN_PYTHON
    if isinstance(text, Phrase):
        return "".join(said(part, wording) for part in text.parts)
    if isinstance(text, Option | Call):
        return wording(text)
    return text(wording) if callable(text) else str(text)


def in_python(word: Option | Call) -> str:
    """`memory=`, `strict=True`, `corebraid.replay('REC', core=2)`."""
    if isinstance(word, Option):
        return f"{word.name}=" if word.value is None else f"{word.name}={word.value!r}"
    subject = [repr(one) for one in (word.subject, *word.more) if one]
    given = [f"{in_python(option)}{'...' if option.value is None else ''}" for option in word.options]
    return f"corebraid.{word.name.replace('-', '_')}({', '.join([*subject, *given])})"


IN_PYTHON: Wording = in_python
