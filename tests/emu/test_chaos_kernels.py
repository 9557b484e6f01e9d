"""Kernels that choose against their naive twins: draws against Python's, chaos against `ChaosTwin`."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from emu.schedule.chaos import Chaos
from emu.schedule.policy import Slice
from emu.schedule.shared_words import SHARED_EVENT, SharedWords
from emu.schedule.twister import below, bits, draws_of, exponential, unit
from tests.factories.chaos_twin import ChaosTwin

_DRAWS: list[tuple[Callable[[random.Random, int], object], Callable[[np.ndarray, int], object]]] = [
    (lambda draw, k: draw.getrandbits(k % 32 + 1), lambda draws, k: bits(draws, k % 32 + 1)),
    (lambda draw, k: draw.randrange(k * k + 1), lambda draws, k: below(draws, k * k + 1)),
    (lambda draw, k: draw.randrange(1 << k % 31), lambda draws, k: below(draws, 1 << k % 31)),
    (lambda draw, k: draw.random(), lambda draws, k: unit(draws)),
    (lambda draw, k: draw.expovariate(1 / (k + 1)), lambda draws, k: exponential(draws, 1 / (k + 1))),
]


@pytest.mark.parametrize("seed", [0, 1, "chaos/7", "a longer name"])
def test_kernels_draw_what_python_draws(seed: int | str) -> None:
    draw, which = random.Random(seed), random.Random(1)
    draw.random()
    draws = draws_of(draw)
    for k in range(4000):
        python, kernel = _DRAWS[which.randrange(len(_DRAWS))]
        assert kernel(draws, k % 200) == python(draw, k % 200), k


def learnt(draw: random.Random) -> SharedWords | None:
    """Some shared events, or none that are counted."""
    n = draw.choice((0, 0, 1, 5, 40, 400))
    rows = [(draw.choice((7, 8, 9)), draw.randint(1, 200), draw.randint(0, 9)) for _ in range(n)]
    return SharedWords(np.array([1], np.uint64), np.array(rows, SHARED_EVENT)) if rows else None


class Game:
    """Tasks that come, go, yield and make events at random; two that choose see the same of it."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        shared = learnt(draw)
        self.one, self.other = Chaos(seed, shared), ChaosTwin(seed, shared)
        self.names = [7, 8, 9, 10][: draw.choice((2, 3, 4))]
        self.counts, self.events, self.next_name = [0] * len(self.names), 0, 11
        if draw.random() < 0.5:
            self.one.take_over([7])
            self.other.take_over([7])

    def turn(self) -> tuple[Slice, Slice, bool]:
        """One slice of each, and whether they rank some task alike."""
        draw = self.draw
        runnable = sorted(draw.sample(range(len(self.names)), draw.randint(1, len(self.names))))
        if draw.random() < 0.04:
            self.names[draw.randrange(len(self.names))] = self.next_name
            self.next_name += 1
        who = draw.choice(self.names)
        if draw.random() < 0.1:
            self.one.yielded(who)
            self.other.yielded(who)
        alike = draw.random() > 0.1 or self.one.rank(who) == self.other.rank(who)
        asked = runnable, self.counts, self.events, self.names
        mine, its = self.one.next(*asked), self.other.next(*asked)
        self.counts[mine.core] += draw.randint(0, mine.length) + (draw.random() < 0.01) * (1 << 19)
        self.events += draw.randint(0, 3)
        return mine, its, alike


@pytest.mark.parametrize("seed", range(40))
def test_chaos_chooses_as_its_twin(seed: int) -> None:
    game = Game(seed)
    for turn in range(600):
        mine, its, alike = game.turn()
        assert (mine, alike) == (its, True), turn


def test_games_have_more_tasks_than_there_is_room_for_at_first() -> None:
    game = Game(3)
    for _ in range(4000):
        mine, its, _ = game.turn()
        assert mine == its
    assert game.next_name > 150
