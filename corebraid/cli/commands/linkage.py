"""`corebraid linkage`: what Stride's evidence of a recording says, and what inference from it costs."""

from __future__ import annotations

from pathlib import Path

import click

from corebraid.cli import console
from corebraid.cli.options import json_option, recording_argument


@click.command()
@recording_argument
@json_option
def command(recording: Path, as_json: bool) -> int:
    """Report on the bounded linkages of REC (record --evidence linkage) and infer the exact ones.

    Every core is replayed; every read of a shared variable is linked to the write whose value it returned, by
    a scan back from its bound; the values of the read log are compared with those that were replayed. 'order
    --engine linkage' makes an order of the linkages and checks it.

    Exit code 1: the evidence contradicts the replayed cores.

    \b
    Examples:
      corebraid example radix
      corebraid record -o REC --evidence linkage --group line radix.elf
      corebraid linkage REC
      corebraid order REC --engine linkage
    """
    console.announce_compilation()
    from corebraid.api.evidence import linkage

    with console.progress("regions inferred") as show:
        found = linkage(recording, progress=show)
    if as_json:
        console.facts(found.facts())
    else:
        _show(found.facts())
    return 1 if found.contradictions else 0


def _show(facts: dict[str, object]) -> None:
    rows, values = facts["rows"], facts["values"]
    assert isinstance(rows, dict)
    assert isinstance(values, dict)
    click.echo(f"evidence     {facts['bytes']:,} bytes; a variable is a {facts['group']}")
    if "bytes_per_1000_accesses" in facts:
        click.echo(f"             {facts['bytes_per_1000_accesses']} bytes per thousand accesses")
    click.echo("tables       " + ", ".join(f"{number:,} {name}" for name, number in rows.items()))
    click.echo(
        f"reads        {facts['reads']:,} of {facts['shared_variables']:,} shared variables; "
        f"{facts['linked']:,} of them unfiltered"
    )
    click.echo(
        f"values       {values['written']:,} written, {values['predicted']:,} predicted, "
        f"{values['left_out']:,} left out; all as replayed"
        if not facts["contradictions"]
        else "values       not all compared"
    )
    by = facts["reads_by_comparisons"]
    assert isinstance(by, list)
    if facts["linked"]:
        shown = ", ".join(
            f"{n:,} in {k + 1}{'' if k + 1 < len(by) else ' or more'}" for k, n in enumerate(by) if n
        )
        click.echo(f"comparisons  {facts['comparisons_per_read']} a read: {shown}")
    contradictions = facts["contradictions"]
    assert isinstance(contradictions, list)
    for one in contradictions:
        click.echo(f"region {one['region']} contradicts its evidence: {one['reason']}")
