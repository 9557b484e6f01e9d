"""Compiling what deciding a trace needs, before the clock of a trace runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from solver.axe.decide import decide
from solver.axe.text import read_traces

#: Traces that every step has to do with: values that repeat, hints that say all, and some that say less.
_TRACES = """\
0: M[1] := 1
0: M[2] == 0
0: M[1] := 2
1: M[2] := 1
1: M[1] == 1
1: M[1] := 1
2: { M[1] == 1; M[1] := 1 }
2: M[2] == 1
final M[2] == 1
check
0: M[1] := 1 # in 0 was 0 is @a
0: M[2] == 0 # in 0
1: M[2] := 1 # in 0 was 0 after @a
1: M[1] == 1 # in 1
1: M[1] := 0 # in 1 was 1
0: { M[1] == 0; M[1] := 2 } # in 1
check
0: M[1] := 1 # was 0 is @a
0: M[1] := 1
1: M[1] == 1 # after @a
1: M[1] := 2
check
"""


def compile_kernels(model: str) -> None:
    """Decide small traces under a model. Takes about half a minute where nothing is cached."""
    with tempfile.TemporaryDirectory(prefix="corebraid-") as folder:
        path = Path(folder) / "traces"
        path.write_text(_TRACES, encoding="ascii")
        for trace in read_traces(path):
            decide(trace, model, engine="search")
