"""`corebraid.who_wrote`, `corebraid.history`: where what some bytes hold comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import check_choice, check_seconds, check_text, check_whole, ignore
from corebraid.api.info import open_recording
from corebraid.base.errors import UsageError
from corebraid.base.wording import Call, Option, Phrase
from recorder.files.constraints import CONSTRAINTS, LOSSES

if TYPE_CHECKING:
    from corebraid.names.selection import AddressRange
    from corebraid.study.writes.history import Begin, Happened
    from corebraid.study.writes.who import WhoWrote
    from recorder.files.reader import Recording

#: Bytes that are asked for at once, at most.
MOST_BYTES = 4096


def who_wrote(
    recording: Recording | Path | str,
    place: str,
    *,
    at: str | None = None,
    chain: int = 0,
    only_order: bool = False,
    no_stacks: bool = False,
    region_timeout: float = 60.0,
    constraints: str = LOSSES,
    progress: Callable[[int], None] = ignore,
) -> WhoWrote:
    """Who wrote some bytes last before a moment: in the recording's order, and in any other legal one.

    place: "PLACE" or "PLACE:BYTES", an address or any name that is printed. at: right before this event,
    "CORE:COUNT"; None: where the thread, or core, ended that a signal or a fault killed, or the end of the
    run. chain: so many steps back through what was computed from what. only_order: not which others are
    possible. no_stacks: no call stacks. region_timeout: seconds for the possible writers, of a region.
    constraints: as in `corebraid.order`. progress: called with the accesses looked at. The recording needs
    `order` first. Raises UsageError, FormatError, OrderError, Divergence.
    """
    from corebraid.names.event_names import EventName
    from corebraid.study.writes.who import Asked, default_event
    from corebraid.study.writes.who import who_wrote as answer
    from solver.freedom.freedom import Limits

    check_text("at", at, optional=True)
    check_whole("chain", chain, 0)
    check_seconds("region_timeout", region_timeout)
    check_choice("constraints", constraints, CONSTRAINTS)
    opened = open_recording(recording)
    span = _span(opened, place)
    event = default_event(opened) if at is None else EventName.parse(at, opened.manifest.n_cores)
    limits = Limits(seconds=region_timeout)
    asked = Asked(span, event, chain, not only_order, not no_stacks, constraints, limits)
    return answer(opened, asked, progress)


def history(
    recording: Recording | Path | str,
    place: str,
    *,
    writes: bool = False,
    limit: int | None = None,
    progress: Callable[[int], None] = ignore,
) -> Iterator[Begin | Happened]:
    """What became of some bytes, in the recording's order: what there was first, every write, and every read
    that found another value than the same thread, or core, had last found or left there.

    place: as in `who_wrote`. writes: no reads. limit: at most so many accesses. progress: called with the
    accesses looked at. The recording needs `order` first. Raises UsageError, FormatError, OrderError,
    Divergence.
    """
    from corebraid.study.writes.history import history as iter_history
    from corebraid.study.writes.in_order import order_of

    check_whole("limit", limit, 1)
    opened = open_recording(recording)
    span = _span(opened, place)
    order_of(opened)
    return iter_history(opened, span, writes=writes, limit=limit, progress=progress)


def _span(recording: Recording, place: str) -> AddressRange:
    """Raises UsageError for bytes that are not in memory."""
    from corebraid.names.asked_places import AskedPlaces
    from corebraid.names.devices import device_symbols
    from corebraid.names.program import GuestProgram

    check_text("place", place)
    program = GuestProgram.of(recording.path, recording.manifest, device_symbols())
    span = AskedPlaces(program).bytes_of(place, MOST_BYTES)
    memory, where = recording.manifest.memory, str(recording.path)
    more = (Option("addr", place),)
    if span.high > memory:
        raise UsageError(
            "an address outside memory",
            expected=f"below {memory:#x}",
            found=f"{span.low:#x}",
            where=where,
            remedy=Phrase(
                "device registers are no memory: see their accesses with ", Call("trace", where, more)
            ),
        )
    return span
