"""`corebraid slices`: what LightPlay's evidence says, slice by slice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.base.errors import UsageError
from corebraid.cli import console
from corebraid.cli.options import json_option, recording_argument

if TYPE_CHECKING:
    from recorder.files.reader import Recording
    from solver.evidence.lightplay.report import Report, Shown

_HOW = {
    "found": "an order from the search replays",
    "fixed": "fixed: accesses moved in an order that did not replay",
    "relaxed": "relaxed: from an order of the checkpoints alone",
    "apart": "apart: accesses and checkpoints ordered in one search",
    "nothing": "nothing left to order after refinement",
    "undecided": "undecided: the search was too large",
    "contradicted": "contradicted: no order explains the evidence",
}


@click.command()
@recording_argument
@click.option(
    "--backend",
    type=click.Choice(["auto", "cpu", "cuda", "cut"]),
    default="auto",
    show_default=True,
    help="cpu, cuda: all interleavings of a slice. cut: a search over cuts. auto: cpu where there are few.",
)
@click.option("--slice", "number", type=click.IntRange(0), metavar="N", help="Show slice N in full.")
@click.option(
    "--limit",
    type=click.IntRange(2, 64),
    default=18,
    show_default=True,
    metavar="N",
    help="Racing accesses that cpu and cuda take in one piece; a longer slice is split.",
)
@click.option("--every", is_flag=True, help="cpu: try every interleaving, as the paper does; pass none over.")
@json_option
def command(recording: Path, backend: str, number: int | None, limit: int, every: bool, as_json: bool) -> int:
    """Search the slices of REC for their orders and report how that went.

    A recording with evidence slices (record --evidence slices) is cut into slices of so many shared accesses.
    Those with a data race have a checkpoint before and after each access, not atomic with it. A search finds
    all orders of the racing accesses that explain the checkpoints; one that replays with the values that the
    replayed cores saw is kept. Where none does it is fixed, or searched with the checkpoints by themselves.

    Successive slices in which one core alone made shared accesses are one entry of the evidence; slices are
    numbered by entries. --slice shows the racing accesses of one slice in the order found, and the fewest
    constraints between cores that say it all: those marked 'always' hold in every order that is legal.

    Exit code 1 when slices have no order: nothing explains their evidence, or the search was too large.

    \b
    Examples:
      corebraid example spin_ticket
      corebraid record -o REC --evidence slices --cores 4 spin_ticket.elf
      corebraid slices REC
      corebraid slices REC --slice 12
      corebraid slices REC --backend cpu --every --json
    """
    console.announce_compilation()
    from recorder.files.reader import Recording
    from solver.evidence.lightplay.decide import Settings
    from solver.evidence.lightplay.report import survey

    opened = Recording.open(recording)
    settings = Settings(backend=backend, limit=limit, skip=not every)
    with console.progress("instructions") as show:
        report = survey(opened, settings, number, lambda _, count: show(count))
    if number is not None:
        return _one(opened, report, number, as_json)
    facts = _facts(opened, report, backend)
    if as_json:
        console.facts(facts)
    else:
        _show(report, facts)
    return int(bool(report.undecided))


def _facts(recording: Recording, report: Report, backend: str) -> dict[str, object]:
    from recorder.evidence.slices.codec import DEFAULT_ACCESSES
    from recorder.files.evidence_names import SLICES, evidence_log

    file = recording.manifest.files.get(evidence_log(SLICES))
    return {
        "recording": str(recording.path),
        "accesses_a_slice": recording.manifest.options.get("slice_accesses", DEFAULT_ACCESSES),
        "slices": report.slices,
        "entries": report.entries,
        "kept": report.kept,
        "kept_share": round(report.kept / max(report.slices, 1), 6),
        "log_bytes": file.bytes if file else None,
        "backend": backend,
        "searched": report.searched,
        "split": report.split,
        "longest": max(report.sizes, default=0),
        "search_seconds": round(report.search_seconds, 6),
        "seconds": round(report.seconds, 6),
        "orders_found": report.orders,
        "work": report.work,
        "how": {name: report.how[name] for name in _HOW},
        "fixed_share": round(report.fixed / max(report.searched, 1), 6),
        "without_order": report.undecided[:100],
        "constraints": report.constraints,
        "constraints_always": report.always,
        "constraint_seconds": round(report.constraint_seconds, 6),
        "regions": dict(report.regions),
    }


def _show(report: Report, facts: dict[str, object]) -> None:
    searched = max(report.searched, 1)
    click.echo(
        f"{report.slices:,} slices of {facts['accesses_a_slice']} shared accesses; "
        f"{report.kept:,} with a race ({100 * report.kept / max(report.slices, 1):.3f}%)"
    )
    log = facts["log_bytes"]
    click.echo(f"log: {log:,} bytes" if isinstance(log, int) else "log: the recorder was killed")
    click.echo(
        f"search ({facts['backend']}): {report.searched:,} slices of up to {facts['longest']} racing "
        f"accesses, {1e3 * report.search_seconds / searched:.3f} ms a slice; {report.split:,} split"
    )
    for name, words in _HOW.items():
        if report.how[name]:
            click.echo(f"{report.how[name]:>9,}  {words}")
    click.echo(
        f"needed fixing: {100 * report.fixed / searched:.2f}%; without an order: {len(report.undecided):,}"
    )
    click.echo(
        f"minimal constraints: {report.constraints:,}, {report.always:,} of them in every legal order; "
        f"{1e3 * report.constraint_seconds / searched:.3f} ms a slice"
    )
    if report.undecided:
        named = ", ".join(map(str, report.undecided[:10]))
        console.note(f"slices without an order: {named}; 'corebraid slices REC --slice N' shows one")


def _one(recording: Recording, report: Report, number: int, as_json: bool) -> int:
    if report.shown is None:
        if number >= report.entries:
            raise UsageError("no such slice", expected=f"0 to {report.entries - 1}", found=number)
        raise UsageError(
            "a slice without a race has nothing to show", found=number,
            remedy="choose one that was kept: 'corebraid slices REC' says how many were",
        )  # fmt: skip
    shown = report.shown
    lines = _Accesses(recording, shown)
    order = shown.decided.order.tolist() or list(range(shown.decided.problem.n))
    if as_json:
        found = shown.decided.found
        console.facts(
            {
                "slice": number,
                "how": shown.decided.how,
                "orders_found": found.total if found else None,
                "legal_orders": shown.total,
                "accesses": [lines.facts(op) for op in order],
                "constraints": [
                    {"first": lines.name(c.first), "second": lines.name(c.second), "always": c.always}
                    for c in shown.constraints
                ],
            }
        )
        return int(not shown.decided.order.size)
    click.echo(f"slice {number}: {len(order)} racing accesses; {_HOW[shown.decided.how]}")
    if shown.decided.found:
        click.echo(f"{shown.decided.found.total:,} orders explain the checkpoints; {shown.total:,} are legal")
    click.echo(f"{'event':<14} {'address':<12} {'data':<24} kind {'saw':<18} {'checkpoints before, after'}")
    for op in order:
        click.echo(lines.text(op))
    for one in shown.constraints:
        always = "always" if one.always else "in this order"
        click.echo(f"{lines.name(one.first)} < {lines.name(one.second)}  {always}")
    return int(not shown.decided.order.size)


class _Accesses:
    """The accesses of a slice as a user knows them."""

    def __init__(self, recording: Recording, shown: Shown) -> None:
        from corebraid.names.devices import device_symbols
        from corebraid.names.program import GuestProgram

        self._cores, self._shown = recording.manifest.n_cores, shown
        self._program = GuestProgram.of(recording.path, recording.manifest, device_symbols())

    def name(self, op: int) -> str:
        """CORE:COUNT."""
        event = self._shown.events[op]
        core = self._program.agents if event["core"] == self._cores else str(event["core"])
        return f"{core}:{event['count']}"

    def facts(self, op: int) -> dict[str, object]:
        """As JSON."""
        from corebraid.cli.events import data_name

        event, problem = self._shown.events[op], self._shown.decided.problem
        parts = slice(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1]))
        columns = (problem.place, problem.how, problem.before, problem.after)
        checkpoints = [
            {
                "address": f"{int(problem.address[g]):#x}",
                "before": f"{int(x):#x}" if how & 1 else None,
                "after": f"{int(y):#x}" if how & 2 else None,
            }
            for g, how, x, y in zip(*(column[parts] for column in columns), strict=True)
        ]
        return {
            "event": self.name(op),
            "address": f"{int(event['addr']):#x}",
            "size": int(event["size"]),
            "data": data_name(self._program, int(event["addr"])),
            "kind": ("?", "R", "W", "RMW")[int(event["kind"])],
            "old": f"{int(event['old']):#x}",
            "new": f"{int(event['new']):#x}",
            "checkpoints": checkpoints,
        }

    def text(self, op: int) -> str:
        """In columns."""
        facts = self.facts(op)
        saw = str(facts["old"]) + (f"->{facts['new']}" if facts["kind"] != "R" else "")
        checkpoints = facts["checkpoints"]
        assert isinstance(checkpoints, list)
        told = "; ".join(f"{one['before'] or '-'}, {one['after'] or '-'}" for one in checkpoints)
        return (
            f"{facts['event']:<14} {facts['address']:<12} {facts['data']:<24} {facts['kind']:<4} "
            f"{saw:<18} {told}"
        ).rstrip()
