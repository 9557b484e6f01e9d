"""`corebraid trace`: the memory accesses of a recording."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from corebraid.base.errors import UsageError
from corebraid.cli import console
from corebraid.cli.newfile import new_file
from corebraid.cli.options import count, moment, positive, recording_argument


@click.command()
@recording_argument
@click.option(
    "--core", metavar="K", help="Only this core, or 'dev': DMA and other devices; 'kernel' of a Linux guest."
)
@click.option("--ordered", is_flag=True, help="All cores braided in the order that 'corebraid order' found.")
@click.option(
    "--addr",
    metavar="A:B",
    help="Only accesses that touch bytes from A up to (not) B: 0x hexadecimal, decimal or any name that is "
    "printed. A name alone is all its bytes, an address or NAME+OFFSET alone one byte.",
)
@click.option(
    "--from",
    "first",
    type=moment,
    metavar="COUNT",
    help="Only from this instruction count on; with --ordered also from an EVENT on in the order.",
)
@click.option(
    "--until",
    type=moment,
    metavar="COUNT",
    help="Only before this instruction count; with --ordered also before an EVENT in the order.",
)
@click.option("--kind", metavar="R,W,RMW,F", help="Only reads, writes, read-modify-writes, fetches.")
@click.option("--fetches", is_flag=True, help="Also bytes that instruction fetches received (F).")
@click.option("--region", type=count, metavar="N", help="Only the region after N strata.")
@click.option(
    "--thread", metavar="T", help="Only what this thread did, and the kernel for it: its number, or its name."
)
@click.option("--function", metavar="NAME", help="Only what the instructions of this function did.")
@click.option(
    "--pc",
    metavar="PLACE",
    help="Only what the instruction there did: an address, NAME+OFFSET, file.c:LINE, or A:B.",
)
@click.option(
    "--around",
    metavar="EVENT",
    help="Only rows near an event: before and after it in its stream, or, with --ordered, in the order.",
)
@click.option(
    "--context", type=count, metavar="N", help="With --around: rows before it, and after it.  [default: 10]"
)
@click.option("--limit", type=positive, metavar="N", help="Stop after N rows.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "jsonl", "parquet", "axe"]),
    default="text",
    show_default=True,
    help="How to write the rows; parquet needs -o. axe: the shared accesses, for 'corebraid check'.",
)
@click.option(
    "-o",
    "target",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write to this file, which must not exist yet, instead of stdout.",
)
def command(recording: Path, format_name: str, target: Path | None, **asked: Any) -> None:
    """Print the memory accesses of REC, one row each, by replaying its cores.

    Without --ordered each core's accesses come in program order, one core after the other, then those of
    devices. With --ordered all are braided into one sequence: a legal order, not necessarily the one that
    ran. Rows of a region that has no order begin with '?' and come core by core.

    Columns: stratum (strata before the access), core ('dev' is a device, 'kernel' that of a Linux guest),
    thread (of a Linux guest), count (instructions the core had retired), pc, symbol, line of source where
    there is debug information, disassembly, address, data symbol, size, kind, bytes before and after.
    Kinds: R read, W write, RMW both at once, F bytes that an instruction fetch received, which are shown
    with --fetches or --kind F alone; '/io' marks a device register, '+' a row that is indivisible with the
    next.

    An EVENT is CORE:COUNT, as the columns core and count show it, of 'dev' or 'kernel' too; CORE:COUNT.N is
    the access number N, from 0, of that instruction (docs/who-wrote.md, "Events").

    --from, --region and --around without --ordered begin at the last checkpoint before (docs/seek.md).

    \b
    Examples:
      corebraid trace REC --core 2 --limit 20
      corebraid trace REC --ordered --region 3 | less -S
      corebraid trace REC --ordered --addr idle_cores --kind W,RMW
      corebraid trace REC --ordered --around 2:20375
      corebraid trace REC --core 2 --function checkSteal
      corebraid trace REC --ordered --format parquet -o trace.parquet
      corebraid trace REC --format axe | corebraid check - --model sc
    """
    if format_name == "parquet" and target is None:
        raise UsageError("a Parquet file is not for the terminal", remedy="give -o FILE")
    ordered, axe = asked["ordered"], format_name == "axe"
    if axe:
        _check_whole(asked)
    console.announce_compilation()
    from corebraid.api.trace import trace

    traced = trace(recording, **asked)
    if ordered or axe:
        console.note_missing_order(traced.recording.manifest)
    for what in traced.program.lacks:
        console.note(f"{recording}: no {what} here, so there are no symbols, lines and disassembly of it")
    with _sink(target) as sink, console.progress("rows") as show:
        written = traced.write(sink, format_name, show)
    if not written.rows:
        console.note(_NO_SHARED if axe else "no access passes these filters")
    if written.unordered:
        console.note(f"regions without an order, shown core by core: {_numbers(written.unordered)}")


_NO_SHARED = "no two cores share a location that one of them writes"


def _check_whole(asked: dict[str, Any]) -> None:
    """Before anything is loaded. Raises UsageError."""
    if any(
        value is not None and value is not False
        for name, value in asked.items()
        if name not in ("addr", "fetches")
    ):
        from corebraid.study.tracing import some_of_axe

        raise some_of_axe()


def _numbers(regions: Sequence[int], most: int = 10) -> str:
    shown = ", ".join(str(region) for region in regions[:most])
    return shown if len(regions) <= most else f"{shown} and {len(regions) - most} more"


@contextmanager
def _sink(target: Path | None) -> Iterator[BinaryIO]:
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with new_file(target, "-o") as file:
        yield file
