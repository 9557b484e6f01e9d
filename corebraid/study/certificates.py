"""The independent checker on a recording's certificate, and what it says."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from corebraid.base.errors import FormatError, OrderError
from corebraid.base.hold_places import WITH_AGENTS
from corebraid.base.wording import Call, Option, Phrase
from recorder.files.manifest import ORDER_CERT
from recorder.files.missing_order import missing_edges
from recorder.files.reader import Recording
from recorder.replay.contested import ALL, CONTESTED, MARKED, tells_contested
from recorder.replay.handovers import NO_HANDOVERS, Handovers, at_checkpoints
from recorder.replay.traces import RecordingTraces
from solver.check.certificate import Certificate, Head
from solver.check.checker import CheckReport, check_certificate


@dataclass(frozen=True)
class CheckedOrder:
    """A certificate that was checked. head: what it says of itself. missing_edges: between what the logs do
    not say the order."""

    recording: Path
    report: CheckReport
    head: Head
    missing_edges: list[str]

    @property
    def events(self) -> int:
        """Events that are in order."""
        return self.report.events

    @property
    def illegal(self) -> list[int]:
        """Regions that have no legal order, as the certificate says."""
        return [region for region, reason in self.report.unchecked if reason == "illegal"]

    @property
    def undecided(self) -> list[int]:
        """Regions that have no order for another reason."""
        return [region for region, reason in self.report.unchecked if reason != "illegal"]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "recording": str(self.recording),
            **self.report.facts(),
            "engine": self.head.engine,
            "constraints": self.head.constraints,
            "missing_edges": self.missing_edges,
        }


def certificate_of(recording: Recording) -> Certificate:
    """Raises FormatError if the recording has not been ordered."""
    path = recording.path / ORDER_CERT
    if not path.exists():
        raise FormatError(
            "the recording has not been ordered",
            where=str(recording.path),
            remedy=_order_first(recording),
        )
    return Certificate(path, recording.manifest.id)


def traces_of(
    recording: Recording, certificate: Certificate, traces: RecordingTraces | None = None
) -> RecordingTraces:
    """The rows that a certificate counts. traces: of the recording, if there are some. Raises FormatError if
    the recording cannot tell which those are."""
    traces = traces or RecordingTraces(recording)
    if not certificate.head.contested:
        return traces.showing(ALL)
    if not tells_contested(recording):
        raise FormatError(
            "a certificate of accesses to contested pages, which the recording does not tell",
            where=str(recording.path / ORDER_CERT),
            remedy=_order_again(recording),
        )
    head = certificate.head
    return traces.showing(CONTESTED, holds=head.holds, handovers=head.handovers)


def ordered_rows(recording: Recording) -> tuple[int, Handovers]:
    """Of which pages the recording's certificate orders holds (`corebraid.base.hold_places`), and where
    cores hand over; where it has none, or orders all accesses, what it would be of one of now."""
    with suppress(FormatError):
        head = certificate_of(recording).head
        if head.contested:
            return head.holds, head.handovers
    with suppress(FormatError):
        return WITH_AGENTS, at_checkpoints(recording)
    return WITH_AGENTS, NO_HANDOVERS


def all_traces_of(recording: Recording, certificate: Certificate) -> RecordingTraces:
    """All rows, and which of them a certificate counts. Raises FormatError, see `traces_of`."""
    counted = traces_of(recording, certificate)
    if not counted.contested:
        return counted
    return counted.showing(MARKED, holds=counted.holds, handovers=certificate.head.handovers)


def checked_order(recording: Recording) -> CheckedOrder:
    """Check the recording's certificate. Raises OrderError when it is not legal or damaged, FormatError
    when there is none, when it has no region in order, or when the recording cannot be read."""
    path = recording.path / ORDER_CERT
    if not path.exists():
        raise FormatError("there is no certificate", where=str(path), remedy=_order_first(recording))
    report = check(recording)
    head = Certificate(path, recording.manifest.id).head
    checked = CheckedOrder(recording.path, report, head, missing_edges(recording.manifest))
    if checked.undecided and not checked.illegal and not report.events:
        raise FormatError(
            "a certificate in which no event is in order",
            expected="regions that are",
            found=f"{report.unchecked_events:,} events of {len(checked.undecided)} regions undecided",
            where=str(path),
            remedy=_order_longer(recording),
        )
    return checked


def check(recording: Recording, of: RecordingTraces | None = None) -> CheckReport:
    """Check the recording's certificate. of: traces of the recording, if there are some. Raises OrderError
    when it is not legal or damaged, FormatError when the recording cannot be read."""
    try:
        certificate = Certificate(recording.path / ORDER_CERT, recording.manifest.id)
        traces = traces_of(recording, certificate, of)
    except FormatError as error:
        raise OrderError(error.line()) from None
    # Before all of it is read: a certificate may be of any number of empty regions.
    certificate.expect(traces.n_streams, len(traces.strata) + 1)
    try:
        for _ in certificate.stretches():
            pass
    except FormatError as error:
        raise OrderError(error.line()) from None
    return check_certificate(traces, certificate)


def _order_again(recording: Recording) -> Phrase:
    return Phrase("order it again: '", Call("order", str(recording.path)), "'")


def _order_longer(recording: Recording) -> Phrase:
    return Phrase(
        "order it again, with more time: '",
        Call("order", str(recording.path), (Option("region_timeout"),)),
        "'",
    )


def _order_first(recording: Recording) -> Phrase:
    return Phrase("run '", Call("order", str(recording.path)), "' first")
