"""Options of the commands that record: the run, the machine, what a Linux guest may see."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from corebraid.api.asked import MOST_LEARNT
from corebraid.base.whole_input import read_input_file, read_stream
from corebraid.cli.options import Integer, Whole, seconds, size
from corebraid.cli.wording import typed
from recorder.files.evidence_names import DEFAULT_EVIDENCE, STREAMS, StreamOption

_PROGRAM = (
    click.argument("program"),
    click.argument("arguments", nargs=-1, metavar="[ARGS]...", type=click.UNPROCESSED),
)


def program_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """PROGRAM [ARGS]...: the parameters `program` and `arguments`."""
    for argument in reversed(_PROGRAM):
        command = argument(command)
    return command


_MODEL = "Memory model: sequential consistency, or x86's total store order, with store buffers."
_CORES = click.option(
    "--cores", type=Integer(), default=4, show_default=True, help="Cores of the machine, 1 to 64."
)
_OF_A_RUN = click.option(
    "--model", type=click.Choice(["sc", "tso"]), default="sc", show_default=True, help=_MODEL
)
_OF_A_HUNT = click.option(
    "--model", type=click.Choice(["sc", "tso"]),
    help=f"{_MODEL}  [default: sc; of --schedule mixed tso in some runs, where instructions of the "
    "program's own read shared memory and write it, and are not indivisible, or threads each store to what "
    "the other one then loads]",
)  # fmt: skip
_CHOICES = (
    click.option(
        "--store-buffer", type=Integer(), metavar="N",
        help="Stores that a core's store buffer holds, 1 to 64, with --model tso.  [default: 16]",
    ),
    click.option(
        "--cache", default="unbounded", show_default=True, metavar="SIZE:WAYS:LINE",
        help="Each core's private cache, as in 32k:4:32.",
    ),
    click.option(
        "--strata", default="auto", show_default=True, metavar="SCHEME",
        help="When to cut the run: cycles:N, events:N (lines or pages given to cores), downgrades:N (lines "
        "lost by one core), several with commas, none or auto, which is cycles:400000 on the page bus, but "
        "for --last, and cycles:100000 else. A region between two cuts is ordered by itself.",
    ),
    click.option(
        "--learn", type=Whole(1, MOST_LEARNT), metavar="N",
        help="With schedules that switch at shared words (pct:D, chaos, switches): which words those are is "
        "learnt from N runs that are not kept.  [default: 1; of a hunt 4 from run 33 on, 16 from run 65 on]",
    ),
    click.option("--memory", type=size, help="Guest memory; k, m and g work.  [default: 64m, Linux 2g]"),
)  # fmt: skip


def machine_choices(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what machine runs the guest to a command."""
    for option in reversed((_CORES, _OF_A_RUN, *_CHOICES)):
        command = option(command)
    return command


def machine_choices_of_hunts(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a command that makes many runs."""
    for option in reversed((_CORES, _OF_A_HUNT, *_CHOICES)):
        command = option(command)
    return command


_LINUX = (
    click.option(
        "--guest", type=click.Choice(["auto", "linux", "firmware"]), default="auto", show_default=True,
        help="What PROGRAM is.",
    ),
    click.option(
        "--env", multiple=True, metavar="NAME[=VALUE]",
        help="Linux: a variable for the guest, which has none otherwise. NAME alone: as it is here.",
    ),
    click.option(
        "--bind", multiple=True, metavar="HOST:GUEST[:rw]",
        help="Linux: let the guest see a file or directory. What it changes stays in a private layer unless "
        ":rw says otherwise. Files that ARGS name are visible anyway.",
    ),
    click.option(
        "--keep-writes", metavar="DIR", type=click.Path(path_type=Path),
        help="Linux: write what the guest has written below DIR, which must not exist or be empty.",
    ),
    click.option(
        "--no-given", "given", flag_value=False, default=True,
        help="Linux: files that ARGS name are not visible.",
    ),
    click.option(
        "--no-system", "system", flag_value=False, default=True,
        help="Linux: the host's libraries and shared data are not visible.",
    ),
    click.option(
        "--clock", type=click.Choice(["virtual", "host"]), default="virtual", show_default=True,
        help="Linux: the guest's time: modelled cycles at 100 MHz from 2035 on, or the host's.",
    ),
    click.option("--strict", is_flag=True, help="Linux: stop at a system call that is not emulated."),
    click.option(
        "--time-limit", type=seconds, metavar="SECONDS",
        help="Linux: end the recording, cleanly, after this time of the host.",
    ),
)  # fmt: skip


def linux_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of Linux guests to a command."""
    for option in reversed(_LINUX):
        command = option(command)
    return command


def stream_options() -> list[StreamOption]:
    """What can be said of how streams are recorded."""
    return [option for row in STREAMS.values() for option in row.options]


def evidence_choices(command: Callable[..., Any]) -> Callable[..., Any]:
    """--evidence, and an option for each of `stream_options`: parameters of their keys."""
    for option in reversed(stream_options()):
        kind: click.Choice[str] | Whole | None = None
        if option.choices:
            kind = click.Choice(option.choices)
        elif option.bounds:
            kind = Whole(*option.bounds)
        add = click.option(typed(option.option), type=kind, metavar=option.metavar, help=option.says)
        command = add(command)
    streams = "; ".join(f"{row.name}: {row.says}" for row in STREAMS.values())
    told = f"Further streams, several with commas, all or none.  {streams}.  [default: {_NAMED}]"
    return click.option("--evidence", metavar="NAMES", help=told)(command)


_NAMED = ",".join(DEFAULT_EVIDENCE)


def read_input(source: str | None) -> bytes:
    """What the guest reads: a file, "-" or None: standard input. Raises UsageError."""
    if source is None:
        closed = sys.stdin is None or sys.stdin.closed
        return b"" if closed or sys.stdin.isatty() else read_stream(sys.stdin.buffer, "-")
    if source == "-":
        return read_stream(sys.stdin.buffer, source)
    return read_input_file(Path(source))
