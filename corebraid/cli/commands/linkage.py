"""`corebraid linkage`: what Stride's evidence of a recording says, and what inference from it costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.cli import console
from corebraid.cli.options import json_option, recording_argument

if TYPE_CHECKING:
    from recorder.files.reader import Recording
    from solver.evidence.linkage.engine import LinkageEngine

_NAMES = {1: "shares", 2: "orders", 3: "bounds", 4: "values"}


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
    from recorder.files.reader import Recording
    from solver.evidence.linkage.engine import LinkageEngine

    opened = Recording.open(recording)
    engine = LinkageEngine.of(opened, with_values=True)
    wrong = _infer(opened, engine)
    facts = {"recording": str(recording), **_stream(opened), **_inference(engine), "contradictions": wrong}
    accesses = opened.manifest.totals.get("accesses")
    if isinstance(accesses, int) and accesses:
        facts["bytes_per_1000_accesses"] = round(1000 * int(str(facts["bytes"])) / accesses, 3)
    if as_json:
        console.facts(facts)
    else:
        _show(facts)
    return 1 if wrong else 0


def _infer(recording: Recording, engine: LinkageEngine) -> list[dict[str, object]]:
    """Run the engine over all regions; what contradicts, by region."""
    from recorder.replay.traces import RecordingTraces
    from solver.passes.unfiltered import iter_problems
    from solver.regions.problem import Verdict

    wrong: list[dict[str, object]] = []
    with console.progress("regions inferred") as show:
        for region, problem in iter_problems(RecordingTraces(recording)):
            solution = engine.solve(region, problem)
            if solution.verdict is not Verdict.LEGAL:
                wrong.append({"region": region.index, "reason": solution.reason})
                break
            show(region.index + 1)
    return wrong


def _stream(recording: Recording) -> dict[str, object]:
    from recorder.evidence.linkage.codec import DOUBLE, FOLLOW, PREDICT, RUNS, Head, iter_linkage
    from recorder.files.evidence_names import LINKAGE, evidence_log

    rows = dict.fromkeys(_NAMES.values(), 0)
    head: Head | None = None
    for item in iter_linkage(recording):
        if isinstance(item, Head):
            head = item
        else:
            rows[_NAMES[item.kind]] += len(item.table)
    assert head is not None
    names = {PREDICT: "predict", RUNS: "runs", DOUBLE: "double", FOLLOW: "follow"}
    path = recording.path / evidence_log(LINKAGE)
    return {
        "group": head.grouping.group,
        "compressions": [name for bit, name in names.items() if head.compressions & bit],
        "bytes": path.stat().st_size,
        "rows": rows,
        "shared_variables": rows["shares"],
    }


def _inference(engine: LinkageEngine) -> dict[str, object]:
    linked = int(engine.compared.sum())
    compared = int((engine.compared * range(1, len(engine.compared) + 1)).sum())
    return {
        "reads": engine.reads,
        "linked": linked,
        "comparisons_per_read": round(compared / linked, 4) if linked else None,
        "reads_by_comparisons": engine.compared.tolist(),
        "values": engine.values,
        "seconds": round(engine.seconds, 6),
    }


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
