"""Types of command-line options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import isnan
from pathlib import Path
from typing import Any

import click

from corebraid.base.errors import UsageError
from recorder.files.constraints import CONSTRAINTS, LOSSES

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MOST_DIGITS = 15
_MOST_SECONDS = 1e9
_MOST_DIGITS_64 = 20


def size(text: str) -> int:
    """Bytes of '64m': a number, with k, m or g for powers of 1024. Raises UsageError."""
    unit = _UNITS.get(text[-1:].lower(), 1)
    digits = text[:-1] if unit > 1 else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _MOST_DIGITS:
        raise UsageError("not a size", found=repr(text), remedy="write 64m, 512k or a number of bytes")
    return int(digits) * unit


def count(text: str) -> int:
    """An instruction count, or another place: below 2**63. Raises click.BadParameter."""
    return _whole(text, 0, (1 << 63) - 1)


def moment(text: str) -> int | str:
    """An instruction count, or the name of an event, CORE:COUNT. Raises click.BadParameter."""
    return text if ":" in text else count(text)


def seed(text: str) -> int:
    """A number below 2**64. Raises click.BadParameter."""
    return _whole(text, 0, (1 << 64) - 1)


def positive(text: str) -> int:
    """A number from 1 to 2**62. Raises click.BadParameter."""
    return _whole(text, 1, 1 << 62)


def _whole(text: str, least: int, most: int) -> int:
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS_64 and least <= int(text) <= most:
        return int(text)
    raise click.BadParameter(f"{text!r} is not a whole number from {least} to {most}.")


def seconds(text: str) -> float:
    """A time above 0. Raises click.BadParameter."""
    with suppress(ValueError):
        if _plain(text) and 0 < float(text) <= _MOST_SECONDS:
            return float(text)
    raise click.BadParameter(f"{text!r} is not a number of seconds above 0, to {_MOST_SECONDS:.0f}.")


def _plain(text: str) -> bool:
    """Whether a number is written without what only Python takes: other scripts' digits, spaces and _."""
    return text.isascii() and not any(letter.isspace() or letter == "_" for letter in text)


def _written(
    kind: Integer | Whole | _Seconds, value: Any, param: click.Parameter | None, ctx: click.Context | None
) -> Any:
    """A value that is not text, or plain text. Raises click.BadParameter, in click's words."""
    if isinstance(value, str) and not _plain(value):
        kind.fail(f"{value!r} is not a valid {kind.name}.", param, ctx)
    return value


class Integer(click.types.IntParamType):
    """A whole number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises click.BadParameter."""
        return super().convert(_written(self, value, param, ctx), param, ctx)


class Whole(click.IntRange):
    """A whole number in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises click.BadParameter."""
        return super().convert(_written(self, value, param, ctx), param, ctx)


class _Seconds(click.FloatRange):
    """A time; what is no number is in no range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(_written(self, value, param, ctx), param, ctx)
        if isnan(found):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return found


#: A time limit above 0.
SECONDS = _Seconds(min=0.001, max=_MOST_SECONDS)

#: What an order has to obey.
constraints_option = click.option(
    "--constraints",
    type=click.Choice(CONSTRAINTS),
    default=LOSSES,
    show_default=True,
    help="values: the paper's constraints alone. tenures: also what miss records prove, that nobody else "
    "wrote to a line between two accesses of a core without a miss. losses: also when cores lost lines, if "
    "the recording says so.",
)


def region_timeout_option(told: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--region-timeout. told: its help."""
    return click.option(
        "--region-timeout",
        type=SECONDS,
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help=told,
    )


def budget_option(flag: str, told: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Cuts to explore in a region at most. flag: what it is called. told: its help."""
    return click.option(flag, type=positive, default="2000000", show_default=True, metavar="CUTS", help=told)


#: The recording that a command reads.
recording_argument = click.argument("recording", metavar="REC", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
json_behind_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object, from a new line on, behind what the guest prints (see --output).",
)
