"""The process and its tasks: run queue, futexes, deadlocks.

Start at `task.py` and `process.py`.
"""
