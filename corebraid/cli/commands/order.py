"""`corebraid order`: find a legal order of every region."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.base.errors import UsageError
from corebraid.base.wording import said
from corebraid.cli import console
from corebraid.cli.options import constraints_option, json_option, positive, recording_argument
from corebraid.cli.wording import TYPED
from corebraid.study.engines import ENGINES, engines_said, evidence_engine, ordering_engines
from recorder.files.constraints import LOSSES, TENURES, VALUES

if TYPE_CHECKING:
    from recorder.files.reader import Recording
    from solver.passes.results import OrderResult, RegionResult

_MOST_ROWS = 40
#: A recording of fewer instructions is ordered in one process: others would cost more than they save.
_SHORT = 5_000_000
DISCLAIMER = "a legal order, not necessarily the one that ran"


@click.command()
@recording_argument
@click.option(
    "--engine",
    type=click.Choice([row.name for row in ordering_engines()]),
    default="auto",
    show_default=True,
    help=said(engines_said(), TYPED),
)
@click.option(
    "--model",
    type=click.Choice(["sc", "tso"]),
    help="Memory model of the order.  [default: that of the recording]",
)
@click.option(
    "--encoding",
    type=click.Choice(["paper", "chain"]),
    default="chain",
    show_default=True,
    help="The SMT engine's formulas: as in the paper, or the faster chain encoding.",
)
@click.option(
    "--region-timeout",
    type=click.FloatRange(min=0.001, max=1e9),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time for one region; then it stays undecided.",
)
@constraints_option
@click.option("--count", "counted", is_flag=True, help="Also count every region's legal orders.")
@click.option(
    "--count-budget",
    type=positive,
    default="2000000",
    show_default=True,
    metavar="CUTS",
    help="Most cuts to explore in a region for --count and --choose; beyond, the count is 'more than N'.",
)
@click.option(
    "--choose",
    "choice",
    metavar="WHAT",
    help="Which legal order: fewest-switches, earliest:EVENT, latest:EVENT or before:EVENT,EVENT.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Processes to use.  [default: one for each processor; one for a short recording]",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    default="",
    help="Solve the regions on the dask.distributed cluster whose scheduler is at ADDRESS (tcp://HOST:PORT).",
)
@click.option("--fresh", is_flag=True, help="Do not use regions that an earlier run has solved.")
@json_option
def command(
    recording: Path,
    engine: str,
    model: str | None,
    encoding: str,
    region_timeout: float,
    constraints: str,
    counted: bool,
    count_budget: int,
    choice: str | None,
    jobs: int | None,
    cluster: str,
    fresh: bool,
    as_json: bool,
) -> int:
    """Work out in which order the accesses of REC can have happened; writes REC/order.cert.

    Every region between two strata is ordered by itself, and the whole order is checked by an independent
    checker before it is kept. What comes out is a legal order, not necessarily the one that ran.

    Events: those that are local to one stream, read-only in their region, or repeats of an identical read
    need no ordering; 'unfiltered' are the rest, which the engine orders.

    When it is interrupted, or regions stay undecided, the regions that were solved are kept in
    REC/order.partial, and the next run goes on from there.

    --count says how many orders of the unfiltered events are legal; orders that differ only in where the
    others stand are one. --choose picks one: with as few changes of core as can be, or with an EVENT as
    early or as late among the unfiltered events of its region as can be, or one EVENT before another.
    An EVENT is CORE:COUNT, core ('dev' for devices) and instruction count as 'corebraid trace' shows them;
    CORE:COUNT.N is the access number N, from 0, of that instruction.

    A recording of model tso is ordered under TSO: a core's loads, and its stores as they leave its store
    buffer. One of model sc has an order under sc, which is one under tso too.

    Beside the values, the miss records count: between two accesses of a core to a line without a miss in
    between nobody else wrote to it; under TSO, no other's store committed. --constraints values leaves that
    out, as the paper does.

    Of a region without a legal order, the fewest events are shown that cannot be ordered together, others
    counting as mere stores.

    Exit code 0 also when some regions could not be decided in time (a warning names them); 1 when a region
    has no legal order.

    \b
    Examples:
      corebraid order REC
      corebraid order REC --engine smt --encoding paper --region-timeout 300
      corebraid order REC --count
      corebraid order REC --choose fewest-switches
      corebraid order REC --choose earliest:2:20375
      corebraid order REC --jobs 8
      corebraid order REC --cluster tcp://10.0.0.1:8786
    """
    console.announce_compilation()
    from corebraid.base.clock import working_time
    from corebraid.cli.missing_order import missing_edges
    from corebraid.cli.order_progress import OrderProgress
    from recorder.files.manifest import ORDER_CERT
    from recorder.files.reader import Recording
    from recorder.replay.traces import RecordingTraces
    from solver.passes.answers import Options
    from solver.passes.order import Resources, order_recording
    from solver.passes.partial import FILE_NAME as PARTIAL_NAME

    opened = Recording.open(recording)
    console.note_missing_order(opened.manifest)
    _check_model(opened, model)
    evidence = evidence_engine(opened, engine)
    options = Options(engine, region_timeout, encoding=encoding, evidence=evidence)
    if evidence is not None:
        constraints = VALUES
    if choice is not None:
        from corebraid.cli.counting import with_choice

        options = with_choice(options, choice, opened, count_budget, constraints)
    # What was solved before was not chosen.
    keep = None if choice is not None or evidence is not None else opened.path / PARTIAL_NAME
    jobs = jobs or (1 if evidence is not None else _default_jobs(opened))
    resources = Resources(jobs, cluster, keep, fresh, console.note)
    began = working_time()
    progress = OrderProgress(opened)
    traces = RecordingTraces(opened, progress.replayed, constraints=constraints)
    with console.progress_of(progress.works, progress.done):
        result = order_recording(
            traces,
            opened.path / ORDER_CERT,
            opened.manifest.id,
            options,
            progress.ordered,
            resources,
        )
    seconds = working_time() - began
    facts = _facts(opened.path, result, seconds) | {
        "missing_edges": missing_edges(opened.manifest),
        "constraints": traces.constraints,
    }
    if not as_json:
        _show(opened.path, result, seconds, traces.constraints)
    if counted:
        from corebraid.cli.counting import count_facts, count_regions, show_counts
        from solver.freedom.freedom import Limits

        counts = count_regions(opened, Limits(count_budget, region_timeout), constraints)
        facts.update(count_facts(counts, count_budget))
        if not as_json:
            show_counts(counts, count_budget)
    illegal = [region.region for region in _with_verdict(result, "illegal")]
    if illegal:
        from corebraid.cli.explaining import explain_regions, show_explained

        explained = explain_regions(opened, illegal, region_timeout)
        facts["explanations"] = [one.facts() for one in explained]
        if not as_json:
            show_explained(explained)
    if as_json:
        console.facts(facts)
    return _verdict(result)


def _with_verdict(result: OrderResult, verdict: str) -> list[RegionResult]:
    return [region for region in result.regions if region.verdict.value == verdict]


def _facts(recording: Path, result: OrderResult, seconds: float) -> dict[str, object]:
    from recorder.files.manifest import ORDER_CERT

    return {
        "recording": str(recording),
        "certificate": str(recording / ORDER_CERT),
        "verdict": result.verdict.value,
        "meaning": DISCLAIMER,
        "regions": {v: len(_with_verdict(result, v)) for v in ("legal", "illegal", "undecided")},
        "events": asdict(result.counts),
        "checked_events": result.check.events,
        "seconds": round(seconds, 3),
        "by_region": [
            {
                "region": region.region,
                "verdict": region.verdict.value,
                "reason": region.reason or None,
                "engine": region.engine or None,
                "seconds": round(region.seconds, 6),
                "events": asdict(region.counts),
            }
            for region in result.regions
        ],
    }


def _default_jobs(recording: Recording) -> int:
    from corebraid.cli.parallel import usable_processors

    manifest = recording.manifest
    short = manifest.complete and sum(manifest.instructions) < _SHORT
    return 1 if short else usable_processors()


#: In words, what an order obeys.
_OBEYED = {
    VALUES: "values alone",
    TENURES: "values and tenures",
    LOSSES: "values, tenures and losses",
}


def _show(recording: Path, result: OrderResult, seconds: float, constraints: str) -> None:
    from recorder.files.manifest import ORDER_CERT

    names = ("total", "uncached", "local", "read_only", "collapsed", "unfiltered")
    head = "".join(f"{name.replace('_', '-'):>11}" for name in names)
    click.echo(f"{'region':>7} {'verdict':<9} {'engine':<7}{head}{'seconds':>10}")
    for region in result.regions[:_MOST_ROWS]:
        counts = "".join(f"{getattr(region.counts, name):>11,}" for name in names)
        click.echo(
            f"{region.region:>7} {region.verdict.value:<9} {region.engine or '-':<7}{counts}"
            f"{region.seconds:>10.3f}{'  ' + region.reason if region.reason else ''}"
        )
    if len(result.regions) > _MOST_ROWS:
        click.echo(f"{'...':>7} {len(result.regions) - _MOST_ROWS} more regions (--json has all)")
    counts = "".join(f"{getattr(result.counts, name):>11,}" for name in names)
    click.echo(f"{'all':>7} {result.verdict.value:<9} {'':<7}{counts}{seconds:>10.3f}")
    if _with_verdict(result, "legal"):
        click.echo(f"{result.check.events:,} events checked; {recording / ORDER_CERT}: {DISCLAIMER}")
        click.echo(f"constraints: {_OBEYED[constraints]}")


def _remedy(undecided: list[RegionResult]) -> str:
    """What may help; more time does not where an engine's evidence ends."""
    from_evidence = {row.name for row in ENGINES.values() if row.stream}
    if all(region.engine in from_evidence and region.reason != "timeout" for region in undecided):
        return "try another --engine"
    return "try a longer --region-timeout, or record with smaller --strata"


def _verdict(result: OrderResult) -> int:
    undecided = _with_verdict(result, "undecided")
    if undecided:
        named = ", ".join(f"{region.region} ({region.reason})" for region in undecided[:10])
        more = f" and {len(undecided) - 10} more" if len(undecided) > 10 else ""
        console.note(
            f"undecided regions: {named}{more}; they have no order, the others do; {_remedy(undecided)}"
        )
    illegal = _with_verdict(result, "illegal")
    if illegal:
        named = ", ".join(str(region.region) for region in illegal[:10])
        console.note(f"no legal order: region {named}; the recording is damaged, or its recorder wrong")
        return 1
    return 0


def _check_model(recording: Recording, model: str | None) -> None:
    """Raises UsageError for an order under sc of a recording under tso: its regions are cut where stores left
    the store buffers."""
    if model == "sc" and recording.manifest.model == "tso":
        raise UsageError(
            "a recording of model tso has no order under sc to look for",
            where=str(recording.path),
            remedy="ask whether it is one: corebraid trace REC --format axe | corebraid check - --model sc",
        )
