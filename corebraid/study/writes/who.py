"""`corebraid who-wrote`: bytes at a moment, the writers of each of them, and what they computed that from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from corebraid.names.event_names import EventName
from corebraid.names.selection import AddressRange
from corebraid.study.ended import end_place
from corebraid.study.stacks import Stack, stacks_at
from corebraid.study.windows.moments import check_event
from corebraid.study.writes.chain import Step, steps_back
from corebraid.study.writes.in_order import Query, Standing, order_of, standings
from corebraid.study.writes.possible import POSSIBLE, Possible, possible_writers
from corebraid.study.writes.rows import Access
from corebraid.study.writes.told import Teller, Told, value_of
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.freedom.freedom import Limits

#: Ends of a run at which one thread, or core, failed where it stood.
_FAILURES = ("signal", "fault")
#: Stacks that are told.
_MOST_STACKS = 8


@dataclass(frozen=True)
class Writer:
    """Who wrote some bytes. in_order: it is the last in the order of order.cert. sure: "possible" if a legal
    order has it so, "undecided" if that is not settled, None if nobody asked. stack: where it was called."""

    told: Told
    in_order: bool
    sure: str | None
    stack: Stack | None = None

    def facts(self) -> dict[str, object]:
        """As JSON."""
        stack = None if self.stack is None else self.stack.facts()
        return {**self.told.facts(), "in_order": self.in_order, "sure": self.sure, "stack": stack}


@dataclass(frozen=True)
class Part:
    """Bytes from `low` on that have the same writers. value: what they hold. name: in words. initial: whether
    nobody wrote them, in the order, and how sure that is, as in `Writer`. has_order: whether the region of
    the writer has an order. exact: whether these are all possible writers and no others; None: nobody asked.
    reason: why not, or ''. mapped: the file that is there, or ''. nameless: of a Linux program, and nothing
    has a name there."""

    low: int
    name: str
    value: bytes
    writers: tuple[Writer, ...]
    initial: tuple[bool, str | None]
    has_order: bool
    exact: bool | None
    reason: str
    mapped: str
    nameless: bool = False

    def lines(self) -> list[str]:
        """For people."""
        found = [f"{self.name} holds {value_of(self.value)}"]
        for one in sorted(self.writers, key=lambda one: not one.in_order):
            beside = ", which the constraints exclude" if self.exact and one.sure is None else ""
            found.append(f"  {_mark(one.in_order, one.sure)}{one.told.text()}{beside}")
            if one.stack is not None and len(one.stack.first) > 1:
                found += [f"      {line}" for line in one.stack.lines(8)[1:]]
        if any(self.initial):
            found.append(f"  {_mark(*self.initial)}nobody: as memory was when the recording began{self._of}")
        if not self.has_order:
            found.append("  (the writer's region has no order: it is told core by core)")
        certain = len(self.writers) + bool(any(self.initial)) == 1
        if self.exact:
            found.append("  certain: every legal order says so" if certain else "  these, and no others")
        elif self.exact is False:
            found.append(f"  not settled: {self.reason or 'the time is over'}")
        return found

    @property
    def _of(self) -> str:
        """What memory that is."""
        if self.mapped:
            return f" (of {self.mapped})"
        nothing = self.nameless and not self.writers and not any(self.value)
        return " (zeros; whether any was mapped there is not recorded)" if nothing else ""

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "addr": f"{self.low:#x}",
            "size": len(self.value),
            "name": self.name,
            "value": self.value.hex(),
            "writers": [one.facts() for one in self.writers],
            "initial": {"in_order": self.initial[0], "sure": self.initial[1], "mapped": self.mapped or None},
            "has_order": self.has_order,
            "exact": self.exact,
            "reason": self.reason or None,
        }


def _mark(in_order: bool, sure: str | None) -> str:
    if in_order:
        return ""
    return "or " if sure == POSSIBLE else "or, perhaps, "


@dataclass(frozen=True)
class WhoWrote:
    """What `who-wrote` has found. moment: in words; event: as it is called, None for the end of the run.
    chain: steps back."""

    recording: str
    moment: str
    event: str | None
    parts: tuple[Part, ...]
    chain: tuple[Step, ...]

    def lines(self) -> list[str]:
        """For people."""
        found = [f"{self.moment}:"]
        for part in self.parts:
            found += part.lines()
        if self.chain:
            found.append(
                "computed from (loads whose values went into it by registers; in the order of order.cert):"
            )
        for step in self.chain:
            found += [f"{'  ' * step.depth}{line}" for line in step.lines()]
        return found

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "recording": self.recording,
            "moment": self.moment,
            "event": self.event,
            "parts": [part.facts() for part in self.parts],
            "chain": [step.facts() for step in self.chain],
        }


@dataclass(frozen=True)
class Asked:
    """chain: steps back. possible: also what other orders allow, by `constraints` and within `limits`.
    stacks: also call stacks."""

    span: AddressRange
    event: EventName | None
    chain: int
    possible: bool
    stacks: bool
    constraints: str
    limits: Limits


def default_event(recording: Recording) -> EventName | None:
    """Where the failing thread, or core, ended; None where none did: the end of the run. Raises
    FormatError."""
    end = recording.manifest.end
    if recording.killed or end is None or end.reason not in _FAILURES:
        return None
    place = end_place(recording)
    return None if place is None else EventName(place.core, place.count, None, f"{place.core}:{place.count}")


def who_wrote(
    recording: Recording, asked: Asked, progress: Callable[[int], None] = lambda _: None
) -> WhoWrote:
    """Raises UsageError, FormatError, OrderError, Divergence."""
    if asked.event is not None:
        check_event(recording, asked.event)
    teller, pieces = Teller(recording), order_of(recording)
    buffered = recording.manifest.store_buffer and recording.manifest.n_cores
    standing = standings(pieces, [Query(asked.span, asked.event)], buffered, progress)[0]
    possible: Sequence[Possible | None] = [None] * (asked.span.high - asked.span.low)
    if asked.possible:
        possible = possible_writers(recording, asked.span, asked.event, asked.constraints, asked.limits)
    parts = _parts(recording, teller, standing, possible)
    if asked.stacks:
        parts = _with_stacks(recording, teller, parts)
    chain: list[Step] = []
    if asked.chain:
        last = [one for one in dict.fromkeys(map(_key, standing.last)) if one is not None]
        first = [next(a for a in standing.last if a is not None and a.key == key) for key in last]
        chain = steps_back(recording, teller, pieces, first, asked.chain, buffered)
    event = asked.event.text if asked.event is not None else None
    moment = teller.moment(asked.event, standing.event)
    return WhoWrote(str(recording.path), moment, event, tuple(parts), tuple(chain))


def _key(access: Access | None) -> tuple[int, int, int, int] | None:
    return None if access is None else access.key


def _parts(
    recording: Recording, teller: Teller, standing: Standing, possible: Sequence[Possible | None]
) -> list[Part]:
    span, last = standing.span, standing.last
    keys = [(_key(access), _set_of(found)) for access, found in zip(last, possible, strict=True)]
    begins = [k for k in range(len(keys)) if not k or keys[k] != keys[k - 1]]
    memory = RecordingTraces(recording).initial()[span.low : span.high].tobytes() if None in last else b""
    parts = []
    for begin, end in zip(begins, [*begins[1:], len(keys)], strict=True):
        access, found, low = last[begin], possible[begin], span.low + begin
        value = memory[begin:end] if access is None else access.value("new", low, span.low + end)
        mapped = teller.file_of(low) if access is None else ""
        sure = None if found is None else found.initial
        parts.append(
            Part(
                low,
                teller.word(low, end - begin),
                value,
                tuple(_writers(teller, access, found)),
                (access is None, sure),
                access is None or access.has_order,
                None if found is None else found.exact,
                "" if found is None else found.reason,
                mapped,
                teller.program.linux and not teller.program.data_names.name(low),
            )
        )
    return parts


def _set_of(found: Possible | None) -> object:
    if found is None:
        return None
    writers = frozenset((key, sure) for key, (_, sure) in found.writers.items())
    return writers, found.initial, found.reason


def _writers(teller: Teller, access: Access | None, found: Possible | None) -> list[Writer]:
    """That of the order first, then the others by core and count."""
    key, writers = _key(access), [] if found is None else sorted(found.writers.items())
    told = [] if access is None else [(access.key, teller.access(access))]
    told += [(one, teller.row(c.row, c.number)) for one, (c, _) in writers if one != key]
    sure = {one: how for one, (_, how) in writers}
    return [Writer(text, one == key, sure.get(one)) for one, text in told]


def _with_stacks(recording: Recording, teller: Teller, parts: list[Part]) -> list[Part]:
    """With the call stacks of the writers in the order."""
    n_cores = recording.manifest.n_cores
    wanted: dict[int, list[int]] = {}
    for writer in [one for part in parts for one in part.writers if one.in_order][:_MOST_STACKS]:
        core, count = int(writer.told.row["core"]), int(writer.told.row["count"])
        if core < n_cores:
            wanted.setdefault(core, []).append(count)
    found = {core: stacks_at(recording, teller.program, core, set(counts)) for core, counts in wanted.items()}

    def stacked(one: Writer) -> Writer:
        core, count = int(one.told.row["core"]), int(one.told.row["count"])
        stack = found.get(core, {}).get(count) if one.in_order else None
        return Writer(one.told, one.in_order, one.sure, stack)

    return [replace(part, writers=tuple(map(stacked, part.writers))) for part in parts]
