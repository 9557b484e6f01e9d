"""Taking typed, bounded fields out of a JSON object that is not trusted."""

from __future__ import annotations

import json
import re
from pathlib import Path

from corebraid.base.errors import FormatError

Scalar = str | int | bool | None
MOST_INTEGER = (1 << 64) - 1
MOST_TEXT = 4096
_REMEDY = "the file is damaged or was edited: copy the recording again, or record again"


def wrong(path: Path, what: str, expected: object = None, found: object = None) -> FormatError:
    """The error for a file whose JSON is not what it should be."""
    return FormatError(what, expected=expected, found=found, where=str(path), remedy=_REMEDY)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def parse_object(data: bytes, path: Path) -> dict[str, object]:
    """The JSON object in `data`. Raises FormatError if there is none (also for absurd nesting)."""
    try:
        value = json.loads(data.decode("ascii"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise wrong(path, f"not JSON in ASCII ({reason})") from None
    if not isinstance(value, dict):
        raise wrong(path, "not a JSON object")
    return value


def _show(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Fields:
    """The fields of one JSON object; each is taken once, with its type and range, and none may be left.

    value: what should be an object. path: its file, for errors. name: what to call the object ("" for the
    outermost). Every method raises FormatError.
    """

    def __init__(self, value: object, path: Path, name: str = "") -> None:
        self._path, self._name = path, name
        if not isinstance(value, dict):
            raise self.error("", "an object", value)
        self._left: dict[str, object] = dict(value)

    def error(self, key: str, expected: str, found: object) -> FormatError:
        """The error for the field `key`."""
        field = ".".join(part for part in (self._name, key) if part)
        return wrong(self._path, f'field "{field}"', expected, _show(found))

    def take(self, key: str) -> object:
        """The field as it is."""
        if key not in self._left:
            raise self.error(key, "a value", "none")
        return self._left.pop(key)

    def integer(self, key: str, low: int = 0, high: int = MOST_INTEGER) -> int:
        """An integer from `low` to `high`."""
        return self._integer(key, self.take(key), low, high)

    def optional_integer(self, key: str, high: int = MOST_INTEGER) -> int | None:
        """An integer from 0 to `high`, or null."""
        value = self.take(key)
        return None if value is None else self._integer(key, value, 0, high)

    def integers(self, key: str, count: int) -> tuple[int, ...]:
        """`count` integers from 0 to 2**64 - 1."""
        value = self.take(key)
        if not isinstance(value, list) or len(value) != count:
            raise self.error(key, f"a list of {count} integers", value)
        return tuple(self._integer(key, item, 0, MOST_INTEGER) for item in value)

    def rows(self, key: str, most: int, width: int) -> tuple[tuple[int, ...], ...]:
        """A list of at most `most` lists of `width` integers from 0 to 2**64 - 1."""
        value = self.take(key)
        if not isinstance(value, list) or len(value) > most:
            raise self.error(key, f"a list of at most {most} lists", value)
        for row in value:
            if not isinstance(row, list) or len(row) != width:
                raise self.error(key, f"lists of {width} integers", row)
        return tuple(tuple(self._integer(key, item, 0, MOST_INTEGER) for item in row) for row in value)

    def text(self, key: str, pattern: str = ".*", most: int = MOST_TEXT) -> str:
        """A string of at most so many printable characters that matches `pattern` as a whole."""
        return self._text(key, self.take(key), pattern, most)

    def texts(self, key: str, most: int) -> tuple[str, ...]:
        """A list of at most `most` printable strings."""
        value = self.take(key)
        if not isinstance(value, list) or len(value) > most:
            raise self.error(key, f"a list of at most {most} strings", value)
        return tuple(self._text(key, item, ".*") for item in value)

    def truth(self, key: str) -> bool:
        """A boolean."""
        value = self.take(key)
        if not isinstance(value, bool):
            raise self.error(key, "true or false", value)
        return value

    def scalars(self, key: str) -> dict[str, Scalar]:
        """An object whose values are printable strings, integers below 2**64, booleans or null."""
        value = self.take(key)
        if not isinstance(value, dict):
            raise self.error(key, "an object", value)
        return {
            self._text(key, name, ".*"): self._scalar(f"{key}.{name}", item) for name, item in value.items()
        }

    def has(self, key: str) -> bool:
        """Whether the field is there and not taken yet."""
        return key in self._left

    def done(self) -> None:
        """Nothing may be left."""
        for key, value in self._left.items():
            raise self.error(key if key.isprintable() else "?", "no such field", value)

    def _scalar(self, key: str, value: object) -> Scalar:
        if value is None or isinstance(value, bool):
            return value
        return (
            self._text(key, value, ".*")
            if isinstance(value, str)
            else self._integer(key, value, 0, MOST_INTEGER)
        )

    def _integer(self, key: str, value: object, low: int, high: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.error(key, f"an integer from {low} to {high}", value)
        return value

    def _text(self, key: str, value: object, pattern: str, most: int = MOST_TEXT) -> str:
        if not isinstance(value, str) or len(value) > most or not value.isprintable():
            raise self.error(key, f"at most {most} printable characters", value)
        if not re.fullmatch(pattern, value):
            raise self.error(key, f"text of the form {pattern}", value)
        return value
