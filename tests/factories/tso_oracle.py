"""All orders of a small problem under TSO, by trying."""

from __future__ import annotations

from solver.regions.problem import Problem

_MOST = 3000


def all_orders(problem: Problem) -> list[list[int]] | None:
    """Every legal order of a region under TSO, None if there are more than _MOST. The rules are those of
    `Problem`, said plainly."""
    found: list[list[int]] = []
    stream, ends = problem.op_stream.tolist(), problem.stream_ptr.tolist()
    parts = [
        [
            (int(problem.granule[p]), int(problem.old[p]), int(problem.new[p]))
            for p in range(*problem.part_ptr[o : o + 2])
        ]
        for o in range(problem.n_ops)
    ]

    waits_for: dict[int, list[int]] = {}
    for first, then in problem.edges.tolist():
        waits_for.setdefault(then, []).append(first)

    def ran(op: int, position: list[int]) -> bool:
        return op < 0 or position[stream[op]] > op

    def extend(order: list[int], position: list[int], memory: list[int]) -> None:
        if len(found) > _MOST:
            return
        if len(order) == problem.n_ops:
            if memory == problem.final.tolist():
                found.append(order)
            return
        for s, op in enumerate(position):
            if op == ends[s + 1] or not all(ran(first, position) for first in waits_for.get(op, [])):
                continue
            source = int(problem.source[op])
            buffered = source >= 0 and not ran(source, position)
            if not buffered and any(memory[g] != old for g, old, _ in parts[op]):
                continue
            after = list(memory)
            for g, old, new in parts[op]:
                if old != new:
                    after[g] = new
            extend([*order, op], [*position[:s], op + 1, *position[s + 1 :]], after)

    extend([], ends[:-1], problem.initial.tolist())
    return found if len(found) <= _MOST else None
