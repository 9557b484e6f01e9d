"""`corebraid opr`: partial replay of a chosen group of cores, and who communicated with whom."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.base.errors import UsageError
from corebraid.cli import console
from corebraid.cli.options import json_option, recording_argument

if TYPE_CHECKING:
    from corebraid.study.opr_score import Score
    from recorder.evidence.opr.log import OprLog
    from recorder.files.reader import Recording
    from solver.evidence.opr.inference import GroupResult

_OUTSIDE = "outside"


@click.command()
@recording_argument
@click.option(
    "--rset", metavar="K,K", help="The cores to replay, of those recorded.  [default: all of those]"
)
@click.option(
    "--exact/--relaxed",
    "exact",
    default=True,
    help="Event orders by exact vector clocks, or by one clock for each core's partition that is not atomic "
    "with the access.  [default: exact]",
)
@click.option("--list", "listing", is_flag=True, help="Print every new value and where it came from.")
@click.option("--score", "scoring", is_flag=True, help="Compare the inference with the sealed truth.")
@json_option
def command(
    recording: Path, rset: str | None, exact: bool, listing: bool, scoring: bool, as_json: bool
) -> int:
    """Replay a group of cores of REC together, without any other core, and say who wrote what they read.

    REC was recorded with --evidence opr. Each member runs from its value log: its accesses are compared with
    digests of those recorded, its registers at every stratum. The event orders of the log are kept as far as
    they can be; what a member wrote is matched with the new values that others read. A value that no member
    wrote came from outside the group. That is an inference: --score tells how good it is.

    Exit code 1 means that a member was not replayed as it had run.

    \b
    Examples:
      corebraid example uts
      corebraid record --evidence opr --rset 0,2 -o REC uts.elf
      corebraid opr REC
      corebraid opr REC --relaxed --score
      corebraid opr REC --rset 0 --list
    """
    console.announce_compilation()
    from recorder.evidence.opr.log import read_opr
    from recorder.files.reader import Recording
    from solver.evidence.opr.inference import replay_group

    opened = Recording.open(recording)
    log = _chosen(read_opr(opened), rset, opened)
    result = replay_group(opened, log, relaxed=not exact)
    found = None
    if scoring:
        from corebraid.study.opr_score import score

        found = score(opened, result)
    if as_json:
        console.facts(_facts(opened, result, found, listing))
        return 0
    _show(result, found)
    if listing:
        _list(result)
    return 0


def _chosen(log: OprLog, rset: str | None, recording: Recording) -> OprLog:
    from solver.evidence.opr.inference import select

    if rset is None:
        return log
    parts = [part.strip() for part in rset.split(",")]
    known = all(part.isascii() and part.isdigit() for part in parts)
    cores = tuple(sorted(int(part) for part in parts)) if known else ()
    if not cores or len(set(cores)) < len(cores) or not set(cores) <= set(log.members):
        raise UsageError(
            "no such part of the recorded replay set",
            expected=f"different cores of {','.join(map(str, log.members))}",
            found=rset or "nothing",
            where=str(recording.path),
            remedy="choose another --rset, or record with those cores in it",
        )
    return select(log, cores)


def _name(core: int) -> str:
    return _OUTSIDE if core < 0 else str(core)


def _show(result: GroupResult, found: Score | None) -> None:
    for member in result.members:
        click.echo(
            f"core {member.core}: {member.instructions:,} instructions, {member.accesses:,} accesses, "
            f"{member.checks} digests of accesses and {member.registers} of registers compared: bit-exact"
        )
    given_up = sum(member.given_up for member in result.members)
    waits, differing = (sum(getattr(m, name) for m in result.members) for name in ("waits", "differing"))
    clocks = "relaxed" if result.relaxed else "exact"
    click.echo(
        f"event orders ({clocks} clocks): {waits:,}, given up {given_up:,}; reads that the group's shared "
        f"memory would have answered otherwise: {differing:,}"
    )
    matrix, cores = result.matrix(), [member.core for member in result.members]
    click.echo(f"\nnew values, by who wrote them and who read them:\n{'written by':>10}", nl=False)
    click.echo("".join(f"{core:>9}" for core in cores))
    for writer in (*cores, -1):
        cells = (matrix.get((writer, reader), 0) for reader in cores)
        click.echo(f"{_name(writer):>10}" + "".join(f"{cell:>9,}" for cell in cells))
    if found is not None:
        click.echo(
            f"\nagainst the sealed truth: precision {found.precision:.1%} "
            f"({found.right:,} of {found.claimed:,}), "
            f"recall {found.recall:.1%} ({found.right:,} of {found.within:,}), "
            f"from outside {found.outside_right:,} of {found.values - found.own - found.within:,}"
        )


def _list(result: GroupResult) -> None:
    click.echo(f"\n{'reader':>6} {'access':>9} {'address':>12} {'size':>4} {'value':>18}  written by")
    for row in result.communications:
        writer = int(row["writer"])
        by = f"core {writer}, access {int(row['writer_sn'])}" if writer >= 0 else "outside the group"
        rivals = f" (or {int(row['rivals'])} other)" if row["rivals"] else ""
        click.echo(
            f"{int(row['reader']):>6} {int(row['sn']):>9} {int(row['addr']):#12x} {int(row['size']):>4} "
            f"{int(row['value']):#18x}  {by}{rivals}"
        )


def _facts(
    recording: Recording, result: GroupResult, found: Score | None, listing: bool
) -> dict[str, object]:
    facts: dict[str, object] = {
        "recording": str(recording.path),
        "clocks": "relaxed" if result.relaxed else "exact",
        "bit_exact": True,
        "members": [vars(member) for member in result.members],
        "communications": [
            {"writer": writer if writer >= 0 else None, "reader": reader, "values": n}
            for (writer, reader), n in sorted(result.matrix().items())
        ],
    }
    if found is not None:
        facts["score"] = {**vars(found), "precision": found.precision, "recall": found.recall}
    if listing:
        facts["values"] = [
            {
                "reader": int(row["reader"]),
                "access": int(row["sn"]),
                "address": f"{int(row['addr']):#x}",
                "size": int(row["size"]),
                "value": f"{int(row['value']):#x}",
                "writer": int(row["writer"]) if row["writer"] >= 0 else None,
                "writer_access": int(row["writer_sn"]) if row["writer"] >= 0 else None,
                "rivals": int(row["rivals"]),
            }
            for row in result.communications
        ]
    return facts
