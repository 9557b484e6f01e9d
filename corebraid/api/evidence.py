"""`corebraid.linkage`, `slices`, `one_slice`, `opr`, `rpc`: what evidence streams tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from corebraid.api.asked import check_whole, ignore
from corebraid.api.info import open_recording
from corebraid.base.errors import UsageError
from corebraid.base.wording import Call, Phrase

if TYPE_CHECKING:
    from corebraid.study.evidence.linkage import Linkages, Replayed
    from corebraid.study.evidence.opr import Group
    from corebraid.study.evidence.rpc import Again, Show
    from corebraid.study.evidence.slices import OneSlice, Slices
    from recorder.files.reader import Recording
    from solver.evidence.lightplay.decide import Decided, Settings
    from solver.evidence.lightplay.execute import Executed
    from solver.evidence.lightplay.report import Report


@overload
def linkage(
    recording: Recording | Path | str,
    *,
    replay: Literal[False] = False,
    core: None = None,
    progress: Callable[[int], None] = ignore,
) -> Linkages: ...


@overload
def linkage(
    recording: Recording | Path | str,
    *,
    replay: Literal[True],
    core: int | None = None,
    progress: Callable[[int], None] = ignore,
) -> Replayed: ...


def linkage(
    recording: Recording | Path | str,
    *,
    replay: bool = False,
    core: int | None = None,
    progress: Callable[[int], None] = ignore,
) -> Linkages | Replayed:
    """Infer the exact linkages from Stride's evidence (record with evidence="linkage"), or replay from it.

    replay: replay all cores together, without miss records. core: that one alone, from its read log (record
    with read_values="all"). progress: called with how many regions are done; of a replay with the
    instructions. Contradictions are no error but of a replay: see `Linkages.contradictions`. Raises
    UsageError without that evidence, FormatError, Divergence; a replay Contradiction.
    """
    from corebraid.study.evidence.linkage import check_asked, linkages_of, replayed

    check_whole("core", core, 0)
    check_asked(replay=replay, core=core)
    opened = open_recording(recording)
    return replayed(opened, core, progress) if replay else linkages_of(opened, progress)


def slices(
    recording: Recording | Path | str,
    *,
    backend: str = "auto",
    limit: int = 18,
    every: bool = False,
    replay: bool = False,
    parallel: int | None = None,
    progress: Callable[[int], None] = ignore,
) -> Slices:
    """Search the slices of LightPlay's evidence for their orders (record with evidence="slices").

    backend: "auto", "cpu", "cuda" or "cut". limit: racing accesses that "cpu" and "cuda" take in one piece.
    every: try every interleaving, as the paper does. replay: execute their instructions in the orders found.
    parallel: so, but cores wait for nothing but the slices' minimal constraints, and who of the others goes
    on is drawn with this seed. progress: called with the instructions replayed. Raises UsageError,
    FormatError, Divergence.
    """
    from corebraid.study.evidence.slices import Slices

    opened = open_recording(recording)
    settings = _settings(backend, limit, every)
    made = _survey(opened, settings, None, progress, replay=replay, parallel=parallel)
    return Slices(opened, *made, backend)


def one_slice(
    recording: Recording | Path | str,
    number: int,
    *,
    backend: str = "auto",
    limit: int = 18,
    every: bool = False,
    replay: bool = False,
    parallel: int | None = None,
    progress: Callable[[int], None] = ignore,
) -> OneSlice:
    """One slice in full. Options: as in `slices`. Raises UsageError if there is none of this number, or it
    has no race."""
    from corebraid.study.evidence.slices import OneSlice

    opened = open_recording(recording)
    settings = _settings(backend, limit, every)
    report, executed = _survey(opened, settings, number, progress, replay=replay, parallel=parallel)
    if report.shown is not None:
        return OneSlice(opened, number, report.shown, executed, tuple(report.told))
    if number >= report.entries:
        raise UsageError("no such slice", expected=f"0 to {report.entries - 1}", found=number)
    raise UsageError(
        "a slice without a race has nothing to show", found=number,
        remedy=Phrase("choose one that was kept: '", Call("slices", "REC"), "' says how many were"),
    )  # fmt: skip


def _settings(backend: str, limit: int, every: bool) -> Settings:
    from solver.evidence.lightplay.decide import Settings

    return Settings(backend=backend, limit=limit, skip=not every)


def _survey(
    recording: Recording,
    settings: Settings,
    number: int | None,
    progress: Callable[[int], None],
    *,
    replay: bool,
    parallel: int | None,
) -> tuple[Report, Executed | None]:
    """What became of slices, and of executing those that have an order, or the one of that number."""
    from solver.evidence.lightplay.execute import Plan, execute, plan_of
    from solver.evidence.lightplay.parallel import InParallel
    from solver.evidence.lightplay.report import survey

    check_whole("parallel", parallel, 0)
    plans, n_cores = list[Plan | None](), recording.manifest.n_cores
    replay, at_once = replay or parallel is not None, InParallel(parallel or 0, settings.nodes)

    def keep(decided: Decided, events: Any) -> None:
        if replay and decided.order.size and number in (None, decided.problem.number):
            plan = plan_of if parallel is None else at_once.plan
            plans.append(plan(decided, events, n_cores))

    report = survey(recording, settings, number, lambda _, count: progress(count), also=keep)
    executed = execute(recording, plans) if replay else None
    if executed is not None:
        executed.steps = at_once.steps
    return report, executed


def opr(
    recording: Recording | Path | str,
    *,
    rset: str | None = None,
    threads: str | None = None,
    exact: bool = True,
    score: bool = False,
) -> Group:
    """Replay a group of cores together, without any other, and say who wrote what they read (record with
    evidence="opr").

    rset: "K,K", of those recorded; None: all. threads: "T,T", threads of a Linux program, by number or name:
    their new values and who of them wrote these are told besides. exact: event orders by exact vector
    clocks, else by one clock for each core's partition. score: compare the inference with the sealed truth.
    Raises UsageError, FormatError, Divergence.
    """
    from corebraid.study.evidence.opr import group_of

    return group_of(open_recording(recording), rset, threads, exact=exact, scored=score)


def rpc(
    recording: Recording | Path | str,
    *,
    seed: int | None = None,
    schedule: str = "random",
    slice: int | None = None,
    cache: str | None = None,
    latency: int | None = None,
    free: bool = False,
    input: Path | str | None = None,
    show: Show | None = None,
) -> Again:
    """Execute a recorded program once more, with another schedule and timing, and make it the same execution
    by its receipt histories (record with evidence="rpc").

    seed: None: another than the recording's. schedule, slice, cache: as in `corebraid.record`; cache None:
    the recording's. latency: cycles that a message is under way. free: do not control it. input: the file
    that the program read, if several of its cores did. show: gives, of what is at work and of how much there
    is to do, what shows it. A difference is no error: see `Again.equivalent`. Raises UsageError, FormatError,
    Divergence.
    """
    from corebraid.study.evidence.rpc import Asked, executed_again
    from corebraid.study.verifying import show_nothing

    source = None if input is None else Path(input)
    asked = Asked(seed, schedule, slice, cache, latency, free, source)
    return executed_again(open_recording(recording), asked, show or show_nothing)
