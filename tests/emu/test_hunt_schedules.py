"""PCT and chaos where shared events are counted, and tasks that are ranked for cores."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from emu.linux.tasks.run_queue import RunQueue
from emu.linux.tasks.task import State
from emu.schedule.chaos import Chaos
from emu.schedule.pct import Pct
from emu.schedule.policy import TIME
from emu.schedule.shared_words import SHARED_EVENT, SharedWords


def words_of(*events: tuple[int, int, int]) -> SharedWords:
    """What a learning run with these events (task, number, site) has shown."""
    return SharedWords(np.array([0x200], np.uint64), np.array(list(events), SHARED_EVENT))


def loop_and_end(rounds: int) -> SharedWords:
    """Two tasks that each make `rounds` events at one site, and one more at another."""
    events = [(who, n, 0) for who in (7, 8) for n in range(1, rounds + 1)]
    return words_of(*events, (7, rounds + 1, 1), (8, rounds + 1, 1))


class Twin:
    """A machine in which each task makes a shared event at every tenth instruction."""

    def __init__(self, scheduler: Pct | Chaos, tasks: dict[int, int]) -> None:
        self.scheduler, self.left = scheduler, tasks
        self.counts = [0] * len(tasks)
        self.who = list(tasks)
        self.events = 0
        self.made = dict.fromkeys(tasks, 0)
        #: (task, events that it had made when its slice ended)
        self.slices: list[tuple[int, int]] = []

    def run(self) -> list[tuple[int, int]]:
        """Until every task has made its events."""
        while any(self.left.values()):
            runnable = [k for k, who in enumerate(self.who) if self.left[who]]
            piece = self.scheduler.next(runnable, self.counts, self.events, self.who)
            assert piece.core in runnable
            assert piece.length >= 1
            who = self.who[piece.core]
            most = piece.events or self.left[who]
            n = min(most, self.left[who], max(1, piece.length // 10))
            self.left[who] -= n
            self.made[who] += n
            self.events += n
            self.counts[piece.core] += 10 * n
            self.slices.append((who, self.made[who]))
        return self.slices


def changes(slices: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where a task gave way to another one."""
    return [a for a, b in itertools.pairwise(slices) if a[0] != b[0]]


def test_pct_gives_way_right_before_the_event_that_was_drawn() -> None:
    places = set()
    for seed in range(60):
        slices = Twin(Pct(seed, 2, 2, loop_and_end(10)), {7: 11, 8: 11}).run()
        first = changes(slices)[0]
        places.add(first)
    drawn = {place for place in places if place[1] < 11}
    assert {who for who, _ in drawn} == {7, 8}
    # The event behind the loop is one of eleven, but a site of two.
    last = sum(
        changes(Twin(Pct(seed, 2, 2, words_of((7, 5, 0))), {7: 11, 8: 11}).run())[0] == (7, 5)
        for seed in range(40)
    )
    assert 5 < last < 40


def test_points_are_drawn_among_sites_too() -> None:
    shared, draw = loop_and_end(1000), random.Random(1)
    numbers = [shared.draw(draw)[1] for _ in range(400)]
    assert 60 < sum(number == 1001 for number in numbers) < 140
    assert len(set(numbers)) > 100


def test_first_points_of_successive_seeds_are_spread() -> None:
    shared = words_of(*((7, n, n) for n in range(1, 101)))
    first = [shared.draw(random.Random(k), k * 0.6180339887498949 % 1.0)[1] for k in range(100)]
    assert len(set(first)) > 80


@pytest.mark.parametrize("policy", [Pct, Chaos])
def test_same_seed_same_slices(policy: Any) -> None:
    def play(seed: int) -> list[tuple[int, int]]:
        shared = loop_and_end(30)
        scheduler = Pct(seed, 2, 3, shared) if policy is Pct else Chaos(seed, shared)
        return Twin(scheduler, {7: 31, 8: 31}).run()

    assert [play(seed) for seed in range(20)] == [play(seed) for seed in range(20)]
    assert len({tuple(play(seed)) for seed in range(20)}) > 5


def test_a_task_that_yields_falls_behind() -> None:
    pct = Pct(3, 2, 1, loop_and_end(10))
    first = pct.next([0, 1], [0, 0], 0, [7, 8])
    pct.yielded([7, 8][first.core])
    assert pct.next([0, 1], [5, 5], 0, [7, 8]).core == 1 - first.core


def test_a_task_that_spins_falls_behind() -> None:
    for seed in range(10):
        pct, counts, cores = Pct(seed, 2, 1, loop_and_end(10)), [0, 0], set()
        for _ in range(80):
            piece = pct.next([0, 1], counts, 0, [7, 8])
            counts[piece.core] += piece.length
            cores.add(piece.core)
        assert cores == {0, 1}


def test_chaos_lets_everybody_end() -> None:
    for seed in range(60):
        Twin(Chaos(seed, loop_and_end(40)), {7: 41, 8: 41, 9: 20}).run()


