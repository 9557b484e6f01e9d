"""Turns that are taken as one: which orders are tried, and that a hunt's schedule gets smaller by it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from stack_factory import compiled, needs_gcc

import corebraid
from corebraid.study.smallest import reducing
from corebraid.study.smallest.regrouping import regrouped
from emu.schedule.noting import Stay


def stays_of(names: str, yields: str = "") -> list[Stay]:
    """A stay for each letter, which makes one event more; `yields`: a mark under those that yield."""
    made = dict.fromkeys(names, 0)
    found = []
    for place, name in enumerate(names):
        made[name] += 1
        given = yields[place : place + 1] == "^"
        ran = 10 * made[name] - 10, 10 * made[name], made[name], 0
        found.append(Stay(ord(name), ord(name), *ran, False, True, given))
    return found


def spelled(stays: list[Stay]) -> str:
    """Names with how far each had come."""
    return " ".join(f"{chr(stay.who)}{stay.made}" for stay in stays)


def test_two_turns_become_one_where_either_was() -> None:
    orders = [spelled(one) for one in regrouped(stays_of("abcab"))]
    assert orders == ["a2 b1 c1 b2", "b1 c1 a2 b2", "a1 b2 c1 a2", "a1 c1 a2 b2"]


def test_what_comes_to_follow_is_joined_unless_it_yields() -> None:
    assert "a2 b2" in [spelled(one) for one in regrouped(stays_of("abab"))]
    assert "a2 b1 b2" in [spelled(one) for one in regrouped(stays_of("abab", " ^  "))]
    assert list(regrouped(stays_of("abc"))) == []
    assert list(regrouped([])) == []


@pytest.mark.parametrize("seed", range(30))
def test_each_order_is_a_turn_shorter_and_loses_no_work(seed: int) -> None:
    draw = np.random.default_rng(seed)
    letters = [chr(97 + k) for k in draw.integers(0, 4, 12)]
    names = letters[0] + "".join(b for a, b in pairwise(letters) if a != b)
    stays = stays_of(names)
    last = {stay.who: stay.made for stay in stays}
    for order in regrouped(stays):
        assert len(order) < len(stays)
        assert {stay.who: stay.made for stay in order} == last
        for who in last:
            mine = [stay.made for stay in order if stay.who == who]
            assert mine == sorted(mine)
        assert all(one.who != other.who for one, other in pairwise(order))


CIRCLE = """
#include <pthread.h>
#define NEW PTHREAD_MUTEX_INITIALIZER
static pthread_mutex_t m[3] = {NEW, NEW, NEW};
static int n[3];
static void *work(void *p) {
    long k = (long)p;
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&m[k]);
        n[k]++;
        pthread_mutex_lock(&m[(k + 1) % 3]);
        n[k]++;
        pthread_mutex_unlock(&m[(k + 1) % 3]);
        pthread_mutex_unlock(&m[k]);
    }
    return 0;
}
int main(void) {
    pthread_t t[3];
    for (long k = 0; k < 3; k++) pthread_create(&t[k], 0, work, (void *)k);
    for (int k = 0; k < 3; k++) pthread_join(t[k], 0);
    return 0;
}
"""


@needs_gcc
@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_circle_of_three_needs_two_preemptions(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads must be stopped while they hold what another waits for; the third waits by itself."""
    program = compiled(tmp_path, "circle.c", CIRCLE)

    def preemptions(name: str) -> int:
        hunted = corebraid.hunt(program, tmp_path / name, seed=seed, explain=False, jobs=1, reduce_time=120)
        assert hunted.finding is not None
        assert hunted.finding.reduction is not None
        smallest = hunted.finding.reduction.smallest
        assert smallest is not None
        return smallest.found.preemptions

    fewest = preemptions("with")
    assert fewest <= 2

    def none(stays: Sequence[Stay]) -> list[list[Stay]]:
        return []

    monkeypatch.setattr(reducing, "regrouped", none)
    assert preemptions("without") >= fewest
