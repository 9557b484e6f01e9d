"""The ordering campaign: random traces, half of them damaged, through every engine, against a search over all
orders of their rows (`bench.tiny_orders`).

    python -m bench.order_campaign [--traces 20000] [--seed 0] [--models sc,tso] [--agents]

Of each trace: pipeline, cut search and z3 answer as that search does, by values, by tenures and by losses,
which a coherent simulation makes up; an order that is found passes the checker; of a region without one,
what the explanation names cannot be ordered, which a search of its own confirms. Prints counts, and
exits with 1 after a disagreement.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from corebraid.base.kernel_cache import use_kernel_cache

use_kernel_cache()

import numpy as np  # noqa: E402

from bench.tiny_orders import is_legal  # noqa: E402
from bench.tiny_runs import Run, damage, displace  # noqa: E402
from corebraid.base.errors import OrderError  # noqa: E402
from recorder.files.manifest import ORDER_CERT  # noqa: E402
from solver.check.certificate import Certificate  # noqa: E402
from solver.check.checker import check_certificate  # noqa: E402
from solver.freedom.explain import Explanation, explain  # noqa: E402
from solver.passes.answers import Options  # noqa: E402
from solver.passes.order import order_recording  # noqa: E402
from solver.passes.unfiltered import iter_problems  # noqa: E402
from solver.regions.problem import Problem, Verdict  # noqa: E402
from solver.regions.traces import MemoryTraces  # noqa: E402

ENGINES = {
    "auto": Options(), "cut": Options("cut"), "smt": Options("smt"),
    "paper": Options("smt", encoding="paper"),
}  # fmt: skip
_RECORDING = bytes(16)


def verdict(traces: MemoryTraces, path: Path, options: Options) -> tuple[bool, list[int]]:
    """(whether an engine finds an order of all regions, which then passes the checker; the regions that have
    none). A recording that contradicts itself whatever the engine says has none either."""
    try:
        result = order_recording(traces, path, _RECORDING, options)
    except OrderError as error:
        if "defect" in str(error):
            raise
        return False, []
    assert result.verdict is not Verdict.UNDECIDED
    report = check_certificate(traces, Certificate(path, _RECORDING))
    legal = result.verdict is Verdict.LEGAL
    assert not legal or report.events == sum(len(rows) for rows in traces.rows)
    return legal, [found.region for found in result.regions if found.verdict is Verdict.ILLEGAL]


def can_be_ordered(problem: Problem, explanation: Explanation) -> bool:
    """Whether what an explanation names can be ordered: the other operations count as stores of their new
    values, or as nothing if they change nothing. Looks at every state that can be reached."""
    kept = np.zeros(problem.n_ops, bool)
    kept[explanation.operations] = True
    finals = [(g, int(problem.final[g])) for g in explanation.finals.tolist()]
    stream, ends = problem.op_stream.tolist(), problem.stream_ptr.tolist()
    waits_for: list[list[int]] = [[] for _ in range(problem.n_ops)]
    for first, then in problem.edges.tolist():
        if kept[then]:
            waits_for[then].append(first)
    source = problem.source.tolist() or [-1] * problem.n_ops
    start = (tuple(ends[:-1]), tuple(problem.initial.tolist()))
    todo, seen = [start], {start}

    def ran(op: int, at: tuple[int, ...]) -> bool:
        return op < 0 or at[stream[op]] > op

    while todo:
        at, memory = todo.pop()
        if list(at) == ends[1:] and all(memory[g] == value for g, value in finals):
            return True
        for s, op in enumerate(at):
            if op == ends[s + 1] or not all(ran(first, at) for first in waits_for[op]):
                continue
            held = list(memory)
            buffered = source[op] >= 0 and not ran(source[op], at)
            fits = True
            for p in range(problem.part_ptr[op], problem.part_ptr[op + 1]):
                g = problem.granule[p]
                fits = fits and (held[g] == problem.old[p] or buffered or not kept[op])
                if problem.old[p] != problem.new[p]:
                    held[g] = int(problem.new[p])
            to = ((*at[:s], op + 1, *at[s + 1 :]), tuple(held))
            if fits and to not in seen:
                seen.add(to)
                todo.append(to)
    return False


def explained(traces: MemoryTraces, regions: list[int]) -> Counter[str]:
    """Explanations of the regions that have no order: how many were confirmed, how many there are none of."""
    counts: Counter[str] = Counter()
    for _, problem in iter_problems(traces) if regions else ():
        if problem.region in regions:
            explanation = explain(problem, timeout_s=60)
            if explanation is None:
                counts["unexplained"] += 1
            else:
                counts["explained" if not can_be_ordered(problem, explanation) else "WRONG"] += 1
    return counts


def campaign(model: str, traces: int, seed: int, path: Path, *, agents: bool = False) -> Counter[str]:
    """Run so many traces of a model from a seed on. agents: which meet cores at sync points. Counts by what
    was found; DISAGREE, WRONG: failures."""
    counts: Counter[str] = Counter()
    for number in range(seed, seed + traces):
        run = Run(number, model, agents=agents, evicting=number % 4 > 1)
        rows = damage(run.rows(), number) if number % 2 else run.rows()
        held = run.traces(rows, tenures=True)
        if agents and number % 3:
            held = displace(held, number)
        truth = is_legal(held)
        counts["legal" if truth else "not legal"] += 1
        for name, options in ENGINES.items():
            legal, regions = verdict(replace(held, line_bytes=0), path, options)
            by_tenures, _ = verdict(held, path, options)
            with_losses = replace(held, lost=run.lost())
            by_losses, _ = verdict(with_losses, path, options)
            if {legal, by_tenures, by_losses} != {truth}:
                counts["DISAGREE"] += 1
                what = f"Run({number}, {model!r}, agents={agents}, evicting={number % 4 > 1})"
                said = f"{name}: {legal}, by tenures {by_tenures}, by losses {by_losses}"
                print(f"DISAGREE: {what}, {said}, all orders: {truth}", flush=True)
            if name == "auto" and not legal:
                counts["contradicts itself"] += not regions
                counts += explained(held, regions)
    return counts


def main() -> int:
    """Run the campaign; returns the exit status."""
    parser = argparse.ArgumentParser(description="Random traces through every engine, against all orders.")
    parser.add_argument("--traces", type=int, default=20_000, help="of each model")
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    parser.add_argument("--models", default="sc,tso", help="memory models, with commas between")
    parser.add_argument("--agents", action="store_true", help="with agents that meet cores at sync points")
    chosen = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="corebraid-campaign-") as folder:
        for model in chosen.models.split(","):
            path = Path(folder) / ORDER_CERT
            counts = campaign(model, chosen.traces, chosen.seed, path, agents=chosen.agents)
            failed = failed or bool(counts["DISAGREE"] or counts["WRONG"])
            shown = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()) if count)
            print(f"{model}: {chosen.traces:,} traces, engines {', '.join(ENGINES)}: {shown}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
