"""`python -m bench systems`: all systems on one and the same runs of programs with threads.

Each program (`runs.py`) is recorded once with all evidence; every system's log is that of this run
(`logs.py`), and every engine orders that (`orders.py`). `measure.py` does it all for one program,
`tables.py` has the tables. docs/systems.md says what each column means, and what it cannot show.
"""

from bench.systems.systems import main

__all__ = ["main"]
