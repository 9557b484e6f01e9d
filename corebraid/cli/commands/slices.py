"""`corebraid slices`: what LightPlay's evidence says, slice by slice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corebraid.cli import console
from corebraid.cli.options import Whole, json_option, recording_argument

if TYPE_CHECKING:
    from corebraid.study.evidence.slices import OneSlice, Slices
    from solver.evidence.lightplay.execute import Executed


@click.command()
@recording_argument
@click.option(
    "--backend",
    type=click.Choice(["auto", "cpu", "cuda", "cut"]),
    default="auto",
    show_default=True,
    help="cpu, cuda: all interleavings of a slice. cut: a search over cuts. auto: cpu where there are few.",
)
@click.option("--slice", "number", type=Whole(0), metavar="N", help="Show slice N in full.")
@click.option(
    "--limit",
    type=Whole(2, 64),
    default=18,
    show_default=True,
    metavar="N",
    help="Racing accesses that cpu and cuda take in one piece; a longer slice is split.",
)
@click.option("--every", is_flag=True, help="cpu: try every interleaving, as the paper does; pass none over.")
@click.option("--replay", is_flag=True, help="Execute the instructions of slices in the orders found.")
@click.option(
    "--parallel",
    type=Whole(0),
    metavar="SEED",
    help="Replay with cores that wait for constraints alone; who goes on is drawn with this seed.",
)
@json_option
def command(
    recording: Path, backend: str, number: int | None, limit: int, every: bool, replay: bool,
    parallel: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Search the slices of REC for their orders and report how that went.

    A recording with evidence slices (record --evidence slices) is cut into slices of so many shared accesses.
    Those with a data race have a checkpoint before and after each access, not atomic with it. A search finds
    all orders of the racing accesses that explain the checkpoints; one that replays with the values that the
    replayed cores saw is kept. Where none does it is fixed, or searched with the checkpoints by themselves.

    Successive slices in which one core alone made shared accesses are one entry of the evidence; slices are
    numbered by entries. --slice shows the racing accesses of one slice in the order found, and the fewest
    constraints between cores that say it all: those marked 'always' hold in every order that is legal.

    --replay runs the cores on one processor, one at a time: each from its last checkpoint on up to its next
    instruction with racing accesses, which is executed in the order found, and finds in memory what those
    before it have left there. It must do what it did in the run.

    --parallel SEED is a replay by several processors at once: in each slice a core waits for nothing but the
    fewest constraints. Here cores take turns, so who of the others goes on is drawn; any seed must do.

    Exit code 1 when slices have no order: nothing explains their evidence, or the search was too large.

    \b
    Examples:
      corebraid example spin_ticket
      corebraid record -o REC --evidence slices --cores 4 spin_ticket.elf
      corebraid slices REC
      corebraid slices REC --slice 12
      corebraid slices REC --replay
      corebraid slices REC --parallel 7
      corebraid slices REC --backend cpu --every --json
    """
    console.announce_compilation()
    from corebraid.api.evidence import one_slice, slices

    how: dict[str, Any] = {
        "backend": backend, "limit": limit, "every": every, "replay": replay, "parallel": parallel,
    }  # fmt: skip
    with console.progress("instructions") as show:
        if number is not None:
            one = one_slice(recording, number, **how, progress=show)
        else:
            found = slices(recording, **how, progress=show)
    for line in one.told if number is not None else found.report.told:
        console.note(line)
    if number is not None:
        if as_json:
            console.facts(one.facts())
        else:
            _show_one(one)
        return int(not one.has_order)
    if as_json:
        console.facts(found.facts())
    else:
        _show(found)
    return int(bool(found.report.undecided))


def _of(part: float, whole: int, digits: int, unit: str) -> str:
    """A share; of nothing there is none."""
    return f"{part / whole:.{digits}f}{unit}" if whole else "-"


def _show(found: Slices) -> None:
    from corebraid.study.evidence.slices import HOW

    report, facts = found.report, found.facts()
    searched = report.searched
    click.echo(
        f"{report.slices:,} slices of {facts['accesses_a_slice']} shared accesses; "
        f"{report.kept:,} with a race ({_of(100 * report.kept, report.slices, 3, '%')})"
    )
    log = facts["log_bytes"]
    click.echo(f"log: {log:,} bytes" if isinstance(log, int) else "log: the recorder was killed")
    click.echo(
        f"search ({facts['backend']}): {report.searched:,} slices of up to {facts['longest']} racing "
        f"accesses, {_of(1e3 * report.search_seconds, searched, 3, ' ms')} a slice; {report.split:,} split"
    )
    for name, words in HOW.items():
        if report.how[name]:
            click.echo(f"{report.how[name]:>9,}  {words}")
    fixing = f", {1e3 * report.fixing_seconds:.3f} ms in all" if report.fixed else ""
    click.echo(
        f"needed fixing: {_of(100 * report.fixed, searched, 2, '%')}{fixing}; "
        f"without an order: {len(report.undecided):,}"
    )
    click.echo(
        f"minimal constraints: {report.constraints:,}, {report.always:,} of them in every legal order; "
        f"{_of(1e3 * report.constraint_seconds, searched, 3, ' ms')} a slice"
    )
    if found.executed is not None:
        _show_executed(found.executed)
    if report.undecided:
        named = ", ".join(map(str, report.undecided[:10]))
        console.note(f"slices without an order: {named}; 'corebraid slices REC --slice N' shows one")


def _show_one(one: OneSlice) -> None:
    from corebraid.study.evidence.slices import HOW

    shown = one.shown
    click.echo(f"slice {one.number}: {len(one.order)} racing accesses; {HOW[shown.decided.how]}")
    if shown.decided.found:
        click.echo(f"{shown.decided.found.total:,} orders explain the checkpoints; {shown.total:,} are legal")
    click.echo(f"{'event':<14} {'address':<12} {'data':<24} kind {'saw':<18} {'checkpoints before, after'}")
    for op in one.order:
        click.echo(_line(one.access(op)))
    for found in shown.constraints:
        always = "always" if found.always else "in this order"
        click.echo(f"{one.name(found.first)} < {one.name(found.second)}  {always}")
    if one.executed is not None:
        _show_executed(one.executed)


def _show_executed(done: Executed) -> None:
    others = ((done.agents, "accesses of agents"), (done.fetches, "fetches of code"))
    more = "".join(f", {n:,} {what}" for n, what in others if n)
    order = "as constraints let them" if done.steps else "in the orders found"
    click.echo(
        f"replayed: {done.slices:,} slices, {done.instructions:,} instructions executed {order}"
        f"{more}; {done.accesses:,} racing accesses are those of the run"
    )
    if done.steps:
        click.echo(f"          all of them would take {done.steps:,} steps on as many processors as cores")
    click.echo(
        f"          {done.given:,} bytes came from the slices' memory; {done.retired:,} instructions in all"
    )
    if done.parted:
        console.note(
            f"{done.parted:,} slices were not executed: others write between two accesses of an instruction "
            "what the second one reads"
        )


def _line(facts: dict[str, object]) -> str:
    """An access in columns."""
    saw = str(facts["old"]) + (f"->{facts['new']}" if facts["kind"] != "R" else "")
    checkpoints = facts["checkpoints"]
    assert isinstance(checkpoints, list)
    told = "; ".join(f"{one['before'] or '-'}, {one['after'] or '-'}" for one in checkpoints)
    return (
        f"{facts['event']:<14} {facts['address']:<12} {facts['data']:<24} {facts['kind']:<4} {saw:<18} {told}"
    ).rstrip()
