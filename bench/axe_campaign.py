"""The campaign: random small traces, half of them corrupted, each decided under SC and TSO by the search, by
z3 and by the oracle, which must agree; every OK has an order that the independent checker accepts.

    python -m bench.axe_campaign --traces 20000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass

from bench.axe_oracle import is_legal
from bench.axe_traces import Final, Op, Shape, corrupted, random_ops, to_text, to_trace
from corebraid.base.kernel_cache import use_kernel_cache


@dataclass(frozen=True)
class Case:
    """A trace of the campaign, made again from its number."""

    ops: list[Op]
    finals: list[Final]
    corrupt: bool


def make_case(seed: int, number: int) -> Case:
    """Trace `number` of the campaign with this seed; every second one is corrupted."""
    rng = random.Random(seed * 1_000_003 + number)
    threads = rng.randrange(2, 5)
    shape = Shape(
        threads=threads,
        addresses=rng.randrange(1, 4),
        ops=rng.randrange(4, {2: 15, 3: 13, 4: 12}[threads]),
        values=rng.choice([0, 0, 2, 3, 4]),
        loads=rng.choice([0.4, 0.5, 0.7]),
        rmw=rng.choice([0.0, 0.0, 0.1, 0.3]),
        sync=rng.choice([0.0, 0.0, 0.1]),
        finals=rng.choice([0.0, 0.3, 1.0]),
        tso=rng.random() < 0.6,
        drain=rng.choice([0.02, 0.1, 0.4]),
    )
    ops, finals = random_ops(shape, rng)
    corrupt = number % 2 == 1
    if corrupt:
        ops, finals = corrupted(ops, finals, rng)
    return Case(ops, finals, corrupt)


def disagreement(case: Case, *, smt: bool, count: Counter[str]) -> str:
    """Decide a case every way under both models; what differed, '' if nothing did."""
    from solver.axe.chains import MODELS, TSO
    from solver.axe.decide import decide
    from solver.regions.problem import Verdict

    trace = to_trace(case.ops, case.finals)
    for model in MODELS:
        legal = is_legal(case.ops, case.finals, tso=model == TSO)
        # decide() has its order checked, and raises if the checker refuses it.
        answers = {"search": decide(trace, model, engine="search").verdict}
        if smt:
            answers["smt"] = decide(trace, model, engine="smt").verdict
        expected = Verdict.LEGAL if legal else Verdict.ILLEGAL
        for engine, verdict in answers.items():
            if verdict is not expected:
                return f"{model}: {engine} says {verdict.value}, the oracle {expected.value}"
        count[f"{model} {'corrupted' if case.corrupt else 'legal run'} {'OK' if legal else 'NO'}"] += 1
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; 1 at the first disagreement."""
    parser = argparse.ArgumentParser(prog="python -m bench.axe_campaign", description=__doc__)
    parser.add_argument("--traces", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first trace")
    parser.add_argument("--no-smt", action="store_true", help="leave z3 out")
    options = parser.parse_args(arguments)
    use_kernel_cache()
    count: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(options.first, options.first + options.traces):
        case = make_case(options.seed, number)
        wrong = disagreement(case, smt=not options.no_smt, count=count)
        if wrong:
            print(f"trace {number} of seed {options.seed}: {wrong}\n{to_text(case.ops, case.finals)}")
            return 1
        if (number + 1 - options.first) % 2000 == 0:
            print(
                f"{number + 1 - options.first:>7,} traces agree, {time.monotonic() - began:.0f} s", flush=True
            )
    engines = "search and oracle" if options.no_smt else "search, z3 and oracle"
    print(f"{options.traces:,} traces under SC and TSO: {engines} agree on each; every OK order was checked")
    for name, n in sorted(count.items()):
        print(f"  {name:<22} {n:>7,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
