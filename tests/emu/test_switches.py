"""Explicit schedules: who runs under a list of switches, and the list that a run makes."""

from __future__ import annotations

import random

import pytest

from corebraid.base.errors import UsageError
from emu.schedule.noting import Noting, Stay, merged, switches_between
from emu.schedule.policy import TIME, Ints, Runner, Slice
from emu.schedule.switches import Switch, Switches, missed_by, schedule_of, switches_of


class Twin:
    """A machine in which a task makes a shared event at every tenth instruction, and stops by itself after
    some of its events until another one has run. tasks: of each how many events it makes. yields: events
    that are calls by which it leaves it to others to go on. sleeps: of each after which event it waits
    until so many timers have gone off."""

    def __init__(
        self, scheduler: Runner, tasks: dict[int, int], stops: dict[int, set[int]],
        yields: dict[int, set[int]] | None = None, sleeps: dict[int, tuple[int, int]] | None = None,
    ) -> None:  # fmt: skip
        self.scheduler, self.tasks, self.stops, self.yields = scheduler, tasks, stops, yields or {}
        self.sleeps, self.asleep, self.timers = sleeps or {}, dict[int, int](), 0
        scheduler.know_waits(lambda who: who in self.asleep)
        self.who = list(tasks)
        self.counts = [0] * len(tasks)
        self.done = dict.fromkeys(tasks, 0)
        #: Tasks that stand before an event that is counted.
        self.before: set[int] = set()
        self.events, self.waits = 0, -1
        self.order: list[int] = []

    def _runnable(self) -> list[int]:
        able = [who for who in self.who if self.done[who] < self.tasks[who] and who not in self.asleep]
        return [self.who.index(who) for who in able if who != self.waits]

    def run(self) -> list[int]:
        """Who made each event."""
        while runnable := (self._runnable() or self._woken()):
            piece = self.scheduler.next(runnable, self.counts, self.events, self.who)
            if piece.core == TIME:
                self._ring()
                continue
            assert piece.core in runnable
            waits = self.waits
            who, self.waits = self.who[piece.core], -1
            if self._slice(piece, who) and waits != who:
                self.waits = who
            self.scheduler.ended(self._runnable(), self.counts, self.events, self.who)
        return self.order

    def _slice(self, piece: Slice, who: int) -> bool:
        """Whether the task has stopped by itself."""
        most, counted = max(1, piece.length // 10), 0
        while self.done[who] < self.tasks[who]:
            if self.done[who] + 1 in self.stops.get(who, ()):
                # A call counts when it is over.
                self._make(piece.core, who)
                self.events += 1
                return True
            if self.sleeps.get(who, (0, 0))[0] == self.done[who] + 1:
                self._make(piece.core, who)
                self.events += 1
                self.asleep[who] = self.sleeps[who][1]
                return False
            if self.done[who] + 1 in self.yields.get(who, ()):
                self._make(piece.core, who)
                self.events += 1
                self.scheduler.yielded(who)
                return False
            if who not in self.before:
                self.events, counted = self.events + 1, counted + 1
                if counted == piece.events:
                    self.before.add(who)
                    return False
            self._make(piece.core, who)
            most -= 1
            if not most:
                return False
        return False

    def _make(self, core: int, who: int) -> None:
        self.before.discard(who)
        self.done[who] += 1
        self.counts[core] += 10
        self.order.append(who)

    def _ring(self) -> None:
        self.timers += 1
        self.asleep = {who: left - 1 for who, left in self.asleep.items() if left > 1}

    def _woken(self) -> list[int]:
        self.waits = -1
        while not self._runnable() and self.asleep:
            self._ring()
        return self._runnable()


class Drawn(Runner):
    """Any task, for any time."""

    follows = True

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def next(self, runnable: Ints, counts: Ints, events: int = 0, who: Ints | None = None) -> Slice:
        return Slice(self._random.choice(runnable), self._random.randint(1, 80))


def test_names_of_schedules() -> None:
    switches = [Switch(1001, 37, 1002), Switch(1002, 905, 1001, by_instructions=True)]
    assert schedule_of(switches) == "switches:1001@37=1002,1002@i905=1001"
    assert switches_of(schedule_of(switches)) == switches
    assert schedule_of([]) == "switches:none"
    assert switches_of("switches:none") == []


@pytest.mark.parametrize("text", ["", "1@2", "1@2=", "1@x2=3", "1@2=3,", "-1@2=3", "1@2=3 ", "1@2=3,,"])
def test_what_is_not_a_switch_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="not a switch"):
        switches_of(f"switches:{text}")


