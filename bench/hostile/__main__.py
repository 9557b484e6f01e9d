"""`python -m bench.hostile KIND`: see `bench/hostile/__init__.py`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

# One thread is all that a process may have that is forked.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from corebraid.base.kernel_cache import use_kernel_cache  # noqa: E402

use_kernel_cache()

from bench.hostile import kinds  # noqa: E402
from bench.hostile.campaign import run_campaign  # noqa: E402
from bench.hostile.tally import Tally  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=__doc__)
    parser.add_argument("kind", choices=sorted(kinds.KINDS))
    parser.add_argument("--cases", type=int, help="how many (default: as many as 'make soak' runs)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument(
        "--only", type=int, action="append", default=[], metavar="CASE", help="only these cases"
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="cases at a time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args(arguments)
    kind = kinds.KINDS[chosen.kind]
    numbers = chosen.only or range(
        chosen.first, chosen.first + (kind.cases if chosen.cases is None else chosen.cases)
    )
    with tempfile.TemporaryDirectory(prefix="corebraid-hostile-", dir=_memory()) as folder:
        trials = kind.load()(numbers, chosen.seed, Path(folder))
        tally = Tally(chosen.kind, chosen.seed)
        run_campaign(tally, trials, numbers, Path(folder), chosen.jobs, heard=_Told())
    print(tally.facts() if chosen.json else "\n".join(tally.lines()))
    return 1 if tally.failures else 0


def _memory() -> Path | None:
    """A folder in memory, if there is one."""
    return next((path for path in (Path("/dev/shm"),) if os.access(path, os.W_OK)), None)


class _Told:
    """Failures on stderr as they come."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, tally: Tally) -> None:
        for one in tally.failures[self._told :]:
            print(f"FAILED {one['again']}: {one['fault']} [{one['note']}]", file=sys.stderr, flush=True)
        self._told = len(tally.failures)


if __name__ == "__main__":
    sys.exit(main())
