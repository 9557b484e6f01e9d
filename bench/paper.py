"""The MICRO 2009 paper's own numbers (section 5), on this repository's programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console

from bench import paper_tables
from bench.logsize import LogBytes, log_bytes, strata_bytes
from bench.programs import Recorded, image, recorded
from bench.report import Table, publish
from bench.slowdown import Slowdown, slowdown
from bench.smt_times import TARGETS, Solved, sample, solve_sample
from bench.strata_regions import RegionFacts, cuts_of_bound, own_regions, regions_by_bound, slice_of_cuts
from emu.bus.cache import CacheGeometry
from recorder.capture.firmware import RecordOptions
from recorder.capture.strata_policy import StrataPolicy
from recorder.replay.traces import RecordingTraces
from solver.regions.problem import Problem

PROGRAMS = ("uts", "matmul", "radix", "nqueens", "laplace", "ring")
CORES = (4, 8, 16)
#: Downgrade-bound strata change where slices end, so each bound is a run of its own: on so many cores.
DOWNGRADE_CORES = 8
CYCLE_BOUNDS = (10_000, 100_000, 1_000_000)
DOWNGRADE_BOUNDS = (10, 100, 1000)
#: The paper's L1 cache (Table 1).
PAPER_CACHE = "32k:4:32"
SMT_TIMEOUT_S, SMT_BUDGET_S = 20.0, 180.0
_SEED = 1


@dataclass
class Facts:
    """What one program on so many cores shows. Keys of the dictionaries: strata policies as text."""

    program: str
    cores: int
    accesses: int = 0
    misses: int = 0
    finite: LogBytes | None = None
    unbounded: LogBytes | None = None
    slowdown: Slowdown | None = None
    strata: dict[str, int] = field(default_factory=dict)
    strata_accesses: dict[str, int] = field(default_factory=dict)
    regions: dict[str, list[RegionFacts]] = field(default_factory=dict)


def options(cores: int, cache: str, strata: str) -> RecordOptions:
    """Recording options; everything else is the default."""
    return RecordOptions(
        cores=cores, seed=_SEED, cache=CacheGeometry.parse(cache), strata=StrataPolicy.parse(strata)
    )


def by_cycles(facts: Facts, made: Recorded) -> None:
    """Everything that the recording with the finest cycle bound tells."""
    traces = RecordingTraces(made.recording)
    facts.accesses, facts.misses = made.total("accesses"), made.total("misses")
    facts.finite, facts.slowdown = log_bytes(made.recording), slowdown(made)
    at = slice_of_cuts(made.clock, traces.strata[:, :-1])
    for bound, regions in regions_by_bound(traces, made.clock, CYCLE_BOUNDS).items():
        name = f"cycles:{bound}"
        facts.regions[name], facts.strata_accesses[name] = regions, facts.accesses
        facts.strata[name] = strata_bytes(made.recording, cuts_of_bound(made.clock, at, bound))


def by_downgrades(facts: Facts, program: Path, bound: int) -> None:
    """Strata bytes and regions of a run with downgrade-bound strata."""
    name = f"downgrades:{bound}"
    with recorded(program, options(facts.cores, PAPER_CACHE, name)) as made:
        facts.strata[name] = log_bytes(made.recording).strata
        facts.strata_accesses[name] = made.total("accesses")
        facts.regions[name] = own_regions(RecordingTraces(made.recording), made.clock)


def measure(
    name: str, cores: int, size: str, targets: tuple[int, ...]
) -> tuple[Facts, list[tuple[Problem, int]]]:
    """All facts of one program on so many cores, and a sample of its regions (none if no targets)."""
    facts, program = Facts(name, cores), image(name, size)
    with recorded(program, options(cores, PAPER_CACHE, f"cycles:{CYCLE_BOUNDS[0]}")) as made:
        by_cycles(facts, made)
        problems = sample(RecordingTraces(made.recording), targets) if targets else []
    with recorded(program, options(cores, "unbounded", f"cycles:{CYCLE_BOUNDS[1]}")) as made:
        facts.unbounded = log_bytes(made.recording)
    if cores == DOWNGRADE_CORES:
        for bound in DOWNGRADE_BOUNDS:
            by_downgrades(facts, program, bound)
    return facts, problems


def spread_sample(
    samples: dict[str, list[tuple[Problem, int]]], per_target: int = 2
) -> list[tuple[str, Problem, int]]:
    """At most `per_target` regions for each target size, of different programs, smallest first."""
    found = [(name, problem, events) for name, problems in samples.items() for problem, events in problems]
    found.sort(key=lambda entry: entry[1].n_ops)
    kept: list[tuple[str, Problem, int]] = []
    full: dict[int, set[str]] = {}
    for name, problem, events in found:
        nearest = int(np.argmin([abs(problem.n_ops - target) for target in TARGETS]))
        names = full.setdefault(nearest, set())
        if len(names) < per_target and name not in names:
            names.add(name)
            kept.append((name, problem, events))
    return kept


def solve_all(
    samples: dict[str, list[tuple[Problem, int]]], say: Callable[[str], None]
) -> list[tuple[str, Solved]]:
    """Solve the sample from the smallest region on, until the time for it is used up."""
    results, began = [], time.monotonic()
    for name, problem, events in spread_sample(samples):
        if time.monotonic() - began > SMT_BUDGET_S:
            break
        say(f"SMT: {name}, {problem.n_ops} events")
        results += [(name, solved) for solved in solve_sample([(problem, events)], SMT_TIMEOUT_S)]
    return results


def main(
    console: Console,
    programs: tuple[str, ...] = PROGRAMS,
    cores: tuple[int, ...] = CORES,
    size: str = "medium",
    targets: tuple[int, ...] = TARGETS,
) -> list[Table]:
    """Measure and publish. size: of the images, see `bench.programs.image`."""
    facts: list[Facts] = []
    samples: dict[str, list[tuple[Problem, int]]] = {}
    with console.status("kernels are being loaded") as status:
        for name in programs:
            for n in cores:
                status.update(f"{name} on {n} cores")
                found, problems = measure(name, n, size, targets if n == DOWNGRADE_CORES else ())
                facts.append(found)
                if problems:
                    samples[name] = problems
        solved = solve_all(samples, status.update)
    tables = paper_tables.all_tables(facts, solved, SMT_TIMEOUT_S)
    publish("paper", tables, console)
    return tables
