"""Every option of every command with values that nobody means: one clear line, and not all of the value."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click
import pytest
from cli_factory import FIRMWARE, elf, record, run, start

import corebraid
from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from corebraid.cli.group import cli

CONTEXT = click.Context(cli)
COMMANDS = {name: cli.get_command(CONTEXT, name) for name in cli.list_commands(CONTEXT)}
#: Whatever a value is, a case ends within these seconds; only a case without end takes them.
_PATIENCE_S = 60
LONG = "9" * 5000
VALUES = {
    "digits": LONG,
    "letters": "x" * 5000,
    "words": "9 " * 2500,
    "path": "/" + "/".join(["y" * 200] * 25),
}
OPTIONS = [
    (name, option.opts[-1])
    for name, command in COMMANDS.items()
    if command is not None
    for option in command.params
    if isinstance(option, click.Option) and not option.is_flag
]
#: They name places, of which more is shown; or are texts of any kind.
PLACES = (
    "-o", "--output", "--input", "--schedule", "--keep-writes", "--bind", "--env", "--bisect",
    "--suppressions",
)  # fmt: skip


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of fig1 on 2 cores, ordered."""
    path = tmp_path_factory.mktemp("odd") / "rec"
    assert record(path, "fig1", "--cores", 2, "--evidence", "all").code == 0
    assert run("order", path).code == 0
    return path


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    """A case that waits for ever fails."""

    def over(_: int, __: FrameType | None) -> None:
        raise AssertionError("it does not end")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(_PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def arguments(name: str, rec: Path, tmp_path: Path) -> list[object]:
    """What the command needs besides."""
    image = tmp_path / "halt.elf"
    image.write_bytes(elf(bytes.fromhex("b8100000f0 c70007000000 ebfe")))
    needs = {
        "record": ["-o", tmp_path / "new", image], "hunt": ["-o", tmp_path / "new", image],
        "example": [], "check": [FIRMWARE / "no.axe"], "check-order": [rec, tmp_path / "no.cert"],
        "replay": [rec], "slices": [rec], "rpc": [rec], "opr": [rec],
    }  # fmt: skip
    return needs.get(name, [rec])


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=lambda one: str(one))
@pytest.mark.sampled(60)
def test_an_odd_value_is_a_line(
    name: str, option: str, value: str, rec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeat one with -k 'record and --cache and huge'."""
    monkeypatch.chdir(tmp_path)
    needed = arguments(name, rec, tmp_path)
    ran = run(
        name,
        f"{option}={VALUES[value]}" if option.startswith("--") else option,
        *([] if option.startswith("--") else [VALUES[value]]),
        *needed,
    )
    if option in PLACES:
        assert ran.code in (0, 2)
        assert len(ran.lines) <= 2
        assert len(ran.err) < 1000
    else:
        assert ran.code == 2
        assert len(ran.lines) == 1, ran.err
        assert len(ran.err) < 800
        assert not any(long in ran.err for long in ("9" * 70, "x" * 70, "9 " * 40))


def test_of_what_is_given_its_beginning_is_shown() -> None:
    error = UsageError("no", found=repr(LONG), where="/" + "p" * 5000)
    assert len(error.line()) < 400
    options = UsageError("no", found=Phrase(Option("first", LONG), " ", Option("until", "x" * 5000)))
    assert options.line() == f"no: found first='{'9' * 53}... until='{'x' * 53}..."
    assert UsageError("no", found="as it is").line() == "no: found as it is"


def test_click_repeats_no_more_of_it() -> None:
    for words in (
        [LONG],
        ["info", f"--{LONG}"],
        ["info", "rec", LONG],
        ["info", f"--{LONG}=a b"],
    ):
        ran = run(*words)
        assert ran.code == 2
        assert len(ran.lines) == 1
        assert len(ran.err) < 200


def test_options_before_a_command_are_refused_in_a_line_too() -> None:
    for words in ([f"--{LONG}", "info"], ["--nope"]):
        process = start(*words)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 2
        assert len(err.splitlines()) == 1
        assert len(err) < 200


def test_no_words_at_all_show_the_help() -> None:
    _, err = start().communicate(timeout=60)
    assert err.startswith(b"Usage: corebraid")
    assert len(err.splitlines()) > 20


def test_a_schedule_is_blamed_and_not_the_manifest(rec: Path, tmp_path: Path) -> None:
    ran = record(tmp_path / "new", "fig1", "--schedule", f"pct:{LONG}")
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert "the depth of pct is a number" in ran.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("address", ["", "  "])
def test_a_cluster_has_an_address(address: str, rec: Path) -> None:
    ran = run("order", rec, "--cluster", address)
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert "--cluster" in ran.err
    with pytest.raises(UsageError, match="no address"):
        corebraid.order(rec, cluster=address)


def test_an_input_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corebraid.base.whole_input._MOST", 1 << 22)
    ran = record(tmp_path / "new", "fig1", "--input", "/dev/zero")
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert "too long" in ran.err
    assert not (tmp_path / "new").exists()


def test_a_small_stack_is_refused_or_grows(tmp_path: Path) -> None:
    """Compiled code would end the process."""
    program = FIRMWARE / "fig1.elf"
    line = f"{sys.executable} -m corebraid record -o {tmp_path / 'rec'} --cores 2 {program}"
    refused = subprocess.run(
        f"ulimit -s 256; {line}", shell=True, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        "corebraid: the stack is too small for compiled code: expected 512 KiB or more, found 256 KiB; "
        "allow it more: ulimit -s 8192"
    ]
    # Before what would take more of it than there may be.
    loaded = subprocess.run(
        f"ulimit -s 256; {sys.executable} -X importtime -m corebraid info {tmp_path}",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "corebraid.base.stack" in loaded.stderr
    modules = {line.split("|")[-1].strip() for line in loaded.stderr.splitlines()}
    assert not {"click", "corebraid.base.errors"} & modules
    grown = subprocess.run(f"ulimit -S -s 256; {line}", shell=True, capture_output=True, check=False)
    assert grown.returncode == 0
