"""What puts threads in order besides memory: a release by one at a sync point, and an acquire by another at a
later one, of the same object. Of a Linux guest objects are what its system calls are about, of firmware what
its devices do.

At a sync point of the agents a core, or its thread, meets them (`emu.bus.sync_points`). Agents do one thing
after the other, so that any two sync points are ordered in a recording; a step says which of them are so
because the program asked for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.study.races import calls
from corebraid.study.races.accesses import DEVICES, Rows
from corebraid.study.races.calls import Call
from emu.bus.sync_points import ENTER, LEAVE
from recorder.files.agent_codec import CALL, EXIT, SIGNAL
from recorder.files.reader import Recording, iter_agent_trace

#: Commands of futex(2), without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
_COMMAND = ~(128 | 256)
_WAITS, _SECOND_WORD = frozenset({0, 6, 8, 9, 11, 13}), frozenset({3, 4, 5, 11, 12})
_WAKES = frozenset({1, 3, 4, 5, 7, 10, 12})
WORD_BYTES = 4
_ANY, _SOCKETS, _MEMORY = ("any message",), ("sockets",), ("memory",)
_DUPLICATES_FD = frozenset({0, 1030})


class Step(NamedTuple):
    """At the sync point number `point`, who (thread, core or device) releases an object, or acquires it.
    late: behind what agents do there for who, not before."""

    point: int
    who: int
    releases: bool
    thing: Hashable
    late: bool = False


class AgentFacts(NamedTuple):
    """Of the agents' log. numbers: where a call has written numbers of 4 bytes: (its sync point, address) ->
    number. signalled: sync points at which a frame of a signal was made. cleared: addresses of words of 4
    bytes that a thread's end has changed."""

    numbers: dict[tuple[int, int], int]
    signalled: list[int]
    cleared: list[int]


def agent_facts(recording: Recording, points: Rows, wanted: set[int]) -> AgentFacts:
    """wanted: sync points of calls whose numbers are asked for. Raises FormatError."""
    numbers: dict[tuple[int, int], int] = {}
    signalled, cleared = set[int](), set[int]()
    asked = np.array(sorted(wanted), np.int64)
    for rows in iter_agent_trace(recording):
        at = np.searchsorted(points["number"], rows["count"], side="right") - 1
        signalled.update(at[(rows["pc"] == SIGNAL) & (at >= 0)].tolist())
        changed = rows[(rows["pc"] == EXIT) & (rows["old"] != rows["new"])]
        cleared.update((changed["addr"] & ~np.uint64(WORD_BYTES - 1)).tolist())
        mine = (rows["pc"] == CALL) & np.isin(at, asked)
        for point, row in zip(at[mine].tolist(), rows[mine], strict=True):
            for inside in range(0, int(row["size"]), WORD_BYTES):
                value = int(row["new"]) >> 8 * inside & 0xFFFFFFFF
                numbers[point, int(row["addr"]) + inside] = value
    return AgentFacts(numbers, sorted(signalled), sorted(cleared))


class LinuxSteps:
    """Of a Linux guest. points: SYNC_POINT (n,). Raises FormatError."""

    def __init__(self, recording: Recording, points: Rows, found: list[Call]) -> None:
        self._points, self._calls = points, found
        makes = {call.point for call in found if call.name in calls.MAKES}
        self._facts = agent_facts(recording, points, makes)
        self._messages: dict[int, Hashable] = {}
        who = points["who"]
        self._of_thread = {int(one): np.flatnonzero(who == one) for one in np.unique(who[who > 0])}

    def words(self) -> list[int]:
        """Addresses of words of 4 bytes by which the kernel puts threads to sleep, or tells of their end."""
        found = set(self._facts.cleared)
        for call in self._calls:
            if call.name in calls.FUTEX:
                found.add(call.asked[0])
                if call.asked[1] & _COMMAND in _SECOND_WORD:
                    found.add(call.asked[4])
        return sorted(found)

    def steps(self) -> list[Step]:
        """All of them, by sync points."""
        found = [Step(int(at[0]), thread, False, ("start", thread)) for thread, at in self._of_thread.items()]
        for point in self._facts.signalled:
            found += self._acquires_signals(point, int(self._points["who"][point]))
        for call in self._calls:
            found += self._of_call(call)
        return sorted(found, key=lambda step: step.point)

    def _acquires_signals(self, point: int, who: int) -> list[Step]:
        return [Step(point, who, False, ("signal", who)), Step(point, who, False, ("signal", 0))]

    def _of_call(self, call: Call) -> Iterator[Step]:
        releases, acquires = self._things(call)
        for point in self._while_in(call):
            for thing in acquires:
                yield Step(point, call.thread, False, thing)
            for thing in releases:
                yield Step(point, call.thread, True, thing, late=True)

    def _while_in(self, call: Call) -> Iterator[int]:
        """The sync points of a call's thread from that where it enters the kernel to where it leaves it."""
        yield call.point
        if call.result is not None or self._points["way"][call.point] & LEAVE:
            return
        mine = self._of_thread[call.thread]
        for point in mine[np.searchsorted(mine, call.point, side="right") :].tolist():
            yield point
            if self._points["way"][point] & LEAVE:
                return

    def _things(self, call: Call) -> tuple[list[Hashable], list[Hashable]]:
        """(what a call releases, what it acquires). Calls come in the kernel's order: what descriptors are
        is kept on the way."""
        name, asked, result = call.name, call.asked, call.result
        if name in calls.STARTS:
            return ([("start", result)] if result is not None and result > 0 else []), []
        if name in calls.FUTEX:
            return _of_futex(asked, result)
        if name in calls.UNMAPS | calls.MAPS:
            return [_MEMORY] if name in calls.UNMAPS else [], [_MEMORY] if name in calls.MAPS else []
        if name in calls.SIGNALS:
            directed = {"tkill": 0, "tgkill": 1, "rt_tgsigqueueinfo": 1}.get(name)
            return [("signal", 0 if directed is None else asked[directed] & 0xFFFFFFFF)], []
        if name in calls.AWAITS_SIGNAL:
            return [], [("signal", call.thread), ("signal", 0)]
        if name in calls.POLLS:
            return [], [_ANY]
        if name in calls.MAKES | calls.COPIES:
            self._note_descriptors(call)
            return [], []
        return self._of_message(call)

    def _of_message(self, call: Call) -> tuple[list[Hashable], list[Hashable]]:
        name, releases, acquires = call.name, list[Hashable](), list[Hashable]()
        ends = {"sendfile": (0, 1), "splice": (2, 0), "tee": (1, 0), "copy_file_range": (2, 0)}
        to, of = ends.get(name, (0, 0))
        for is_one, at, into in ((name in calls.SENDS, to, releases), (name in calls.RECEIVES, of, acquires)):
            message = self._messages.get(call.asked[at] & 0xFFFFFFFF) if is_one else None
            if message is not None:
                into.append(message)
        if releases:
            releases.append(_ANY)
        if name in ("accept", "accept4") and call.result is not None and call.result >= 0:
            self._messages[call.result] = _SOCKETS
        if name == "close":
            self._messages.pop(call.asked[0] & 0xFFFFFFFF, None)
        return releases, acquires

    def _note_descriptors(self, call: Call) -> None:
        """What the descriptors are that a call makes."""
        name, asked, result = call.name, call.asked, call.result
        if result is None or result < 0:
            return
        if name in ("pipe", "pipe2", "socketpair"):
            at = asked[3] if name == "socketpair" else asked[0]
            for address in (at, at + WORD_BYTES):
                number = self._facts.numbers.get((call.point, address))
                if number is not None:
                    self._messages[number] = ("message", call.point)
        elif name in calls.MAKES:
            self._messages[result] = _SOCKETS if name == "socket" else ("message", call.point)
        elif name != "fcntl" or asked[1] in _DUPLICATES_FD:
            message = self._messages.get(asked[0] & 0xFFFFFFFF)
            if message is not None:
                self._messages[result] = message


