"""`corebraid.trace`: the memory accesses of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import check_text, check_whole
from corebraid.api.info import open_recording
from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase

if TYPE_CHECKING:
    from corebraid.names.asked_places import AskedPlaces
    from corebraid.names.selection import AddressRange
    from corebraid.study.tracing import Traced
    from corebraid.study.windows.trace_windows import Window
    from recorder.files.reader import Recording


def trace(
    recording: Recording | Path | str,
    core: str | int | None = None,
    *,
    ordered: bool = False,
    addr: str | None = None,
    first: int | str | None = None,
    until: int | str | None = None,
    kind: str | None = None,
    fetches: bool = False,
    region: int | None = None,
    thread: str | int | None = None,
    function: str | None = None,
    pc: str | None = None,
    around: str | None = None,
    context: int | None = None,
    limit: int | None = None,
) -> Traced:
    """The accesses of a recording: stream by stream in program order, or all braided (`ordered`).

    What comes is gone through in pieces (rows, has_order): EVENT arrays of bounded length, and whether their
    regions have an order in the certificate (always True unless `ordered`); or written, with `Traced.write`.
    core: only this one, "dev" or "kernel"; the stream after the last core is that of the agents. addr: only
    accesses that touch these bytes, "A:B" or a place, by address or by any name that is printed. first,
    until: only from this instruction count on, and before that one; if `ordered`, also events, "CORE:COUNT":
    a window of the order. kind: only some of "R,W,RMW,F". fetches: also what instruction fetches received
    (F). region: only this one. thread: only what this thread did, by number or name, and the kernel for it.
    function: only what its instructions did. pc: only those there, an address, NAME+OFFSET, "A:B" or
    "file.c:22". around: only rows near an event, `context` (10) before it and as many after, of its own
    stream unless `ordered`. limit: at most so many rows.

    An ordered trace needs `order` first. Raises UsageError, FormatError; while rows come also Divergence and
    OrderError.
    """
    from corebraid.names.asked_places import AskedPlaces
    from corebraid.names.devices import device_symbols
    from corebraid.names.program import GuestProgram
    from corebraid.names.selection import Selection, WantedThread, parse_kinds
    from corebraid.names.streams import stream_named
    from corebraid.names.threads import Threads, thread_named
    from corebraid.study.tracing import Traced

    texts = {"addr": addr, "kind": kind, "function": function, "pc": pc, "around": around}
    for name, text in texts.items():
        check_text(name, text, optional=True)
    check_whole("region", region, 0)
    for name, value, least in (("context", context, 0), ("limit", limit, 1)):
        check_whole(name, value, least)
    if function is not None and pc is not None:
        raise UsageError(
            Phrase(Option("function"), " and ", Option("pc"), " both say where"), remedy="give one of the two"
        )
    opened = open_recording(recording)
    manifest = opened.manifest
    program = GuestProgram.of(opened.path, manifest, device_symbols())
    where, strata = str(opened.path), manifest.totals.get("strata")
    places, tid = AskedPlaces(program), None if thread is None else thread_named(opened, str(thread))
    window, counts = _window(opened, ordered, around, context, first, until)
    kinds = None if kind is None else parse_kinds(kind)
    wanted = Selection(
        core=None if core is None else stream_named(str(core), manifest.n_cores, where),
        addresses=None if addr is None else places.addresses(addr),
        first=counts[0],
        until=counts[1],
        kinds=kinds,
        region=region,
        pcs=_code(places, function, pc),
        agents=manifest.n_cores,
        thread=None if tid is None else WantedThread(tid, Threads(opened)),
        fetches=fetches or (kinds is not None and "F" in kinds),
    )
    wanted.check(strata + 1 if isinstance(strata, int) else None)
    if not ordered:
        return Traced(opened, program, wanted, None, limit, window)
    # What is not braided does without the solver.
    from corebraid.study.certificates import certificate_of

    return Traced(opened, program, wanted, certificate_of(opened), limit, window)


def _code(places: AskedPlaces, function: str | None, pc: str | None) -> tuple[AddressRange, ...] | None:
    if function is not None:
        return places.function(function)
    return None if pc is None else places.instruction(pc)


def _window(
    recording: Recording,
    ordered: bool,
    around: str | None,
    context: int | None,
    first: int | str | None,
    until: int | str | None,
) -> tuple[Window | None, tuple[int | None, int | None]]:
    """(the window that is asked for, the instruction counts). Raises UsageError."""
    from corebraid.names.event_names import EventName
    from corebraid.study.windows.moments import check_event
    from corebraid.study.windows.trace_windows import AROUND, Window

    def event(text: str) -> EventName:
        found = EventName.parse(text, recording.manifest.n_cores)
        check_event(recording, found)
        return found

    ends = [event(one) if isinstance(one, str) and not one.isdigit() else None for one in (first, until)]
    counts = [None if end or one is None else int(one) for one, end in zip((first, until), ends, strict=True)]
    for name, value in zip(("first", "until"), counts, strict=True):
        check_whole(name, value, 0)
    if context is not None and around is None:
        raise UsageError(Phrase(Option("context"), " is for ", Option("around")), remedy="give both")
    if any(ends) and not ordered:
        what = Phrase("events in ", Option("first"), " and ", Option("until"), " are a window of the order")
        raise UsageError(what, remedy=Phrase("add ", Option("ordered", True), ", or give counts"))
    if around is not None:
        if any(one is not None for one in (first, until)):
            what = Phrase(Option("around"), " is a window by itself")
            raise UsageError(what, remedy=Phrase("leave out ", Option("first"), " and ", Option("until")))
        rows = AROUND if context is None else context
        return Window(event(around), rows), (None, None)
    return (Window(None, 0, *ends) if any(ends) else None), (counts[0], counts[1])
