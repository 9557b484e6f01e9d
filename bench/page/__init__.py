"""`python -m bench page`: what corebraid costs, beside other tools, as tables of 80 columns and plots.

Whole commands, each in a process of its own (`cost.py`), on programs (`subjects.py`) that are recorded,
replayed, ordered and verified (`stages.py`); a table or two for each question (`tables.py`), and plots of
some (`plots.py`).
"""

from bench.page.page import main

__all__ = ["main"]
