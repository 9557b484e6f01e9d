"""One Linux program in a process of its own, by means of ours: a line of JSON for each.

    python -m bench.linux_child FOLDER MEANS;MEANS;... PROGRAM [ARGS...]

Means are those of `bench.linux_means.MEANS`; replays need the recording before them. A process of its own, so
that a run can be given a time limit, and is measured by its own processor time.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from corebraid.base.kernel_cache import use_kernel_cache


def main(arguments: list[str]) -> int:
    """Measure what the command line names."""
    use_kernel_cache()
    measure = importlib.import_module("bench.linux_means").measure
    measure(Path(arguments[0]), arguments[1].split(";"), arguments[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
