"""Naive twins of what evidence `rpc` is made with: the codec and the mailboxes, in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field

from format_twin import varint

from emu.devices.mail_state import ENTRY_POINTS, RECEIVED, TESTED


def _identifier(number: int, before: int) -> bytes:
    def signed(new: int, old: int) -> bytes:
        difference = new - old
        return varint(2 * difference if difference >= 0 else -2 * difference - 1)

    head = 0 if number >> 48 == before >> 48 else (number >> 48) + 1
    thread = signed(number >> 24 & 0xFFFFFF, before >> 24 & 0xFFFFFF)
    return varint(head) + thread + signed(number & 0xFFFFFF, before & 0xFFFFFF)


def encode(events: list[tuple[int, int, int, int]]) -> bytes:
    """One frame's payload. events: (what, core, entry point or answer, identifier)."""
    histories: dict[tuple[int, int], list[int]] = {}
    tests: dict[int, list[int]] = {}
    for what, core, entry, number in events:
        if what == RECEIVED:
            histories.setdefault((core, entry), []).append(number)
        elif what == TESTED:
            noes_yes = tests.setdefault(number, [0, 0])
            if entry:
                noes_yes[1] = 1
            elif not noes_yes[1]:
                noes_yes[0] += 1
    out = varint(len(histories))
    for (core, entry), numbers in sorted(histories.items()):
        out += varint(core) + varint(entry) + varint(len(numbers))
        for before, number in zip([0, *numbers], numbers, strict=False):
            out += _identifier(number, before)
    out += varint(len(tests))
    before = 0
    for number, (noes, yes) in sorted(tests.items()):
        out += _identifier(number, before) + varint(2 * noes + yes)
        before = number
    return out


@dataclass
class Mail:
    """Mailboxes. Messages: (core it came from, entry point, kind, identifier)."""

    n_cores: int
    script: dict[tuple[int, int], list[int]] | None = None
    inboxes: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    flights: list[tuple[int, int, tuple[int, int, int, int]]] = field(default_factory=list)
    accepted: dict[int, int] = field(default_factory=dict)
    resting: set[int] = field(default_factory=set)
    receipts: list[tuple[int, int, int]] = field(default_factory=list)

    def _may(self, core: int, message: tuple[int, int, int, int]) -> bool:
        _, entry, kind, number = message
        if kind != 1:
            return True
        if entry >= ENTRY_POINTS or not self.accepted.get(core, 0) >> entry & 1:
            return False
        if self.script is None:
            return True
        turns = self.script.get((core, entry), [])
        return bool(turns) and turns[0] == number

    def take(self, core: int, rests: bool) -> tuple[int, int, int, int] | None:
        """The first message that may be taken."""
        inbox = self.inboxes.setdefault(core, [])
        for message in inbox:
            if self._may(core, message):
                inbox.remove(message)
                if message[2] == 1:
                    self.receipts.append((core, message[1], message[3]))
                    if self.script is not None:
                        self.script[core, message[1]].pop(0)
                return message
        if rests:
            self.resting.add(core)
        return None

    def deliver(self, now: int, idle: bool) -> int:
        """Deliver what is due by `now`, earliest first."""
        if idle and self.flights:
            now = max(now, min(due for due, _, _ in self.flights))
        ready = sorted(flight for flight in self.flights if flight[0] <= now)
        self.flights = [flight for flight in self.flights if flight[0] > now]
        for _, core, message in ready:
            self.inboxes.setdefault(core, []).append(message)
            if core in self.resting and self._may(core, message):
                self.resting.discard(core)
        return len(ready)
