"""`corebraid opr`: partial replay of a chosen group of cores, and who communicated with whom."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.cli import console
from corebraid.cli.options import json_option, recording_argument

if TYPE_CHECKING:
    from corebraid.study.evidence.opr_threads import ThreadGroup
    from corebraid.study.opr_score import Score
    from solver.evidence.opr.inference import GroupResult

_OUTSIDE = "outside"


@click.command()
@recording_argument
@click.option(
    "--rset", metavar="K,K", help="The cores to replay, of those recorded.  [default: all of those]"
)
@click.option(
    "--threads",
    metavar="T,T",
    help="Of a Linux program: say, too, what these threads read that each did not know, and which of them "
    "wrote it. By number, or by the name that one has when the recording ends.",
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
    recording: Path,
    rset: str | None,
    threads: str | None,
    exact: bool,
    listing: bool,
    scoring: bool,
    as_json: bool,
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
    from corebraid.api.evidence import opr

    group = opr(recording, rset=rset, threads=threads, exact=exact, score=scoring)
    if as_json:
        console.facts(group.facts(listing=listing))
        return 0
    _show(group.result, group.score)
    if group.threads is not None:
        _show_threads(group.threads)
    if listing and group.threads is not None:
        _list_threads(group.threads)
    elif listing:
        _list(group.result)
    return 0


def _name(core: int) -> str:
    return _OUTSIDE if core < 0 else str(core)


def _share(of: float | None) -> str:
    return "-" if of is None else f"{of:.1%}"


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
            f"\nagainst the sealed truth: precision {_share(found.precision)} "
            f"({found.right:,} of {found.claimed:,}), "
            f"recall {_share(found.recall)} ({found.right:,} of {found.within:,}), "
            f"from outside {found.outside_right:,} of {found.values - found.own - found.within:,}"
        )


def _show_threads(group: ThreadGroup) -> None:
    matrix = group.matrix()
    cores = ", ".join(map(str, group.cores))
    click.echo(
        f"\nnew values by thread (on cores {cores}; given up {group.given_up:,}):\n{'written by':>10}",
        nl=False,
    )
    click.echo("".join(f"{thread:>9}" for thread in group.threads))
    for writer in (*group.threads, 0):
        cells = (matrix.get((writer, reader), 0) for reader in group.threads)
        click.echo(f"{writer or _OUTSIDE:>10}" + "".join(f"{cell:>9,}" for cell in cells))


def _list_threads(group: ThreadGroup) -> None:
    click.echo(f"\n{'reader':>7} {'address':>14} {'size':>4} {'value':>18}  written by")
    for row in group.values:
        writer = int(row["writer"])
        by = f"thread {group.threads[writer]}" if writer >= 0 else "outside the set"
        click.echo(
            f"{group.threads[int(row['reader'])]:>7} {int(row['addr']):#14x} {int(row['size']):>4} "
            f"{int(row['value']):#18x}  {by}"
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
