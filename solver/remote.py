"""What a worker of a cluster runs. Importing it chooses the kernel cache, so it must come before Numba."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isa.kernel_cache import use_kernel_cache

if TYPE_CHECKING:
    from solver.answers import Options
    from solver.problem import Problem
    from solver.results import Answer

use_kernel_cache()


def digest_here() -> bytes:
    """Which solver this worker has: `solver.partial.solver_digest`."""
    from solver.partial import solver_digest

    return solver_digest()


def answer_here(problem: Problem, options: Options) -> Answer:
    """`solver.answers.answer` on this worker."""
    from solver.answers import answer

    return answer(problem, options)
