"""What a worker of a cluster runs. Importing it chooses the kernel cache, so it must come before Numba."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corebraid.base.kernel_cache import use_kernel_cache

if TYPE_CHECKING:
    from solver.passes.answers import Options
    from solver.passes.results import Answer
    from solver.regions.problem import Problem

use_kernel_cache()


def digest_here() -> bytes:
    """Which solver this worker has: `solver.passes.partial.solver_digest`."""
    from solver.passes.partial import solver_digest

    return solver_digest()


def answer_here(problem: Problem, options: Options) -> Answer:
    """`solver.passes.answers.answer` on this worker."""
    from solver.passes.answers import answer

    return answer(problem, options)