@pytest.mark.parametrize(
    ("switches", "order", "preempting"),
    [
        ("none", "aaaabbbbcccc", []),
        ("1@3=3", "aaccccaabbbb", [True]),
        ("1@3=3,3@2=2", "aacbbbbcccaa", [True, True]),
        # One that is due before its task has run hands on at once.
        ("1@3=2,2@0=3", "aaccccaabbbb", [True, False]),
        # Whose next task has ended goes on with the one whose turn it is.
        ("2@4=1", "aaaabbbccccb", [True]),
        # Behind the last event there is nothing to be stopped.
        ("1@9=2", "aaaabbbbcccc", []),
        ("1@i20=3", "aaccccaabbbb", [True]),
    ],
)
def test_who_runs(switches: str, order: str, preempting: list[bool]) -> None:
    policy = Switches(switches_of(f"switches:{switches}"))
    ran = Twin(policy, {1: 4, 2: 4, 3: 4}, {}).run()
    assert "".join(" abc"[who] for who in ran) == order
    assert [one.preempting for one in policy.fired] == preempting


def test_where_a_task_stops_by_itself_another_going_on_is_no_preemption() -> None:
    policy = Switches([Switch(1, 2, 3)])
    ran = Twin(policy, {1: 4, 2: 4, 3: 4}, {1: {2}}).run()
    assert "".join(" abc"[who] for who in ran) == "aaccccaabbbb"
    assert [one.preempting for one in policy.fired] == [False]


def test_a_task_that_runs_long_lets_others_run() -> None:
    policy = Switches([], patience=30)
    ran = Twin(policy, {1: 7, 2: 4}, {}).run()
    assert "".join(" ab"[who] for who in ran) == "aaabbbaaaba"
    assert policy.impatient >= 3


@pytest.mark.parametrize("how", ["events", "instructions", "able"])
@pytest.mark.parametrize("seed", range(40))
def test_the_list_of_a_run_makes_it_again(seed: int, how: str) -> None:
    tasks = {5: 9, 7: 6, 8: 12}
    # Who was stopped before a call is stopped after it where events are counted.
    stops: dict[int, set[int]] = {} if how == "events" else {7: {2, 4}, 8: {5}}
    yields: dict[int, set[int]] = {} if how == "events" else {5: {3, 4, 7}, 8: {6, 9}}
    noting = Noting(Drawn(seed))
    ran = Twin(noting, tasks, stops, yields).run()
    assert noting.first is not None
    listed = switches_between(
        merged(noting.stays), noting.first, by_instructions=how != "events", able=how == "able"
    )
    assert Twin(Switches(listed), tasks, stops, yields).run() == ran


def test_one_that_yields_may_go_on_itself() -> None:
    tasks, yields = {1: 5, 2: 2}, {1: {2}}
    assert Twin(Switches([]), tasks, {}, yields).run() == [1, 1, 2, 2, 1, 1, 1]
    assert Twin(Switches(switches_of("switches:1@2=1")), tasks, {}, yields).run() == [1, 1, 1, 1, 1, 2, 2]


def test_a_switch_to_one_that_waits_with_a_timeout_lets_time_pass() -> None:
    tasks = {1: 4, 2: 4}
    twin = Twin(policy := Switches(switches_of("switches:2@3=1")), tasks, {}, sleeps={1: (2, 3)})
    assert twin.run() == [1, 1, 2, 2, 1, 1, 2, 2]
    assert twin.timers == 3
    assert [(one.to, one.preempting, one.late) for one in policy.fired] == [(1, True, True)]
    # One that waits for something else is passed over.
    twin = Twin(policy := Switches(switches_of("switches:2@3=1")), tasks, {}, sleeps={1: (2, 3)})
    policy.know_waits(lambda _: False)
    assert twin.run() == [1, 1, 2, 2, 2, 2, 1, 1]
    assert policy.fired == []


