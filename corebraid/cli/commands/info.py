"""`corebraid info`: what a recording is. Loads neither an emulator nor compiled kernels, but for the call
stack of a guest that failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from corebraid.api.info import info
from corebraid.cli import console
from corebraid.cli.kept import kept_text
from corebraid.cli.options import json_option, recording_argument
from corebraid.study.about import Info
from corebraid.study.deadlocks import deadlock_lines
from recorder.files.manifest import Manifest, is_ring
from recorder.files.missing_order import missing_line

#: Longest name of a file that is shown whole.
_WIDEST = 26


@click.command()
@recording_argument
@json_option
def command(recording: Path, as_json: bool) -> None:
    """Say what the recording REC is, and what it takes on disk.

    Log bytes are those of the core's own log, which is all that its replay needs. Of a recording whose
    recorder was killed, the instruction counts are how far each log reaches.

    \b
    Examples:
      corebraid info REC
      corebraid info REC --json
    """
    found = info(recording)
    if as_json:
        console.facts(found.facts())
    else:
        _show(found)
    if not found.manifest.complete:
        console.note(f"{recording}: incomplete: the recorder was stopped before the guest's end")


def _model(manifest: Manifest) -> str:
    return f"tso, {manifest.store_buffer} stores buffered" if manifest.store_buffer else manifest.model


def _bus(manifest: Manifest) -> str:
    return "rights to pages" if manifest.paged else f"lines of {manifest.line} bytes"


def _memory(manifest: Manifest) -> str:
    limit = manifest.options.get("memory_limit")
    if manifest.linux and isinstance(limit, int):
        return f"at most {limit >> 20:,} MiB of memory, addresses below {manifest.memory:#x}"
    return f"{manifest.memory >> 20} MiB"


def _guest(manifest: Manifest) -> list[tuple[str, str]]:
    """What there is to say of a Linux program."""
    if not manifest.linux:
        return []
    said, counted = manifest.options, manifest.totals
    words = [f"Linux program {said.get('path', '?')}", f"{said.get('clock', '?')} clock"]
    words += [f"binds {said['binds']}"] if "binds" in said else []
    if {"tasks", "calls"} <= set(counted):
        words += [f"{counted['tasks']} thread(s)", f"{counted['calls']} system calls"]
    return [("guest", ", ".join(words))]


def _show(found: Info) -> None:
    manifest, end = found.manifest, found.manifest.end
    machine = (
        f"{manifest.n_cores} core(s), {_memory(manifest)}, {_bus(manifest)}, "
        f"cache {manifest.cache}, model {_model(manifest)}"
    )
    lines = [
        ("recording", f"{found.recording} (id {manifest.id.hex()})"),
        ("program", f"{manifest.program.name}, {manifest.isa}, sha256 {manifest.program.sha256[:16]}..."),
        *([("version", missing_line(manifest))] if missing_line(manifest) else []),
        *_guest(manifest),
        ("machine", machine),
        ("run", _run(manifest)),
        *([("kept", kept_text(manifest))] if is_ring(manifest) else []),
        ("end", _end(found.recording, manifest) if end else "none: the recorder was stopped"),
        *([("stack", _below(found.stack.lines()))] if found.stack else []),
    ]
    if manifest.totals:
        lines.append(("totals", ", ".join(f"{name} {value}" for name, value in manifest.totals.items())))
    if manifest.evidence:
        lines.append(("evidence", ", ".join(manifest.evidence)))
    lines.append(("ordered", "yes, order.cert is there" if found.ordered else "no (corebraid order REC)"))
    for name, text in lines:
        click.echo(f"{name:<10} {text}")
    click.echo(f"\n{'core':>4} {'instructions':>14} {'log bytes':>12} {'bytes per 1000':>15}")
    for core in found.cores():
        cells = (core["instructions"], core["log_bytes"], core["log_bytes_per_1000_instructions"])
        count, size, rate = ("?" if cell is None else f"{cell:,}" for cell in cells)
        click.echo(f"{core['core']:>4} {count:>14} {size:>12} {rate:>15}")
    shown = {name: name if len(name) <= _WIDEST else f"{name[: _WIDEST - 3]}..." for name in found.sizes}
    width = max([14, *map(len, shown.values())])
    click.echo(f"\n{'file':<{width}} {'bytes':>12}")
    for name, bytes_ in found.sizes.items():
        click.echo(f"{shown[name]:<{width}} {bytes_:>12,}")


def _run(manifest: Manifest) -> str:
    own = manifest.options.get("schedule_seed")
    apart = "" if own is None else f", schedule seed {own}"
    return f"seed {manifest.seed}{apart}, schedule {manifest.schedule}, strata {manifest.strata}"


def _below(lines: Sequence[str]) -> str:
    """Lines, all behind the name of the first."""
    return f"\n{'':<10} ".join(lines)


def _end(recording: Path, manifest: Manifest) -> str:
    end = manifest.end
    assert end is not None
    parts = [end.reason]
    if end.exit_code is not None:
        parts.append(f"guest exit code {end.exit_code}")
    if end.core is not None:
        parts.append(f"by core {end.core} at instruction {end.count}")
    lines = deadlock_lines(recording, manifest)
    if lines:
        return ", ".join(parts) + "".join(f"\n{'':<10} {line}" for line in lines)
    return ", ".join(parts) + (f": {end.text}" if end.text else "")
