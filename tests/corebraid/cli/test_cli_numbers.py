"""Numbers on the command line are ASCII digits."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_factory import FIRMWARE, run

import corebraid
from corebraid.api.asked import check_whole
from corebraid.base.errors import UsageError
from corebraid.cli.group import cli
from emu.bus.cache import CacheGeometry
from recorder.capture.ring_policy import RingPolicy
from recorder.replay.checkpointing import CheckpointPolicy


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


_MOST = "9223372036854775807"
_PLACE, _SEED = f"from 0 to {_MOST}.", "from 0 to 18446744073709551615."


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("record", "--seed", "-1"), _SEED),
        (("hunt", "--seed", "18446744073709551616"), _SEED),
        (("record", "--slice", "-1"), "from 1 to 4611686018427387904."),
        (("record", "--store-buffer", "1_6"), "valid integer."),
        (("record", "--time-limit", "x"), "a number of seconds above 0, to 1000000000."),
        (("replay", "--from", "-1"), _PLACE),
        (("replay", "--until", "1e400"), _PLACE),
        (("replay", "--until", "1_000"), _PLACE),
        (("trace", "--from", "9223372036854775808"), _PLACE),
    ],
    ids=str,
)
def test_what_a_number_may_be_is_said(
    line: tuple[str, str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*line, "REC"], standalone_mode=False) == 2
    shown = f"corebraid: Invalid value for '{line[1]}': '{line[2]}' is not a "
    assert (err := capsys.readouterr().err).startswith(shown)
    assert said in err


@pytest.mark.parametrize(
    ("stores", "remedy"), [("0", "use --model sc"), ("-1", "use --model sc"), ("65", "choose another")]
)
@pytest.mark.parametrize("command", ["record", "hunt"])
def test_how_many_stores_a_buffer_holds_is_said(
    command: str, stores: str, remedy: str, tmp_path: Path
) -> None:
    where = ("-o", tmp_path / "rec", "--model", "tso", f"--store-buffer={stores}")
    ran = run(command, *where, FIRMWARE / "fig1.elf")
    assert ran.code == 2
    assert f"a store buffer holds 1 to 64 stores: found {stores}; {remedy}" in ran.err


@pytest.mark.parametrize("number", [1 << 63, 1 << 90, -(1 << 63)])
def test_no_number_of_cores_is_too_large_to_say_what_there_may_be(number: int) -> None:
    for ask in (
        lambda: corebraid.record(FIRMWARE / "fig1.elf", "nowhere", cores=number),
        lambda: check_whole("until", number, 0),
        lambda: CheckpointPolicy.parse(str(number)),
        lambda: RingPolicy.parse(str(number)),
    ):
        with pytest.raises(UsageError, match=r"1 to 64|0 to 922337|1 to 9+,|of 15 digits"):
            ask()


@pytest.mark.parametrize("text", ["\u0663k:4:32", "32k:4:3_2", "32k: 4:32"])
def test_cache_geometries_are_ascii_digits(text: str) -> None:
    with pytest.raises(UsageError, match="made of numbers"):
        CacheGeometry.parse(text)
