"""`corebraid trace`: the memory accesses of a recording."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from corebraid.base.errors import FormatError, UsageError
from corebraid.cli import console
from corebraid.cli.newfile import new_file
from corebraid.cli.options import count, positive, recording_argument

if TYPE_CHECKING:
    from corebraid.cli.tracing import Piece
    from corebraid.names.program import GuestProgram
    from corebraid.names.selection import Selection
    from recorder.files.reader import Recording
    from solver.check.certificate import Certificate


@click.command()
@recording_argument
@click.option(
    "--core", metavar="K", help="Only this core, or 'dev': DMA and other devices; 'kernel' of a Linux guest."
)
@click.option("--ordered", is_flag=True, help="All cores braided in the order that 'corebraid order' found.")
@click.option(
    "--addr",
    "addresses",
    metavar="A:B",
    help="Only accesses that touch bytes from A up to (not) B: 0x hexadecimal, decimal or "
    "symbols. A symbol alone is all its bytes, an address alone one byte.",
)
@click.option("--from", "first", type=count, metavar="COUNT", help="Only from this instruction count on.")
@click.option("--until", type=count, metavar="COUNT", help="Only before this instruction count.")
@click.option("--kind", "kinds", metavar="R,W,RMW,F", help="Only reads, writes, read-modify-writes, fetches.")
@click.option("--region", type=count, metavar="N", help="Only the region after N strata.")
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
def command(
    recording: Path,
    core: str | None,
    ordered: bool,
    addresses: str | None,
    first: int | None,
    until: int | None,
    kinds: str | None,
    region: int | None,
    limit: int | None,
    format_name: str,
    target: Path | None,
) -> None:
    """Print the memory accesses of REC, one row each, by replaying its cores.

    Without --ordered each core's accesses come in program order, one core after the other, then those of
    devices. With --ordered all are braided into one sequence: a legal order, not necessarily the one that
    ran. Rows of a region that has no order begin with '?' and come core by core.

    Columns: stratum (strata before the access), core ('dev' is a device, 'kernel' that of a Linux guest),
    thread (of a Linux guest), count (instructions the core had retired), pc, symbol, line of source where
    there is debug information, disassembly, address, data symbol, size, kind, bytes before and after.
    Kinds: R read, W write, RMW both at once, F bytes that an instruction fetch received; '/io' marks a
    device register, '+' a row that is indivisible with the next.

    \b
    Examples:
      corebraid trace REC --core 2 --limit 20
      corebraid trace REC --ordered --region 3 | less -S
      corebraid trace REC --ordered --addr idle_cores --kind W,RMW
      corebraid trace REC --ordered --format parquet -o trace.parquet
      corebraid trace REC --format axe | corebraid check - --model sc
    """
    if format_name == "parquet" and target is None:
        raise UsageError("a Parquet file is not for the terminal", remedy="give -o FILE")
    if format_name == "axe":
        _refuse_parts(core, ordered, first, until, kinds, region, limit)
    console.announce_compilation()
    from corebraid.names.devices import device_symbols
    from corebraid.names.program import GuestProgram
    from recorder.files.reader import Recording

    opened = Recording.open(recording)
    program = GuestProgram.of(opened.path, opened.manifest, device_symbols())
    wanted = _selection(opened, program, core, addresses, first, until, kinds, region)
    certificate = _certificate(opened) if ordered else None
    if ordered or format_name == "axe":
        console.note_missing_order(opened.manifest)
    for what in program.lacks:
        console.note(f"{recording}: no {what} here, so there are no symbols, lines and disassembly of it")
    if format_name == "axe":
        with _sink(target) as sink, console.progress("rows") as show:
            _write_axe(opened, program, wanted, sink, show)
        return
    with _sink(target) as sink, console.progress("rows") as show:
        _write(_pieces(opened, certificate, wanted, limit), sink, format_name, program, opened, show)


def _refuse_parts(core: object, ordered: bool, *counts: object) -> None:
    """Some of the accesses to a location are not a legal trace of it."""
    if core is not None or ordered or any(option is not None for option in counts):
        raise UsageError(
            "--format axe writes all accesses to a location, each core's in program order",
            remedy="leave out --core, --ordered, --from, --until, --kind, --region, --limit; keep --addr",
        )


def _write_axe(
    recording: Recording, program: GuestProgram, wanted: Selection, sink: BinaryIO, show: console.Advance
) -> None:
    from corebraid.cli.export.axe import export_axe
    from corebraid.names.places import Places
    from recorder.files.constraints import LOSSES
    from recorder.replay.traces import RecordingTraces

    manifest = recording.manifest
    places = Places(program, manifest.n_cores)
    traces = RecordingTraces(recording, constraints=LOSSES)
    name = f"{manifest.program.name}: shared accesses of {manifest.n_cores} cores"
    if not export_axe(traces, sink, places, name, wanted.addresses, show):
        console.note("no two cores share a location that one of them writes")


def _selection(
    recording: Recording,
    program: GuestProgram,
    core: str | None,
    addresses: str | None,
    first: int | None,
    until: int | None,
    kinds: str | None,
    region: int | None,
) -> Selection:
    from corebraid.names.selection import AddressRange, Selection, parse_kinds

    manifest = recording.manifest
    strata = manifest.totals.get("strata")
    wanted = Selection(
        core=None if core is None else _stream(core, recording),
        addresses=None if addresses is None else AddressRange.parse(addresses, program.symbols),
        first=first,
        until=until,
        kinds=None if kinds is None else parse_kinds(kinds),
        region=region,
    )
    wanted.check(strata + 1 if isinstance(strata, int) else None)
    return wanted


def _stream(core: str, recording: Recording) -> int:
    from corebraid.cli.events import parse_stream, streams

    n_cores = recording.manifest.n_cores
    stream = parse_stream(core, n_cores)
    if stream is None:
        raise UsageError(
            "no such core in this recording",
            expected=streams(n_cores),
            found=core,
            where=str(recording.path),
            remedy="choose another --core",
        )
    return stream


def _certificate(recording: Recording) -> Certificate:
    from recorder.files.manifest import ORDER_CERT
    from solver.check.certificate import Certificate

    path = recording.path / ORDER_CERT
    if not path.exists():
        raise FormatError(
            "the recording has not been ordered",
            where=str(recording.path),
            remedy=f"run 'corebraid order {recording.path}' first",
        )
    return Certificate(path, recording.manifest.id)


def _pieces(
    recording: Recording, certificate: Certificate | None, wanted: Selection, limit: int | None
) -> Iterator[Piece]:
    from corebraid.cli.tracing import braided, first_rows, one_by_one

    if certificate is None:
        return first_rows(one_by_one(recording, wanted), limit)
    return first_rows(braided(recording, certificate, wanted), limit)


def _write(
    pieces: Iterator[Piece],
    sink: BinaryIO,
    format_name: str,
    program: GuestProgram,
    recording: Recording,
    show: console.Advance,
) -> None:
    from corebraid.cli.tracing import make_exporter
    from corebraid.names.threads import threads_of

    n_cores = recording.manifest.n_cores
    exporter = make_exporter(format_name, sink, program, n_cores, threads_of(recording))
    rows_written, unordered = 0, set[int]()
    for rows, has_order in pieces:
        if len(rows):
            exporter.write(rows, has_order)
            rows_written += len(rows)
            show(rows_written)
            if not has_order:
                unordered.update(set(rows["stratum"].tolist()))
    exporter.close()
    if not rows_written:
        console.note("no access passes these filters")
    if unordered:
        console.note(f"regions without an order, shown core by core: {_numbers(unordered)}")


def _numbers(regions: set[int], most: int = 10) -> str:
    shown = ", ".join(str(region) for region in sorted(regions)[:most])
    return shown if len(regions) <= most else f"{shown} and {len(regions) - most} more"


@contextmanager
def _sink(target: Path | None) -> Iterator[BinaryIO]:
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with new_file(target, "-o") as file:
        yield file