class Late(Drawn):
    """Random slices, between which time passes now and then."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._times = random.Random(seed)

    def next(self, runnable: Ints, counts: Ints, events: int = 0, who: Ints | None = None) -> Slice:
        if not self._times.randrange(3):
            return Slice(TIME, 0)
        return super().next(runnable, counts, events, who)


@pytest.mark.parametrize("seed", range(40))
def test_the_list_of_a_run_in_which_timeouts_came_early_makes_it_again(seed: int) -> None:
    tasks, sleeps = {5: 9, 7: 6, 8: 12}, {5: (3, 1), 7: (2, 1), 8: (4, 1)}
    noting = Noting(Late(seed))
    ran = Twin(noting, tasks, {}, sleeps=sleeps).run()
    assert noting.first is not None
    stays = merged(noting.stays)
    listed = switches_between(stays, noting.first, by_instructions=True, able=True)
    twin = Twin(policy := Switches(listed), tasks, {}, sleeps=sleeps)
    assert twin.run() == ran
    # Whoever's timeout it was: who goes on then may be another.
    late = [one.to for one in policy.fired if one.late]
    assert late == [one.late for one in stays if one.late is not None]
    assert all(one.preempting for one in policy.fired if one.late)


def test_whose_timeouts_came_is_noted() -> None:
    tasks, sleeps = {5: 9, 7: 6, 8: 12}, {5: (3, 1), 7: (2, 1), 8: (4, 1)}
    own, others = 0, 0
    for seed in range(40):
        noting = Noting(Late(seed))
        Twin(noting, tasks, {}, sleeps=sleeps).run()
        own += sum(one.late == one.who for one in noting.stays)
        others += sum(one.late not in (None, one.who) for one in noting.stays)
    assert own > 10
    assert others > 10


def test_one_that_waits_may_go_on_itself_when_its_timeout_is_over() -> None:
    tasks, sleeps = {1: 4, 2: 4}, {1: (2, 1)}
    assert Twin(Switches([]), tasks, {}, sleeps=sleeps).run() == [1, 1, 2, 2, 2, 2, 1, 1]
    twin = Twin(policy := Switches(switches_of("switches:1@3=1")), tasks, {}, sleeps=sleeps)
    assert twin.run() == [1, 1, 1, 1, 2, 2, 2, 2]
    assert [(one.to, one.preempting, one.late) for one in policy.fired] == [(1, True, True)]


def test_who_is_not_woken_by_many_timers_is_passed_over() -> None:
    twin = Twin(Switches(switches_of("switches:2@3=1")), {1: 4, 2: 4}, {}, sleeps={1: (2, 1000)})
    assert [who for who in twin.run() if who == 2] == [2, 2, 2, 2]
    assert twin.timers > 999


def test_a_list_stops_before_the_event_that_was_counted_and_has_not_happened() -> None:
    stays = [
        Stay(1, 0, 0, 9, 5, 9, before=True, able=True),
        Stay(2, 1, 0, 3, 2, 3, before=False, able=True),
        Stay(1, 0, 9, 9, 5, 9, before=False, able=False),
    ]
    assert switches_between(stays, 1, by_instructions=False) == [Switch(1, 5, 2), Switch(2, 3, 1)]


def test_switches_that_did_not_take_place_are_known() -> None:
    never = [Switch(1, 99, 2), Switch(9, 1, 2)]
    policy = Switches([never[0], Switch(1, 2, 2), never[1]])
    Twin(policy, {1: 7, 2: 4}, {}).run()
    # Of a task one switch after the other is looked at.
    assert missed_by(policy) == (never[0], Switch(1, 2, 2), never[1])
    policy = Switches([Switch(1, 2, 2), *never])
    Twin(policy, {1: 7, 2: 4}, {}).run()
    assert missed_by(policy) == tuple(never)
    assert missed_by(Drawn(1)) == ()
    nobody = Switch(1, 2, 7)
    policy = Switches([nobody, Switch(2, 2, 1)])
    Twin(policy, {1: 7, 2: 4}, {}).run()
    assert missed_by(policy) == (nobody,)
