"""`corebraid linkage`: what Stride's evidence of a recording says, and what inference from it costs."""

from __future__ import annotations

from pathlib import Path

import click

from corebraid.cli import console
from corebraid.cli.options import Whole, json_option, recording_argument


@click.command()
@recording_argument
@click.option(
    "--replay", is_flag=True, help="Replay all cores together from the evidence, without miss records."
)
@click.option("--core", type=Whole(0), metavar="K", help="With --replay: core K alone, from its read log.")
@json_option
def command(recording: Path, replay: bool, core: int | None, as_json: bool) -> int:
    """Report on the bounded linkages of REC (record --evidence linkage) and infer the exact ones.

    Every core is replayed; every read of a shared variable is linked to the write whose value it returned, by
    a scan back from its bound; the values of the read log are compared with those that were replayed. 'order
    --engine linkage' makes an order of the linkages and checks it.

    --replay runs every core from its own program instead. An access waits until the version of its variable
    that the evidence names exists, and reads what that version, or an older one, left; registers and accesses
    are compared with digests at every stratum. Of the cores' logs inputs, context headers and digests are
    taken, and the agents' log, but no miss record. With --core, core K runs without the others; REC must have
    been recorded with --read-values all.

    Exit code 1: the evidence contradicts the replayed cores, or a core was not replayed as it had run.

    \b
    Examples:
      corebraid example radix
      corebraid record -o REC --evidence linkage --group line radix.elf
      corebraid linkage REC
      corebraid order REC --engine linkage
      corebraid linkage REC --replay
    """
    console.announce_compilation()
    from corebraid.api.evidence import linkage
    from corebraid.study.evidence.linkage import check_asked

    if replay:
        with console.progress("instructions replayed") as show:
            done = linkage(recording, replay=True, core=core, progress=show)
        if as_json:
            console.facts(done.facts())
        else:
            _show_replay(done.facts())
        return 0
    check_asked(replay=replay, core=core)
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
    protected = facts["protected"]
    hidden = () if protected else ("opened", "loosened")
    tables = {name: number for name, number in rows.items() if name not in hidden}
    click.echo("tables       " + ", ".join(f"{number:,} {name}" for name, number in tables.items()))
    if isinstance(protected, dict):
        loose = f", of {rows['loosened']:,} the reads logged" if rows["loosened"] else ""
        click.echo(
            f"protected    {protected['variables']:,} variables by locks, {rows['opened']:,} of them opened"
            f"{loose}; {protected['accesses']:,} accesses skipped, {protected['writes']:,} of them writes"
        )
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
    undecided = facts["undecided"]
    assert isinstance(undecided, list)
    for one in undecided:
        click.echo(f"region {one['region']} is undecided: {one['reason']}")


def _show_replay(facts: dict[str, object]) -> None:
    cores, elsewhere, values = facts["cores"], facts["elsewhere"], facts["values"]
    assert isinstance(cores, list)
    assert isinstance(elsewhere, dict)
    assert isinstance(values, dict)
    for core in cores:
        click.echo(
            f"core {core['core']}: {core['instructions']:,} instructions, {core['accesses']:,} accesses, "
            f"{core['checks']} digests of accesses and {core['registers']} of registers compared: bit-exact"
        )
    click.echo(
        f"values       {values['written']:,} written, {values['predicted']:,} predicted, "
        f"{values['left_out']:,} left out"
    )
    if facts["replay"] == "together":
        waits = sum(core["waits"] for core in cores)
        click.echo(
            f"memory       {facts['versions']:,} versions; {waits:,} accesses of cores waited for one, "
            f"{facts['turns']:,} turns"
        )
        if facts["linked"]:
            click.echo(
                f"reads        {facts['linked']:,} found by their value, {facts['comparisons_per_read']} "
                "comparisons a read"
            )
    click.echo(
        f"elsewhere    {elsewhere['first_memory']}; of the cores' logs {elsewhere['inputs']:,} inputs, "
        f"{elsewhere['contexts']:,} context headers; {elsewhere['agent_accesses']:,} accesses of agents"
    )
    click.echo("not read     miss records, losses, final.img")