def test_chaos_lets_nobody_spin_for_ever() -> None:
    """The first task of a pair spins until the other, which may have to rest until nobody else can run, makes
    an event."""
    longest = 0
    for seed in range(60):
        chaos, counts, events = Chaos(seed, loop_and_end(40)), [0, 0], 0
        while counts[1] == 0:
            piece = chaos.next([0, 1] if events > 3 else [0], counts, events, [7, 8])
            counts[piece.core] += piece.length
            events += 1
            assert sum(counts) < 1 << 21, f"seed {seed}"
        longest = max(longest, counts[0])
    assert longest > 1 << 20


def test_chaos_lets_nobody_yield_for_ever() -> None:
    """As above; but the first task yields after every few instructions, long before it has made many."""
    longest = 0
    for seed in range(60):
        chaos, counts, events, yields = Chaos(seed, loop_and_end(40)), [0, 0], 0, 0
        while counts[1] == 0:
            piece = chaos.next([0, 1] if events > 3 else [0], counts, events, [7, 8])
            counts[piece.core] += 13
            events += 1
            if piece.core == 0:
                chaos.yielded(7)
                yields += 1
            assert yields < 1 << 12, f"seed {seed}"
        longest = max(longest, yields)
    assert longest > 1 << 10


def test_chaos_starves() -> None:
    """In some runs one task makes all its events while another, which has begun, makes none."""
    starved = 0
    for seed in range(60):
        slices = Twin(Chaos(seed, loop_and_end(40)), {7: 41, 8: 41}).run()
        middle = [place for place in changes(slices) if 1 < place[1] < 41]
        starved += len(middle) == 1
    assert 3 < starved < 60


# -- the run queue ---------------------------------------------------------------------------------------


def task(tid: int, affinity: int = 0xFF) -> Any:
    return SimpleNamespace(tid=tid, affinity=affinity, core=None, state=State.RUNNABLE, yields=False)


def test_the_highest_rank_gets_a_core_and_takes_one_away() -> None:
    queue, ranks = RunQueue(1, 0), {1: 0.1, 2: 0.9, 3: 0.5}
    queue.rank = ranks.__getitem__
    low, high, middle = task(1), task(2), task(3)
    for each in (low, middle):
        queue.put(each)
    assert queue.next_for(0) is middle
    queue.begin(0, middle, 0)
    assert not queue.must_yield(0, 1 << 40)
    queue.put(high)
    assert queue.must_yield(0, 0)
    queue.end(0)
    queue.put(middle)
    assert queue.next_for(0) is high


def test_of_several_cores_the_lowest_rank_gives_way() -> None:
    queue, ranks = RunQueue(2, 0), {1: 0.1, 2: 0.9, 3: 0.5}
    queue.rank = ranks.__getitem__
    low, high, middle = task(1), task(2), task(3)
    queue.begin(0, low, 0)
    queue.begin(1, middle, 0)
    queue.put(high)
    assert [queue.must_yield(core, 0) for core in (0, 1)] == [True, False]


def test_nobody_gives_way_while_a_core_is_idle() -> None:
    queue = RunQueue(2, 0)
    queue.rank = lambda tid: float(tid)
    queue.begin(0, task(1), 0)
    queue.put(task(2))
    assert not queue.must_yield(0, 1 << 40)


def test_equal_ranks_take_turns() -> None:
    queue = RunQueue(1, 0)
    queue.rank = lambda tid: 1.0
    queue.begin(0, task(1), 0)
    queue.put(task(2))
    assert not queue.must_yield(0, 1)
    assert queue.must_yield(0, 20_000)


class Sleeper:
    """Task 9 waits with a timeout while 7 and 8 make events; nobody else can wait."""

    def __init__(self, policy: Pct) -> None:
        self.policy, self.awake, self.timers = policy, False, 0
        self.left, self.counts, self.events = {7: 11, 8: 11, 9: 2}, [0, 0, 0], 0
        self.ran: list[int] = []

    def run(self) -> list[int]:
        """Who ran, slice by slice, until 7 and 8 have made their events."""
        names = [7, 8, 9]
        while self.left[7] or self.left[8]:
            able = [k for k, who in enumerate(names) if self.left[who] and (who != 9 or self.awake)]
            piece = self.policy.next(able, self.counts, self.events, names)
            if piece.core == TIME:
                self.timers += 1
                self.awake = True
                self.ran.append(TIME)
                continue
            assert piece.core in able
            who = names[piece.core]
            n = min(piece.events or self.left[who], self.left[who])
            self.left[who] -= n
            self.events += n
            self.counts[piece.core] += 10 * n
            self.ran.append(who)
        return self.ran


def test_late_lets_time_pass_at_its_change_points_and_the_woken_go_on() -> None:
    rang = 0
    for seed in range(40):
        guest = Sleeper(Pct(seed, 3, 3, loop_and_end(10), late=True))
        ran = guest.run()
        rang += guest.timers > 0
        assert guest.timers <= 2
        if TIME in ran:
            assert ran[ran.index(TIME) + 1] == 9
        plain = Sleeper(Pct(seed, 3, 3, loop_and_end(10)))
        assert TIME not in plain.run()
        # Up to there it is the same schedule.
        assert plain.ran[: ran.index(TIME)] == ran[: ran.index(TIME)] if TIME in ran else plain.ran == ran
    assert rang > 20
