"""What looks suspicious in a recording that failed, in words with names, lines and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corebraid.names.inlined_calls import InlinedCalls
from corebraid.names.program import GuestProgram
from corebraid.names.threads import thread_name
from corebraid.study.causes import encounters, patterns
from corebraid.study.causes.bad_pointer import pointer_read, seen_write, usual_write
from corebraid.study.causes.code_names import CodeNames
from corebraid.study.causes.decisive import Decisive, around_first
from corebraid.study.causes.last_moments import Held, Moment, Note, Says, last_moments
from corebraid.study.causes.novelty import OWN, Novel, novelties
from corebraid.study.causes.ordered_words import ordered_accesses
from corebraid.study.causes.patterns import Ranked, find_patterns, rank
from corebraid.study.deadlocks import named_waits
from corebraid.study.shared_rows import WORD, Access
from emu.linux.tasks.waiting import Waiting
from recorder.files.reader import Recording

if TYPE_CHECKING:
    from corebraid.study.causes.passing import Passed
    from recorder.files.manifest import Manifest

#: What is told at most.
_MOST_TOLD = 4
#: What scores less is not worth telling beside something better, where there is no run to compare with.
_LEAST = 45.0

_FILLED_IN = "read before it was filled in, by a thread that had seen what was written before it"
_CAME_BACK = "ABA: a value that went and came back, so that the change looked as if nothing had happened"
_BETWEEN_USES = "it changed between two uses by a thread"
_SAYS = {
    patterns.LOST_UPDATE: "a lost update",
    patterns.ABA: _CAME_BACK,
    patterns.CHANGED: _BETWEEN_USES,
    patterns.TOO_EARLY: _FILLED_IN,
}
_NOVEL_SAYS = {
    encounters.LOST_UPDATE: "a lost update",
    encounters.ABA: _CAME_BACK,
    encounters.CHANGED: _BETWEEN_USES,
    encounters.OVERWRITTEN: "another thread wrote between a thread's write and its read",
    encounters.HALF_WAY: "read by another thread half way between two writes of one",
    encounters.AHEAD: _FILLED_IN,
    encounters.TORN: "one value from before a change, and another from after it",
}
_DECIDES = "what came between two accesses of a thread decides: without that the run passes"
_SAW, _TOO_EARLY = "a thread read what it mostly does not: another's write", "a thread read it too early"


@dataclass(frozen=True)
class Suspicion:
    """address: of the word that it is about, None of what is about none. title, steps: in words. times: how
    often at these places. passed: in how many runs that passed it was too, of how many; None where there were
    none to compare with. read: the last of its steps that reads, None where none does. pcs: where the steps
    were. tried: the run was made with these steps the other way round, and did not fail so. certain: it is
    what the run ended over."""

    address: int | None
    title: str
    steps: tuple[str, ...]
    times: int = 1
    passed: tuple[int, int] | None = None
    read: Access | None = None
    pcs: tuple[int, ...] = ()
    tried: bool = False
    certain: bool = False

    @property
    def event(self) -> str | None:
        """The event that reads, by its name."""
        return None if self.read is None else _name(self.read)

    def lines(self) -> list[str]:
        """For people."""
        often = [f"so {self.times} times in this run, this is the last"] if self.times > 1 else []
        if self.passed is not None:
            n, of = self.passed
            often.append(f"so in {n or 'none'} of {of} runs that passed")
        return [self.title, *self.steps, *often]

    def facts(self) -> dict[str, object]:
        """For --json."""
        compared = {} if self.passed is None else {"passed": list(self.passed)}
        return {
            "address": None if self.address is None else f"{self.address:#x}",
            "title": self.title,
            "steps": list(self.steps),
            "times": self.times,
            "tried": self.tried,
            "certain": self.certain,
            **compared,
        }


class Names:
    """Names of places in the program of a recording, and of who was there."""

    def __init__(self, program: GuestProgram, manifest: Manifest) -> None:
        self._program, self._manifest = program, manifest
        self._calls = InlinedCalls(program.lines)

    def place(self, pc: int) -> str:
        """'function+0x12 (file.c:34)' or the bare pc; of code of another file, a header's, also the line of
        the compiled file that it was called from."""
        name, line = self._program.symbols.name(pc) or f"{pc:#x}", self._program.lines.at(pc)
        line += f", called at {called}" if (called := self._calls.at(pc)) else ""
        return f"{name} ({line})" if line else name

    def called(self, pc: int, caller: int) -> str:
        """The place, and where it was called from if that is known."""
        return f"{self.place(pc)}, called from {self.place(caller)}" if caller else self.place(pc)

    def word(self, address: int) -> str:
        """'variable[3].member (0x1234)' or the bare address."""
        name = self._program.data_names.name(address)
        return f"{name} ({address:#x})" if name else f"{address:#x}"

    def access(self, access: Access) -> str:
        """One access in words."""
        old, value = shown_value(access.old), shown_value(access.new)
        did = "read" if not access.writes else "wrote"
        if access.atomic:
            did = "atomically read" if access.old == access.new else f"atomically changed {old} to"
        place = self.called(access.pc, access.caller)
        return f"{self.who(access.who)} {did} {value} at {place}  [{_where(access)}]"

    def who(self, number: int) -> str:
        """'thread 1001 (worker)', or of firmware 'core 1'."""
        return thread_name(self._manifest.end, number) if self._manifest.linux else f"core {number}"


def shown_value(value: int) -> str:
    """In words: in hexadecimal if it is large."""
    return f"{value:#x}" if value > 0xFFFF else str(value)


def suspicions(
    path: Path, passed: Sequence[Passed] = (), decisive: Sequence[Decisive] = ()
) -> list[Suspicion]:
    """The likeliest first. Orders the recording, which keeps the certificate. passed: runs that did not fail.
    decisive: preemptions without which it does not fail. Raises CorebraidError."""
    recording = Recording.open(path)
    program = GuestProgram.of(path, recording.manifest)
    waits = named_waits(recording, program)
    words = [run.words for run in passed] + [_waited_at(waits)]
    names, code = Names(program, recording.manifest), CodeNames(program)
    accesses, _ = ordered_accesses(path, np.unique(np.concatenate(words)), code)
    told, died_of = _unusual(recording, accesses, passed, names, code)
    moments = last_moments(
        recording, accesses, waits, program.symbols.name, lambda pc: code.kind(pc) == OWN,
        [run.accesses for run in passed],
    )  # fmt: skip
    decided = [(one.of_libraries, _decided(one, accesses)) for one in decisive if one.title]
    first, told = in_order([(one, _moment(one, names)) for one in moments], decided, told, died_of)
    if not (first or told):
        return [_stopped(one, names) for one in decisive[:1]]
    known = [set(one.pcs) for one in first]
    others = [one for one in around_first(told, decisive) if set(one.pcs) not in known]
    return [*first, *others][:_MOST_TOLD]


def _waited_at(waits: Sequence[Waiting]) -> NDArray[np.uint64]:
    """Words that threads wait at for ever, as addresses over 8: uint64[n]. One thread alone may use them."""
    return np.array([one.address // WORD for one in waits if one.address is not None], np.uint64)


def _unusual(
    recording: Recording, accesses: list[Access], passed: Sequence[Passed], names: Names, code: CodeNames
) -> tuple[list[Suspicion], str | None]:
    """(what of the accesses runs that passed do not have, the event that has read the pointer of a bad
    access). What is about that comes first."""
    if passed:
        found = novelties(accesses, [run.accesses for run in passed], code.kind)
        told = [_novel(one, names) for one in found]
    else:
        told = [_told(one, names) for one in rank(find_patterns(accesses), accesses) if one.score >= _LEAST]
    if (died_of := pointer_read(recording, accesses)) is None:
        return told, None
    told.sort(key=lambda hint: hint.event != _name(died_of))
    own = pointer_read(recording, accesses, own=True)
    if own is not None and not any(hint.event in (_name(died_of), _name(own)) for hint in told):
        told.insert(0, _pointer(own, accesses, passed, names))
    return told, _name(died_of)


def in_order(
    moments: Sequence[tuple[Moment, Suspicion]],
    decided: Sequence[tuple[bool, Suspicion]],
    unusual: Sequence[Suspicion],
    died_of: str | None,
) -> tuple[list[Suspicion], list[Suspicion]]:
    """(hints that come first, those that come then). moments: the last ones, as hints. decided: what decides,
    and whether that is no more than which thread takes a lock first. unusual: what runs that passed do not
    have; died_of: the event that has read the pointer of a bad access: a hint that says who wrote it is the
    first one of these."""
    only_locks = all(alone for alone, _ in decided)
    enough = Says.MORE if only_locks else Says.MOST
    first = [told for one, told in moments if one.certain]
    above = [one.says >= enough and not _said(one, decided) for one, _ in moments]
    first += [told for (one, told), much in zip(moments, above, strict=True) if not one.certain and much]
    if only_locks and died_of is not None:
        first += [one for one in unusual[:1] if one.event == died_of]
    last = [told for (one, told), much in zip(moments, above, strict=True) if not one.certain and not much]
    return [*first, *(told for _, told in decided)], [*last, *unusual]


def _said(one: Moment, decided: Sequence[tuple[bool, Suspicion]]) -> bool:
    """Whether something that decides is about what a thread waits at in this moment."""
    return any(told.address in one.waited for _, told in decided if told.address is not None)


def _pointer(read: Access, accesses: Sequence[Access], passed: Sequence[Passed], names: Names) -> Suspicion:
    """Of a bad access whose pointer comes from where nothing else looks suspicious."""
    wrote, usual = seen_write(read, accesses), usual_write(read, [run.accesses for run in passed])
    steps = [names.access(one) for one in (wrote, read) if one is not None]
    if usual is not None:
        steps.append(f"runs that passed have mostly read there what is written at {names.called(*usual)}")
    says = "read before anybody had written it" if wrote is None else "read here"
    title = f"{names.word(read.address)}: the pointer of the bad access, {says}"
    pcs = tuple(one.pc for one in (wrote, read) if one is not None)
    return Suspicion(read.word, title, tuple(steps), read=read, pcs=pcs)


def _decided(one: Decisive, accesses: Sequence[Access]) -> Suspicion:
    """accesses: of the recording that was found, in which that of another run is looked for."""
    places = {(access.pc, access.address) for access in one.accesses if access.reads}
    found = next((it for it in reversed(accesses) if (it.pc, it.address) in places), None)
    pcs = tuple(access.pc for access in one.accesses)
    return Suspicion(one.address, one.title, one.steps, read=found, pcs=pcs + one.pcs, tried=True)


def _stopped(one: Decisive, names: Names) -> Suspicion:
    pcs = tuple(access.pc for access in one.accesses)
    about = "" if one.word is None else f"{names.word(one.word.address)}: "
    return Suspicion(one.address, about + _DECIDES, one.steps, pcs=pcs)


def _novel(one: Novel, names: Names) -> Suspicion:
    steps, kind = [names.access(step) for step in one.steps], one.encounter.kind
    if one.usual is not None:
        steps.append(f"runs that passed have mostly read there what is written at {names.called(*one.usual)}")
    wrote, read = one.encounter.steps[0], one.encounter.steps[-1]
    says = _NOVEL_SAYS.get(kind) or (_SAW if wrote.who != read.who else _TOO_EARLY)
    title = f"{names.word(read.address)}: {says}"
    return Suspicion(
        read.word, title, tuple(steps), passed=(one.passed, one.of), read=_last_read(one.steps),
        pcs=tuple(step.pc for step in one.steps),
    )  # fmt: skip


def _told(one: Ranked, names: Names) -> Suspicion:
    pattern = one.pattern
    steps = [names.access(step) for step in pattern.steps]
    if pattern.between:
        steps[1] += f", then {pattern.between} more write(s) of others"
    title = f"{names.word(pattern.steps[-1].address)}: {_SAYS[pattern.kind]}"
    pcs = tuple(step.pc for step in pattern.steps)
    return Suspicion(pattern.address, title, tuple(steps), one.times, read=_last_read(pattern.steps), pcs=pcs)


def _moment(one: Moment, names: Names) -> Suspicion:
    steps = [_step(step, names) for step in one.steps]
    title = one.title.format(word=", ".join(map(names.word, (one.address, *one.others))))
    accesses = [step.access if isinstance(step, Held) else step for step in one.steps]
    pcs = tuple(step.pc for step in one.steps)
    read = _last_read([one for one in accesses if isinstance(one, Access)])
    return Suspicion(one.address, title, tuple(steps), read=read, pcs=pcs, certain=one.certain)


def _step(step: Access | Note | Held, names: Names) -> str:
    if isinstance(step, Held):
        access = step.access
        return (
            f"{names.who(access.who)} {step.did} {names.word(access.address)} at "
            f"{names.called(access.pc, access.caller)}  [{_where(access)}]"
        )
    return names.access(step) if isinstance(step, Access) else step.text(names.place, names.who)


def _last_read(steps: Sequence[Access]) -> Access | None:
    """The last access that reads."""
    return next((one for one in reversed(steps) if one.reads), None)


def _name(one: Access) -> str:
    return f"{one.core}:{one.retired}"


def _where(access: Access) -> str:
    return f"core {access.core}, instruction {access.retired}"
