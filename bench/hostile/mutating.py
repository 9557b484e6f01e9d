"""Which mutations a case makes: drawn from its seed and number alone."""

from __future__ import annotations

import random

from bench.hostile import mutate_frames, mutate_json, mutate_order, mutate_program, mutate_records
from bench.hostile.drawing import Draw, Unsuited
from bench.hostile.sample import Sample

#: By kind: how often it is drawn, and its mutations with weights of their own.
KINDS = {
    "records": (8, mutate_records.MUTATIONS),
    "frames": (8, mutate_frames.MUTATIONS),
    "json": (4, mutate_json.MUTATIONS),
    "order": (3, mutate_order.MUTATIONS),
    "program": (2, mutate_program.MUTATIONS),
}
_TRIES = 100
#: A manifest that was changed before may not say, or not as a number, what a mutation has to know.
_UNSUITED = (Unsuited, KeyError, TypeError, ValueError, OverflowError, AttributeError)


def draw_of(seed: int, number: int) -> Draw:
    """The draw of a case."""
    return random.Random(f"hostile/{seed}/{number}")


def mutate(sample: Sample, draw: Draw) -> tuple[str, str]:
    """Change a sample once, rarely twice or thrice; (kind of the first mutation, what was done)."""
    many = draw.choices((1, 2, 3), (7, 2, 1))[0]
    done = [_one(sample, draw) for _ in range(many)]
    return done[0][0], "; ".join(what for _, what in done)


def _one(sample: Sample, draw: Draw) -> tuple[str, str]:
    for _ in range(_TRIES):
        kind = draw.choices(list(KINDS), [often for often, _ in KINDS.values()])[0]
        weights, mutations = zip(*KINDS[kind][1], strict=True)
        try:
            return kind, draw.choices(mutations, weights)[0](sample, draw)
        except _UNSUITED:
            continue
    return "none", "nothing"
