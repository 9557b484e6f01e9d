"""A deadlock in words, with the names that the program has for what its threads wait for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from emu.linux.tasks.waiting import Awaited, Waiting, lines
from recorder.files.end import IDLE

if TYPE_CHECKING:
    from corebraid.names.program import GuestProgram
    from recorder.files.end import End
    from recorder.files.manifest import Manifest
    from recorder.files.reader import Recording

#: Ends at which no thread can run.
_STOOD_STILL = ("deadlock", IDLE)
_ADDRESS = re.compile(r"0x[0-9a-f]+")
#: A thread's name has 15 characters at most.
_WAITS = re.compile(r"thread (\d+)(?: \((.{0,15}?)\))? waits for (.*?)(?:, held by thread (\d+))?(?:;|$)")
_MUTEX = re.compile(r"the mutex at (0x[0-9a-f]+)")


def waits_of(end: End) -> tuple[Waiting, ...]:
    """What each task waits for where a recording ended in a deadlock, as far as it says so.

    Recordings before format field `end.waits` have only the sentence: of these a thread is known by its
    number, a mutex by its address. A thread whose name imitates the sentence can mislead there.
    """
    if end.waits or end.reason != "deadlock":
        return end.waits
    return tuple(map(_from_words, _WAITS.finditer(end.text)))


def _from_words(match: re.Match[str]) -> Waiting:
    owner = int(match[4]) if match[4] else None
    mutex = _MUTEX.match(match[3])
    if mutex:
        return Waiting(int(match[1]), match[2] or "", Awaited.MUTEX, int(mutex[1], 16), owner)
    return Waiting(int(match[1]), match[2] or "", Awaited.CALL, owner=owner, call=match[3])


def with_names(end: End, name_of: Callable[[int], str]) -> list[str]:
    """How a deadlock is told: a line for each thread and one for the cycle, addresses with their names.
    name_of: of an address, '' where it has none."""

    def named(address: int) -> str:
        name = name_of(address)
        return f"{address:#x} ({name})" if name else f"{address:#x}"

    if end.waits:
        return lines(end.waits, named)
    return [_ADDRESS.sub(lambda at: named(int(at[0], 16)), line) for line in end.text.split("; ") if line]


def named_waits(recording: Recording, program: GuestProgram) -> tuple[Waiting, ...]:
    """What each task waits for where a recording ended in a deadlock, by what its libraries say of that; none
    of others. Raises FormatError."""
    from corebraid.study.waits.named import named

    manifest, end = recording.manifest, recording.manifest.end
    if end is None or end.reason != "deadlock" or not manifest.linux:
        return ()
    return named(recording, program) if end.waits and manifest.complete else waits_of(end)


def deadlock_lines(recording: Path, manifest: Manifest) -> list[str]:
    """The lines of a recording that ended in a deadlock of threads, or with all of them waiting for work from
    outside; none for others. Raises FormatError."""
    end = manifest.end
    if end is None or end.reason not in _STOOD_STILL or not end.text:
        return []
    from corebraid.names.program import GuestProgram
    from corebraid.study.waits.named import named
    from recorder.files.reader import Recording

    program = GuestProgram.of(recording, manifest)
    if end.waits and manifest.complete:
        end = replace(end, waits=named(Recording(recording, manifest), program))
    return with_names(end, program.data_names.name)
