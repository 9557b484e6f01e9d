"""The pass that orders a recording: traces to a certificate that the checker has accepted.

Source: docs/architecture.md#ordering.
Every region is sifted, composed, solved, walked, here or in other processes. Sifting, solving and walking a
region need nothing of the others; composing its boundary values and crossing its seam need those before it,
and are cheap. Whatever the order in which processes finish, the results are those of one process that takes
region after region.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from corebraid.base.errors import FormatError, OrderError, UsageError
from corebraid.base.wording import Option, Phrase, Text
from recorder.files.constraints import LOSSES, TENURES, VALUES
from solver.check.certificate import OBEYED
from solver.passes.ahead import regions_ahead
from solver.passes.answers import Options, answer
from solver.passes.ledger import Ledger
from solver.passes.partial import Partial
from solver.passes.quiet import quiet_answers
from solver.passes.results import Answer, OrderResult
from solver.passes.stages import Walks, sift_region
from solver.regions.contradiction import contradicts
from solver.regions.problem import Problem, Verdict
from solver.regions.quiet import Quiet
from solver.regions.region import Region
from solver.regions.traces import Traces
from solver.sifting.words import WordTable


@dataclass(frozen=True)
class Resources:
    """What to order a recording with. jobs: processes. cluster: address of a dask.distributed scheduler that
    solves the regions. keep: file in which finished regions are kept while others are not; what it holds
    already is used, unless `fresh`. say: told in a line what the user should know of that.
    """

    jobs: int = 1
    cluster: str = ""
    keep: Path | None = None
    fresh: bool = False
    say: Callable[[Text], None] = field(default=lambda _: None)

    def check(self) -> None:
        """Raises UsageError for values that make no sense."""
        if self.jobs < 1:
            raise UsageError("jobs", expected="at least 1", found=self.jobs)


def order_recording(
    traces: Traces,
    certificate: Path,
    recording: bytes,
    options: Options | None = None,
    on_region: Callable[[int, int], None] | None = None,
    resources: Resources | None = None,
) -> OrderResult:
    """Order a recording region by region and write the certificate.

    certificate: the file to write; one that is there is replaced, but only by one that the checker has
    accepted, and one that orders every region not by one of an engine with evidence that orders fewer.
    recording: 16 bytes, the recording's id. on_region(done, all): called after each region.
    resources: processes, a cluster, and where finished regions are kept; one process and nothing kept
    unless given. The certificate is the same whatever they are.
    A region that cannot be decided within the limits is reported and the others are ordered nevertheless.
    Raises OrderError if the recording is damaged (no order can exist, whatever the regions' insides), or
    if the checker rejects what an engine returned; of one with evidence, Contradiction.
    """
    options, resources = options or Options(), resources or Resources()
    options.check()
    resources.check()
    check_places(certificate, resources)
    if options.evidence is not None and (resources.jobs > 1 or resources.cluster):
        raise UsageError(
            "an engine with evidence takes the regions one after the other",
            found=f"{resources.jobs} jobs{' and a cluster' if resources.cluster else ''}",
            remedy=Phrase("leave ", Option("jobs"), " and ", Option("cluster"), " out"),
        )
    return _order_all(traces, certificate, recording, options, on_region, resources)


def check_places(certificate: Path, resources: Resources) -> None:
    """Raises FormatError where what is written could not be: a directory stands there, or nobody may."""
    for path in (certificate, resources.keep):
        if path is not None and path.is_dir():
            raise FormatError(
                "a directory stands where a file is to be written",
                where=str(path),
                remedy="move it somewhere else, and order again",
            )
    if not os.access(certificate.parent, os.W_OK | os.X_OK):
        raise FormatError(
            "an order cannot be written there, since the directory may not be written to",
            where=str(certificate.parent),
            remedy="let it be written to, or order a copy",
        )


def _order_all(
    traces: Traces,
    certificate: Path,
    recording: bytes,
    options: Options,
    on_region: Callable[[int, int], None] | None,
    resources: Resources,
) -> OrderResult:
    ledger = Ledger(traces)
    kept = None
    if resources.keep is not None:
        kept = Partial(resources.keep, recording, options, fresh=resources.fresh)
        if kept.note:
            resources.say(f"{resources.keep.name}: {kept.note}")
        elif kept.taken_over:
            head = f"{kept.taken_over} solved regions are kept from an earlier run ("
            resources.say(Phrase(head, Option("fresh", True), " starts over)"))

    def show() -> None:
        if on_region:
            on_region(ledger.answered, ledger.n)

    try:
        if resources.jobs == 1 and not resources.cluster:
            _alone(traces, ledger, options, kept, show)
        else:
            _together(traces, ledger, options, kept, show, resources)
        if options.evidence is not None and traces.has_final:
            try:
                ledger.finish(traces.final())
            except OrderError as error:
                raise contradicts(options.engine, ledger.n - 1, error.line()) from None
        used = VALUES if options.evidence is not None else _used(traces)
        result = ledger.certify(
            certificate, recording, options.engine + OBEYED[used], spare_complete=options.evidence is not None
        )
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
            if isinstance(region, Quiet):
                _pass_quiet(ledger, region, options)
                show()
                continue
            problem = ledger.compose(region, sift_region(region, words))
            found = kept.find(problem) if kept is not None and problem.n_ops else None
            try:
                _settle(ledger, walks, region, found or _fresh(region, problem, options, kept))
            except OrderError as error:
                if options.evidence is not None:
                    # The recording's own events have been composed, and fit.
                    raise contradicts(options.engine, region.index, error.line()) from None
                if found is None:
                    raise
                ledger.take_back(region.index)
                _settle(ledger, walks, region, _fresh(region, problem, options, kept))
            show()


def _pass_quiet(ledger: Ledger, quiet: Quiet, options: Options) -> None:
    ledger.compose_quiet(quiet)
    for region, got in quiet_answers(quiet, options):
        ledger.answer(region, got)


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
    from solver.passes.schedule import Schedule

    schedule = Schedule(traces, ledger, options, kept, resources.cluster, resources.jobs, show)
    try:
        schedule.run()
    finally:
        schedule.close()
