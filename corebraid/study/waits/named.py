"""What the threads of a recording waited at when nobody could run, by the functions of libraries in which
they wait.

A word that a thread waits at says little: a structure of the program's own may look like a mutex. What it is
says who called: `pthread_barrier_wait` waits at a barrier. Where the calls cannot be told, what the recorder
saw by the word's neighbours is told, with that said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from corebraid.base.errors import CorebraidError
from corebraid.study.stacks import calls_of, program_names
from corebraid.study.waits.library import BETTER, Known, bare_name, hands_on, is_any_call, known
from corebraid.study.waits.objects import Objects
from emu.linux.tasks.waiting import Awaited, Waiting
from isa.registry import frame_registers_of
from recorder.files.final_memory import FinalMemory

if TYPE_CHECKING:
    from corebraid.names.program import GuestProgram
    from corebraid.names.unwinding.stack import Frame
    from recorder.files.reader import Recording

#: Frames that are looked at, from the innermost on.
_MOST_FRAMES = 40
#: Files that are libraries of the language: what waits in one was asked to by whoever called it.
_LIBRARIES = ("libc.", "libc-", "libpthread", "libstdc++", "ld-", "libgcc_s", "libm.", "librt")
#: A call that has its target in it, as disassembled.
_DIRECT = re.compile(r"call\w*\s+(0x[0-9a-f]+)")
#: What the recorder tells by a word's neighbours.
_BY_LAYOUT = (
    Awaited.MUTEX, Awaited.DESTROYED, Awaited.RWLOCK, Awaited.STREAM, Awaited.CONDITION, Awaited.FUTEX,
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A function that has not returned. name: demangled, without file and offset, '' where there is none.
    library: it is in one. this: the object that it is a method of, None where that is not known."""

    name: str
    library: bool
    this: int | None


def named(recording: Recording, program: GuestProgram) -> tuple[Waiting, ...]:
    """What each task waits for at the end of the recording. Raises FormatError."""
    end = recording.manifest.end
    if end is None:
        return ()
    memory = FinalMemory(recording)
    tids = {one.tid for one in end.waits}
    objects = Objects(
        memory,
        program.data_names.name,
        tids,
        range(min(tids, default=0), max(tids, default=0) + _tasks(recording)),
    )
    return tuple(_named(one, program, memory, objects) for one in end.waits)


def _tasks(recording: Recording) -> int:
    tasks = recording.manifest.totals.get("tasks")
    return tasks if isinstance(tasks, int) else 1


def _named(one: Waiting, program: GuestProgram, memory: FinalMemory, objects: Objects) -> Waiting:
    frame = frame_registers_of(program.isa)
    needed = {frame.names[frame.stack_pointer], frame.names[frame.return_address]}
    if one.what not in _BY_LAYOUT or one.address is None or not needed <= dict(one.registers).keys():
        return one
    try:
        return _by_calls(one, list(_calls(one, program, memory)), objects)
    except CorebraidError:
        # The recording lacks its memory, say.
        return one


def _by_calls(one: Waiting, calls: list[Call], objects: Objects) -> Waiting:
    found, function = looked(calls)
    if found is not None:
        return objects.told(one, found[0].kind, found[1])
    if function:
        return one if one.what is Awaited.STREAM else objects.inside(one, bare_name(function))
    if function is not None:
        return one if one.what is Awaited.STREAM else objects.futex(one)
    # Nothing has a name there.
    return one if one.what in (Awaited.FUTEX, Awaited.STREAM) else _hedged(one)


def _hedged(one: Waiting) -> Waiting:
    kind = {
        Awaited.MUTEX: "a mutex",
        Awaited.DESTROYED: "a destroyed mutex",
        Awaited.RWLOCK: "a reader-writer lock",
    }.get(one.what, "a condition variable")
    return replace(one, what=Awaited.NAMED, call=f"what looks like {kind}, in a function without a name,")


def looked(calls: list[Call]) -> tuple[tuple[Known, int | None] | None, str | None]:
    """What the calls wait at, with the object's address where a method tells it; and the outermost function
    of a library, '' if it is the program that waits, None if nothing is known."""
    found: tuple[Known, int | None] | None = None
    function: str | None = None
    # A C library that is part of the program has its names there, and has no need of syscall(2).
    alone = not any(call.library for call in calls) and not is_any_call(calls[0].name)
    for n, call in enumerate(calls):
        what = known(call.name) if call.name else None
        if what is not None and not (what.reserved or call.library or alone):
            # Any program may have a function that is called so.
            what = None
        if not call.library and what is None and not hands_on(call.name):
            if n == 0 or function is None:
                function = "" if call.name else None
            break
        if what is not None and (found is None or _says_more(found[0], what)):
            found = what, call.this if what.own else None
        if is_any_call(call.name):
            function = ""
        elif call.library and call.name:
            function = call.name
    return found, function


def _says_more(before: Known, now: Known) -> bool:
    """Whether an outer function says better what it is: `std::latch::wait` than
    `std::__atomic_wait_address`."""
    return now.kind in BETTER.get(before.kind, ())


def _calls(one: Waiting, program: GuestProgram, memory: FinalMemory) -> Iterator[Call]:
    stack = calls_of(dict(one.registers), memory, program)
    names = program_names(program, memory)
    inner: Call | None = None
    for n, frame in enumerate(stack.frames()):
        if n == _MOST_FRAMES:
            return
        path = _file_at(program, frame.place)
        library = path.startswith(_LIBRARIES)
        if inner is not None and (inner.library or not inner.name) and (called := _called(program, frame)):
            # A function that has gone to another at its end is on no stack.
            yield called
        for one_of in names.called(frame, 0):
            bare = one_of.name.rpartition("!")[2]
            name = "" if _nameless(bare, path) else bare.partition("+0x")[0]
            inner = Call(name, library, _this(one_of.arguments))
            yield inner


def _called(program: GuestProgram, frame: Frame) -> Call | None:
    """The function that the frame has called, if the call itself says so."""
    if frame.exact or not program.call_ends_at(frame.pc):
        return None
    for size in frame_registers_of(program.isa).call_bytes:
        if found := _DIRECT.fullmatch(program.instruction(frame.pc - size)):
            target = int(found[1], 16)
            name = program.symbols.name(target).rpartition("!")[2]
            library = name.endswith("@plt") or _file_at(program, target).startswith(_LIBRARIES)
            return None if "+0x" in name else Call(name, library, None)
    return None


def _file_at(program: GuestProgram, place: int) -> str:
    """The name of the file whose code is there."""
    part = program.files.at(place)
    return PurePosixPath(part.path if part is not None else "").name


def _nameless(name: str, path: str) -> bool:
    """Whether all that it says is the file and a distance."""
    return not name or (bool(path) and name.partition("+0x")[0] == path)


def _this(arguments: tuple[tuple[str, str], ...]) -> int | None:
    value = dict(arguments).get("this", "")
    try:
        return int(value.partition(" ")[0], 16) or None
    except ValueError:
        return None
