"""`corebraid.trace`: the memory accesses of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import check_text, check_whole
from corebraid.api.info import open_recording

if TYPE_CHECKING:
    from corebraid.study.tracing import Traced
    from recorder.files.reader import Recording


def trace(
    recording: Recording | Path | str,
    core: str | int | None = None,
    *,
    ordered: bool = False,
    addr: str | None = None,
    first: int | None = None,
    until: int | None = None,
    kind: str | None = None,
    region: int | None = None,
    limit: int | None = None,
) -> Traced:
    """The accesses of a recording: stream by stream in program order, or all braided (`ordered`).

    What comes is gone through in pieces (rows, has_order): EVENT arrays of bounded length, and whether their
    regions have an order in the certificate (always True unless `ordered`); or written, with `Traced.write`.
    core: only this one, "dev" or "kernel"; the stream after the last core is that of the agents. addr: only
    accesses that touch these bytes, "A:B" or a symbol. first, until: only from this instruction count on, and
    before that one. kind: only some of "R,W,RMW,F". region: only this one. limit: at most so many rows.

    An ordered trace needs `order` first. Raises UsageError, FormatError; while rows come also Divergence and
    OrderError.
    """
    from corebraid.names.devices import device_symbols
    from corebraid.names.program import GuestProgram
    from corebraid.names.selection import AddressRange, Selection, parse_kinds
    from corebraid.names.streams import stream_named
    from corebraid.study.tracing import Traced

    check_text("addr", addr, optional=True)
    check_text("kind", kind, optional=True)
    for name, value in (("first", first), ("until", until), ("region", region)):
        check_whole(name, value, 0)
    check_whole("limit", limit, 1)
    opened = open_recording(recording)
    manifest = opened.manifest
    program = GuestProgram.of(opened.path, manifest, device_symbols())
    where, strata = str(opened.path), manifest.totals.get("strata")
    wanted = Selection(
        core=None if core is None else stream_named(str(core), manifest.n_cores, where),
        addresses=None if addr is None else AddressRange.parse(addr, program.symbols),
        first=first,
        until=until,
        kinds=None if kind is None else parse_kinds(kind),
        region=region,
    )
    wanted.check(strata + 1 if isinstance(strata, int) else None)
    if not ordered:
        return Traced(opened, program, wanted, None, limit)
    # What is not braided does without the solver.
    from corebraid.study.certificates import certificate_of

    return Traced(opened, program, wanted, certificate_of(opened), limit)
