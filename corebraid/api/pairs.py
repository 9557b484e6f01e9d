"""`corebraid.pairs`, `corebraid.witness`: which conflicting accesses had to come in this order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import check_choice, check_seconds, check_text, check_whole, ignore, texts_of
from corebraid.api.info import open_recording
from recorder.files.constraints import CONSTRAINTS, LOSSES

if TYPE_CHECKING:
    from corebraid.study.freedom.pair_lists import AllPairs, Pair, RegionPairs, Witness
    from recorder.files.reader import Recording


def pairs(
    recording: Recording | Path | str,
    *,
    region: int | None = None,
    addr: str | None = None,
    only: Iterable[str] = (),
    core: str | int | None = None,
    limit: int | None = None,
    summary: bool = False,
    budget: int = 2_000_000,
    region_timeout: float = 60.0,
    constraints: str = LOSSES,
    progress: Callable[[int], None] = ignore,
) -> Iterator[Pair | RegionPairs | AllPairs]:
    """Say of every two conflicting accesses whether their order is certain.

    Yields each region's pairs and after them the region, and at last all regions together. region: only this
    one. addr: only pairs over these bytes, as `corebraid trace --addr` takes them. only: some of "must",
    "may", "undecided". core: only pairs with an event of this core, of "dev" or of "kernel". limit: at most
    so many pairs. summary: no pairs, only how many there are. budget: cuts to explore in a region at most.
    region_timeout: seconds. constraints: as in `corebraid.order`. progress: called with how many regions are
    done. Raises UsageError, FormatError, Divergence, OrderError.
    """
    from corebraid.names.asked_places import AskedPlaces
    from corebraid.names.devices import device_symbols
    from corebraid.names.program import GuestProgram
    from corebraid.names.selection import Selection
    from corebraid.names.streams import stream_named
    from corebraid.study.freedom.pair_lists import KINDS, Wanted, iter_pair_list
    from solver.freedom.freedom import Limits

    only = texts_of("only", only)
    for kind in only:
        check_choice("only", kind, KINDS)
    check_text("addr", addr, optional=True)
    check_whole("region", region, 0)
    check_whole("limit", limit, 1)
    _check_limits(budget, region_timeout, constraints)
    opened = open_recording(recording)
    program = GuestProgram.of(opened.path, opened.manifest, device_symbols())
    selection = Selection(
        core=None if core is None else stream_named(str(core), opened.manifest.n_cores),
        addresses=None if addr is None else AskedPlaces(program).addresses(addr),
        region=region,
    )
    strata = opened.manifest.totals.get("strata")
    selection.check(strata + 1 if isinstance(strata, int) else None)
    kinds = () if summary else tuple(only) or KINDS
    wanted = Wanted(selection, kinds, limit, Limits(budget, region_timeout), constraints)
    return iter_pair_list(opened, program, wanted, progress)


def witness(
    recording: Recording | Path | str,
    events: str,
    *,
    budget: int = 2_000_000,
    region_timeout: float = 60.0,
    constraints: str = LOSSES,
) -> Witness:
    """A legal order for each direction of a pair that is possible. events: "EVENT,EVENT", as `corebraid
    pairs --witness` takes them. Others: as in `pairs`. Raises UsageError, FormatError, Divergence."""
    from corebraid.names.devices import device_symbols
    from corebraid.names.program import GuestProgram
    from corebraid.study.freedom.pair_lists import witness_of
    from solver.freedom.freedom import Limits

    check_text("events", events)
    _check_limits(budget, region_timeout, constraints)
    opened = open_recording(recording)
    program = GuestProgram.of(opened.path, opened.manifest, device_symbols())
    return witness_of(opened, program, events, Limits(budget, region_timeout), constraints)


def _check_limits(budget: int, region_timeout: float, constraints: str) -> None:
    check_whole("budget", budget, 1, optional=False)
    check_seconds("region_timeout", region_timeout)
    check_choice("constraints", constraints, CONSTRAINTS)
