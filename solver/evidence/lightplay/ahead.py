"""Deciding slices while the program runs (LightPlay, sections 2 and 2.2: "the search can be done online").

A slice that is handed over (`recorder.evidence.slices.handover`) becomes the problem that the engine makes
of the recording later. Two things are not known yet. Memory where the slice begins follows from its accesses
and its end. Whether what races in the slice is one thread's, wherever that runs, and so does not race in its
region, only the region tells: it is taken to race. The engine takes over what was found for the very same
problem only (`solver.evidence.lightplay.known`), and searches others itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT, READ, WRITE
from recorder.evidence.slices.codec import CHECKPOINT
from recorder.evidence.slices.handover import HandedSlice
from solver.evidence.lightplay.decide import CONTRADICTED, UNDECIDED, Decided, Settings, decide
from solver.evidence.lightplay.minimal import minimal_of
from solver.evidence.lightplay.slice_problem import SliceProblem, make_problem


def initial_of(problem: SliceProblem) -> NDArray[np.uint64]:
    """What the places hold where a slice begins: uint64 (places,).

    In the order that ran, what an operation finds is what the one before it on that place has left: the first
    value and all that were left are the last value and all that were found (MICRO 2009, section 4.2). So the
    first one is what is left of all others when equal ones go out in pairs, which exclusive-or does.
    """
    initial = problem.final.copy()
    np.bitwise_xor.at(initial, problem.place, problem.old ^ problem.new)
    return initial


def problem_of(handed: HandedSlice) -> SliceProblem:
    """The problem of a slice that was handed over. Raises Misfit if its values are not as many as its
    accesses write."""
    problem = make_problem(handed.number, handed.rows, handed.checkpoints, handed.updated)
    return replace(problem, initial=initial_of(problem))


def decide_ahead(handed: HandedSlice, settings: Settings) -> Decided:
    """A slice that was handed over, decided, with its minimal constraints if it has an order. Raises Misfit,
    and what `decide` raises."""
    decided = decide(problem_of(handed), settings)
    if decided.problem.n and decided.how not in (UNDECIDED, CONTRADICTED):
        decided = replace(decided, minimal=minimal_of(decided, settings.nodes))
    return decided


def load_kernels(settings: Settings) -> None:
    """Decide two slices of two accesses, one of which nothing explains, so that what decides is loaded before
    there is something to decide."""
    for seen in (1, 2):
        rows, checkpoints = np.zeros(2, EVENT), np.zeros(2, CHECKPOINT)
        rows["core"] = checkpoints["stream"] = 0, 1
        rows["addr"], rows["size"], rows["kind"] = 8, 8, (WRITE, READ)
        rows["new"] = 1
        rows["old"] = 0, 1
        checkpoints["after"], checkpoints["before"] = (1, 0), (0, seen)
        decide_ahead(HandedSlice(0, rows, checkpoints, np.ones(1, np.uint64)), settings)
