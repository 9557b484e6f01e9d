"""What the command line says of evidence: `record --evidence` and the options of its streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corebraid.cli.wording import typed
from recorder.files.evidence_names import (
    DEFAULT_EVIDENCE,
    STREAMS,
    StreamOption,
    check_evidence,
    parse_names,
    settled,
)

if TYPE_CHECKING:
    from recorder.capture.firmware import RecordOptions


def stream_options() -> list[StreamOption]:
    """What can be said of how streams are recorded."""
    return [row.option for row in STREAMS.values() if row.option is not None]


def evidence_choices(command: Callable[..., Any]) -> Callable[..., Any]:
    """--evidence, and an option for each of `stream_options`: parameters of their keys."""
    for option in reversed(stream_options()):
        kind: click.Choice[str] | click.IntRange | None = None
        if option.choices:
            kind = click.Choice(option.choices)
        elif option.bounds:
            kind = click.IntRange(*option.bounds)
        add = click.option(typed(option.option), type=kind, metavar=option.metavar, help=option.says)
        command = add(command)
    streams = "; ".join(f"{row.name}: {row.says}" for row in STREAMS.values())
    told = f"Further streams, several with commas, all or none.  {streams}.  [default: {_NAMED}]"
    return click.option("--evidence", metavar="NAMES", help=told)(command)


_NAMED = ",".join(DEFAULT_EVIDENCE)


def with_evidence(
    options: RecordOptions,
    program: Path,
    evidence: str | None,
    given: Mapping[str, object],
    mailboxes: bool = True,
) -> RecordOptions:
    """`options` with the streams that were asked for, or the default ones. given: what was said of how they
    are recorded, by the key of its `StreamOption`. mailboxes: the guest may have some; streams that need
    them are recorded of others only where they are named.

    Raises UsageError.
    """
    names = parse_names(evidence) if evidence is not None else DEFAULT_EVIDENCE
    if not mailboxes and evidence is not None:
        names = tuple(name for name in names if not STREAMS[name].only_for or name in evidence)
    check_evidence(names, options.model)
    said = settled(names, given, options.cores, evidence)
    symbols = objects_of(program) if said.get("group") == "symbol" else ()
    return replace(options, evidence=names, evidence_options=said, symbols=symbols)


def objects_of(program: Path) -> tuple[tuple[int, int], ...]:
    """(first byte, bytes) of the objects that the program names, ascending, none inside another."""
    from corebraid.names.symbols import objects_of_elf

    try:
        raw = program.read_bytes()
    except OSError:
        # Whoever loads the program says what is wrong with it.
        return ()
    found: list[tuple[int, int]] = []
    for symbol in objects_of_elf(raw):
        if not found or symbol.address >= found[-1][0] + found[-1][1]:
            found.append((symbol.address, symbol.size))
    return tuple(found)
