"""A recorder that is asked to end by SIGTERM or SIGHUP, and a process that may open no more files."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator

import click
import pytest

from corebraid.cli.group import Face
from corebraid.cli.guest_output import interruptible

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {one: signal.signal(one, signal.SIG_DFL) for one in ENDING}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.parametrize("sent", ENDING)
def test_the_recorder_is_told_and_goes_on(sent: signal.Signals) -> None:
    with interruptible() as came:
        assert not came()
        signal.raise_signal(sent)
        assert came()
    assert signal.getsignal(sent) is signal.SIG_DFL


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_second_one_ends_the_process(sent: signal.Signals) -> None:
    with interruptible():
        signal.raise_signal(sent)
        assert signal.getsignal(sent) is signal.SIG_DFL


def test_what_is_ignored_stays_so() -> None:
    """As `nohup` has it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interruptible() as came:
        signal.raise_signal(signal.SIGHUP)
        assert not came()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize(
    ("number", "said"), [(errno.EMFILE, "too many open files"), (errno.ENFILE, "too many open files"),
                         (errno.ENOMEM, "out of memory")],
)  # fmt: skip
def test_what_there_is_no_more_of_is_one_line(
    number: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.group(cls=Face)
    def group() -> None:
        pass

    def fail() -> None:
        raise OSError(number, os.strerror(number), "/dev/null")

    group.get_command = lambda *_: click.Command("info", callback=fail)  # type: ignore[method-assign]
    assert group.main(["info"], standalone_mode=False) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"corebraid: {said}")
    assert len(captured.err.splitlines()) == 1
