"""`corebraid.races`: conflicting accesses that nothing in the program puts in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import check_seconds, check_text, check_whole, ignore, texts_of
from corebraid.api.info import open_recording

if TYPE_CHECKING:
    from corebraid.study.races.found import Races
    from recorder.files.reader import Recording


def races(
    recording: Recording | Path | str,
    *,
    sync: Iterable[str] = (),
    spinning: bool = False,
    suppressions: Path | str | None = None,
    no_default_suppressions: bool = False,
    quick: bool = False,
    budget: int = 200_000,
    timeout: float = 5.0,
    limit: int | None = None,
    progress: Callable[[int], None] = ignore,
) -> Races:
    """Find conflicting accesses without an order that the program gives them, in the order of `order.cert`.

    sync: data whose bytes synchronise, as `corebraid races --sync` takes it. spinning: words that
    threads have waited at, reading them over and over, synchronise too. suppressions: a file of those.
    no_default_suppressions: tell what the C library and the loader do on purpose, too. quick: do not look
    whether the accesses could have come the other way round. budget: cuts to explore in each search for such
    an order, at most; timeout: seconds. limit: races told, at most. progress: called with how many accesses
    have been read. Raises UsageError, FormatError, OrderError, Divergence.
    """
    from corebraid.study.races.search import Wanted, races_of
    from corebraid.study.races.suppressions import built_in, from_file
    from solver.freedom.freedom import Limits

    sync = texts_of("sync", sync)
    for one in sync:
        check_text("sync", one)
    check_whole("budget", budget, 1, optional=False)
    check_seconds("timeout", timeout)
    check_whole("limit", limit, 1)
    rules = [] if suppressions is None else from_file(Path(suppressions))
    rules += [] if no_default_suppressions else built_in()
    limits = None if quick else Limits(budget, timeout)
    return races_of(open_recording(recording), Wanted(rules, sync, spinning, limits, limit), progress)
