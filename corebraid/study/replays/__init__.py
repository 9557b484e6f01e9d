"""Cores replayed, several at once: `cores.py` is where to start.

`in_processes.py` is how several are at work (`at_once.py`), `checkpoints.py` makes checkpoints afterwards.
"""
