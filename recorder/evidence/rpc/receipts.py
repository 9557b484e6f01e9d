"""Evidence `rpc`: receipt histories and results of tests, and nothing else (docs/rpc.md, byte by byte).

Source: Fagot and Chassin de Kergommeaux, section 3. Each entry point's history is the order in which it
received requests, by their identifiers; of a request that was tested it is kept how often it had not been
answered yet, and whether a test then found the answer. Nothing says in which order different entry points
did anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.errors import ExcessError
from corebraid.base.varint import CUT_SHORT, OVERLONG, get_varint, put_varint, unzigzag, zigzag
from emu.devices.mail_state import ENTRY_POINTS, RECEIVED, TESTED
from emu.devices.post import RECEIPTS
from recorder.files.collectors import EvidenceWriter, Guest
from recorder.files.evidence_names import RPC, evidence_log
from recorder.files.frame import DamageError, FrameHeader
from recorder.files.reader import Recording, iter_evidence

Rows = npt.NDArray[np.void]
Words = npt.NDArray[np.uint64]

#: Rows that one frame is made of at most: no frame then exceeds what one may hold.
FRAME_ROWS = 1 << 14
#: Requests, some 200 bytes each.
_MOST_TESTS = 1 << 22
_RECEIPT_LEAST, _RECEIPT_MOST = 3, 32
_BAD_PLACE, _BAD_ORDER, _TOO_MANY, _BAD_ID, _EMPTY, _TRAILING = -3, -4, -5, -6, -7, -8
_REASONS = {
    CUT_SHORT: "a record is cut short",
    OVERLONG: "an integer is not in its shortest form",
    _BAD_PLACE: "there is no such core or entry point",
    _BAD_ORDER: "records are not in their order",
    _TOO_MANY: "there are more records than the frame declares",
    _BAD_ID: "a request's identifier is not in its one form",
    _EMPTY: "a record holds nothing",
    _TRAILING: "bytes follow the last record",
}
_U0, _U1 = np.uint64(0), np.uint64(1)
_THREAD, _ENTRY = np.uint64(24), np.uint64(48)
_LOW = np.uint64(0xFFFFFF)


@dataclass(frozen=True)
class Receipts:
    """What the evidence says.

    histories: (virtual processor, entry point) -> identifiers in the order of receipt, uint64[n]. tests:
    identifier -> (results 0, whether a result 1 followed).
    """

    histories: dict[tuple[int, int], Words] = field(default_factory=dict)
    tests: dict[int, tuple[int, bool]] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        """Receipts over all entry points."""
        return sum(len(history) for history in self.histories.values())

    @property
    def results(self) -> int:
        """Results of tests."""
        return sum(noes + yes for noes, yes in self.tests.values())

    @property
    def empty(self) -> bool:
        """Whether nothing was received or tested."""
        return not self.histories and not self.tests


@njit(cache=True)
def _put_id(out, pos, number, before):  # type: ignore[no-untyped-def]
    """An identifier relative to the one before it."""
    head = number >> _ENTRY
    pos = put_varint(out, pos, _U0 if head == before >> _ENTRY else head + _U1)
    pos = put_varint(out, pos, zigzag((number >> _THREAD) & _LOW, (before >> _THREAD) & _LOW))
    return put_varint(out, pos, zigzag(number & _LOW, before & _LOW))


@njit(cache=True)
def _get_id(raw, pos, before):  # type: ignore[no-untyped-def]
    head, pos = get_varint(raw, pos)
    if pos < 0:
        return _U0, pos
    process, pos = get_varint(raw, pos)
    if pos < 0:
        return _U0, pos
    request, pos = get_varint(raw, pos)
    if pos < 0:
        return _U0, pos
    same = before >> _ENTRY
    if head > np.uint64(1 << 16) or (head != _U0 and head - _U1 == same):
        return _U0, _BAD_ID
    thread = unzigzag(process, (before >> _THREAD) & _LOW)
    number = unzigzag(request, before & _LOW)
    if thread > _LOW or number > _LOW:
        return _U0, _BAD_ID
    where = same if head == _U0 else head - _U1
    return where << _ENTRY | thread << _THREAD | number, pos


@njit(cache=True)
def encode_receipts(places, identifiers, tested, noes, yes, out):  # type: ignore[no-untyped-def]
    """One frame's payload into `out` (uint8[]), which has room; returns its length.

    places: int64 (n,), ascending, core * ENTRY_POINTS + entry point of each receipt; identifiers: uint64
    (n,).
    tested: uint64 (m,), ascending; noes: uint64 (m,) and yes: bool (m,), its results.
    """
    n = places.shape[0]
    histories = 0
    for k in range(n):
        if k == 0 or places[k] != places[k - 1]:
            histories += 1
    pos = put_varint(out, 0, np.uint64(histories))
    start = 0
    while start < n:
        end = start
        while end < n and places[end] == places[start]:
            end += 1
        pos = put_varint(out, pos, np.uint64(places[start] // ENTRY_POINTS))
        pos = put_varint(out, pos, np.uint64(places[start] % ENTRY_POINTS))
        pos = put_varint(out, pos, np.uint64(end - start))
        before = _U0
        for k in range(start, end):
            pos = _put_id(out, pos, identifiers[k], before)
            before = identifiers[k]
        start = end
    pos = put_varint(out, pos, np.uint64(tested.shape[0]))
    before = _U0
    for k in range(tested.shape[0]):
        pos = _put_id(out, pos, tested[k], before)
        before = tested[k]
        pos = put_varint(out, pos, (noes[k] << _U1) | np.uint64(yes[k]))
    return pos


@njit(cache=True)
def _decode_history(raw, pos, cores, last, n, places, identifiers):  # type: ignore[no-untyped-def]
    """One history: (receipts so far, its place, position or why not)."""
    core, pos = get_varint(raw, pos)
    if pos < 0:
        return n, last, pos
    entry, pos = get_varint(raw, pos)
    if pos < 0:
        return n, last, pos
    count, pos = get_varint(raw, pos)
    if pos < 0:
        return n, last, pos
    if core >= np.uint64(cores) or entry >= np.uint64(ENTRY_POINTS):
        return n, last, _BAD_PLACE
    place = np.int64(core) * ENTRY_POINTS + np.int64(entry)
    if place <= last:
        return n, last, _BAD_ORDER
    if count == _U0:
        return n, last, _EMPTY
    if count > np.uint64(places.shape[0] - n):
        return n, last, _TOO_MANY
    before = _U0
    for _ in range(np.int64(count)):
        before, pos = _get_id(raw, pos, before)
        if pos < 0:
            return n, last, pos
        places[n], identifiers[n] = place, before
        n += 1
    return n, place, pos


@njit(cache=True)
def decode_receipts(raw, cores, places, identifiers, tested, noes, yes):  # type: ignore[no-untyped-def]
    """Decode one payload (uint8[]; nothing in it is trusted) into arrays as `encode_receipts` takes them.

    cores: how many there are. Returns (receipts, tests, 0 or why not, position in raw).
    """
    n = m = 0
    histories, pos = get_varint(raw, 0)
    if pos < 0:
        return n, m, pos, 0
    at, last = pos, -1
    for _ in range(np.int64(min(histories, np.uint64(places.shape[0] + 1)))):
        at = pos
        n, last, pos = _decode_history(raw, pos, cores, last, n, places, identifiers)
        if pos < 0:
            return n, m, pos, at
    at = pos
    count, pos = get_varint(raw, pos)
    if pos < 0:
        return n, m, pos, at
    before = _U0
    for _ in range(np.int64(min(count, np.uint64(tested.shape[0] + 1)))):
        at = pos
        if m == tested.shape[0]:
            return n, m, _TOO_MANY, at
        number, pos = _get_id(raw, pos, before)
        if pos < 0:
            return n, m, pos, at
        if m > 0 and number <= before:
            return n, m, _BAD_ORDER, at
        word, pos = get_varint(raw, pos)
        if pos < 0:
            return n, m, pos, at
        if word == _U0:
            return n, m, _EMPTY, at
        tested[m], noes[m], yes[m] = number, word >> _U1, (word & _U1) != _U0
        before = number
        m += 1
    if pos != raw.shape[0]:
        return n, m, _TRAILING, pos
    return n, m, 0, pos


def encode(rows: Rows) -> tuple[bytes, int]:
    """One frame of what happened (MAIL_EVENT[n], at most FRAME_ROWS): (payload, records in it)."""
    received, tests = rows[rows["what"] == RECEIVED], rows[rows["what"] == TESTED]
    places = received["core"].astype(np.int64) * ENTRY_POINTS + (received["head"] >> 8 & 0xFF).astype(
        np.int64
    )
    order = np.argsort(places, kind="stable")
    tested, which = np.unique(tests["id"], return_inverse=True)
    noes, yes = np.zeros(len(tested), np.uint64), np.zeros(len(tested), np.bool_)
    for index, answer in zip(which.tolist(), tests["head"].tolist(), strict=True):
        # What a guest asks after it was told yes is no news.
        if answer:
            yes[index] = True
        elif not yes[index]:
            noes[index] += np.uint64(1)
    out = np.empty(64 + _RECEIPT_MOST * (len(received) + len(tested)), np.uint8)
    length = encode_receipts(places[order], received["id"][order], tested, noes, yes, out)
    return out[: int(length)].tobytes(), len(received) + len(tested)


class ReceiptDecoder:
    """Puts the frames of a stream together again. cores: how many the recording has."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._parts: dict[tuple[int, int], list[Words]] = {}
        self._tests: dict[int, tuple[int, bool]] = {}
        self.records = 0

    def add(self, raw: bytes, records: int) -> str | None:
        """The next frame's payload, which declares that many records; what is wrong with it, if anything."""
        most = min(records, len(raw) // _RECEIPT_LEAST)
        places, identifiers = np.empty(most, np.int64), np.empty(most, np.uint64)
        tested, noes, yes = np.empty(most, np.uint64), np.empty(most, np.uint64), np.empty(most, np.bool_)
        n, m, error, at = decode_receipts(
            np.frombuffer(raw, np.uint8), self._cores, places, identifiers, tested, noes, yes
        )
        if error:
            return f"{_REASONS[error]} (byte {at} of the frame's payload)"
        if n + m != records:
            return f"records in a frame: expected {records}, found {n + m}"
        self.records += records
        cuts = np.flatnonzero(np.diff(places[:n])) + 1
        for part_places, part in zip(
            np.split(places[:n], cuts), np.split(identifiers[:n], cuts), strict=True
        ):
            if len(part):
                self._parts.setdefault(divmod(int(part_places[0]), ENTRY_POINTS), []).append(part)
        for number, no, came in zip(tested[:m].tolist(), noes[:m].tolist(), yes[:m].tolist(), strict=True):
            before, done = self._tests.get(number, (0, False))
            self._tests[number] = (before, True) if done else (before + no, came)
        return None

    @property
    def tests(self) -> int:
        """Requests of which a test was noted, in all frames so far."""
        return len(self._tests)

    def result(self) -> Receipts:
        """All frames so far."""
        histories = {place: np.concatenate(parts) for place, parts in sorted(self._parts.items())}
        return Receipts(histories, dict(sorted(self._tests.items())))


def receipts_of(rows: Rows, cores: int) -> Receipts:
    """The evidence that these happenings (MAIL_EVENT[n]) make."""
    decoder = ReceiptDecoder(cores)
    for start in range(0, len(rows), FRAME_ROWS):
        payload, records = encode(rows[start : start + FRAME_ROWS])
        if records:
            wrong = decoder.add(payload, records)
            assert wrong is None, wrong
    return decoder.result()


class ReceiptCollector:
    """Takes receipts and results of tests down. The mailboxes keep them natively; this only writes."""

    def __init__(self, guest: Guest, writer: EvidenceWriter) -> None:
        assert guest.mail is not None
        self._mail, self._writer, self._records = guest.mail, writer, 0
        self._mail.keep(RECEIPTS)

    def take(self, stream: int, rows: Rows) -> None:
        """Events of the cores: nothing of this evidence is made of them."""

    def stratum(self) -> None:
        """A stratum was cut: it means nothing here."""

    def flush(self) -> None:
        """Write what there is."""
        rows = self._mail.take()
        for start in range(0, len(rows), FRAME_ROWS):
            payload, records = encode(rows[start : start + FRAME_ROWS])
            if records:
                first, self._records = self._records, self._records + records
                self._writer.append(payload, records, first, self._records - 1)

    def finish(self) -> None:
        """The run is over."""
        self.flush()


def make_receipts(guest: Guest, writer: EvidenceWriter, _: Mapping[str, object]) -> ReceiptCollector:
    """The collector for a machine."""
    return ReceiptCollector(guest, writer)


def read_receipts(recording: Recording) -> Receipts:
    """The evidence of a recording. Raises UsageError if it has none, FormatError."""
    decoder = ReceiptDecoder(recording.manifest.n_cores)
    for frame, raw in iter_evidence(recording, RPC):
        _add(recording, decoder, frame, raw)
    return decoder.result()


def iter_receipts(recording: Recording) -> Iterator[int]:
    """The records in each frame of the evidence, which is decoded. Raises as `read_receipts`."""
    decoder = ReceiptDecoder(recording.manifest.n_cores)
    for frame, raw in iter_evidence(recording, RPC):
        _add(recording, decoder, frame, raw)
        yield frame.records


def _add(recording: Recording, decoder: ReceiptDecoder, frame: FrameHeader, raw: bytes) -> None:
    path, number = recording.path / evidence_log(RPC), decoder.records
    wrong = decoder.add(raw, frame.records)
    if wrong is not None:
        raise DamageError(path, frame.offset, wrong)
    if (frame.first, frame.last) != (number, decoder.records - 1):
        raise DamageError(path, frame.offset, "a frame's records are not in the range it declares")
    if decoder.tests > _MOST_TESTS:
        raise ExcessError(
            "more requests were tested than can be held",
            expected=f"at most {_MOST_TESTS:,}",
            where=str(path),
            remedy="record a shorter run",
        )


def describe_request(identifier: int) -> str:
    """An identifier as the paper writes it: (VirtualProcessorID, EntryPointID, ThreadID, RequestID)."""
    vp, entry = identifier >> 56, identifier >> 48 & 0xFF
    return f"({vp},{entry},{identifier >> 24 & 0xFFFFFF},{identifier & 0xFFFFFF})"
