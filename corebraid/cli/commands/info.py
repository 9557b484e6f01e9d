"""`corebraid info`: what a recording is. Loads neither an emulator nor compiled kernels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from corebraid.cli import console
from corebraid.cli.missing_order import missing_edges, missing_line
from corebraid.cli.options import json_option, recording_argument
from corebraid.study.deadlocks import deadlock_lines
from recorder.files.manifest import ORDER_CERT, PROGRAM_ELF, Manifest, core_log, load

#: As recorder/files/objects.py has it, which loads more than is needed here.
_OBJECTS = "objects"
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
    manifest = load(recording)
    facts = _facts(recording, manifest)
    if as_json:
        console.facts(facts)
    else:
        _show(facts, manifest)
    if not manifest.complete:
        console.note(f"{recording}: incomplete: the recorder was stopped before the guest's end")


def _facts(recording: Path, manifest: Manifest) -> dict[str, object]:
    names = [*manifest.file_names(), PROGRAM_ELF, *_objects(recording, manifest), ORDER_CERT]
    sizes = {name: size for name in names if (size := _size(recording / name)) is not None}
    instructions = list(manifest.instructions) if manifest.complete else _reached(recording, manifest)
    return {
        "recording": str(recording),
        "id": manifest.id.hex(),
        "complete": manifest.complete,
        "isa": manifest.isa,
        "program": asdict(manifest.program),
        "cores": [_core(core, count, sizes.get(core_log(core))) for core, count in enumerate(instructions)],
        "memory": manifest.memory,
        "guest": "linux" if manifest.linux else "firmware",
        "threads": manifest.totals.get("tasks"),
        "calls": manifest.totals.get("calls"),
        "line": manifest.line,
        "cache": manifest.cache,
        "seed": manifest.seed,
        "schedule": manifest.schedule,
        "model": manifest.model,
        "strata": manifest.strata,
        "agents": list(manifest.agents),
        "options": manifest.options,
        "end": manifest.end.facts() if manifest.end else None,
        "totals": manifest.totals,
        "files": sizes,
        "ordered": ORDER_CERT in sizes,
        "version": manifest.version,
        "missing_edges": missing_edges(manifest),
    }


def _objects(recording: Path, manifest: Manifest) -> list[str]:
    """The index of the files that a Linux program ran code of, and those files."""
    if not manifest.linux:
        return []
    folder = recording / _OBJECTS
    return [f"{_OBJECTS}.json", *(f"{_OBJECTS}/{path.name}" for path in sorted(folder.glob("*")))]


def _core(core: int, instructions: int | None, log_bytes: int | None) -> dict[str, object]:
    rate = round(log_bytes * 1000 / instructions, 3) if instructions and log_bytes is not None else None
    return {
        "core": core,
        "instructions": instructions,
        "log_bytes": log_bytes,
        "log_bytes_per_1000_instructions": rate,
    }


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _reached(recording: Path, manifest: Manifest) -> list[int | None]:
    """Where each core's log of an incomplete recording ends; None where it cannot be read."""
    from corebraid.base.errors import FormatError
    from recorder.files.frame import CORE, FileHeader, iter_frames

    counts: list[int | None] = []
    for core in range(manifest.n_cores):
        header = FileHeader(CORE, core, manifest.id, manifest.line, manifest.version)
        last: int | None = 0
        try:
            for frame, _ in iter_frames(recording / core_log(core), header, partial_tail=True):
                last = frame.last
        except FormatError:
            last = None
        counts.append(last)
    return counts


def _model(manifest: Manifest) -> str:
    return f"tso, {manifest.store_buffer} stores buffered" if manifest.store_buffer else manifest.model


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


def _show(facts: dict[str, object], manifest: Manifest) -> None:
    end = manifest.end
    machine = (
        f"{manifest.n_cores} core(s), {_memory(manifest)}, lines of {manifest.line} bytes, "
        f"cache {manifest.cache}, model {_model(manifest)}"
    )
    lines = [
        ("recording", f"{facts['recording']} (id {manifest.id.hex()})"),
        ("program", f"{manifest.program.name}, {manifest.isa}, sha256 {manifest.program.sha256[:16]}..."),
        *([("version", missing_line(manifest))] if missing_line(manifest) else []),
        *_guest(manifest),
        ("machine", machine),
        ("run", f"seed {manifest.seed}, schedule {manifest.schedule}, strata {manifest.strata}"),
        ("end", _end(Path(str(facts["recording"])), manifest) if end else "none: the recorder was stopped"),
    ]
    if manifest.totals:
        lines.append(("totals", ", ".join(f"{name} {value}" for name, value in manifest.totals.items())))
    if manifest.evidence:
        lines.append(("evidence", ", ".join(manifest.evidence)))
    lines.append(("ordered", "yes, order.cert is there" if facts["ordered"] else "no (corebraid order REC)"))
    for name, text in lines:
        click.echo(f"{name:<10} {text}")
    click.echo(f"\n{'core':>4} {'instructions':>14} {'log bytes':>12} {'bytes per 1000':>15}")
    for core in facts["cores"]:  # type: ignore[attr-defined]
        cells = (core["instructions"], core["log_bytes"], core["log_bytes_per_1000_instructions"])
        count, size, rate = ("?" if cell is None else f"{cell:,}" for cell in cells)
        click.echo(f"{core['core']:>4} {count:>14} {size:>12} {rate:>15}")
    files: dict[str, int] = facts["files"]  # type: ignore[assignment]
    shown = {name: name if len(name) <= _WIDEST else f"{name[: _WIDEST - 3]}..." for name in files}
    width = max(14, *map(len, shown.values()))
    click.echo(f"\n{'file':<{width}} {'bytes':>12}")
    for name, bytes_ in files.items():
        click.echo(f"{shown[name]:<{width}} {bytes_:>12,}")


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
