"""The post office of a machine: messages between cores, from posting to delivery (emu/devices/mailbox.py)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu.devices.mail_state import (
    ANSWERED,
    ENTRY_POINTS,
    MAIL_EVENT,
    MAIL_SLOTS,
    MAILBOX,
    MESSAGE,
    NONE,
    POST,
    POSTED,
    RECEIVED,
    TESTED,
)
from emu.devices.mailbox import deliver, empty_post
from emu.native.state import address_of

Events = NDArray[np.void]

#: Mean cycles that a message is under way: some misses' worth, less than a slice.
DEFAULT_MAIL_LATENCY = 1000
MOST_MAIL_LATENCY = 1 << 40
#: Rows of the log, and what one block may add after the last check.
_LOG, _LOG_SLACK = 1 << 13, 1 << 12

#: What evidence is made of, and all that can be logged.
RECEIPTS = RECEIVED | TESTED
EVERYTHING = POSTED | RECEIVED | TESTED | ANSWERED


@dataclass(frozen=True)
class Script:
    """What mail is forced to repeat.

    receipts: (core, entry point) -> identifiers in the order of their receipt, uint64[n]. tests: identifier
    of a request -> (how often a test of it was answered 0, whether 1 was answered after that).
    """

    receipts: dict[tuple[int, int], NDArray[np.uint64]]
    tests: dict[int, tuple[int, bool]]


@dataclass(frozen=True)
class Letter:
    """A message that lies in an inbox. head: as in MAIL_EVENT; id: the request's identifier."""

    head: int
    id: int


class Post:
    """Messages under way, inboxes, and the log of what happened.

    seed: decides how long messages are under way. latency: mean cycles of that.
    """

    def __init__(self, machine_rows: NDArray[Any], n_cores: int, seed: int, latency: int) -> None:
        self._machine = machine_rows[0]
        self._rows = np.zeros(1, POST)
        self._row = self._rows[0]
        self._boxes = np.zeros(n_cores, MAILBOX)
        self._boxes["first"] = self._boxes["last"] = NONE
        self._slots = np.zeros(MAIL_SLOTS, MESSAGE)
        self._flights = np.zeros(MAIL_SLOTS, np.uint64)
        self._log = np.zeros(0, MAIL_EVENT)
        self._spilled: list[Events] = []
        self._script: tuple[NDArray[np.uint64], ...] = ()
        for name, value in (
            ("boxes", address_of(self._boxes)),
            ("slots", address_of(self._slots)),
            ("n_slots", MAIL_SLOTS),
            ("flights", address_of(self._flights)),
            ("latency", latency),
            ("random", random.Random(f"mail/{seed}").getrandbits(64)),
        ):
            self._row[name] = value
        empty_post(self._rows)
        self._machine["post"] = address_of(self._rows)

    # -- the run -------------------------------------------------------------------------------------

    @property
    def resting(self) -> int:
        """Bit k is set while core k waits for mail."""
        return int(self._row["resting"])

    @property
    def under_way(self) -> int:
        """Messages that have been posted and not delivered."""
        return int(self._row["flying"])

    @property
    def addresses(self) -> list[int]:
        """Where numbers (uint64) are that are 0 while no core waits and no message is under way."""
        fields = POST.fields
        assert fields is not None
        return [address_of(self._rows) + int(fields[name][1]) for name in ("resting", "flying")]

    def wake(self, core: int) -> None:
        """An interrupt has come for a core: it waits no longer."""
        self._row["resting"] = np.uint64(self.resting & ~(1 << core))

    def step(self, core_rows: NDArray[Any], *, idle: bool) -> None:
        """Deliver what is due. core_rows: CORE[n]. idle: no core can run, so that time goes on to the
        next."""
        deliver(core_rows, self._rows, idle)

    # -- the log -------------------------------------------------------------------------------------

    def keep(self, kinds: int) -> None:
        """Log what happens, of these kinds (POSTED, RECEIVED, TESTED, ANSWERED)."""
        self._log = np.zeros(_LOG, MAIL_EVENT)
        self._row["log"], self._row["log_limit"] = address_of(self._log), _LOG - _LOG_SLACK
        self._row["log_kinds"] = kinds

    def spill(self) -> None:
        """Make room in the log; nothing is lost."""
        n = int(self._row["log_n"])
        if n:
            self._spilled.append(self._log[:n].copy())
            self._row["log_n"] = 0
        self._machine["mail_full"] = 0

    def take(self) -> Events:
        """What was logged since the last call, MAIL_EVENT[n], in the order in which it happened."""
        self.spill()
        taken, self._spilled = self._spilled, []
        return np.concatenate(taken) if taken else np.zeros(0, MAIL_EVENT)

    # -- repeating a record --------------------------------------------------------------------------

    def force(self, script: Script) -> None:
        """From now on hand requests over, and answer tests, as `script` says."""
        places = ENTRY_POINTS * len(self._boxes)
        turns = [np.zeros(0, np.uint64)] * places
        for (core, entry), identifiers in script.receipts.items():
            turns[core * ENTRY_POINTS + entry] = identifiers
        ends = np.cumsum([len(part) for part in turns]).astype(np.uint64)
        starts = ends - np.array([len(part) for part in turns], np.uint64)
        tests = sorted(script.tests.items())
        arrays = {
            "turns": np.concatenate(turns).astype(np.uint64),
            "turn_next": starts,
            "turn_end": ends,
            "test_ids": np.array([identifier for identifier, _ in tests], np.uint64),
            "test_noes": np.array([noes for _, (noes, _) in tests], np.uint64),
            "test_yes": np.array([yes for _, (_, yes) in tests], np.uint64),
        }
        self._script = tuple(arrays.values())
        for name, array in arrays.items():
            self._row[name] = address_of(array)
        self._row["tests_n"], self._row["forced"] = len(tests), 1

    @property
    def unknown_test(self) -> int | None:
        """The first request that was tested though the script had no further answer, if there was one."""
        return int(self._row["unknown_test"]) if self._row["unknown_tests"] else None

    def due(self) -> dict[tuple[int, int], int]:
        """(core, entry point) -> the identifier whose turn it is there, where the script has not ended."""
        if not self._script:
            return {}
        turns, following, ends = self._script[:3]
        places = np.flatnonzero(following < ends)
        return {divmod(int(at), ENTRY_POINTS): int(turns[int(following[at])]) for at in places}

    @property
    def turns_left(self) -> int:
        """Receipts of the script that have not come about."""
        if not self._script:
            return 0
        _, following, ends = self._script[:3]
        return int((ends - following).sum())

    def accepted(self, core: int) -> int:
        """The entry points whose requests a core takes now, a bit each."""
        return int(self._boxes["accepted"][core])

    def inbox(self, core: int) -> list[Letter]:
        """Messages that have come for a core and were not taken, in the order in which they came."""
        letters, at = [], int(self._boxes["first"][core])
        while at != NONE:
            message = self._slots[at]
            letters.append(Letter(int(message["head"]), int(message["id"])))
            at = int(message["next"])
        return letters