def _of_futex(asked: tuple[int, ...], result: int | None) -> tuple[list[Hashable], list[Hashable]]:
    command = asked[1] & _COMMAND & 0xFFFFFFFF
    words: list[Hashable] = [("futex", asked[0])]
    if command in _SECOND_WORD:
        words.append(("futex", asked[4]))
    woke = command in _WAKES and (result is None or result > 0 or command == 7)
    return words if woke else [], words if command in _WAITS else []


def firmware_steps(points: Rows, device: Rows, who: NDArray[np.int64], framed: set[int]) -> list[Step]:
    """Of firmware. points: SYNC_POINT (n,). device: EVENT (m,), what cores did to device registers. who: of
    the recording's accesses, of which those of `DEVICES` are meant. framed: sync points at which an
    interrupt's frame was made."""
    devices = np.unique(who[who >= DEVICES]).tolist()
    keys: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in device:
        keys.setdefault((int(row["core"]), int(row["count"]) + 1), []).append(
            (int(row["addr"]), int(row["new"]))
        )
    found = []
    for point, row in enumerate(points):
        core, way = int(row["core"]), int(row["way"])
        if point in framed:
            found.append(Step(point, core, False, ("interrupt", core)))
        for register, value in keys.get((core, int(row["count"])), ()):
            found += _of_register(point, core, way, (register, value), devices)
    return found


def _of_register(
    point: int, core: int, way: int, access: tuple[int, int], devices: list[int]
) -> Iterator[Step]:
    rules = _rules()
    what = rules.get(access[0])
    if what is None:
        return
    sets_off, thing = what
    if sets_off and way & ENTER:
        target = access[1] & 0xFF
        yield Step(point, core, True, (thing, target if thing in ("interrupt", "mail") else 0))
        if thing == "transfer":
            for one in devices:
                yield Step(point, one, False, (thing, 0))
    elif not sets_off and way & LEAVE:
        if thing == "transfer":
            for one in devices:
                yield Step(point, one, True, ("done", 0))
            yield Step(point, core, False, ("done", 0))
        else:
            yield Step(point, core, False, (thing, core))


def _rules() -> dict[int, tuple[bool, str]]:
    """Address of a register -> (whether it sets something off, of what)."""
    from corebraid.base.memory import DEVICE_BASE
    from emu.devices.mailbox import MAIL_AWAIT, MAIL_POST, MAIL_TAKE
    from emu.devices.one_sided import RMA_GET, RMA_OUTSTANDING, RMA_PUT
    from emu.devices.registers import DMA_START, DMA_STATUS, IPI_SEND

    rules = {
        IPI_SEND: (True, "interrupt"), MAIL_POST: (True, "mail"), MAIL_TAKE: (False, "mail"),
        MAIL_AWAIT: (False, "mail"), DMA_START: (True, "transfer"), RMA_PUT: (True, "transfer"),
        RMA_GET: (True, "transfer"), DMA_STATUS: (False, "transfer"), RMA_OUTSTANDING: (False, "transfer"),
    }  # fmt: skip
    return {DEVICE_BASE + int(register): rule for register, rule in rules.items()}
