"""What looks suspicious in a recording that failed, in words with names, lines and counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.names.program import GuestProgram
from corebraid.study.last_moments import Moment, last_moments
from corebraid.study.patterns import ABA, CHANGED, LOST_UPDATE, TOO_EARLY, Ranked, find_patterns, rank
from corebraid.study.shared_rows import Access, OrderedAccesses
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.passes.answers import Options
from solver.passes.order import order_recording

#: Instructions of a recording whose accesses are looked at, and what is told at most.
_MOST_INSTRUCTIONS = 30_000_000
_MOST_TOLD = 4
#: What scores less is not worth telling beside something better.
_LEAST = 45.0

#: What the C library's symbols begin with.
_LIBRARIES = ("libc.so", "ld-linux", "libpthread", "libstdc++", "libgcc_s")

_SAYS = {
    LOST_UPDATE: "a lost update",
    ABA: "ABA: a value that went and came back, so that the change looked as if nothing had happened",
    CHANGED: "it changed between two uses by a thread",
    TOO_EARLY: "read before it was filled in, by a thread that had seen what was written before it",
}


@dataclass(frozen=True)
class Suspicion:
    """address: of the word that it is about. title, steps: in words. times: how often at these places."""

    address: int
    title: str
    steps: tuple[str, ...]
    times: int = 1

    def lines(self) -> list[str]:
        """For people."""
        often = [f"so {self.times} times in this run, this is the last"] if self.times > 1 else []
        return [self.title, *self.steps, *often]

    def facts(self) -> dict[str, object]:
        """For --json."""
        return {
            "address": f"{self.address:#x}",
            "title": self.title,
            "steps": list(self.steps),
            "times": self.times,
        }


class Names:
    """Names of places in the program of a recording."""

    def __init__(self, program: GuestProgram, linux: bool) -> None:
        self._program, self._who = program, "thread" if linux else "core"

    def place(self, pc: int) -> str:
        """'function+0x12 (file.c:34)' or the bare pc."""
        name, line = self._program.symbols.name(pc) or f"{pc:#x}", self._program.lines.at(pc)
        return f"{name} ({line})" if line else name

    def word(self, address: int) -> str:
        """'variable (0x1234)' or the bare address."""
        name = self._program.symbols.name(address)
        return f"{name} ({address:#x})" if name else f"{address:#x}"

    def own(self, pcs: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each pc is in code that is not the C library's."""
        index, _ = self._program.symbols.find(pcs)
        theirs = np.array([*(_of_library(name) for name in self._program.symbols.names), False])
        own: NDArray[np.bool_] = ~theirs[index]
        return own

    def access(self, access: Access) -> str:
        """One access in words."""
        old, value = _value(access.old), _value(access.new)
        did = "read" if not access.writes else "wrote"
        if access.atomic:
            did = "atomically read" if access.old == access.new else f"atomically changed {old} to"
        where = f"core {access.core}, instruction {access.retired}"
        place = self.place(access.pc)
        if access.caller:
            place += f", called from {self.place(access.caller)}"
        return f"{self.who(access.who)} {did} {value} at {place}  [{where}]"

    def who(self, number: int) -> str:
        """'thread 1001'."""
        return f"{self._who} {number}"


def _value(value: int) -> str:
    return f"{value:#x}" if value > 0xFFFF else str(value)


def _of_library(name: str) -> bool:
    # The stubs of a program without their names are behind its _init.
    return name.startswith(_LIBRARIES) or name.endswith("@plt") or name == "_init"


def suspicions(path: Path) -> list[Suspicion]:
    """The likeliest first. Orders the recording, which keeps the certificate. Raises CorebraidError."""
    recording = Recording.open(path)
    manifest = recording.manifest
    if sum(manifest.instructions) > _MOST_INSTRUCTIONS:
        raise UsageError("the recording is too long to look for suspicious accesses in passing")
    order_recording(
        RecordingTraces(recording), path / ORDER_CERT, manifest.id, Options("auto", timeout_s=20.0)
    )
    names = Names(GuestProgram.of(path, manifest), manifest.linux)
    accesses = OrderedAccesses(recording, names.own).shared()
    ranked = rank(find_patterns(accesses), accesses)
    moments = [_moment(one, names) for one in last_moments(recording, accesses)]
    told = [_told(one, names) for one in ranked if one.score >= _LEAST]
    return [*moments, *told][:_MOST_TOLD]


def _told(one: Ranked, names: Names) -> Suspicion:
    pattern = one.pattern
    steps = [names.access(step) for step in pattern.steps]
    if pattern.between:
        steps[1] += f", then {pattern.between} more write(s) of others"
    title = f"{names.word(pattern.steps[-1].address)}: {_SAYS[pattern.kind]}"
    return Suspicion(pattern.address, title, tuple(steps), one.times)


def _moment(one: Moment, names: Names) -> Suspicion:
    steps = []
    for step in one.steps:
        steps.append(names.access(step) if isinstance(step, Access) else step.text(names.place, names.who))
    return Suspicion(one.address, one.title.format(word=names.word(one.address)), tuple(steps))
