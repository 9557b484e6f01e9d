"""`python -m bench.page.events REC`: replay as for an order, and drop what it would look at.

Prints how much."""

from __future__ import annotations

import sys
from pathlib import Path

from corebraid.base.kernel_cache import use_kernel_cache

use_kernel_cache()

from corebraid.base.hold_places import WITH_AGENTS  # noqa: E402
from recorder.files.reader import Recording  # noqa: E402
from recorder.replay.contested import ALL, CONTESTED, tells_contested  # noqa: E402
from recorder.replay.traces import RecordingTraces  # noqa: E402


def main(rec: Path) -> int:
    """How many events an order has to look at."""
    recording = Recording.open(rec)
    rows = CONTESTED if tells_contested(recording) else ALL
    traces = RecordingTraces(recording, rows=rows, holds=WITH_AGENTS)
    return sum(len(rows) for chunks in traces.streams() for rows in chunks)


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
