"""The ordering pass: every region is sifted, composed, solved, walked, here or in other processes.

Sifting, solving and walking a region need nothing of the others; composing its boundary values and
crossing its seam need those before it, and are cheap. Whatever the order in which processes finish, the
results are those of one process that takes region after region.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from isa.errors import OrderError
from recorder.constraints import LOSSES, TENURES, VALUES
from solver.ahead import regions_ahead
from solver.certificate import OBEYED
from solver.ledger import Ledger
from solver.order import Answer, Options, OrderResult, Resources, answer
from solver.partial import Partial
from solver.problem import Problem, Verdict
from solver.regions import Region
from solver.stages import Walks, sift_region
from solver.traces import Traces
from solver.words import WordTable


def order_all(
    traces: Traces,
    certificate: Path,
    recording: bytes,
    options: Options,
    on_region: Callable[[int, int], None] | None,
    resources: Resources,
) -> OrderResult:
    """See `solver.order.order_recording`."""
    ledger = Ledger(traces)
    kept = None
    if resources.keep is not None:
        kept = Partial(resources.keep, recording, options, fresh=resources.fresh)
        if kept.note:
            resources.say(f"{resources.keep.name}: {kept.note}")
        elif kept.taken_over:
            resources.say(
                f"{kept.taken_over} solved regions are kept from an earlier run (--fresh starts over)"
            )

    def show() -> None:
        if on_region:
            on_region(ledger.answered, ledger.n)

    try:
        if resources.jobs == 1 and not resources.cluster:
            _alone(traces, ledger, options, kept, show)
        else:
            _together(traces, ledger, options, kept, show, resources)
        used = VALUES if options.evidence is not None else _used(traces)
        result = ledger.certify(certificate, recording, options.engine + OBEYED[used])
        if kept is not None and result.verdict is not Verdict.UNDECIDED:
            kept.remove()
        return result
    finally:
        if kept is not None:
            kept.close()
        ledger.close()


def _used(traces: Traces) -> str:
    """What orders obey."""
    if not traces.line_bytes:
        return VALUES
    return LOSSES if traces.has_losses else TENURES


def _alone(
    traces: Traces, ledger: Ledger, options: Options, kept: Partial | None, show: Callable[[], None]
) -> None:
    """All regions in this process, one after the other."""
    walks, words = Walks(traces), WordTable()
    with regions_ahead(traces) as regions:
        for region in regions:
            problem = ledger.compose(region, sift_region(region, words))
            found = kept.find(problem) if kept is not None and problem.n_ops else None
            try:
                _settle(ledger, walks, region, found or _fresh(region, problem, options, kept))
            except OrderError:
                if found is None:
                    raise
                ledger.take_back(region.index)
                _settle(ledger, walks, region, _fresh(region, problem, options, kept))
            show()


def _fresh(region: Region, problem: Problem, options: Options, kept: Partial | None) -> Answer:
    got = answer(problem, options, region)
    if kept is not None and problem.n_ops:
        kept.add(problem, got)
    return got


def _settle(ledger: Ledger, walks: Walks, region: Region, got: Answer) -> None:
    if ledger.answer(region.index, got):
        ledger.walked(walks.walk(region, *ledger.runs(region.index)))


def _together(
    traces: Traces,
    ledger: Ledger,
    options: Options,
    kept: Partial | None,
    show: Callable[[], None],
    resources: Resources,
) -> None:
    """Regions in several processes, on a cluster, or both."""
    # Loaded only here: dask and multiprocessing take their time.
    from solver.schedule import Schedule

    schedule = Schedule(traces, ledger, options, kept, resources.cluster, resources.jobs, show)
    try:
        schedule.run()
    finally:
        schedule.close()
