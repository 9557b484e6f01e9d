"""What the command line says of evidence: `record --evidence`, `--rset`, `--group`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from isa.errors import UsageError

if TYPE_CHECKING:
    from recorder.capture import RecordOptions
    from recorder.json_fields import Scalar

GROUPS = ("word", "line", "symbol")


def with_evidence(
    options: RecordOptions,
    program: Path,
    evidence: str | None,
    rset: str | None,
    group: str | None,
    slice_accesses: int | None = None,
    mailboxes: bool = True,
) -> RecordOptions:
    """`options` with the streams that were asked for, or the default ones. mailboxes: the guest may have
    some, which `rpc` is for.

    Raises UsageError.
    """
    from recorder.evidence import DEFAULT_EVIDENCE, LINKAGE, OPR, RPC, SLICES, check_evidence, parse_names

    names = parse_names(evidence) if evidence is not None else DEFAULT_EVIDENCE
    if not mailboxes and evidence is not None and RPC not in evidence:
        names = tuple(name for name in names if name != RPC)
    check_evidence(names, options.model)
    said: dict[str, Scalar] = {}
    given: tuple[tuple[str, object, str], ...] = (
        ("--rset", rset, OPR), ("--group", group, LINKAGE), ("--slice-accesses", slice_accesses, SLICES)
    )  # fmt: skip
    for option, value, name in given:
        if value is not None and name not in names:
            raise UsageError(
                f"{option} says how evidence {name} is recorded, which was not asked for",
                found=f"--evidence {evidence or 'not given'}",
                remedy=f"add --evidence {name}",
            )
    if OPR in names:
        members = parse_rset(rset, options.cores) if rset is not None else tuple(range(options.cores))
        said["rset"] = ",".join(map(str, members))
    if LINKAGE in names:
        said["group"] = group or "word"
    if slice_accesses is not None:
        said["slice_accesses"] = slice_accesses
    symbols = objects_of(program) if group == "symbol" else ()
    return replace(options, evidence=names, evidence_options=said, symbols=symbols)


def parse_rset(text: str, cores: int) -> tuple[int, ...]:
    """The cores of a replay set, ascending, from 'K,K'. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    wrong = [part for part in parts if not part.isdecimal() or int(part) >= cores]
    if wrong or len(set(map(int, parts))) != len(parts):
        raise UsageError(
            "no such replay set",
            expected=f"different cores from 0 to {cores - 1}, as in 0,2",
            found=text or "nothing",
            remedy="choose another --rset",
        )
    return tuple(sorted(map(int, parts)))


def objects_of(program: Path) -> tuple[tuple[int, int], ...]:
    """(first byte, bytes) of the objects that the program names, ascending, none inside another."""
    from corebraid.symbols import objects_of_elf

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
