"""`corebraid.order`, `corebraid.check_order`: a legal order of every region, and whether one is legal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import MOST_JOBS, check_choice, check_number, check_text, check_whole, ignore
from corebraid.api.info import open_recording
from corebraid.base.clock import working_time
from corebraid.base.errors import ExcessError, FormatError, OrderError, UsageError
from corebraid.base.wording import Call, Option, Phrase, Text, said
from corebraid.study.engines import evidence_engine
from recorder.files.constraints import CONSTRAINTS, LOSSES, VALUES
from recorder.files.manifest import ORDER_CERT
from recorder.files.missing_order import missing_edges

if TYPE_CHECKING:
    from corebraid.study.certificates import CheckedOrder
    from corebraid.study.orders import Ordering
    from recorder.files.reader import Recording
    from recorder.replay.handovers import Handovers
    from recorder.replay.traces import RecordingTraces
    from solver.freedom.freedom import Limits
    from solver.passes.answers import Options
    from solver.passes.order import Resources
    from solver.passes.results import OrderResult

#: A recording of fewer instructions is ordered in one process: others would cost more than they save.
_SHORT = 5_000_000
#: What tells whether an order is one under SC.
_UNDER_SC = Phrase(
    "ask whether it is one: ",
    Call("trace", "REC", (Option("format", "axe"),)),
    " | ",
    Call("check", "-", (Option("model", "sc"),)),
)


@dataclass(frozen=True)
class OrderProgress:
    """What is called while a recording is ordered, from this process or another. replayed(core, count): a
    core's replay has come so far. ordered(regions, all). ordering: entered while that goes on. counting:
    the same while orders are counted, with what is called with how many regions are done. told: called with
    what is known, whenever that is more: of the order, then of the number of orders, then of why there is
    none."""

    replayed: Callable[[int, int], None] = lambda _, __: None
    ordered: Callable[[int, int], None] = lambda _, __: None
    ordering: Callable[[], AbstractContextManager[object]] = nullcontext
    counting: Callable[[], AbstractContextManager[Callable[[int], None]]] = lambda: nullcontext(ignore)
    told: Callable[[Ordering], None] = ignore


def order(
    recording: Recording | Path | str,
    *,
    engine: str = "auto",
    model: str | None = None,
    encoding: str = "chain",
    region_timeout: float = 60.0,
    constraints: str = LOSSES,
    count: bool = False,
    count_budget: int = 2_000_000,
    choose: str | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    fresh: bool = False,
    progress: OrderProgress | None = None,
    note: Callable[[Text], None] = ignore,
) -> Ordering:
    """Find a legal order of every region and write `order.cert` into the recording.

    engine: "auto", "cut", "smt", or one with evidence, which takes that from the recording, obeys values
    alone, and takes the regions in one process. model: "sc" or "tso"; None: the recording's. encoding: of the
    SMT engine, "chain" or "paper". region_timeout: seconds; a region that takes longer is left undecided and
    the rest goes on. constraints: "values" for the paper's alone, "tenures" for what miss records prove
    besides, "losses" for what lost lines do, if the recording has them. count: also count every region's
    legal orders, exploring at most count_budget cuts. choose: which order, as `corebraid order --choose`
    takes it. jobs: processes; None: one for each processor, one for a short recording. cluster: address of a
    dask.distributed scheduler that solves the regions. fresh: use no region that an earlier run has solved.
    note: told what the user should know.

    Raises OrderError when no order can exist, UsageError (no such engine; the recording lacks its evidence),
    FormatError, Divergence.
    """
    from corebraid.study.orders import Ordering
    from corebraid.study.replays.keeping import UNFINISHED
    from recorder.replay.contested import tells_contested
    from recorder.replay.finished import remove_left
    from solver.freedom.freedom import Limits
    from solver.passes.answers import Options, TakesOver
    from solver.passes.order import Resources, check_places
    from solver.passes.partial import FILE_NAME as PARTIAL_NAME

    check_choice("encoding", encoding, ("chain", "paper"))
    check_choice("constraints", constraints, CONSTRAINTS)
    check_number("region_timeout", region_timeout)
    check_whole("count_budget", count_budget, 1, optional=False)
    check_whole("jobs", jobs, 1, MOST_JOBS)
    check_text("choose", choose, optional=True)
    _check_cluster(cluster)
    opened, shown = open_recording(recording), progress or OrderProgress()
    _check_model(opened, model)
    evidence = evidence_engine(opened, engine)
    if evidence is not None and choose is not None:
        raise UsageError(
            "an engine with evidence chooses no order",
            found=Phrase(Option("engine", engine), " ", Option("choose", choose)),
            remedy=Phrase("leave ", Option("choose"), " or ", Option("engine"), " out"),
        )
    if not fresh and isinstance(evidence, TakesOver):
        evidence.take_over(opened)
    options = Options(engine, region_timeout, encoding=encoding, evidence=evidence)
    constraints = constraints if evidence is None else VALUES
    if choose is not None:
        options = _chosen(opened, options, choose, count_budget, constraints)
    # What was solved before was not chosen.
    keep = None if choose is not None or evidence is not None else opened.path / PARTIAL_NAME
    jobs = jobs or (1 if evidence is not None else _default_jobs(opened))
    resources = Resources(jobs, cluster or "", keep, fresh, note)
    check_places(opened.path / ORDER_CERT, resources)
    began = working_time()
    # A choice is made among all accesses, where they have their numbers.
    few = tells_contested(opened) and evidence is None and choose is None
    traces, result = (_ordered_few if few else _ordered)(opened, options, resources, constraints, shown)
    remove_left(opened.path / UNFINISHED)
    if isinstance(evidence, TakesOver):
        for line in evidence.told():
            note(line)
    seconds, missing = working_time() - began, missing_edges(opened.manifest)
    found = Ordering(opened.path, result, seconds, traces.constraints, missing)
    limits = Limits(count_budget, region_timeout) if count else None
    shown.told(found)
    return _looked_at(opened, found, limits, region_timeout, constraints, shown)


def _check_cluster(cluster: str | None) -> None:
    check_text("cluster", cluster, optional=True)
    if cluster is not None and not cluster.strip():
        raise UsageError(
            "no address of a cluster",
            found=repr(cluster),
            remedy=Phrase("give one, as tcp://HOST:PORT, or leave ", Option("cluster"), " out"),
        )


def _ordered_few(
    recording: Recording, options: Options, resources: Resources, constraints: str, shown: OrderProgress
) -> tuple[RecordingTraces, OrderResult]:
    """Of holds of pages and accesses to the contested ones that have none, of accesses to all contested
    pages where that has no legal order, or of all accesses where those do not fit."""
    from corebraid.base.hold_places import OF_CORES, WITH_AGENTS
    from recorder.files.frame import UnwrittenError
    from recorder.replay.contested import CONTESTED
    from solver.regions.problem import Verdict

    told, tried = "holds of pages have no legal order", resources
    for holds in (WITH_AGENTS, OF_CORES):
        try:
            found = _ordered(recording, options, tried, constraints, shown, CONTESTED, holds=holds)
            if found[1].verdict is not Verdict.ILLEGAL:
                if holds == OF_CORES:
                    resources.say(Phrase("holds of pages that agents use do not count: ", told))
                return found
        except (ExcessError, UnwrittenError):
            raise
        except (FormatError, OrderError) as error:
            told = said(error.what)
        # What is kept then is of this very run.
        tried = replace(resources, say=ignore)
        if holds == WITH_AGENTS and not _agents_beside(recording):
            break
    try:
        found = _ordered(recording, options, tried, constraints, shown, CONTESTED)
        resources.say(Phrase("accesses to contested pages were ordered, not holds of pages: ", told))
        return found
    except UnwrittenError:
        raise
    except (FormatError, OrderError) as error:
        found = _ordered(recording, options, tried, constraints, shown)
        what = said(error.what)
        resources.say(Phrase("all accesses were ordered; those to contested pages alone do not fit: ", what))
        return found


def _agents_beside(recording: Recording) -> bool:
    """Whether there are pages of which holds are told though agents use them."""
    from corebraid.base.hold_places import WITH_AGENTS
    from recorder.replay.traces import RecordingTraces

    try:
        pages = RecordingTraces(recording, holds=WITH_AGENTS).pages
        return len(pages.words) + len(pages.spells.page) > 0
    except FormatError:
        return False


def _ordered(
    recording: Recording,
    options: Options,
    resources: Resources,
    constraints: str,
    shown: OrderProgress,
    rows: str | None = None,
    *,
    holds: int = 0,
) -> tuple[RecordingTraces, OrderResult]:
    """The traces that were ordered, and what came of it. rows, holds: see `RecordingTraces`; None: of all."""
    from corebraid.study.replays.keeping import kept_for_order
    from recorder.replay.contested import ALL
    from recorder.replay.traces import RecordingTraces
    from solver.passes.order import order_recording

    traces = RecordingTraces(
        recording, shown.replayed, constraints=constraints, rows=rows or ALL, holds=holds,
        handovers=_handovers(recording, resources) if rows else (),
    )  # fmt: skip
    with shown.ordering(), kept_for_order(recording, traces, resources, shown.replayed) as kept:
        result = order_recording(
            kept, recording.path / ORDER_CERT, recording.manifest.id, options, shown.ordered, resources
        )
    return traces, result


def _handovers(recording: Recording, resources: Resources) -> Handovers:
    """Where cores are cut, so that several processes share them. Of damaged checkpoints there are none."""
    from recorder.replay.handovers import NO_HANDOVERS, at_checkpoints

    try:
        return at_checkpoints(recording)
    except FormatError as error:
        resources.say(Phrase("checkpoints are not used: ", error.line))
        return NO_HANDOVERS


def _looked_at(
    recording: Recording,
    found: Ordering,
    limits: Limits | None,
    timeout_s: float,
    constraints: str,
    shown: OrderProgress,
) -> Ordering:
    """With the number of orders, if limits are given for that, and why regions have none."""
    if limits is not None:
        from corebraid.study.freedom.counting import count_regions

        with shown.counting() as advance:
            counted = count_regions(recording, limits, constraints, advance)
        found = replace(found, counted=counted)
        shown.told(found)
    if illegal := [region.region for region in found.with_verdict("illegal")]:
        from corebraid.study.explaining import explain_regions

        found = replace(found, explanations=explain_regions(recording, illegal, timeout_s))
        shown.told(found)
    return found


def _chosen(recording: Recording, options: Options, choose: str, cuts: int, constraints: str) -> Options:
    """Raises UsageError for what is no choice."""
    from corebraid.study.events import parse_choice
    from recorder.replay.traces import RecordingTraces

    traces = RecordingTraces(recording, constraints=constraints)
    return replace(options, choice=parse_choice(choose, traces, recording.manifest.n_cores), nodes=cuts)


def _default_jobs(recording: Recording) -> int:
    from corebraid.study.replays.in_processes import usable_processors

    manifest = recording.manifest
    short = manifest.complete and sum(manifest.instructions) < _SHORT
    return 1 if short else usable_processors()


def _check_model(recording: Recording, model: str | None) -> None:
    """Raises UsageError for an order under sc of a recording under tso: its regions are cut where stores left
    the store buffers."""
    if model not in (None, "sc", "tso"):
        raise UsageError("no such memory model", expected="sc or tso", found=model)
    if model == "sc" and recording.manifest.model == "tso":
        raise UsageError(
            "a recording of model tso has no order under sc to look for",
            where=str(recording.path),
            remedy=_UNDER_SC,
        )


def check_order(recording: Recording | Path | str) -> CheckedOrder:
    """Give the recording's certificate to the independent checker.

    Raises OrderError when it is not legal or damaged, FormatError when there is none or the recording cannot
    be read. Regions that the certificate itself says have no legal order: see `CheckedOrder.illegal`.
    """
    from corebraid.study.certificates import checked_order

    return checked_order(open_recording(recording))
