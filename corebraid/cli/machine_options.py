"""From the command line to a machine and what runs on it, for the commands that record."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corebraid.base.errors import ImageError, UsageError
from corebraid.cli.linux_guest import LinuxOptions
from corebraid.cli.options import positive, size

if TYPE_CHECKING:
    from recorder.capture.options import RecordOptions

FIRMWARE_MEMORY = 64 << 20

_CHOICES = (
    click.option(
        "--cores", type=int, default=4, show_default=True, help="Cores of the machine, 1 to 64."
    ),
    click.option(
        "--model", type=click.Choice(["sc", "tso"]), default="sc", show_default=True,
        help="Memory model: sequential consistency, or x86's total store order, with store buffers.",
    ),
    click.option(
        "--store-buffer", type=positive, metavar="N",
        help="Stores that a core's store buffer holds, 1 to 64, with --model tso.  [default: 16]",
    ),
    click.option(
        "--cache", default="unbounded", show_default=True, metavar="SIZE:WAYS:LINE",
        help="Each core's private cache, as in 32k:4:32.",
    ),
    click.option(
        "--strata", default="cycles:100000", show_default=True, metavar="SCHEME",
        help="When to cut the run: cycles:N, downgrades:N (lines lost by one core) or none. Smaller "
        "regions are faster to order and cost a little more log.",
    ),
    click.option("--memory", type=size, help="Guest memory; k, m and g work.  [default: 64m, Linux 2g]"),
)  # fmt: skip


def machine_choices(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what machine runs the guest to a command."""
    for option in reversed(_CHOICES):
        command = option(command)
    return command


def looks_like_linux(path: Path) -> bool:
    """Whether PROGRAM is a Linux program. Raises ImageError."""
    from emu.linux.program import is_linux_program

    try:
        return is_linux_program(path.read_bytes(), path.name)
    except OSError as error:
        raise ImageError(
            f"the program cannot be read ({error.strerror})", where=str(path), remedy="check the path"
        ) from None


def check_firmware(arguments: tuple[str, ...], chosen: LinuxOptions) -> None:
    """Raises UsageError for what only Linux programs have."""
    if arguments:
        raise UsageError(
            "firmware takes no arguments",
            found=" ".join(arguments),
            remedy="put options before PROGRAM, and give input with --input",
        )
    if chosen.used():
        raise UsageError("only for Linux guests", found=", ".join(chosen.used()), remedy="leave it out")


def machine_options(
    cores: int,
    seed: int,
    schedule: str,
    longest_slice: int | None,
    cache: str,
    strata: str,
    memory: int | None,
    limit: int | None,
) -> RecordOptions:
    """How to record, from the command line. Raises UsageError."""
    from emu.bus.cache import CacheGeometry
    from emu.schedule.scheduler import DEFAULT_SLICE
    from recorder.capture.firmware import RecordOptions
    from recorder.capture.strata_policy import StrataPolicy

    return RecordOptions(
        cores=cores,
        seed=seed,
        schedule=schedule,
        longest_slice=longest_slice or DEFAULT_SLICE,
        cache=CacheGeometry.parse(cache),
        strata=StrataPolicy.parse(strata),
        memory_bytes=FIRMWARE_MEMORY if memory is None else memory,
        limit=limit or 0,
    )


def with_model(options: RecordOptions, model: str, store_buffer: int | None) -> RecordOptions:
    """The options with a memory model. Raises UsageError."""
    if store_buffer is not None and model != "tso":
        raise UsageError("--store-buffer goes with --model tso", found=f"--model {model}")
    return replace(options, model=model, store_buffer=store_buffer or options.store_buffer)


def with_input(options: RecordOptions, source: str | None) -> RecordOptions:
    """The options with what the guest reads: a file, "-" or None: standard input. Raises UsageError."""
    if source is None:
        closed = sys.stdin is None or sys.stdin.closed
        return options if closed or sys.stdin.isatty() else replace(options, input=sys.stdin.buffer.read())
    if source == "-":
        return replace(options, input=sys.stdin.buffer.read())
    try:
        return replace(options, input=Path(source).read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"the input cannot be read ({reason})", where=source, remedy="check --input"
        ) from None
