"""The ordering pass: every region is sifted, composed, solved, walked, here or in other processes.

Sifting, solving and walking a region need nothing of the others; composing its boundary values and
crossing its seam need those before it, and are cheap. Whatever the order in which processes finish, the
results are those of one process that takes region after region.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from isa.errors import OrderError
from solver.ledger import Ledger
from solver.order import Answer, Options, OrderResult, Resources, answer
from solver.problem import Problem, Verdict
from solver.regions import iter_regions
from solver.stages import Walks, sift_region
from solver.traces import Traces


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

    def show() -> None:
        if on_region:
            on_region(ledger.answered, ledger.n)

    try:
        _alone(traces, ledger, options, show)
        return ledger.certify(certificate, recording, options.engine)
    finally:
        ledger.close()


def _alone(traces: Traces, ledger: Ledger, options: Options, show: Callable[[], None]) -> None:
    """All regions in this process, one after the other."""
    walks = Walks(traces)
    for region in iter_regions(traces):
        problem = ledger.compose(region, sift_region(region))
        if ledger.answer(region.index, answer(problem, options)):
            ledger.walked(walks.walk(region, *ledger.runs(region.index)))
        show()
