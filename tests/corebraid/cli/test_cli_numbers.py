"""Numbers on the command line are ASCII digits."""

from __future__ import annotations

import pytest

from corebraid.base.errors import UsageError
from corebraid.cli.group import cli
from emu.bus.cache import CacheGeometry


@pytest.mark.parametrize(
    "line",
    [
        ("crosscheck", "--region-timeout"),
        ("order", "--jobs"),
        ("order", "--count-budget"),
        ("replay", "--core"),
        ("verify", "--jobs"),
        ("slices", "--slice"),
        ("hunt", "--runs"),
        ("record", "--cores"),
        ("record", "--time-limit"),
        ("record", "--limit"),
        ("record", "--seed"),
        ("check", "--timeout"),
    ],
    ids=" ".join,
)
def test_numbers_are_ascii_digits(line: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """Python's own reading of numbers takes other scripts' digits, underscores and spaces."""
    for number in ("\u0663", "1_0", " 3", "\uff13"):
        assert cli.main([*line, number, "REC"], standalone_mode=False) == 2
        assert f"Invalid value for '{line[1]}'" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["\u0663k:4:32", "32k:4:3_2", "32k: 4:32"])
def test_cache_geometries_are_ascii_digits(text: str) -> None:
    with pytest.raises(UsageError, match="made of numbers"):
        CacheGeometry.parse(text)
