"""What can be said of programs and recordings, as results with facts that commands print and others use:
what is recorded and what became of it, replays, orders, pairs, suspects, deadlocks, runs that show a bug.

Start at `about.py`, `subjects.py` and `orders.py`.
"""
